"""LegendreTronClassifier() on made-up tables: curved borders and a rare class, nothing to gain, few rows, many columns.

    python benchmarks/made_up_tables.py --out docs/results/made_up_tables.json

Beside ``LogisticRegressionCV``, on the same stratified splits of 80 % to train on, one thread. What counts: how far the worst
split is from the median, and how long a fit takes where logistic regression is right.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import study
from harness import Benchmark, show
from legendretron import LegendreTronClassifier
from legendretron.experiments.recipes import chosen_strengths, make_recipe
from study import BASELINE, LOGISTIC, OURS


def curved(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three classes with curved borders, and a fourth of 30 rows."""
    X = rng.normal(size=(12_000, 9))
    score = X[:, 0] + 0.6 * X[:, 1] ** 2 + 0.3 * X[:, 2] * X[:, 3] + 0.25 * rng.normal(size=len(X))
    y = np.digitize(score, [-0.3, 1.2])
    y[np.argsort(-(X[:, 4] + X[:, 5] + 0.3 * rng.normal(size=len(X))))[:30]] = 3
    return X, y


def logistic(rng: np.random.Generator, n: int = 5000, d: int = 70, used: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Two classes whose log-odds are linear."""
    X = rng.normal(size=(n, d)) / np.sqrt(1.0 + np.arange(d) / 20.0)
    log_odds = X[:, :used] @ rng.normal(size=used)
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-log_odds))).astype(int)


def separable(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Four classes of 21 rows that planes tell apart."""
    y = np.arange(84) % 4
    return rng.normal(size=(4, 7))[y] * 2.5 + rng.normal(size=(84, 7)), y


TABLES = {
    "curved, a class of 30 rows": curved,
    "two classes, logistic": logistic,
    "84 rows, separable": separable,
    "252 rows, 751 columns": lambda rng: logistic(rng, 252, 751, 40),
}


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--splits", type=int, default=10)
    options = benchmark.start()
    study.warm_up(LegendreTronClassifier(random_state=0))
    tables: dict[str, Any] = {}
    for name, make in TABLES.items():
        X, y = make(np.random.default_rng(0))
        runs: dict[str, list[dict[str, Any]]] = {OURS: [], BASELINE: []}
        for seed in range(options.splits):
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y)
            for model in runs:
                clf = LegendreTronClassifier(random_state=seed) if model == OURS else study.logistic(sparse=False)
                with threadpool_limits(1):
                    found = study.fit_and_score(clf, X_train, y_train, X_test, y_test)
                found |= {"seed": seed, **(chosen_strengths(clf) if model == OURS else {})}
                runs[model].append(show({"table": name, "model": model, **found}))
        tables[name] = {"shape": [*X.shape, int(y.max()) + 1], "runs": runs, **summary(runs)}
    benchmark.write(settings={OURS: make_recipe(LegendreTronClassifier()), BASELINE: LOGISTIC}, tables=tables)


def summary(runs: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """Log-losses and the ratio of times, in short."""
    ours, theirs = ([run["log_loss"] for run in runs[model]] for model in (OURS, BASELINE))
    times = [a["fit_seconds"] / b["fit_seconds"] for a, b in zip(runs[OURS], runs[BASELINE], strict=True)]
    return {
        "log_loss": statistics.fmean(ours),
        "log_loss_logistic": statistics.fmean(theirs),
        "worst_to_median": max(ours) / statistics.median(ours),
        "median_time_ratio": statistics.median(times),
    }


if __name__ == "__main__":
    main()
