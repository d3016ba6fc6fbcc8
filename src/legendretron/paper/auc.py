"""The paper's table of test AUCs: nine methods for binary problems of MNIST and Fashion-MNIST, and two of ours."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from legendretron.datasets import load_images
from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.experiments.experiment import Batch, Experiment, OnDownload, Outcome, Record, Resources
from legendretron.experiments.recipes import make_estimator, make_recipe
from legendretron.experiments.rendering import (
    as_text,
    described,
    draw_dots,
    markdown_table,
    report_of,
)
from legendretron.experiments.results import Mean, Results, in_order
from legendretron.experiments.store import round_difference
from legendretron.paper import data as paper_data
from legendretron.paper.published import published
from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)

#: Data set and positive classes by the problem's name. The paper names none; odd against even classes are the example of
#: its authors' public code for Fashion-MNIST.
PROBLEMS: dict[str, tuple[str, tuple[int, ...]]] = {
    "MNIST, class 0": ("mnist", (0,)),
    "Fashion-MNIST, odd against even": ("fashion-mnist", (1, 3, 5, 7, 9)),
    "Fashion-MNIST, class 0": ("fashion-mnist", (0,)),
}


def source_of(problem: str) -> str:
    """Name of the data set that a problem is about."""
    return PROBLEMS[problem][0]


def find_data(problem: str, resources: Resources, on_download: OnDownload) -> str:
    """As :func:`legendretron.paper.data.find_data`, for the data set of a problem."""
    return paper_data.find_data(source_of(problem), resources, on_download)


@dataclass(frozen=True, eq=False)
class BinaryImages:
    """Features and labels of a problem."""

    X: np.ndarray  #: (n, pixels), ``(x - pixel mean) / mean(pixel stds)``, both of the training images; float64
    y: np.ndarray  #: (n,), whether an image is of the positive classes
    X_test: np.ndarray
    y_test: np.ndarray
    facts: dict[str, Any]  #: for the records; ``label`` names the problem and, for a subset, the number of images


def load_problem(batch: Batch, resources: Resources) -> BinaryImages:
    """Load a batch's problem, one of :data:`PROBLEMS`, from the folder of data or from the cache."""
    source, positive = PROBLEMS[batch.dataset]
    images = load_images(source, resources.data)
    X, X_test = np.split(paper_data.pixel_features(source, images), [len(images.train_images)])
    y, y_test = (np.isin(part, positive) for part in (images.train_labels, images.test_labels))
    facts = {
        "label": batch.dataset if images.complete else f"{batch.dataset} ({len(X):,} images)",
        "train_rows": len(X),
        "test_rows": len(X_test),
        "features": X.shape[1],
        "train_positive": int(y.sum()),
        "test_positive": int(y_test.sum()),
        "fitted_on": "cpu",
    }
    return BinaryImages(X, y, X_test, y_test, facts)


_AS_THEY_ARE: dict[str, Any] = {"standardize": False}
# as recorded; not the defaults of the estimators
_BAYES: dict[str, Any] = {"standardize": False, "alpha": 1e-3, "max_iter": 20, "n_basis": 16, "length_scale": 0.1}

#: Settings by name; first the paper's nine, in its order.
METHODS: dict[str, dict[str, Any]] = {
    "LegendreTron": make_recipe(LegendreTronClassifier.from_paper("mnist")),
    "ISGP-Linkgistic": make_recipe(ISGPLinkgisticClassifier(amplitude=1.0, **_BAYES)),
    "GP-Linkgistic": make_recipe(GPLinkgisticClassifier(amplitude=2.0, **_BAYES)),
    "logistic regression": make_recipe(MultinomialLogisticClassifier.from_paper("mnist")),
    "GLMTron": make_recipe(GLMTronClassifier(max_iter=200, **_AS_THEY_ARE)),
    "BregmanTron": make_recipe(BregmanTronClassifier(max_iter=100, **_AS_THEY_ARE)),
    "BregmanTron_label": make_recipe(BregmanTronClassifier(variant="label", max_iter=100, **_AS_THEY_ARE)),
    "BregmanTron_approx": make_recipe(BregmanTronClassifier(variant="approx", max_iter=100, **_AS_THEY_ARE)),
    "SlIsotron": make_recipe(SlIsotronClassifier(max_iter=100, **_AS_THEY_ARE)),
    # as published: steps of one for features in the unit ball, and only a few of them
    "SlIsotron, published step": {
        **make_recipe(SlIsotronClassifier(max_iter=5, **_AS_THEY_ARE)),
        "learning_rate": "1 / largest squared norm",
    },
    # scikit-learn's; only what is not its default, since the list of its parameters changes with versions
    "logistic regression, tuned": {
        "estimator": "LogisticRegression",
        "solver": "newton-cholesky",
        "max_iter": 60,
        "tuning": {"C": [1e-4, 1e-3, 1e-2, 1e-1, 1.0], "share": 0.1},
    },
}

#: Approximate time of a run on 60,000 images on one core.
SECONDS: dict[str, float] = {
    "LegendreTron": 110.0,
    "ISGP-Linkgistic": 50.0,
    "GP-Linkgistic": 42.0,
    "logistic regression": 42.0,
    "GLMTron": 11.0,
    "BregmanTron": 28.0,
    "BregmanTron_label": 44.0,
    "BregmanTron_approx": 16.0,
    "SlIsotron": 42.0,
    "SlIsotron, published step": 2.0,
    "logistic regression, tuned": 65.0,
}


def recipe(model: str, problem: str) -> dict[str, Any]:
    """Settings of a method, the same for all problems."""
    return dict(METHODS[model])


def fit_method(settings: Mapping[str, Any], data: BinaryImages, seed: int) -> tuple[BaseEstimator, dict[str, Any]]:
    """Train by a recipe on all training images; also return CPU seconds, and parameters that were chosen from the data."""
    began = time.process_time()
    chosen: dict[str, Any] = {}
    settings = dict(settings)
    if settings.get("learning_rate") == "1 / largest squared norm":
        chosen["learning_rate"] = settings["learning_rate"] = 1.0 / float((data.X**2).sum(1).max())
    if tuning := settings.get("tuning"):
        chosen["C"] = settings["C"] = _tune(settings, tuning["C"], tuning["share"], data, seed)
    estimator = make_estimator(settings, seed=seed)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        estimator.fit(data.X, data.y)
    return estimator, {"cpu_seconds": round(time.process_time() - began, 1), **chosen}


def _tune(settings: Mapping[str, Any], values: list[float], share: float, data: BinaryImages, seed: int) -> float:
    learn, choose = train_test_split(np.arange(len(data.y)), test_size=share, stratify=data.y, random_state=seed)
    losses = []
    for value in values:
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            estimator = make_estimator({**settings, "C": value}, seed=seed).fit(data.X[learn], data.y[learn])
        losses.append(log_loss(data.y[choose], estimator.predict_proba(data.X[choose])))
    return values[int(np.argmin(losses))]


def scores(estimator: BaseEstimator, data: BinaryImages) -> dict[str, Any]:
    """AUC in %, Brier score and log-loss on the test images, and the iterations of the training.

    The AUC is that of ``decision_function``: log-odds, or the probability where it may be 0 or 1. In the log-loss such
    probabilities count as one rounding away from that, as in scikit-learn.
    """
    p = estimator.predict_proba(data.X_test)[:, 1]
    return {
        "auc": round(100.0 * float(roc_auc_score(data.y_test, estimator.decision_function(data.X_test))), 4),
        "brier": round(float(brier_score_loss(data.y_test, p)), 6),
        "log_loss": round(float(log_loss(data.y_test, p)), 6),
        "n_iter": int(np.max(estimator.n_iter_)),
    }


#: Difference to the paper, in points, from which it is printed in bold.
NOTABLE = 1.0
#: What is measured, besides the AUC, and the digits it is shown with.
MEASURED = {"brier": 4, "log_loss": 4, "cpu_seconds": 0}


def comparison(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row for each problem and method: means over seeds, the paper's AUC, and the difference in points.

    The paper has one AUC for a data set and method. Variants of a method, named after a comma, are compared with it too,
    and so is every problem of a data set.
    """
    paper = published("auc")
    results = Results(in_order(records, dataset=list(PROBLEMS), model=list(METHODS)), "dataset", "model")
    rows = []
    for cell, seeds in results.cells.items():
        auc = results.mean(cell, "auc")
        assert auc is not None
        theirs = paper[source_of(cell[0]), 0.0, cell[1].split(",")[0]].value
        row: dict[str, Any] = {"problem": results.facts(cell[0])["label"], "method": cell[1], "seeds": len(seeds)}
        row |= {"auc": auc, "paper": theirs, "difference": round_difference(auc.value - theirs)}
        row |= {name: results.mean(cell, name) for name in MEASURED}
        rows.append({**row, "n_iter": max(run["n_iter"] for run in seeds.values())})
    return rows


def _cells(row: dict[str, Any]) -> list[str]:
    gap = f"{row['difference']:+.2f}"
    return [
        row["method"],
        f"{row['paper']:.1f}",
        as_text(row["auc"]),
        f"**{gap}**" if abs(row["difference"]) > NOTABLE else gap,
        *(as_text(row[name], digits) for name, digits in MEASURED.items()),
        str(row["n_iter"]),
    ]


def markdown(rows: list[dict[str, Any]], records: Sequence[Record]) -> list[str]:
    """A table for each problem, with what the columns mean."""
    head = ["method", "paper's AUC", "AUC", "difference", "Brier score", "log-loss", "CPU seconds", "iterations"]
    parts = [
        "# Binary problems of MNIST and Fashion-MNIST",
        "AUC in %, Brier score and log-loss on the test images; AUC less the paper's in points, bold where they are more "
        f"than {NOTABLE:g} apart. The paper prints one digit, and one AUC for a data set: variants of a method, named after "
        "a comma, and all problems of a data set are compared with the same. CPU seconds are those of the training, with "
        "the choice of a penalty where it is tuned.",
    ]
    for problem in dict.fromkeys(row["problem"] for row in rows):
        own = [_cells(row) for row in rows if row["problem"] == problem]
        parts += [f"## {problem}", markdown_table(head, own)]
    return [*parts, described(records)]


def picture(rows: list[dict[str, Any]], path: Path) -> Path:
    """AUCs, ours and the paper's, of every method; one panel per problem."""
    dots: dict[str, dict[str, dict[str, Mean]]] = {}
    for row in rows:
        panel = dots.setdefault(row["problem"], {"ours": {}, "paper": {}})
        panel["ours"][row["method"]] = row["auc"]
        panel["paper"][row["method"]] = Mean(row["paper"], math.nan, 1)
    return draw_dots(dots, path, "test AUC (%)")


def execute(batch: Batch, resources: Resources) -> Outcome:
    """Train on all training images, on the CPU, and score the test images."""
    if batch.source != "complete":
        raise ValueError(
            f"data must contain all 60,000 training and 10,000 test images of {source_of(batch.dataset)}, since the paper's "
            "AUCs are of all; got a subset. Give a folder with the complete set, or none to download it."
        )
    data = load_problem(batch, resources)
    runs = []
    for run in batch.runs:
        estimator, about = fit_method(batch.settings, data, run.seed)
        runs.append({**scores(estimator, data), **about})
    return Outcome(data.facts, runs)


TABLE_AUC = Experiment(
    name="table_auc",
    title="Test AUC of methods that learn a link, on binary problems of MNIST and Fashion-MNIST",
    datasets=tuple(PROBLEMS),
    models=tuple(METHODS),
    settings=recipe,
    execute=execute,
    report=report_of("table_auc", comparison, markdown, picture),
    find_data=find_data,
    cost=lambda run: SECONDS[run.model],
)
