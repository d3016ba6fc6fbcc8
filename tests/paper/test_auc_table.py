import csv
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from legendretron.datasets import DATASETS
from legendretron.experiments import Batch, Resources, Run, read_records, sweep
from legendretron.paper import EXPERIMENTS
from legendretron.paper.auc import (
    METHODS,
    PROBLEMS,
    comparison,
    fit_method,
    load_problem,
    scores,
)
from legendretron.paper.published import published
from legendretron.trons import GLMTronClassifier
from tests.paper.made_up import TEST, TRAIN, write_images

TABLE = EXPERIMENTS["table_auc"]


def short(model, problem):
    """Few steps, but for the one that is quick anyway and warns if stopped."""
    settings = TABLE.settings(model, problem)
    few = {name: 3 for name in ("max_epochs", "max_iter") if name in settings}
    return settings if settings["estimator"] == "LogisticRegression" else {**settings, **few}


TRIAL = replace(TABLE, settings=short)


@pytest.fixture
def resources(tmp_path, monkeypatch):
    """Small sets of images that count as complete."""
    for number, name in enumerate(("mnist", "fashion-mnist")):
        write_images(tmp_path / "data" / name, declared_subset=False, seed=number)
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], rows=TRAIN, test_rows=TEST))
    return Resources(tmp_path / "data")


def problem(resources, name="MNIST, class 0"):
    run = Run(name, "GLMTron", noise=0.0, size=None, seed=0)
    return load_problem(Batch("table_auc", name, "GLMTron", {}, "complete", (run,)), resources)


@pytest.mark.exhaustive
def test_all_methods_and_all_problems(resources, tmp_path):
    for part in (TRIAL.narrow(datasets=["MNIST, class 0"]), TRIAL.narrow(models=["GLMTron"])):
        state = sweep(part, tmp_path, resources, command="trial")
        assert (state.failed, state.skipped) == ([], {})
    assert (state.before, state.now) == (1, 2)
    records = read_records(tmp_path)
    pairs = [(p, m) for p in PROBLEMS for m in METHODS if p == "MNIST, class 0" or m == "GLMTron"]
    assert {(record["dataset"], record["model"]) for record in records} == set(pairs)

    files = TABLE.report(records, tmp_path)
    assert [file.name for file in files] == ["table_auc.md", "table_auc.csv", "table_auc.png"]
    with files[1].open() as file:  # in the order of the experiment, whatever that of the files
        assert [(row["problem"], row["method"]) for row in csv.DictReader(file)] == pairs


def test_scores_are_those_of_scikit_learn(resources):
    data = problem(resources)
    estimator, about = fit_method(short("GLMTron", ""), data, seed=0)
    own = GLMTronClassifier(max_iter=3, standardize=False).fit(data.X, data.y)
    p = own.predict_proba(data.X_test)[:, 1]
    found = scores(estimator, data)
    assert found["auc"] == pytest.approx(100 * roc_auc_score(data.y_test, p), abs=1e-4)
    assert found["brier"] == pytest.approx(brier_score_loss(data.y_test, p), abs=1e-6)
    assert found["log_loss"] == pytest.approx(log_loss(data.y_test, p), abs=1e-6)
    assert found["n_iter"] == 3
    assert about.keys() == {"cpu_seconds"}


def test_the_penalty_is_chosen_on_a_tenth_of_the_training_images(resources):
    data = problem(resources)
    data = replace(data, X=data.X[:, ::7])  # as good for this, and much quicker
    settings = METHODS["logistic regression, tuned"]
    blind = replace(data, X_test=None, y_test=None)  # would fail if it were looked at
    estimator, about = fit_method(settings, blind, seed=4)
    learn, choose = train_test_split(np.arange(TRAIN), test_size=0.1, stratify=data.y, random_state=4)

    def loss(C):
        model = LogisticRegression(C=C, solver="newton-cholesky").fit(data.X[learn], data.y[learn])
        return log_loss(data.y[choose], model.predict_proba(data.X[choose]))

    assert about["C"] == min([1e-4, 1e-3, 1e-2, 1e-1, 1.0], key=loss)
    everything = LogisticRegression(C=about["C"], solver="newton-cholesky").fit(data.X, data.y)
    assert estimator.coef_ == pytest.approx(everything.coef_)


def test_the_published_step_is_one_in_the_unit_ball(resources):
    data = problem(resources)
    data = replace(data, X=data.X[:, ::7])
    estimator, about = fit_method(short("SlIsotron, published step", ""), data, seed=0)
    assert about["learning_rate"] == estimator.learning_rate
    # sums of squares, which may be added up in any order
    rounding = data.X.shape[1] * np.finfo(float).eps
    assert estimator.learning_rate == pytest.approx(1 / max(x @ x for x in data.X), rel=rounding)


def test_differences_are_those_to_the_published_figure():
    """Of the mean over seeds, also for variants of a method, and for parts of a data set."""
    theirs = published("auc")["mnist", 0.0, "SlIsotron"].value
    measured = {"data": {"label": "MNIST"}, "brier": 0.1, "log_loss": 0.3, "cpu_seconds": 2.0, "n_iter": 3}
    records = [
        {"dataset": "MNIST, class 0", "model": model, "seed": seed, "auc": theirs + gap + seed, **measured}
        for model, gap in {"SlIsotron": 1.0, "SlIsotron, published step": -0.5}.items()
        for seed in range(2)
    ]
    found = {row["method"]: row["difference"] for row in comparison(records)}
    assert found == pytest.approx({"SlIsotron": 1.5, "SlIsotron, published step": 0.0})


def test_a_subset_is_refused_in_one_line(tmp_path):
    write_images(tmp_path / "data" / "mnist")
    asked = TRIAL.narrow(datasets=["MNIST, class 0"], models=["GLMTron"])
    state = sweep(asked, tmp_path, Resources(tmp_path / "data"))
    ((_, message),) = state.failed
    assert "all 60,000 training and 10,000 test images of mnist" in message
    assert "\n" not in message
    assert read_records(tmp_path) == []
