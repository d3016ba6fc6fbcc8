"""LegendreCalibrator() and other calibrators on the same predictions: log-loss, calibration errors, time.

    python benchmarks/calibration.py --data DIR --out docs/results/calibration

Cases are predictions of three public networks, and of four kinds of classifiers trained here on six data sets, each with one
to three sizes of the calibration set; and predictions that are right but for a temperature, made up, or those of the networks
with labels drawn from them. A split draws the rows to calibrate and up to 5,000 others to test. A run is one
calibrator on one split, in one process with one thread. The other calibrators come with ``pip install '.[experiments]'``.
"""

from __future__ import annotations

import functools
import gc
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

import study
from calibration_cases import RIGHT, find, load, names, sizes_of, split
from calibration_report import LEAST, OURS, PRESERVED, SMS, TEMPERATURE, UNCALIBRATED, write_report
from legendretron import LegendreCalibrator
from legendretron.diagnostics.binned_calibration import CalibrationCurve
from legendretron.experiments import Batch, Experiment, Outcome, Record, Resources, Run
from legendretron.experiments.recipes import make_recipe

SPLITS = 5
VENN_ABERS = "Venn-Abers"

Predict = Callable[[np.ndarray], np.ndarray]


class GivenProbabilities(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are its probabilities."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X: Any, y: Any) -> GivenProbabilities:
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(X)

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(X).argmax(axis=1)


def _none(p: np.ndarray, y: np.ndarray) -> Predict:
    return lambda test: test


def _ours(**parameters: Any) -> Callable[[np.ndarray, np.ndarray], Predict]:
    return lambda p, y: LegendreCalibrator(**parameters, classes=np.arange(p.shape[1])).fit(p, y).predict_proba


def _sklearn(method: str) -> Callable[[np.ndarray, np.ndarray], Predict]:
    def fit(p: np.ndarray, y: np.ndarray) -> Predict:
        frozen = FrozenEstimator(GivenProbabilities(p.shape[1]))
        return CalibratedClassifierCV(frozen, method=method).fit(p, y).predict_proba

    return fit


def _probmetrics(name: str) -> Callable[[np.ndarray, np.ndarray], Predict]:
    def fit(p: np.ndarray, y: np.ndarray) -> Predict:
        from probmetrics import calibrators

        return getattr(calibrators, name)().fit(p, y).predict_proba

    return fit


def _venn_abers(p: np.ndarray, y: np.ndarray) -> Predict:
    from venn_abers import VennAbersCalibrator

    # it is fitted when it predicts
    return lambda test: VennAbersCalibrator().predict_proba(p_cal=p, y_cal=y, p_test=test)


MODELS: dict[str, Callable[[np.ndarray, np.ndarray], Predict]] = {
    OURS: _ours(),
    PRESERVED: _ours(order="preserved"),
    UNCALIBRATED: _none,
    TEMPERATURE: _probmetrics("TemperatureScalingCalibrator"),
    "ETS": _probmetrics("ETSCalibrator"),
    "SVS": _probmetrics("SVSCalibrator"),
    SMS: _probmetrics("SMSCalibrator"),
    "scikit-learn, temperature": _sklearn("temperature"),
    "scikit-learn, isotonic": _sklearn("isotonic"),
    VENN_ABERS: _venn_abers,
}
_PACKAGES = {"ETS": "probmetrics", "SVS": "probmetrics", SMS: "probmetrics", TEMPERATURE: "probmetrics"}
_PACKAGES |= {name: "scikit-learn" for name in MODELS if name.startswith("scikit-learn")} | {VENN_ABERS: "venn-abers"}


def settings(model: str, dataset: str) -> dict[str, Any]:
    shared = {"calibrator": model, "splits": "drawn by seed; up to 5,000 rows to test", "least": LEAST}
    if model in (OURS, PRESERVED):
        own = LegendreCalibrator(order="preserved" if model == PRESERVED else "any")
        return {**shared, **make_recipe(own)}
    return shared


def left_out(run: Run) -> bool:
    """Venn-Abers and SMS take long for many classes; scikit-learn's calibrators need a row of each class."""
    case, model = run.dataset, run.model
    if run.size not in sizes_of(case):
        return True
    if case in RIGHT:
        many = "100" in case or "200" in case
        return model == VENN_ABERS or (many and (model == SMS or model.startswith("scikit-learn")))
    return model == VENN_ABERS and case.endswith("cifar-100")


@functools.cache
def warm_up(model: str) -> None:
    """Calibrate a few made-up rows, once in a process: imports and compilation are then done."""
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=90)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MODELS[model](p, np.arange(90) % 3)(p)


def scores(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    import relplot

    n, n_classes = p.shape
    own, top = p[np.arange(n), y], p.argmax(1)
    right = (top == y).astype(float)
    of_classes = [CalibrationCurve.of_outcomes(p[:, c], y == c).expected_calibration_error for c in range(n_classes)]
    return {
        "log_loss": float(-np.log(np.maximum(own, LEAST)).mean()),
        "brier": float(np.square(p - np.eye(n_classes)[y]).sum(1).mean()),
        "accuracy": 100.0 * float(right.mean()),
        "classwise_error": float(np.mean(of_classes)),
        "smooth_error": float(relplot.smECE(p[np.arange(n), top], right)),
    }


def measure(model: str, p: np.ndarray, y: np.ndarray, test: np.ndarray, y_test: np.ndarray) -> dict[str, Any]:
    gc.collect()  # what earlier runs have left is not this one's to collect
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers, about classes without rows
        began = time.perf_counter()
        predict = MODELS[model](p, y)
        fitted = time.perf_counter()
        found = np.asarray(predict(test), dtype=np.float64)
        predicted = time.perf_counter()
    package = _PACKAGES.get(model)
    return {
        **scores(y_test, found / found.sum(axis=1, keepdims=True)),
        "fit_seconds": (predicted if model == VENN_ABERS else fitted) - began,
        "predict_seconds": predicted - fitted,
        **({} if package is None else {package: version(package)}),
    }


@study.one_thread(settings)
def execute(batch: Batch, resources: Resources) -> Outcome:
    case = load(batch.dataset, resources.data)
    warm_up(batch.model)
    results = []
    for run in batch.runs:
        cal, test = split(case, run.size, run.seed)
        results.append(measure(batch.model, case.proba[cal], case.y[cal], case.proba[test], case.y[test]))
    return Outcome({"rows": len(case.y), "classes": case.proba.shape[1], "label": batch.dataset}, results)


def report(records: list[Record], folder: Path) -> list[Path]:
    return write_report(records, folder, EXPERIMENT)


EXPERIMENT = Experiment(
    name="calibration",
    title="Calibration of finished classifiers",
    datasets=names(),
    models=tuple(MODELS),
    settings=settings,
    execute=execute,
    report=report,
    seeds=SPLITS,
    sizes=(200, 300, 1000, 5000),
    by_split=True,
    left_out=left_out,
    find_data=find,
)

if __name__ == "__main__":
    # by its name, so that other processes import this file and keep the case and warm models from run to run
    import calibration

    study.run_from_command_line(calibration.EXPERIMENT, __doc__, groups={"ours": [OURS, PRESERVED]})
