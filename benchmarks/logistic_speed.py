"""Time of logistic regression to a given gradient, beside scikit-learn's LogisticRegression in the same run.

    python benchmarks/logistic_speed.py --data DIR --out docs/results/logistic_speed.json

Two tables: made-up rows of 50 features and five classes, dense, and news20, sparse, with 62,000 features and 20 classes. Both
models minimise the same objective, and both stop where no entry of the gradient of the mean loss is above the same number;
the gradient of each solution is computed once more, by the same code, and recorded. Variants: features in standard units
(in scikit-learn, by a StandardScaler before), weights of the rows. Models take turns. There are wall-clock and processor
times; where other programs run on the machine, the latter say more, and the load average tells.

``--links`` adds the time of an iteration of L-BFGS with a learned link, relative to one with softmax, and ``--default`` that
of ``LegendreTronClassifier()``, which chooses its strengths, beside LogisticRegressionCV on news20, which takes half an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from large_table import made_up
from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.datasets import read_libsvm
from legendretron.experiments.rounding import rounded

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


def largest_gradient(case: Case, X: Any, coef: np.ndarray, intercept: np.ndarray) -> float:
    """Largest entry of the gradient, of coefficients (C, d) for features as they were trained on."""
    weights = np.ones(len(case.y)) if case.weights is None else case.weights
    share = weights / weights.sum()
    residual = np.exp(log_softmax(np.asarray(X @ coef.T) + intercept, axis=1))
    residual[np.arange(len(case.y)), case.y] -= 1.0
    residual *= share[:, None]
    of_coef = np.asarray(X.T @ residual).T + case.alpha * (coef - coef.mean(0))
    return float(max(np.abs(of_coef).max(), np.abs(residual.sum(0)).max()))


def scaler(case: Case) -> StandardScaler:
    return StandardScaler(with_mean=isinstance(case.X, np.ndarray))


def fit_ours(case: Case) -> tuple[Callable[[], Any], Callable[[Any], tuple[np.ndarray, np.ndarray]]]:
    model = MultinomialLogisticClassifier(
        alpha=case.alpha, tol=case.tol, standardize=case.standardize, max_epochs=ITERATIONS
    )

    def solution(model: Any) -> tuple[np.ndarray, np.ndarray]:
        # in the units of training; the reference has no coefficients
        coef, intercept = model.coef_, model.intercept_
        if case.standardize:
            units = scaler(case).fit(case.X, sample_weight=case.weights)
            if units.mean_ is not None and isinstance(case.X, np.ndarray):
                intercept = intercept + coef @ units.mean_
            coef = coef * units.scale_
        return np.vstack([coef, np.zeros(coef.shape[1])]), np.append(intercept, 0.0)

    return lambda: model.fit(case.X, case.y, sample_weight=case.weights), solution


def fit_theirs(case: Case) -> tuple[Callable[[], Any], Callable[[Any], tuple[np.ndarray, np.ndarray]]]:
    total = len(case.y) if case.weights is None else case.weights.sum()
    model = LogisticRegression(C=1.0 / (case.alpha * total), tol=case.tol, max_iter=ITERATIONS)
    if not case.standardize:
        return (
            lambda: model.fit(case.X, case.y, sample_weight=case.weights),
            lambda model: (model.coef_, model.intercept_),
        )
    steps = make_pipeline(scaler(case), model)
    weights = {} if case.weights is None else {f"{name}__sample_weight": case.weights for name, _ in steps.steps}
    return lambda: steps.fit(case.X, case.y, **weights), lambda steps: (steps[-1].coef_, steps[-1].intercept_)


def compared(case: Case, rounds: int) -> dict[str, Any]:
    """Times of both, in turns, and where they have ended."""
    contestants = {OURS: fit_ours(case), THEIRS: fit_theirs(case)}
    found: dict[str, Any] = {}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    X = scaler(case).fit(case.X, sample_weight=case.weights).transform(case.X) if case.standardize else case.X
    for _ in range(rounds):
        for name, (fit, solution) in contestants.items():
            began = time.perf_counter(), time.process_time()
            fitted = fit()
            times[name].append((time.perf_counter() - began[0], time.process_time() - began[1]))
            last = fitted[-1] if hasattr(fitted, "steps") else fitted
            iterations = int(np.max(last.n_iter_))
            found[name] = {"iterations": iterations, "gradient": largest_gradient(case, X, *solution(fitted))}
    for name, pairs in times.items():
        wall, processor = ([pair[i] for pair in pairs] for i in (0, 1))
        found[name] |= {
            "seconds": statistics.median(wall),
            "all_seconds": wall,
            "processor_seconds": statistics.median(processor),
            "all_processor_seconds": processor,
        }
    ours, theirs = found[OURS], found[THEIRS]
    ratios = {name: ours[name] / theirs[name] for name in ("seconds", "processor_seconds")}
    print(
        f"{case.name:34} {ratios['seconds']:.2f} times, of processor time {ratios['processor_seconds']:.2f}", flush=True
    )
    print(
        *(
            f"  {name}: {v['seconds']:.1f} s, {v['iterations']} iterations, {v['gradient']:.1e}"
            for name, v in found.items()
        ),
        sep="\n",
        flush=True,
    )
    return {
        "case": case.name,
        "shape": [*case.X.shape, int(case.y.max()) + 1],
        "alpha": case.alpha,
        "tol": case.tol,
        "models": found,
        "ratios": ratios,
    }


def of_links(rows: int, iterations: int) -> list[dict[str, Any]]:
    """Processor time of an iteration of L-BFGS at the shape of letter, relative to one with softmax."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 16))
    y = (X @ rng.normal(size=(16, 26)) + rng.gumbel(size=(rows, 26))).argmax(1)
    settings: dict[str, Any] = {"solver": "lbfgs", "random_state": 0, "tol": 0.0}
    models = {
        "softmax": MultinomialLogisticClassifier(alpha=1e-3, **settings),
        **{
            link: LegendreTronClassifier(link=link, alpha=0.1, link_alpha=1e-3, **settings)
            for link in ("composite", "canonical")
        },
    }
    found = []
    for name, model in models.items():
        model.set_params(max_epochs=2).fit(
            X, y
        )  # compiled functions are compiled, or read from disk, by their first call
        began = time.process_time()
        model.set_params(max_epochs=iterations).fit(X, y)
        ms = 1e3 * (time.process_time() - began) / model.n_iter_
        found.append(
            {"link": name, "ms_an_iteration": ms, "ratio": ms / (found[0]["ms_an_iteration"] if found else ms)}
        )
        print(f"L-BFGS, {name:12} {ms:.2f} ms an iteration, {found[-1]['ratio']:.1f} times", flush=True)
    return found


def of_defaults(X: Any, y: np.ndarray) -> dict[str, Any]:
    """Times of both models that choose their strengths."""
    parts = train_test_split(X, y, test_size=0.2, random_state=0)
    settings = {"Cs": 10, "l1_ratios": (0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}
    models = {
        "LegendreTronClassifier()": LegendreTronClassifier(random_state=0),
        "LogisticRegressionCV": LogisticRegressionCV(**settings),
    }
    found: dict[str, Any] = {}
    for name, model in models.items():
        began = time.perf_counter(), time.process_time()
        model.fit(parts[0], parts[2])
        found[name] = {
            "seconds": time.perf_counter() - began[0],
            "processor_seconds": time.process_time() - began[1],
            "log_loss": float(log_loss(parts[3], model.predict_proba(parts[1]))),
        }
        print(name, found[name], flush=True)
    ours, theirs = found.values()
    return {"models": found, "ratios": {name: ours[name] / theirs[name] for name in ours}, "settings": settings}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", type=Path, help="folder of news20.scale, or of it compressed; without it, dense only")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the dense table; 0 leaves it out")
    parser.add_argument("--news-rows", type=int, help="take only so many rows of news20")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--links", type=int, default=0, metavar="ROWS", help="time learned links too, on so many rows")
    parser.add_argument("--default", action="store_true", help="time the default estimator on news20 too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cases, news = [], None
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
        path = next(p for p in (options.data / "news20.scale.bz2", options.data / "news20.scale") if p.exists())
        X, y = read_libsvm(path, dense=False)
        news = X[: options.news_rows], np.unique(y[: options.news_rows], return_inverse=True)[1]
        sparse = Case("news20", *news, 1.0 / news[0].shape[0], 1e-4)
        cases += [
            sparse,
            sparse._replace(name="news20, gradient of 1e-6", tol=1e-6),
            sparse._replace(name="news20, standard units", standardize=True, alpha=0.01),
        ]
    load = os.getloadavg()
    with threadpool_limits(options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # compiled functions are compiled, or read from disk, by their first call
        for case in cases:
            small = case._replace(
                X=case.X[:600], y=case.y[:600], weights=None if case.weights is None else case.weights[:600]
            )
            fit_ours(small)[0]()
        record: dict[str, Any] = {
            "command": f"python benchmarks/logistic_speed.py --rows {options.rows} --rounds {options.rounds} --threads "
            f"{options.threads} --links {options.links}{' --data DIR' if options.data else ''}",
            "seed": 0,
            "cases": [compared(case, options.rounds) for case in cases],
            "links": of_links(options.links, 100) if options.links else [],
            "default": of_defaults(*news) if options.default and news is not None else None,
            "load_average": {"before": load, "after": os.getloadavg()},
            "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
            **provenance(),
        }
    if options.out:
        write_atomically(options.out, (json.dumps(rounded(record), indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
