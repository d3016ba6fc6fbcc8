"""Time of logistic regression to a given gradient, beside scikit-learn's LogisticRegression in the same run.

    python benchmarks/logistic_speed.py --data DIR --out docs/results/logistic_speed.json

Two tables: made-up rows of 50 features and five classes, dense, and news20, sparse, with 62,000 features and 20 classes. Both
models minimise the same objective, and both stop where no entry of the gradient of the mean loss is above the same number;
the gradient of each solution is computed once more, by the same code, and recorded. Variants: features in standard units
(in scikit-learn, by a StandardScaler before), weights of the rows. Models take turns. There are wall-clock and processor
times; where other programs run on the machine, the latter say more, and the load average tells.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from harness import Benchmark, show
from large_table import made_up
from legendretron import MultinomialLogisticClassifier
from legendretron.datasets import read_libsvm

OURS, THEIRS = "MultinomialLogisticClassifier", "LogisticRegression"
ITERATIONS = 2000


class Case(NamedTuple):
    """A table, and what both models are told."""

    name: str
    X: Any
    y: np.ndarray
    alpha: float
    tol: float
    standardize: bool = False
    weights: np.ndarray | None = None

    def scaler(self) -> StandardScaler:
        return StandardScaler(with_mean=isinstance(self.X, np.ndarray)).fit(self.X, sample_weight=self.weights)


def largest_gradient(case: Case, X: Any, coef: np.ndarray, intercept: np.ndarray) -> float:
    """Largest entry of the gradient, of coefficients (C, d) for features as they were trained on."""
    weights = np.ones(len(case.y)) if case.weights is None else case.weights
    residual = np.exp(log_softmax(np.asarray(X @ coef.T) + intercept, axis=1))
    residual[np.arange(len(case.y)), case.y] -= 1.0
    residual *= (weights / weights.sum())[:, None]
    of_coef = np.asarray(X.T @ residual).T + case.alpha * (coef - coef.mean(0))
    return float(max(np.abs(of_coef).max(), np.abs(residual.sum(0)).max()))


def fit_ours(case: Case) -> Any:
    settings = {"alpha": case.alpha, "tol": case.tol, "standardize": case.standardize, "max_epochs": ITERATIONS}
    return MultinomialLogisticClassifier(**settings).fit(case.X, case.y, sample_weight=case.weights)


def solution_of_ours(model: Any, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients in the units of training; the reference class has none."""
    coef, intercept = model.coef_, model.intercept_
    if case.standardize:
        units = case.scaler()
        if isinstance(case.X, np.ndarray):
            intercept = intercept + coef @ units.mean_
        coef = coef * units.scale_
    return np.vstack([coef, np.zeros(coef.shape[1])]), np.append(intercept, 0.0)


def fit_theirs(case: Case) -> Any:
    total = len(case.y) if case.weights is None else case.weights.sum()
    model = LogisticRegression(C=1.0 / (case.alpha * total), tol=case.tol, max_iter=ITERATIONS)
    if not case.standardize:
        return model.fit(case.X, case.y, sample_weight=case.weights)
    return make_pipeline(StandardScaler(with_mean=isinstance(case.X, np.ndarray)), model).fit(case.X, case.y)[-1]


CONTESTANTS: dict[str, tuple[Callable[[Case], Any], Callable[[Any, Case], tuple[np.ndarray, np.ndarray]]]] = {
    OURS: (fit_ours, solution_of_ours),
    THEIRS: (fit_theirs, lambda model, case: (model.coef_, model.intercept_)),
}


def compare(case: Case, rounds: int) -> dict[str, Any]:
    """Times of both, in turns, and where they have ended."""
    found: dict[str, Any] = {name: {"all_seconds": [], "all_processor_seconds": []} for name in CONTESTANTS}
    X = case.scaler().transform(case.X) if case.standardize else case.X
    for _ in range(rounds):
        for name, (fit, solution) in CONTESTANTS.items():
            began = time.perf_counter(), time.process_time()
            fitted = fit(case)
            found[name]["all_seconds"].append(time.perf_counter() - began[0])
            found[name]["all_processor_seconds"].append(time.process_time() - began[1])
            found[name]["iterations"] = int(np.max(fitted.n_iter_))
            found[name]["gradient"] = largest_gradient(case, X, *solution(fitted, case))
    for own in found.values():
        own |= {name: statistics.median(own[f"all_{name}"]) for name in ("seconds", "processor_seconds")}
    ratios = {name: found[OURS][name] / found[THEIRS][name] for name in ("seconds", "processor_seconds")}
    show({"case": case.name, **ratios})
    shape = [*case.X.shape, int(case.y.max()) + 1]
    return {"case": case.name, "shape": shape, "alpha": case.alpha, "tol": case.tol, "models": found, "ratios": ratios}


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--data", type=Path, help="folder of news20.scale.bz2; without it, dense only")
    benchmark.add_argument("--rows", type=int, default=1_000_000, help="of the dense table; 0 leaves it out")
    benchmark.add_argument("--news-rows", type=int, help="take only so many rows of news20")
    benchmark.add_argument("--rounds", type=int, default=3)
    options = benchmark.start()
    cases = []
    if options.rows:
        X, y = made_up(options.rows, seed=0)
        weights = np.random.default_rng(0).uniform(0.5, 1.5, len(y))
        dense = Case("dense", X, y, 1.0 / len(y), 1e-6)
        cases += [
            dense,
            dense._replace(name="dense, standard units", standardize=True),
            dense._replace(name="dense, weights", weights=weights),
        ]
    if options.data:
        X, y = read_libsvm(options.data / "news20.scale.bz2", dense=False)
        X, y = X[: options.news_rows], np.unique(y[: options.news_rows], return_inverse=True)[1]
        sparse = Case("news20", X, y, 1.0 / X.shape[0], 1e-4)
        cases += [
            sparse,
            sparse._replace(name="news20, gradient of 1e-6", tol=1e-6),
            sparse._replace(name="news20, standard units", standardize=True, alpha=0.01),
        ]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:  # compiled functions are compiled, or read from disk, by their first call
            few = {
                "X": case.X[:600],
                "y": case.y[:600],
                "weights": None if case.weights is None else case.weights[:600],
            }
            fit_ours(case._replace(**few))
        benchmark.write(cases=[compare(case, options.rounds) for case in cases])


if __name__ == "__main__":
    main()
