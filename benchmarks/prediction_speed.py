"""Time and memory of predict_proba, beside scikit-learn's LogisticRegression and ONNX Runtime, in one run.

    OMP_NUM_THREADS=1 python benchmarks/prediction_speed.py --out docs/results/prediction_speed.json

Weights are random: predictions take the same time for any. Contestants take turns, and times are medians of processor time.
Memory is the highest that a process of its own has used, less that before the call. "plain" is the same prediction
by operations of torch, for comparison. Needs the extra ``export`` for ONNX Runtime.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from harness import Benchmark, measure_apart, peak_mb, show, take_turns
from legendretron import LegendreTronClassifier
from legendretron.estimators import prediction

#: Rows, features, classes.
SHAPES = {
    "letter": (10_000, 16, 26),
    "aloi": (10_000, 128, 1000),
    "10 classes": (1_000_000, 50, 10),
    "two classes": (100_000, 50, 2),
    "one row, letter": (1, 16, 26),
    "one row, aloi": (1, 128, 1000),
}
LINKS: dict[str, dict[str, Any]] = {
    "composite, hidden=2": {"link_params": {"hidden": 2}},
    "composite, hidden=8": {"link_params": {"hidden": 8}},
    "canonical": {"link": "canonical"},
    "softmax": {"link": "softmax"},
}
PEER = "LogisticRegression"


def models(d: int, c: int, dtype: str, names: list[str]) -> dict[str, Any]:
    """Estimators by name, with random weights."""
    rng = np.random.default_rng(0)
    n = max(2 * c, 60)
    X, y = rng.normal(size=(n, d)).astype(dtype), np.arange(n) % c
    weight = (rng.normal(size=(c, d)) / np.sqrt(d)).astype(dtype)
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            if name == PEER:
                model = LogisticRegression(max_iter=1).fit(X, y)
            else:
                strength = {} if name == "softmax" else {"link_alpha": 1e-3}
                model = LegendreTronClassifier(alpha=1e-3, max_epochs=1, random_state=0, **strength, **LINKS[name])
                model.fit(X, y)
                generator = torch.Generator().manual_seed(0)
                with torch.no_grad():
                    for p in model.link_.parameters():
                        p += 0.1 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
            model.coef_ = weight[: len(model.coef_)].copy()
            found[name] = model
    return found


def plain(model: Any, X: np.ndarray) -> Callable[[], Any]:
    """The same prediction by operations of torch."""

    def call() -> Any:
        with patch.object(prediction, "row_probabilities", lambda link, dtype: None):
            return model.predict_proba(X)

    return call


def onnx(model: Any, X: np.ndarray) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.to_onnx(path)
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(["probabilities"], {"X": X})


def memory(name: str, shape: list[int], dtype: str) -> float:
    """Megabytes that a prediction takes beyond its input."""
    n, d, c = shape
    model = models(d, c, dtype, [name])[name]
    X, rng = np.empty((n, d), dtype), np.random.default_rng(1)
    for start in range(0, n, 10_000):
        X[start : start + 10_000] = rng.normal(size=X[start : start + 10_000].shape)
    model.predict_proba(X[:1000])
    before = peak_mb()
    model.predict_proba(X)
    return peak_mb() - before


def measure(case: str, dtype: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    n, d, c = SHAPES[case]
    X = np.random.default_rng(1).normal(size=(n, d)).astype(dtype)
    of_names = models(d, c, dtype, [*LINKS, PEER])
    contestants = {name: lambda model=model: model.predict_proba(X) for name, model in of_names.items()}
    for name in ("composite, hidden=2", "canonical"):
        contestants[f"{name}, plain"] = plain(of_names[name], X)
        contestants[f"{name}, ONNX Runtime"] = onnx(of_names[name], X)
    rounds = max(3, options.rounds // 3) if n * c >= 10**7 else options.rounds
    found = take_turns(contestants, rounds, options.seconds)
    peaks = {}
    if n >= 1_000_000:
        words = ("--shape", n, d, c, "--dtypes", dtype)
        peaks = {name: measure_apart("--memory-of", name, *words) for name in of_names}
    rows = []
    for name, times in found.items():
        row = {"case": case, "rows": n, "features": d, "classes": c, "dtype": dtype, "model": name, **times.columns()}
        row["ratio"] = round(times.median / found[PEER].median, 2)
        if name in peaks:
            row |= {"peak_mb": round(peaks[name], 1), "memory_ratio": round(peaks[name] / peaks[PEER], 2)}
        rows.append(show(row))
    return rows


def main() -> None:
    benchmark = Benchmark(__doc__, rounds=15, seconds=0.05)
    benchmark.add_argument("--cases", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    benchmark.add_argument("--dtypes", nargs="*", default=["float64", "float32"])
    benchmark.add_argument("--memory-of", help=argparse.SUPPRESS)
    benchmark.add_argument("--shape", type=int, nargs=3, help=argparse.SUPPRESS)
    options = benchmark.start()
    if options.memory_of:  # in a process of its own
        print(memory(options.memory_of, options.shape, options.dtypes[0]))
        return
    benchmark.write(
        rows=[row for case in options.cases for dtype in options.dtypes for row in measure(case, dtype, options)]
    )


if __name__ == "__main__":
    main()
