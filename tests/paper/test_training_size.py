"""The figure of accuracy against training set size, on small made-up images; `tests/test_docs.py` tests its report."""

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsRestClassifier

from legendretron import LegendreTronClassifier
from legendretron.datasets import load_images
from legendretron.experiments import Resources, read_records, sweep
from legendretron.paper import EXPERIMENTS
from legendretron.paper.data import pixel_features
from legendretron.paper.training_size import (
    ISGP,
    LEARNED,
    PLAIN,
    TUNED,
    subset_rows,
)
from legendretron.trons import ISGPLinkgisticClassifier
from tests.paper.made_up import write_images

FIGURE = EXPERIMENTS["figure_training_size"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """300 training images that stand for a part of MNIST, and 120 for one of Kuzushiji-MNIST."""
    folder = tmp_path_factory.mktemp("images")
    write_images(folder / "mnist", 300, 50, noise=40.0)
    write_images(folder / "kmnist", 120, 40, noise=40.0, seed=1)
    return folder


def small(models=FIGURE.models, datasets=("mnist", "kmnist"), sizes=(100, 200), seeds=2, epochs=2):
    return FIGURE.narrow(models=models, datasets=datasets, sizes=sizes, seeds=seeds).shorten(epochs)


@pytest.fixture(scope="module")
def done(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    return out, sweep(small(models=(LEARNED, PLAIN)), out, Resources(folder)), read_records(out)


def test_records(done):
    _, state, records = done
    assert state.failed == []
    assert (state.total, state.now, len(records)) == (12, 12, 12)
    assert state.too_large == {"kmnist": "kmnist has 120 training rows here: no runs on 200."}
    assert {(r["dataset"], r["size"]) for r in records} == {("mnist", 100), ("mnist", 200), ("kmnist", 100)}
    labels = {
        "mnist": "MNIST (300 of 60,000 images, 50 of 10,000 test images)",
        "kmnist": "Kuzushiji-MNIST (120 of 60,000 images, 40 of 10,000 test images)",
    }
    for record in records:
        assert sum(record["train_counts"]) == record["size"] == record["data"]["train_rows"]
        assert record["data"]["label"] == labels[record["dataset"]]
        assert record["data"]["rows"] == {"mnist": 300, "kmnist": 120}[record["dataset"]]
        assert record["batch_runs"] == 2
        assert record["training_seconds"] <= record["seconds"]
        assert record["settings"].get("max_epochs", record["settings"].get("max_iter")) == 2
    for cell in {(r["dataset"], r["size"], r["seed"]) for r in records}:
        own = [r for r in records if (r["dataset"], r["size"], r["seed"]) == cell]
        assert len({tuple(r["train_counts"]) for r in own}) == 1, "all models have the same images"


@pytest.mark.parametrize(("model", "seeds", "runs_at_once", "make"), [
    (LEARNED, 2, 2, lambda seed: LegendreTronClassifier.from_paper("mnist", max_epochs=2, random_state=seed)),
    # there is no run axis
    (ISGP, 1, 1, lambda seed: OneVsRestClassifier(
        ISGPLinkgisticClassifier(amplitude=1.0, alpha=1e-3, max_iter=2, standardize=False, random_state=seed)
    )),
])  # fmt: skip
def test_each_run_is_what_a_fit_of_its_own_gives(folder, tmp_path, model, seeds, runs_at_once, make):
    images = load_images("mnist", folder)
    X = pixel_features("mnist", images)
    sweep(small(models=(model,), datasets=("mnist",), sizes=(100,), seeds=seeds), tmp_path, Resources(folder))
    records = read_records(tmp_path)
    assert len(records) == seeds
    for record in records:
        assert record["batch_runs"] == runs_at_once
        rows = subset_rows(300, record["size"], record["seed"])
        alone = make(record["seed"]).fit(X[rows], images.train_labels[rows])
        p = alone.predict_proba(X[300:])
        assert record["accuracy"] == pytest.approx(100 * np.mean(p.argmax(1) == images.test_labels), abs=1e-4)
        assert record["log_loss"] == pytest.approx(log_loss(images.test_labels, p), abs=1e-5)


def test_the_tuned_model_learns_and_chooses_a_penalty(folder, tmp_path):
    sweep(small(models=(TUNED,), datasets=("mnist",), sizes=(200,), epochs=60), tmp_path, Resources(folder))
    for record in read_records(tmp_path):
        assert record["alpha"] in record["settings"]["tuning"]["strengths"]
        assert record["accuracy"] > 80


def test_subsets():
    large, small = subset_rows(1000, 400, seed=3), subset_rows(1000, 100, seed=3)
    assert len(set(large.tolist())) == 400
    assert small.tolist() == large[:100].tolist()
    assert small.tolist() != subset_rows(1000, 100, seed=4).tolist()
    with pytest.raises(ValueError, match=r"size must be at most the number of training images, 1,000, got 1,001"):
        subset_rows(1000, 1001, seed=0)


def test_what_the_experiment_does_not_know_is_refused(folder, tmp_path):
    few = small(models=(ISGP,), datasets=("mnist",), sizes=(5,), seeds=1)
    ((_, why),) = sweep(few, tmp_path, Resources(folder)).failed
    assert "5 training images drawn with seed 0 miss a class" in why
