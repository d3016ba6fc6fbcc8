"""Time and peak memory of LegendreTronClassifier() on a million rows, beside a logistic regression tuned by cross-validation.

    python benchmarks/large_table.py --out docs/results/large_table.json

Rows are made up: 50 features that are correlated, and five classes whose log-odds are a linear function of them and a small
square of another. Each model is fitted in a process of its own with one thread, after a fit to a few rows, so that imports
are not counted. Peak memory is that of the whole process, Python, libraries and data included; what was held before the fit
is beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import study
from harness import Benchmark, measure_apart, peak_mb, show
from legendretron import LegendreTronClassifier
from legendretron.experiments.recipes import make_recipe
from study import BASELINE, LOGISTIC, OURS

FEATURES, CLASSES = 50, 5
MODELS: dict[str, Callable[[], Any]] = {
    BASELINE: lambda: study.logistic(False),
    OURS: lambda: LegendreTronClassifier(random_state=0),
}
#: Rows made at once, so that making them takes little memory beside what they hold.
CHUNK = 20_000


def made_up(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels; the same relation between them for every seed."""
    relation = np.random.default_rng(0)
    mixing = np.eye(FEATURES) + 0.3 * relation.normal(size=(FEATURES, FEATURES)) / np.sqrt(FEATURES)
    linear, bent = (relation.normal(size=(FEATURES, CLASSES)) / np.sqrt(FEATURES) for _ in range(2))
    rng = np.random.default_rng([1, seed])
    X, y = np.empty((rows, FEATURES)), np.empty(rows, dtype=np.int64)
    for start in range(0, rows, CHUNK):
        part = slice(start, min(start + CHUNK, rows))
        X[part] = rng.normal(size=(part.stop - start, FEATURES)) @ mixing
        log_odds = 2.0 * X[part] @ linear + 0.5 * (X[part] @ bent) ** 2
        y[part] = (log_odds + rng.gumbel(size=log_odds.shape)).argmax(1)  # a draw from their softmax
    return X, y


def held_gb() -> float | None:
    """Memory the process holds now, where the system says so."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def measure(model: str, rows: int, test_rows: int) -> dict[str, Any]:
    """Fit one model in this process, and test it."""
    with threadpool_limits(1):
        study.warm_up(MODELS[model]())
        X, y = made_up(rows, seed=0)
        held, before = held_gb(), peak_mb() / 1e3
        estimator = MODELS[model]()
        found = study.fit_and_score(estimator, X, y, *made_up(test_rows, seed=1))
    found |= {"held_before_fit_gb": held, "peak_before_fit_gb": before, "peak_gb": peak_mb() / 1e3}
    # chosen by cross-validation, where it is; JSON has no infinity but its name
    chosen = {name: getattr(estimator, name, None) for name in ("alpha_", "link_alpha_")}
    return found | {name: str(value) for name, value in chosen.items() if value is not None}


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--rows", type=int, default=1_000_000)
    benchmark.add_argument("--test-rows", type=int, default=100_000)
    benchmark.add_argument("--only", choices=MODELS, help="fit this model here, and print what was measured")
    options = benchmark.start()
    if options.only:
        print(json.dumps(measure(options.only, options.rows, options.test_rows)))
        return
    words = ("--rows", options.rows, "--test-rows", options.test_rows)
    models = {model: show(measure_apart("--only", model, *words)) for model in MODELS}
    ours, theirs = models[OURS], models[BASELINE]
    benchmark.write(
        shape=[options.rows, FEATURES, CLASSES],
        test_rows=options.test_rows,
        settings={BASELINE: {**LOGISTIC, "standardize": True}, OURS: make_recipe(LegendreTronClassifier())},
        models=models,
        ratios={name: ours[name] / theirs[name] for name in ("fit_seconds", "predict_seconds", "peak_gb", "log_loss")},
    )


if __name__ == "__main__":
    main()
