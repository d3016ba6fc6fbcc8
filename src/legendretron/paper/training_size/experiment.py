"""The paper's figure of test accuracy against training set size, on MNIST, Kuzushiji-MNIST and Fashion-MNIST."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.multiclass import OneVsRestClassifier

from legendretron.datasets import DATASETS, load_images
from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.experiments.experiment import Batch, Experiment, Outcome, Resources, Run
from legendretron.experiments.recipes import fit_recipe, make_estimator, make_recipe
from legendretron.paper.data import facts_of, find_data, pixel_features, training_images
from legendretron.paper.training_size.report import ISGP, LEARNED, PLAIN, TUNED, report
from legendretron.trons import ISGPLinkgisticClassifier

#: Strengths of the penalty that the tuned model chooses from, and the share of the training images held out for it.
TUNING = {"strengths": [1e-4, 1e-3, 1e-2, 1e-1, 1.0], "share": 0.2}
#: Settings that all models share, so that other features or subsets have other keys.
SHARED = {
    "features": "(x - pixel mean) / mean(pixel deviations), of all training images that are there",
    "subset": "uniform, nested",
}


def recipe(model: str, dataset: str) -> dict[str, Any]:
    """Settings of a model: the paper's, or ours for the one-vs-rest and the tuned one."""
    if model == LEARNED:
        return {**make_recipe(LegendreTronClassifier.from_paper("mnist")), **SHARED}
    if model == PLAIN:
        return {**make_recipe(MultinomialLogisticClassifier.from_paper("mnist")), **SHARED}
    if model == ISGP:
        binary = make_recipe(ISGPLinkgisticClassifier(alpha=1e-3, max_iter=20, standardize=False))
        return {**binary, "multiclass": "one against rest", **SHARED}
    # a learning rate that decays to zero ends near the minimum, and the whole grid is one training
    logistic = MultinomialLogisticClassifier(
        alpha=1e-4,
        solver="adam",
        learning_rate=0.005,
        max_epochs=100,
        batch_size=128,
        standardize=False,
        dtype="float64",
    )
    return {**make_recipe(logistic), "tuning": TUNING, **SHARED}


def subset_rows(n_rows: int, size: int, seed: int) -> np.ndarray:
    """Rows to train on: the first of a random order, so that a seed's smaller sets are subsets of its larger ones.

    Examples
    --------
    >>> subset_rows(10, 3, seed=0).tolist() == subset_rows(10, 5, seed=0)[:3].tolist()
    True
    """
    if size > n_rows:
        raise ValueError(f"size must be at most the number of training images, {n_rows:,}, got {size:,}.")
    return np.random.default_rng(seed).permutation(n_rows)[:size]


def execute_sizes(batch: Batch, resources: Resources) -> Outcome:
    """Draw each run's training images, train, and test on all test images."""
    (size,) = {run.size for run in batch.runs}
    assert size is not None
    images = load_images(batch.dataset, resources.data)
    X = pixel_features(batch.dataset, images)
    y = np.concatenate([images.train_labels, images.test_labels])
    n_rows = len(images.train_labels)
    seeds = [run.seed for run in batch.runs]
    train = np.stack([subset_rows(n_rows, size, seed) for seed in seeds])
    test = np.arange(n_rows, len(y))
    if "multiclass" in batch.settings:
        device, runs = (
            "cpu",
            [
                _one_against_rest(batch.settings, X, y, rows, test, seed)
                for rows, seed in zip(train, seeds, strict=True)
            ],
        )
    else:
        device, runs = resources.device, _side_by_side(batch.settings, resources.device, X, y, train, test, seeds)
    for run, rows in zip(runs, train, strict=True):
        if not math.isfinite(run["log_loss"]):
            raise ArithmeticError(f"log-loss of {batch.model} on {batch.dataset} is {run['log_loss']}.")
        run["train_counts"] = np.bincount(y[rows], minlength=DATASETS[batch.dataset].classes).tolist()
    return Outcome({**facts_of(batch.dataset, images), "train_rows": size, "fitted_on": device}, runs)


def _side_by_side(
    settings: Any, device: str, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, seeds: list[int]
) -> list[dict[str, Any]]:
    began = time.perf_counter()
    fitted, further = fit_recipe(settings, device, X, y, train, seeds)
    seconds = (time.perf_counter() - began) / len(seeds)
    log_loss, accuracy = fitted.evaluate(np.tile(test, (len(seeds), 1)))
    return [{**_measured(accuracy[r], log_loss[r], seconds), **further[r]} for r in range(len(seeds))]


def _one_against_rest(
    settings: Any, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int
) -> dict[str, Any]:
    """One binary model per class; the probabilities of the classes are theirs, normalised to sum to one."""
    if len(np.unique(y[train])) < len(np.unique(y)):
        raise ValueError(f"the {len(train)} training images drawn with seed {seed} miss a class; use a larger size.")
    began = time.perf_counter()
    fitted = OneVsRestClassifier(make_estimator(settings, seed=seed)).fit(X[train], y[train])
    seconds = time.perf_counter() - began
    log_p = -np.logaddexp(0.0, -fitted.decision_function(X[test]))
    log_p -= logsumexp(log_p, axis=1, keepdims=True)
    right = log_p.argmax(1) == y[test]
    return _measured(right.mean(), -log_p[np.arange(len(test)), y[test]].mean(), seconds)


def _measured(accuracy: float, log_loss: float, seconds: float) -> dict[str, Any]:
    return {
        "accuracy": round(100.0 * float(accuracy), 6),
        "log_loss": round(float(log_loss), 6),
        "training_seconds": round(seconds, 3),
    }


def bytes_per_run(model: str, dataset: str) -> float:
    """Memory of a run: rows gathered for evaluation, which the tuned model needs for each strength."""
    info = DATASETS[dataset]
    rows = float(info.test_rows)
    if model == TUNED:
        rows = len(TUNING["strengths"]) * TUNING["share"] * info.rows  # type: ignore[arg-type,operator]
    return 8.0 * info.features * rows


def cost(run: Run) -> float:
    """Milliseconds on one processor, roughly."""
    assert run.size is not None
    return {LEARNED: 2.8, PLAIN: 1.3, TUNED: 4.0, ISGP: 9.0}[run.model] * (run.size + 1000)


FIGURE_TRAINING_SIZE = Experiment(
    name="figure_training_size",
    title="Test accuracy against training set size on MNIST, Kuzushiji-MNIST and Fashion-MNIST",
    datasets=("mnist", "kmnist", "fashion-mnist"),
    models=(LEARNED, PLAIN, ISGP, TUNED),
    settings=recipe,
    execute=execute_sizes,
    report=report,
    seeds=5,
    # 7,000, since that many images of Kuzushiji-MNIST are available where the rest is missing
    sizes=(500, 2000, 7000, 20000, 60000),
    side_by_side=(LEARNED, PLAIN, TUNED),
    bytes_per_run=bytes_per_run,
    cost=cost,
    find_data=find_data,
    available_rows=training_images,
)
