"""Made-up tables whose classes are partly a matter of chance, and whose labels are all right.

OMP_NUM_THREADS=1 python benchmarks/chance.py --jobs 2 --out docs/results/chance.json
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.special import softmax
from scipy.stats import norm
from threadpoolctl import threadpool_limits

import study
from harness import run_cases, show
from legendretron import LegendreTronClassifier
from study import BASELINE, OURS

#: Rows to train on.
SIZES = (200, 500, 1500, 5000)
#: Fresh rows, whose losses are expected ones: the probabilities of their classes are known.
FRESH = 20_000

Rows = tuple[np.ndarray, np.ndarray]


def _linear(rng: np.random.Generator, d: int, c: int, scale: float) -> np.ndarray:
    return scale * rng.normal(size=(d, c)) / np.sqrt(d)


def _floor(p: np.ndarray, share: Any) -> np.ndarray:
    return (1.0 - share) * p + share / p.shape[1]


# Each family draws the fixed part of a table once, and returns a function from random numbers and a number of rows to
# features (n, d) and probabilities of the classes (n, c).


def softmax_family(scale: float, d: int = 6, used: int = 6) -> Callable[..., Any]:
    def family(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
        weight = _linear(rng, used, c, scale * np.sqrt(used))

        def draw(rng: np.random.Generator, n: int) -> Rows:
            X = rng.normal(size=(n, d))
            return X, softmax(X[:, :used] @ weight, axis=1)

        return draw

    return family


def capped(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    inner, share = softmax_family(4.0)(rng, c), rng.uniform(0.05, 0.5)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X, p = inner(rng, n)
        return X, _floor(p, share)

    return draw


def capped_by_class(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    inner, share = softmax_family(4.0)(rng, c), rng.uniform(0.0, 0.6, c)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X, p = inner(rng, n)
        return X, p @ ((1.0 - share)[:, None] * np.eye(c) + share[:, None] / c)

    return draw


def hidden_mixture(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    one, other, share = _linear(rng, 5, c, 6.0), _linear(rng, 5, c, 6.0), rng.uniform(0.1, 0.4)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.normal(size=(n, 5))
        return X, (1.0 - share) * softmax(X @ one, axis=1) + share * softmax(X @ other, axis=1)

    return draw


def seen_mixture(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    one, other, share = _linear(rng, 5, c, 6.0), _linear(rng, 5, c, 6.0), rng.uniform(0.1, 0.4)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X, which = rng.normal(size=(n, 5)), rng.random((n, 1)) < share
        return np.hstack([X, which]), softmax(np.where(which, X @ other, X @ one), axis=1)

    return draw


def steps(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight, height = _linear(rng, 4, c, 4.0), rng.uniform(0.6, 0.95)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.normal(size=(n, 4))
        return X, _floor(np.eye(c)[(X @ weight).argmax(1)], 1.0 - height)

    return draw


def discrete(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight = _linear(rng, 4, c, 3.0)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.integers(0, 3, (n, 4)).astype(float)
        return X, softmax((X - 1.0) @ weight, axis=1)

    return draw


def cells(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    of_cell = rng.dirichlet(np.full(c, 0.7), size=27)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.integers(0, 3, (n, 3))
        return X.astype(float), of_cell[X @ [9, 3, 1]]

    return draw


def missing_feature(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight, of_missing = _linear(rng, 5, c, 5.0), rng.normal(size=(3, c)) * 3.0

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.normal(size=(n, 5))
        z = X @ weight
        return X, np.mean([softmax(z + row, axis=1) for row in of_missing], axis=0)

    return draw


def thresholds(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    at, leaf = rng.normal(size=3) * 0.5, rng.dirichlet(np.full(c, 0.3), size=8)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.normal(size=(n, 6))
        return X, leaf[(X[:, :3] > at) @ [4, 2, 1]]

    return draw


def heavy_tails(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight = _linear(rng, 5, c, 2.0)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.standard_t(2, size=(n, 5))
        return X, softmax(X @ weight, axis=1)

    return draw


def bounded_odds(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight = _linear(rng, 5, c, 4.0)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.standard_t(3, size=(n, 5))
        return X, softmax(2.5 * np.tanh(X @ weight), axis=1)

    return draw


def rare_classes(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight, bias = _linear(rng, 5, c, 3.0), -1.5 * np.arange(c)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.normal(size=(n, 5))
        return X, softmax(X @ weight + bias, axis=1)

    return draw


def curved(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight, squares = _linear(rng, 4, c, 3.0), _linear(rng, 4, c, 2.0)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.normal(size=(n, 4))
        return X, softmax(X @ weight + X**2 @ squares, axis=1)

    return draw


def corners(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight, product = _linear(rng, 4, c, 2.0), rng.normal(size=c) * 3.0

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.normal(size=(n, 4))
        return X, softmax(X @ weight + (X[:, :1] * X[:, 1:2] > 0) * product, axis=1)

    return draw


def ordered(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight, cuts = rng.normal(size=5), np.sort(rng.normal(size=c - 1) * 2.0)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.normal(size=(n, 5))
        below = norm.cdf(np.column_stack([np.full(n, -np.inf), cuts - (X @ weight)[:, None], np.full(n, np.inf)]))
        return X, np.diff(below, axis=1)

    return draw


def gaussians(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    centers, widths = rng.normal(size=(c, 4)), rng.uniform(0.4, 2.0, c)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = rng.integers(0, c, n)
        X = centers[y] + widths[y, None] * rng.normal(size=(n, 4))
        log_p = -((X[:, None] - centers) ** 2).sum(2) / (2 * widths**2) - 4 * np.log(widths)
        return X, softmax(log_p, axis=1)

    return draw


def choices(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    taste, constant = rng.normal(size=2), rng.normal(size=c)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.lognormal(size=(n, 2, c))
        return X.reshape(n, -1), softmax(np.einsum("njc,j->nc", np.log(X), taste) + constant, axis=1)

    return draw


def outliers(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight = _linear(rng, 5, c, 5.0)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X, odd = rng.normal(size=(n, 5)), rng.random((n, 1)) < 0.05
        return np.where(odd, 8.0 * X, X), np.where(odd, 1.0 / c, softmax(X @ weight, axis=1))

    return draw


def easy_and_hard(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight = _linear(rng, 5, c, 8.0)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.normal(size=(n, 6))
        return X, softmax(X[:, :5] @ weight / (1.0 + np.exp(2.0 * X[:, 5:])), axis=1)

    return draw


def log_log(rng: np.random.Generator, c: int) -> Callable[..., Rows]:
    weight = _linear(rng, 5, c, 3.0)

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.normal(size=(n, 5))
        rates = -np.expm1(-np.exp(X @ weight)) + 1e-9
        return X, rates / rates.sum(1, keepdims=True)

    return draw


FAMILIES: dict[str, Callable[..., Callable[..., Rows]]] = {
    "softmax": softmax_family(2.0),
    "softmax, weak": softmax_family(0.4),
    "softmax, nearly certain": softmax_family(8.0),
    "softmax, many features without use": softmax_family(1.5, 50, 5),
    "features without use": softmax_family(0.0),
    "softmax with a cap": capped,
    "a cap for each class": capped_by_class,
    "hidden mixture": hidden_mixture,
    "seen mixture": seen_mixture,
    "steps": steps,
    "discrete features": discrete,
    "cells of a table": cells,
    "missing feature": missing_feature,
    "thresholds": thresholds,
    "heavy tails": heavy_tails,
    "bounded log-odds": bounded_odds,
    "rare classes": rare_classes,
    "curved borders": curved,
    "corners": corners,
    "ordered classes": ordered,
    "normal classes": gaussians,
    "choices": choices,
    "outliers": outliers,
    "easy and hard rows": easy_and_hard,
    "log-log link": log_log,
}


def measure(family: str, n: int, seed: int) -> dict[str, Any]:
    """Expected log-losses of both models on fresh rows of one table."""
    rng = np.random.default_rng([seed, n, *family.encode()])
    c = int(rng.integers(2, 7))
    draw = FAMILIES[family](rng, c)
    X, p = draw(rng, n)
    y = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=c - 1)
    classes, counts = np.unique(y, return_counts=True)
    kept = np.isin(y, classes[counts >= 5])  # as many as the folds of both
    X = X[kept]
    classes, y = np.unique(y[kept], return_inverse=True)
    fresh, of_fresh = draw(rng, FRESH)
    of_fresh = of_fresh[:, classes] / of_fresh[:, classes].sum(1, keepdims=True)
    row: dict[str, Any] = {"family": family, "rows": n, "seed": seed, "classes": len(classes)}
    row["least"] = float(-(of_fresh * np.log(np.maximum(of_fresh, 1e-300))).sum(1).mean())
    torch.set_num_threads(1)
    models = {OURS: LegendreTronClassifier(random_state=0), BASELINE: study.logistic()}
    for name, model in models.items():
        with threadpool_limits(1):
            found = study.fit_and_score(model, X, y, X, y) if len(classes) > 1 else {}
        q = np.clip(model.predict_proba(fresh), 1e-15, None)
        row[name] = float(-(of_fresh * np.log(q)).sum(1).mean())
        row[f"{name}, seconds"] = found["fit_seconds"]
    ours: Any = models[OURS]
    row["link"], row["floor"] = type(ours.link_).__name__, float(ours.noise_rate_)
    return row


def chance(draws: int = 5, jobs: int = 1) -> dict[str, Any]:
    """``LegendreTronClassifier()`` beside ``LogisticRegressionCV`` where classes are a matter of chance.

    Each family of tables is drawn so many times for each number of rows, with 2 to 6 classes. Log-losses are those of
    20,000 fresh rows in expectation over their labels.
    """
    cases = [(family, n, seed) for n in sorted(SIZES, reverse=True) for family in FAMILIES for seed in range(draws)]
    study.warm_up(LegendreTronClassifier(random_state=0))
    rows = Parallel(n_jobs=jobs)(delayed(measure)(*case) for case in cases)
    ratios = {(row["family"], row["rows"], row["seed"]): row[OURS] / row[BASELINE] for row in rows}
    summary = []
    for family in FAMILIES:
        own = [ratio for (name, *_), ratio in ratios.items() if name == family]
        floors = statistics.fmean(row["floor"] > 0.0 for row in rows if row["family"] == family)
        summary.append(show({"family": family, "mean_ratio": statistics.fmean(own), "largest": max(own),
                             "worse_by_2_percent": sum(ratio > 1.02 for ratio in own), "floors": floors}))  # fmt: skip
    worse = [row for row in rows if row[OURS] > 1.02 * row[BASELINE]]
    found = {"cases": len(rows), "worse_by_2_percent": len(worse), "mean_ratio": statistics.fmean(ratios.values())}
    return show(found) | {"summary": summary, "worse": worse, "rows": rows}


if __name__ == "__main__":
    run_cases(chance)
