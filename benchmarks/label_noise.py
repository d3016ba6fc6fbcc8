"""Training labels of which some are wrong: who still predicts well, finds the wrong ones, and knows how many there are.

    python benchmarks/label_noise.py --data DIR --out docs/results/label_noise --jobs 2

For each data set, noise and split, a fifth of the rows is to test on, with right labels. Labels of the other rows are made
wrong with some probability, the same for all models. Noise and split are seeded by the number of the split. A run is one fit
and one test, in one process with one thread. A sweep that was stopped goes on when started again; models can be run on
different machines, and their files of results put into one folder. cleanlab comes with ``pip install '.[experiments]'``.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.metrics import average_precision_score, precision_recall_curve
from sklearn.model_selection import train_test_split

import study
from label_noise_report import (
    CLEANLAB,
    FLOOR,
    FORWARD,
    GENERALISED,
    PAIRS,
    RECALLS,
    TUNED_CLEANLAB,
    WITHOUT,
    write_report,
)
from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.datasets import flip_labels, pair_transition, symmetric_transition
from legendretron.experiments import Batch, Experiment, Outcome, Record, Resources
from legendretron.experiments.recipes import chosen_strengths, make_recipe
from robust_models import STRENGTHS, GeneralisedCrossEntropy, WithCleanlab
from study import BASELINE, LOGISTIC, OURS

SHARED = {
    "features": "as distributed",
    "splits": "stratified, a fifth to test on",
    "noise": f"symmetric; at {PAIRS:g}, class c becomes c + 1",
}
DATASETS = (*study.LIBSVM, *study.FROM_SKLEARN)
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
    settings: dict[str, Any]
    #: Of a fitted model, with its training rows: the doubt in each label, and whether the label is called wrong.
    doubts: Callable[[Any, Any, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None


def doubts_out_of_fold(estimator: Any, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By copies that did not see the row; a label is called wrong if that is more likely than not."""
    quality = np.asarray(estimator.label_quality(X, y, cv=FOLDS), dtype=float)
    return 1.0 - quality, quality < 0.5


def doubts_of_cleanlab(estimator: WithCleanlab, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 1.0 - estimator.quality_, estimator.issues_


def _own(kind: type[Any], doubts: Any = None, **parameters: Any) -> Model:
    return Model(lambda seed, *_: kind(**parameters, random_state=seed), make_recipe(kind(**parameters)), doubts)


def _cleanlab(tuning: dict[str, Any] | None) -> Model:
    return Model(
        lambda seed, *_: WithCleanlab(seed, tuning),
        {"estimator": "CleanLearning(LogisticRegression)", "C": 1.0 if tuning is None else {**LOGISTIC}},
        doubts_of_cleanlab,
    )


MODELS = {
    BASELINE: Model(lambda _, sparse, __: study.logistic(sparse), {"estimator": "LogisticRegressionCV", **LOGISTIC}),
    OURS: _own(LegendreTronClassifier, doubts_out_of_fold),
    WITHOUT: _own(LegendreTronClassifier, label_noise=None),
    FLOOR: _own(MultinomialLogisticClassifier, doubts_out_of_fold, label_noise="symmetric"),
    FORWARD: Model(
        lambda seed, _, matrix: MultinomialLogisticClassifier(label_noise=matrix, random_state=seed),
        {**make_recipe(MultinomialLogisticClassifier()), "label_noise": "the true matrix"},
        doubts_out_of_fold,
    ),
    GENERALISED: Model(
        lambda seed, *_: GeneralisedCrossEntropy(Q, STRENGTHS, seed),
        {"estimator": "GeneralisedCrossEntropy", "q": Q, "strengths": list(STRENGTHS)},
    ),
    CLEANLAB: _cleanlab(None),
    TUNED_CLEANLAB: _cleanlab({**LOGISTIC, "l1_ratios": (0,)}),
}
#: Words for several models on the command line.
GROUPS = {
    "ours": [OURS, WITHOUT, FLOOR, FORWARD],
    "others": [BASELINE, GENERALISED],
    "with-cleanlab": [CLEANLAB, TUNED_CLEANLAB],
}


def settings(model: str, dataset: str) -> dict[str, Any]:
    return {**MODELS[model].settings, **SHARED}


@functools.cache
def warm_up(model: str, sparse: bool) -> None:
    study.warm_up(MODELS[model].make(0, sparse, symmetric_transition(3, 0.1)), sparse)


@study.one_thread(settings)
def execute(batch: Batch, resources: Resources) -> Outcome:
    X, y, facts = study.load(batch.dataset, resources.data)
    return Outcome(facts, measure(batch, X, y, 0 if issparse(X) else DOUBTED_SPLITS))


def noisy_split(y: np.ndarray, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows to train on, labels of these, of which some are wrong, and rows to test on."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=y)
    # a generator of another kind than the split's: which rows are flipped does not depend on where they are
    labels = flip_labels(y[train], transition(noise, int(y.max()) + 1), np.random.default_rng(seed))
    return train, labels, test


def measure(batch: Batch, X: Any, y: np.ndarray, doubted_splits: int) -> list[dict[str, Any]]:
    """Fit the model of a batch to four fifths of the rows, with wrong labels among them, and test it on the others."""
    model = MODELS[batch.model]
    warm_up(batch.model, issparse(X))
    runs = []
    for run in batch.runs:
        train, labels, test = noisy_split(y, run.noise, run.seed)
        wrong = labels != y[train]
        estimator = model.make(run.seed, issparse(X), transition(run.noise, int(y.max()) + 1))
        found = study.fit_and_score(estimator, X[train], labels, X[test], y[test])
        found |= {"wrong_share": float(wrong.mean()), **estimated_rate(estimator)}
        if run.seed < doubted_splits:
            found |= judge_doubts(batch.model, estimator, X[train], labels, wrong)
        if isinstance(estimator, LegendreTronClassifier):
            found |= chosen_strengths(estimator)
        if isinstance(estimator, WithCleanlab):
            found["cleanlab"] = estimator.version_
        runs.append(found)
    return runs


def estimated_rate(estimator: Any) -> dict[str, float]:
    """The share of wrong labels that a model has found, with its interval; nothing if it looks for none or was told."""
    if not isinstance(getattr(estimator, "label_noise", None), str):
        return {}
    low, high = estimator.noise_rate_interval_
    return {"rate": float(estimator.noise_rate_), "rate_low": float(low), "rate_high": float(high)}


def judge_doubts(model: str, estimator: Any, X: Any, labels: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    """How well the doubts in training labels tell the wrong ones; nothing if the model has none or all are right."""
    doubts = MODELS[model].doubts
    if doubts is None or not wrong.any():
        return {}
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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


def report(records: list[Record], folder: Path) -> list[Path]:
    return write_report(records, folder, EXPERIMENT)


EXPERIMENT = Experiment(
    name="label_noise",
    title="Training labels of which some are wrong",
    datasets=DATASETS,
    models=tuple(MODELS),
    settings=settings,
    execute=execute,
    report=report,
    seeds=SPLITS,
    noise=tuple(NOISES.values()),
    by_split=True,
    left_out=lambda run: (run.dataset, run.noise) in HOPELESS,
    cost=study.cost,
    find_data=study.find,
)

if __name__ == "__main__":
    # by its name, so that other processes import this file and keep the data and warm models from run to run
    import label_noise

    study.run_from_command_line(label_noise.EXPERIMENT, __doc__, groups=GROUPS, noises=NOISES)
