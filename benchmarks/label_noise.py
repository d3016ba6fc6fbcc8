"""Training labels of which some are wrong: who still predicts well, finds the wrong ones, and knows how many there are.

    python benchmarks/label_noise.py --data DIR --out docs/results/label_noise --jobs 2

For each data set, noise and split, a fifth of the rows is to test on, with right labels. Labels of the other rows are made
wrong with some probability, the same for all models. Noise and split are seeded by the number of the split. A run is one fit
and one test, in one process with one thread. A sweep that was stopped goes on when started again; models can be run on
different machines, and their files of results put into one folder. cleanlab comes with ``pip install '.[experiments]'``.
"""

from __future__ import annotations

import functools
import gc
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score, precision_recall_curve
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from command_line import run_from_command_line
from defaults import FROM_SKLEARN, LIBSVM, LOGISTIC, cost, find, load, logistic, scores
from defaults_numbers import BASELINE, OURS
from generalised_cross_entropy import STRENGTHS, GeneralisedCrossEntropy
from label_noise_numbers import (
    CLEANLAB,
    FLOOR,
    FORWARD,
    GENERALISED,
    PAIRS,
    RECALLS,
    TUNED_CLEANLAB,
    WITHOUT,
)
from label_noise_report import Plan, write_report
from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.datasets import flip_labels, pair_transition, symmetric_transition
from legendretron.experiments import Batch, Experiment, Outcome, Record, Resources, Run
from legendretron.experiments.recipes import chosen_strengths, make_recipe
from with_cleanlab import WithCleanlab

SHARED = {
    "features": "as distributed",
    "splits": "stratified, a fifth to test on",
    "noise": f"symmetric; at {PAIRS:g}, class c becomes c + 1",
}
TUNED_LOGISTIC = {**LOGISTIC, "l1_ratios": (0,)}
SPLITS = 10
#: Noise by its name on the command line.
NOISES = {"0": 0.0, "0.2": 0.2, "0.4": 0.4, "0.5": 0.5, "pairs": PAIRS}
#: Where labels say nothing: of two classes, half are wrong.
HOPELESS = {("breast cancer", 0.5)}
Q = 0.7
FOLDS = 5
#: Doubts in training labels take as long as five fits, so not all splits have them, and no sparse data: hours for news20.
DOUBTED_SPLITS = 5


def transition(noise: float, n_classes: int) -> np.ndarray:
    """Row ``i`` has the probabilities of the label in the table given the right label ``i``."""
    return pair_transition(n_classes, noise) if noise == PAIRS else symmetric_transition(n_classes, noise)


@dataclass(frozen=True)
class Model:
    """How a model is built from a seed, whether features are sparse, and the true matrix; and the settings of its runs."""

    make: Callable[[int, bool, np.ndarray], Any]
    settings: Callable[[], dict[str, Any]]
    #: Of a fitted model, with its training rows: the doubt in each label, and whether the label is called wrong.
    doubts: Callable[[Any, Any, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None


def doubts_out_of_fold(estimator: Any, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By copies that did not see the row; a label is called wrong if that is more likely than not."""
    quality = np.asarray(estimator.label_quality(X, y, cv=FOLDS), dtype=float)
    return 1.0 - quality, quality < 0.5


def doubts_of_cleanlab(estimator: WithCleanlab, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 1.0 - estimator.quality_, estimator.issues_


def _own(kind: type[Any], doubts: Any = None, **parameters: Any) -> Model:
    return Model(
        lambda seed, *_: kind(**parameters, random_state=seed),
        # with the defaults of today: where they change, so do the runs
        lambda: make_recipe(kind(**parameters)),
        doubts,
    )


def _forward_settings() -> dict[str, Any]:
    own = make_recipe(MultinomialLogisticClassifier())
    return {**own, "label_noise": "the true matrix"}


def _cleanlab(tuning: dict[str, Any] | None) -> Model:
    return Model(
        lambda seed, *_: WithCleanlab(seed, tuning),
        lambda: {"estimator": "CleanLearning(LogisticRegression)", "C": 1.0 if tuning is None else {**LOGISTIC}},
        doubts_of_cleanlab,
    )


MODELS = {
    BASELINE: Model(lambda _, sparse, __: logistic(sparse), lambda: {"estimator": "LogisticRegressionCV", **LOGISTIC}),
    OURS: _own(LegendreTronClassifier, doubts_out_of_fold),
    WITHOUT: _own(LegendreTronClassifier, label_noise=None),
    FLOOR: _own(MultinomialLogisticClassifier, doubts_out_of_fold, label_noise="symmetric"),
    FORWARD: Model(
        lambda seed, _, matrix: MultinomialLogisticClassifier(label_noise=matrix, random_state=seed),
        _forward_settings,
        doubts_out_of_fold,
    ),
    GENERALISED: Model(
        lambda seed, *_: GeneralisedCrossEntropy(Q, STRENGTHS, seed),
        lambda: {"estimator": "GeneralisedCrossEntropy", "q": Q, "strengths": list(STRENGTHS)},
    ),
    CLEANLAB: _cleanlab(None),
    TUNED_CLEANLAB: _cleanlab(TUNED_LOGISTIC),
}
#: Words for several models on the command line.
GROUPS = {
    "ours": [OURS, WITHOUT, FLOOR, FORWARD],
    "others": [BASELINE, GENERALISED],
    "with-cleanlab": [CLEANLAB, TUNED_CLEANLAB],
}


def settings(model: str, dataset: str) -> dict[str, Any]:
    return {**MODELS[model].settings(), **SHARED}


class Interleaved(Experiment):
    """Runs in the order of data sets, noises, splits, then models, so that those on the same split follow each other."""

    def runs(self) -> list[Run]:
        return [
            Run(dataset, model, noise, self.sizes[0], seed)
            for dataset in self.datasets
            for noise in self.noise
            if (dataset, noise) not in HOPELESS
            for seed in range(self.seeds)
            for model in self.models
        ]


@functools.cache
def warm_up(model: str, sparse: bool) -> None:
    """Fit a model to a few made-up rows, once in a process: imports and compilation are then done."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MODELS[model].make(0, sparse, symmetric_transition(3, 0.1)).fit(csr_matrix(X) if sparse else X, y)


def execute(batch: Batch, resources: Resources) -> Outcome:
    if batch.settings != settings(batch.model, batch.dataset):
        raise ValueError(f"{batch.model} is run with its own settings only, not with others.")
    X, y, facts = load(batch.dataset, resources.data)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        warm_up(batch.model, issparse(X))
        doubted_splits = 0 if issparse(X) else DOUBTED_SPLITS
        runs = [
            measured(batch.model, X, y, run.noise, run.seed, doubts=run.seed < doubted_splits) for run in batch.runs
        ]
    return Outcome(facts, runs)


def noisy_split(y: np.ndarray, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to train on, labels of these, of which some are wrong, and rows to test on."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=y)
    # a generator of another kind than the split's: which rows are flipped does not depend on where they are
    labels = flip_labels(y[train], transition(noise, int(y.max()) + 1), np.random.default_rng(seed))
    return train, labels, test


def measured(model: str, X: Any, y: np.ndarray, noise: float, seed: int, *, doubts: bool) -> dict[str, Any]:
    """Fit a model to four fifths of the rows, with wrong labels among them, and test it on the others."""
    n_classes = int(y.max()) + 1
    train, labels, test = noisy_split(y, noise, seed)
    X_train, wrong = X[train], labels != y[train]
    estimator = MODELS[model].make(seed, issparse(X), transition(noise, n_classes))
    gc.collect()  # what earlier runs have left is not this one's to collect
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        began, began_cpu = time.perf_counter(), time.process_time()
        estimator.fit(X_train, labels)
        fitted, fitted_cpu = time.perf_counter(), time.process_time()
        unconverged = any(issubclass(warning.category, ConvergenceWarning) for warning in given)
        p = np.asarray(estimator.predict_proba(X[test]), dtype=np.float64)
        found = doubted(model, estimator, X_train, labels, wrong) if doubts else {}
    for warning in given:
        if not issubclass(warning.category, ConvergenceWarning):
            warnings.warn(str(warning.message), warning.category, stacklevel=2)
    if not np.array_equal(estimator.classes_, np.arange(n_classes)):
        raise ValueError(f"{model} knows the classes {estimator.classes_}, not all {n_classes}.")
    return {
        **scores(y[test], p),
        "fit_seconds": fitted - began,
        "fit_cpu_seconds": fitted_cpu - began_cpu,  # less, where the process had to wait for a core
        "converged": not unconverged,
        "wrong_share": float(wrong.mean()),
        **estimated_rate(estimator),
        **found,
        **(chosen_strengths(estimator) if isinstance(estimator, LegendreTronClassifier) else {}),
        **({"cleanlab": estimator.version_} if isinstance(estimator, WithCleanlab) else {}),
    }


def estimated_rate(estimator: Any) -> dict[str, float]:
    """The share of wrong labels that a model has found, with its interval; nothing if it looks for none or was told."""
    if not isinstance(getattr(estimator, "label_noise", None), str):
        return {}
    low, high = estimator.noise_rate_interval_
    return {"rate": float(estimator.noise_rate_), "rate_low": float(low), "rate_high": float(high)}


def doubted(model: str, estimator: Any, X: Any, labels: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    """How well the doubts in training labels tell the wrong ones; nothing if the model has none or all are right."""
    doubts = MODELS[model].doubts
    if doubts is None or not wrong.any():
        return {}
    began = time.perf_counter()
    doubt, called = doubts(estimator, X, labels)
    precision, recall, _ = precision_recall_curve(wrong, doubt)
    return {
        "doubt_seconds": time.perf_counter() - began,
        "average_precision": float(average_precision_score(wrong, doubt)),
        # of the shortest lists that hold these shares of the wrong labels: recall falls, so the last that has enough
        "precisions": [float(precision[np.flatnonzero(recall >= share - 1e-9)[-1]]) for share in RECALLS],
        "called": int(called.sum()),
        "called_precision": float(wrong[called].mean()) if called.any() else None,
        "called_recall": float(called[wrong].mean()),
        # as large as the precision if doubts are probabilities
        "called_doubt": float(doubt[called].mean()) if called.any() else None,
    }


PLAN = Plan((*LIBSVM, *FROM_SKLEARN), tuple(NOISES.values()), tuple(MODELS), SPLITS, frozenset(HOPELESS))


def report(records: list[Record], folder: Path) -> list[Path]:
    return write_report(records, folder, PLAN)


EXPERIMENT = Interleaved(
    name="label_noise",
    title="Training labels of which some are wrong",
    datasets=PLAN.datasets,
    models=PLAN.models,
    settings=settings,
    execute=execute,
    report=report,
    seeds=SPLITS,
    noise=PLAN.noises,
    cost=cost,
    find_data=find,
)


def main() -> None:
    run_from_command_line(
        EXPERIMENT,
        description=(__doc__ or "").splitlines()[0],
        data_help="folder of the LIBSVM files; they are downloaded if it is not given",
        groups=GROUPS,
        noises=NOISES,
    )


if __name__ == "__main__":
    # by its name, so that other processes import this file and keep the data and warm models from run to run
    from label_noise import main as imported_main

    torch.set_num_threads(1)
    imported_main()
