"""LegendreTronClassifier() as it comes, against what one would use instead.

    python benchmarks/defaults.py --data DIR --out docs/results/defaults --jobs 2

For each data set and seed, 80 % of the rows are to train on and 20 % to test on. Features are as distributed; each model
standardises on its training rows. A run is one fit and one test, in one process with one thread. Runs on the same split
follow each other, so that the ratio of two times is of the same minute. A sweep that was stopped goes on when started again.
"""

from __future__ import annotations

import functools
import gc
import importlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from command_line import run_from_command_line
from defaults_numbers import BASELINE, OURS
from defaults_report import Plan, write_report
from legendretron import LegendreTronClassifier
from legendretron.datasets import DATASETS
from legendretron.diagnostics import expected_calibration_error
from legendretron.experiments import Batch, Experiment, Outcome, Record, Resources, Run
from legendretron.experiments.experiment import OnDownload
from legendretron.experiments.recipes import chosen_strengths, make_recipe
from legendretron.paper.data import find_data, load_prepared

SHARED = {"features": "as distributed", "splits": "stratified, a fifth to test on"}
LOGISTIC = {"Cs": 10, "l1_ratios": [0], "scoring": "neg_log_loss", "use_legacy_attributes": False}
#: Share of the training rows on which a temperature is fitted.
CALIBRATION_SHARE = 0.2
#: Variants of the default on dense data: the parameters that are not the default's, and constants of the library.
ABLATION: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "penalty not centred": ({"link_params": {"init": "identity"}}, {}),
    "alpha = 0.1": ({"alpha": 0.1}, {}),
    "link_alpha = 1e-4, always a link": ({"link_alpha": 1e-4}, {}),
    "link if better at all": ({}, {"legendretron.tuning.tune._MUST_GAIN": 0.0}),
    "no doubt in held-out labels": ({}, {"legendretron.tuning.scores.DOUBTED_ROWS": 0.0}),
    "hidden = 2": ({"link_params": {"hidden": 2}}, {}),
    "hidden = 16": ({"link_params": {"hidden": 16}}, {}),
}
ABLATION_SEEDS = 5
FROM_SKLEARN = {"digits": load_digits, "breast cancer": load_breast_cancer}
SEEDS = 20
#: Fewer seeds where a fit takes long.
FEWER_SEEDS = {"news20": 10}


def logistic(sparse: bool) -> Any:
    # sparse features are not centred, which would make them dense
    return make_pipeline(StandardScaler(with_mean=not sparse), LogisticRegressionCV(**{**LOGISTIC, "l1_ratios": (0,)}))


class WithTemperature(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The baseline fitted to four fifths of the rows, and a temperature fitted to the others."""

    def __init__(self, seed: int, sparse: bool) -> None:
        self.seed = seed
        self.sparse = sparse

    def fit(self, X: Any, y: np.ndarray) -> WithTemperature:
        parts = train_test_split(X, y, test_size=CALIBRATION_SHARE, random_state=self.seed, stratify=y)
        X_fit, X_held, y_fit, y_held = parts
        fitted = FrozenEstimator(logistic(self.sparse).fit(X_fit, y_fit))
        rows = np.arange(len(y_held))
        # one part with all rows: nothing is fitted but the temperature, and a rare class may have fewer rows than folds
        self.model_ = CalibratedClassifierCV(fitted, method="temperature", cv=[(rows, rows)]).fit(X_held, y_held)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        probabilities: np.ndarray = self.model_.predict_proba(X)
        return probabilities


@dataclass(frozen=True)
class Model:
    """How a model is built from a seed and whether features are sparse, and the settings that identify its runs."""

    make: Callable[[int, bool], Any]
    settings: Callable[[], dict[str, Any]]
    sparse: bool = True  #: whether it is run on sparse features
    constants: Mapping[str, float] = field(default_factory=dict)  #: of the library, with other values


@contextmanager
def changed(constants: Mapping[str, float]) -> Iterator[None]:
    """Inside, constants of the library, by their full names, have other values."""
    places = {name: (importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in constants}
    before = {name: getattr(module, short) for name, (module, short) in places.items()}
    try:
        for name, (module, short) in places.items():
            setattr(module, short, constants[name])
        yield
    finally:
        for name, (module, short) in places.items():
            setattr(module, short, before[name])


def _ours(
    parameters: Mapping[str, Any] = MappingProxyType({}),
    constants: Mapping[str, float] = MappingProxyType({}),
    sparse: bool = True,
) -> Model:
    def settings() -> dict[str, Any]:
        # with the defaults of today: where they change, so do the runs
        own = make_recipe(LegendreTronClassifier(**parameters))
        return {**own, **({"constants": dict(constants)} if constants else {})}

    def make(seed: int, _: bool) -> LegendreTronClassifier:
        return LegendreTronClassifier(**parameters, random_state=seed)

    return Model(make, settings, sparse, constants)


MAIN = {
    BASELINE: Model(lambda seed, sparse: logistic(sparse), lambda: {"estimator": "LogisticRegressionCV", **LOGISTIC}),
    OURS: _ours(),
    "LogisticRegressionCV + temperature": Model(
        WithTemperature,
        lambda: {"estimator": "LogisticRegressionCV", **LOGISTIC, "temperature_share": CALIBRATION_SHARE},
    ),
    "MLPClassifier": Model(
        lambda seed, sparse: make_pipeline(
            StandardScaler(with_mean=not sparse), MLPClassifier(early_stopping=True, random_state=seed)
        ),
        lambda: {"estimator": "MLPClassifier", "early_stopping": True},
    ),
    "HistGradientBoosting": Model(
        lambda seed, _: HistGradientBoostingClassifier(random_state=seed),
        lambda: {"estimator": "HistGradientBoostingClassifier"},
        sparse=False,
    ),
}
MODELS = {**MAIN, **{name: _ours(*variant, sparse=False) for name, variant in ABLATION.items()}}


def settings(model: str, dataset: str) -> dict[str, Any]:
    return {**MODELS[model].settings(), **SHARED}


class Interleaved(Experiment):
    """Runs in the order of data sets, then seeds, then models, so that those on the same split follow each other."""

    def runs(self) -> list[Run]:
        groups = [[name for name in self.models if (name in ABLATION) == late] for late in (False, True)]
        return [
            Run(dataset, model, self.noise[0], self.sizes[0], seed)
            for dataset in self.datasets
            for models in groups
            for seed in range(self._seeds_of(dataset, models))
            for model in models
            if MODELS[model].sparse or not _is_sparse(dataset)
        ]

    def _seeds_of(self, dataset: str, models: list[str]) -> int:
        most = ABLATION_SEEDS if models and models[0] in ABLATION else FEWER_SEEDS.get(dataset, SEEDS)
        return min(self.seeds, most)


def _is_sparse(dataset: str) -> bool:
    return dataset not in FROM_SKLEARN and DATASETS[dataset].sparse


@functools.lru_cache(maxsize=1)  # the next run is of the same data set
def load(dataset: str, folder: Path | None) -> tuple[Any, np.ndarray, dict[str, Any]]:
    """Features as distributed, labels from 0, and facts about both."""
    if dataset in FROM_SKLEARN:
        X, y = FROM_SKLEARN[dataset](return_X_y=True)
        label = dataset
    else:
        found = load_prepared(dataset, folder)  # with the values of LIBSVM's file
        X, y, label = found.X, found.y, found.label
    return X, y, {"rows": X.shape[0], "features": X.shape[1], "classes": int(y.max()) + 1, "label": label}


def find(dataset: str, resources: Resources, on_download: OnDownload) -> str:
    return "complete" if dataset in FROM_SKLEARN else find_data(dataset, resources, on_download)


@functools.cache
def warm_up(model: str, sparse: bool) -> None:
    """Fit a model to a few made-up rows, once in a process: imports and compilation are then done."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        MODELS[model].make(0, sparse).fit(csr_matrix(X) if sparse else X, y)


def execute(batch: Batch, resources: Resources) -> Outcome:
    if batch.settings != settings(batch.model, batch.dataset):
        raise ValueError(f"{batch.model} is run with its defaults only, not with other settings.")
    X, y, facts = load(batch.dataset, resources.data)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        warm_up(batch.model, issparse(X))
        runs = [measured(batch.model, X, y, run.seed) for run in batch.runs]
    return Outcome(facts, runs)


def measured(model: str, X: Any, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Fit a model to four fifths of the rows and test it on the others."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=y)
    X_train, X_test, y_train, y_test = X[train], X[test], y[train], y[test]
    estimator = MODELS[model].make(seed, issparse(X))
    gc.collect()  # what earlier runs have left is not this one's to collect
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        began, began_cpu = time.perf_counter(), time.process_time()
        with changed(MODELS[model].constants):
            estimator.fit(X_train, y_train)
        fitted, fitted_cpu = time.perf_counter(), time.process_time()
        p = np.asarray(estimator.predict_proba(X_test), dtype=np.float64)
        predicted = time.perf_counter()
    unconverged = [warning for warning in given if issubclass(warning.category, ConvergenceWarning)]
    for warning in given:
        if warning not in unconverged:
            warnings.warn(str(warning.message), warning.category, stacklevel=2)
    if not np.array_equal(estimator.classes_, np.arange(y.max() + 1)):
        raise ValueError(f"{model} knows the classes {estimator.classes_}, not all {y.max() + 1}.")
    return {
        **scores(y_test, p),
        "fit_seconds": fitted - began,
        "fit_cpu_seconds": fitted_cpu - began_cpu,  # less, where the process had to wait for a core
        "predict_seconds": predicted - fitted,
        "converged": not unconverged,
        **(chosen_strengths(estimator) if isinstance(estimator, LegendreTronClassifier) else {}),
    }


def scores(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """Accuracy in %, log-loss, Brier score and calibration error of probabilities ``(n, C)``."""
    if not np.isfinite(p).all():
        raise ArithmeticError("some predicted probabilities are not finite.")
    rows = np.arange(len(y))
    eps = np.finfo(p.dtype).eps  # as in scikit-learn's log_loss
    outcomes = np.zeros_like(p)
    outcomes[rows, y] = 1.0
    return {
        "accuracy": 100.0 * float((p.argmax(1) == y).mean()),
        "log_loss": float(-np.log(np.clip(p[rows, y], eps, 1.0 - eps)).mean()),
        "brier": float(((p - outcomes) ** 2).sum(1).mean()),
        "calibration_error": expected_calibration_error(y, p),
    }


def cost(run: Run) -> float:
    """Work by data set alone: a parallel sweep starts the largest first, and leaves runs on a split together."""
    if run.dataset in FROM_SKLEARN:
        return 1e6
    info = DATASETS[run.dataset]
    return float(info.rows * min(info.features, 300) * info.classes)


LIBSVM = (
    "letter", "vowel", "vehicle", "glass", "wine", "svmguide2", "iris", "dna", "usps", "news20", "Sensorless",
)  # fmt: skip
PLAN = Plan({name: FEWER_SEEDS.get(name, SEEDS) for name in (*LIBSVM, *FROM_SKLEARN)}, tuple(MAIN), tuple(ABLATION))


def report(records: list[Record], folder: Path) -> list[Path]:
    return write_report(records, folder, PLAN)


EXPERIMENT = Interleaved(
    name="defaults",
    title="LegendreTronClassifier() against what one would use instead",
    datasets=tuple(PLAN.splits),
    models=tuple(MODELS),
    settings=settings,
    execute=execute,
    report=report,
    seeds=SEEDS,
    cost=cost,
    find_data=find,
)


def main() -> None:
    run_from_command_line(
        EXPERIMENT,
        description=(__doc__ or "").splitlines()[0],
        data_help="folder of the LIBSVM files; they are downloaded if it is not given",
        groups={"main": list(MAIN), "ablation": list(ABLATION)},
    )


if __name__ == "__main__":
    # by its name, so that other processes import this file and keep the data and warm models from run to run
    from defaults import main as imported_main

    torch.set_num_threads(1)
    imported_main()
