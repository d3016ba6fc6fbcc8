"""Time and peak memory of LegendreTronClassifier() on a million rows, beside a logistic regression tuned by cross-validation.

    python benchmarks/large_table.py --out docs/results/large_table.json

Rows are made up: 50 features that are correlated, and five classes whose log-odds are a linear function of them and a small
square of another. Each model is fitted in a process of its own with one thread, after a fit to a few rows, so that imports
are not counted. Peak memory is that of the whole process, Python, libraries and data included; what was held before the fit
is beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from legendretron import LegendreTronClassifier
from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.experiments.recipes import make_recipe
from legendretron.experiments.rounding import rounded

FEATURES, CLASSES = 50, 5
LOGISTIC = {"Cs": 10, "l1_ratios": (0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}
MODELS: dict[str, Callable[[], Any]] = {
    "LogisticRegressionCV": lambda: make_pipeline(StandardScaler(), LogisticRegressionCV(**LOGISTIC)),
    "LegendreTronClassifier()": lambda: LegendreTronClassifier(random_state=0),
}
BASELINE, OURS = MODELS
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


def peak_gb() -> float:
    """Most memory the process has held so far."""
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def held_gb() -> float | None:
    """Memory the process holds now, where the system says so."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def measured(model: str, rows: int, test_rows: int) -> dict[str, Any]:
    """Fit one model in this process, and test it."""
    torch.set_num_threads(1)
    with threadpool_limits(1), warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        MODELS[model]().fit(*made_up(500, seed=2))
        given.clear()
        X, y = made_up(rows, seed=0)
        held, before = held_gb(), peak_gb()
        began = time.perf_counter()
        fitted = MODELS[model]().fit(X, y)
        seconds, peak = time.perf_counter() - began, peak_gb()
        X_test, y_test = made_up(test_rows, seed=1)
        began = time.perf_counter()
        p = fitted.predict_proba(X_test)
        predict_seconds = time.perf_counter() - began
    return {
        "fit_seconds": seconds,
        "predict_seconds": predict_seconds,
        "held_before_fit_gb": held,
        "peak_before_fit_gb": before,
        "peak_gb": peak,
        "log_loss": float(log_loss(y_test, p, labels=np.arange(CLASSES))),
        "accuracy": 100.0 * float((p.argmax(1) == y_test).mean()),
        "warnings": sorted({warning.category.__name__ for warning in given}),
        # chosen by cross-validation, where it is; JSON has no infinity but its name
        **{
            name: str(value) for name in ("alpha_", "link_alpha_") if (value := getattr(fitted, name, None)) is not None
        },
    }


def in_a_process(model: str, options: argparse.Namespace) -> dict[str, Any]:
    words = ["--only", model, "--rows", str(options.rows), "--test-rows", str(options.test_rows)]
    done = subprocess.run(
        [sys.executable, __file__, *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--test-rows", type=int, default=100_000)
    parser.add_argument("--only", choices=MODELS, help="fit this model here, and print what was measured")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measured(options.only, options.rows, options.test_rows)))
        return
    torch.set_num_threads(1)
    models = {model: in_a_process(model, options) for model in MODELS}
    ours, theirs = models[OURS], models[BASELINE]
    ratios = {name: ours[name] / theirs[name] for name in ("fit_seconds", "predict_seconds", "peak_gb", "log_loss")}
    record = rounded(
        {
            "command": f"python benchmarks/large_table.py --rows {options.rows} --test-rows {options.test_rows}",
            "seed": 0,
            "shape": [options.rows, FEATURES, CLASSES],
            "test_rows": options.test_rows,
            "settings": {
                BASELINE: {**LOGISTIC, "standardize": True},
                OURS: make_recipe(LegendreTronClassifier()),  # no argument but the seed: what the defaults are
            },
            "models": models,
            "ratios": ratios,
            "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
            **provenance(),
        }
    )
    print(json.dumps(record, indent=1))
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.3g} times that of {BASELINE}")
    if options.out:
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
