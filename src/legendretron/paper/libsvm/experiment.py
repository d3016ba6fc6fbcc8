"""The paper's table of LIBSVM data sets: LegendreTron and logistic regression under label noise, 20 splits each.

Beside the paper's models stand ours: both with a penalty that is tuned, and ``LegendreTronClassifier()`` as it comes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from legendretron.datasets import DATASETS, Dataset
from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators.legendretron import PaperLegendreTronClassifier
from legendretron.experiments.experiment import Batch, Experiment, Outcome, Resources, Run
from legendretron.experiments.recipes import (
    fit_recipe,
    make_recipe,
)
from legendretron.paper.data import find_data, load_prepared
from legendretron.paper.libsvm.report import report


def split_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, 80 %, and to test on.

    Examples
    --------
    >>> [len(rows) for rows in split_rows(150, seed=0)]
    [120, 30]
    """
    train, test = train_test_split(np.arange(n_rows), test_size=0.2, random_state=seed)
    return train, test


def noisy_labels(y: np.ndarray, eta: float, n_classes: int, seed: int) -> np.ndarray:
    """Labels that are wrong with probability ``eta``, all other classes equally likely.

    The distribution is that of :func:`legendretron.datasets.symmetric_noise`. The draws are one multinomial per row from
    ``numpy.random.RandomState(seed)``, whose stream is frozen: slower, but the labels the paper's models were trained on.

    Examples
    --------
    >>> noisy_labels(np.array([0, 1, 2, 0, 1, 2]), eta=0.5, n_classes=3, seed=0)
    array([0, 1, 2, 0, 2, 0])
    """
    if eta == 0:
        return y.copy()
    generator = np.random.RandomState(seed)
    probabilities = np.full((n_classes, n_classes), eta / (n_classes - 1))
    np.fill_diagonal(probabilities, 1.0 - eta)
    # the last bits matter: the row is summed as the authors' code sums it
    rows = [row / sum(row) for row in probabilities]
    return np.array([generator.multinomial(1, rows[label]).argmax() for label in y], dtype=y.dtype)


#: Strengths of the penalty that a tuned model chooses from, and the share of the training rows held out for it.
TUNING = {"strengths": [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0], "share": 0.2}


def recipe(model: str, dataset: str) -> dict[str, Any]:
    """Settings of a model: the paper's, or ours with a penalty that is tuned."""
    group = "aloi" if dataset == "aloi" else "libsvm"
    if model == "LegendreTron":
        return make_recipe(LegendreTronClassifier.from_paper(group))
    if model == "logistic regression":
        return make_recipe(MultinomialLogisticClassifier.from_paper(group))
    if model == "logistic regression, tuned":
        logistic: dict[str, Any] = {
            "alpha": 1e-4,
            "standardize": False,
            "dtype": "float64",
            "max_epochs": 1000,
            "tol": 1e-5,
        }
        if DATASETS[dataset].sparse:  # a million weights: L-BFGS takes minutes per fit, minibatches train all at once
            logistic |= {
                "solver": "adam",
                "learning_rate": 0.05,
                "max_epochs": 60,
                "batch_size": 64,
                "dtype": "float32",
            }
        else:
            logistic["solver"] = "lbfgs"
        return {**make_recipe(MultinomialLogisticClassifier(**logistic)), "tuning": TUNING}
    # about as many steps on small data as on large
    epochs = int(np.clip(8000 * 64 / (0.8 * DATASETS[dataset].rows), 60, 400))
    learned = PaperLegendreTronClassifier(
        link_params={"hidden": 8}, alpha=1e-4, learning_rate=0.02, schedule="cosine", max_epochs=epochs, init="identity",
        penalize_intercept=False, dtype="float32",
    )  # fmt: skip
    return {**make_recipe(learned), "tuning": TUNING}


def execute_splits(batch: Batch, resources: Resources) -> Outcome:
    """Split, add noise to the training labels, train all runs side by side, and test each on its clean test rows."""
    data = load_prepared(batch.dataset, resources.data)
    splits = [split_rows(data.n_rows, run.seed) for run in batch.runs]
    train, test = (np.stack(part) for part in zip(*splits, strict=True))
    labels = np.stack(
        [
            noisy_labels(data.y[rows], run.noise, data.n_classes, run.seed)
            for rows, run in zip(train, batch.runs, strict=True)
        ]
    )
    return fit_and_test(batch, resources, data, train, test, labels)


def fit_and_test(
    batch: Batch, resources: Resources, data: Dataset, train: np.ndarray, test: np.ndarray, labels: np.ndarray
) -> Outcome:
    """Train all runs of a batch side by side, with the penalty tuned if the settings say so, and test each.

    ``train`` and ``test`` are rows of each run, ``(runs, n)``, and ``labels`` those to train on.
    """
    y, seeds = data.y, [run.seed for run in batch.runs]
    # second-order fits of one model after the other gain nothing from a GPU
    device = "cpu" if batch.settings.get("solver") == "lbfgs" else resources.device
    fitted, further = fit_recipe(batch.settings, device, data.X, y, train, seeds, labels)
    log_loss, accuracy = fitted.evaluate(test)
    if bad := [run for run, loss in zip(batch.runs, log_loss, strict=True) if not np.isfinite(loss)]:
        which = ", ".join(f"seed {run.seed} at noise {run.noise:g}" for run in bad)
        raise ArithmeticError(f"training diverged: {which}. --batch 1 runs each training apart from the others.")
    converged = fitted.training.converged.tolist()
    further = [{"converged": bool(own), **rest} for own, rest in zip(converged, further, strict=True)]
    runs = [
        {
            "accuracy": round(100.0 * float(accuracy[r]), 6),
            "log_loss": round(float(log_loss[r]), 6),
            **further[r],
            "train_counts": np.bincount(labels[r], minlength=data.n_classes).tolist(),
            "test_counts": np.bincount(y[test[r]], minlength=data.n_classes).tolist(),
        }
        for r in range(len(seeds))
    ]
    facts = {"rows": data.n_rows, "features": data.n_features, "classes": data.n_classes, "label": data.label}
    return Outcome({**facts, "train_rows": train.shape[1], "test_rows": test.shape[1], "fitted_on": device}, runs)


def bytes_per_run(model: str, dataset: str) -> float:
    """Memory of a run: parameters, gradient, both moments and intermediate results, in double precision."""
    info = DATASETS[dataset]
    copies = 8 if "tuned" not in model else 8 * len(TUNING["strengths"])  # type: ignore[arg-type]
    return 8.0 * copies * (info.features + 40) * info.classes


def cost(run: Run) -> float:
    """Steps of a training, each counted as its launch and its work."""
    info = DATASETS[run.dataset]
    factor = {"LegendreTron": 3.0, "logistic regression": 1.0}.get(run.model, 6.0)
    return factor * info.rows * (1.0 + 2e-6 * info.features * info.classes)


MODELS = ("LegendreTron", "logistic regression", "logistic regression, tuned", "LegendreTron, tuned")

TABLE_LIBSVM = Experiment(
    name="table_libsvm",
    title="Test accuracy on LIBSVM, UCI and Statlog data sets under label noise",
    datasets=(
        "aloi", "sector", "letter", "news20", "Sensorless", "vowel", "usps", "segment", "satimage", "glass", "vehicle",
        "dna", "svmguide2", "wine", "iris",
    ),
    models=MODELS,
    settings=recipe,
    execute=execute_splits,
    report=report,
    seeds=20,
    noise=(0.0, 0.2, 0.5),
    side_by_side=MODELS,
    bytes_per_run=bytes_per_run,
    cost=cost,
    find_data=find_data,
)  # fmt: skip
