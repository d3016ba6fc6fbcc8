"""Time and memory of predict_proba, beside scikit-learn's LogisticRegression and ONNX Runtime, in one run.

    OMP_NUM_THREADS=1 python benchmarks/prediction_speed.py --out docs/results/prediction_speed.json

Weights are random: predictions take the same time for any. Contestants take turns, and times are medians of processor time.
Memory is the highest that a process of its own has used, less that before the call. "plain" is the same prediction
by operations of torch, for comparison. Needs the extra ``export`` for ONNX Runtime.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from interleaved import quartiles
from legendretron import LegendreTronClassifier
from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
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


@contextmanager
def without_compiled():
    """Inside the block, predictions are those of torch."""
    compiled = prediction.row_probabilities
    prediction.row_probabilities = lambda link, dtype: None
    try:
        yield
    finally:
        prediction.row_probabilities = compiled


def plain(model: Any, X: np.ndarray) -> Callable[[], Any]:
    def call() -> Any:
        with without_compiled():
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


def memory(name: str, shape: tuple[int, int, int], dtype: str) -> float:
    """Megabytes that a prediction takes beyond its input, in a process of its own."""
    command = [sys.executable, __file__, "--memory-of", name, "--shape", *map(str, shape), "--dtype", dtype]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def peak() -> float:
    """Highest use of memory of this process so far, in megabytes; that of resource is also its parent's."""
    status = Path("/proc/self/status").read_text()
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def print_memory(name: str, shape: tuple[int, int, int], dtype: str) -> None:
    n, d, c = shape
    model = models(d, c, dtype, [name])[name]
    X, rng = np.empty((n, d), dtype), np.random.default_rng(1)
    for start in range(0, n, 10_000):
        X[start : start + 10_000] = rng.normal(size=X[start : start + 10_000].shape)
    model.predict_proba(X[:1000])
    before = peak()
    model.predict_proba(X)
    print(peak() - before)


def measured(case: str, dtype: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    n, d, c = SHAPES[case]
    X = np.random.default_rng(1).normal(size=(n, d)).astype(dtype)
    of_names = models(d, c, dtype, [*LINKS, PEER])
    contestants = {name: lambda model=model: model.predict_proba(X) for name, model in of_names.items()}
    for name in ("composite, hidden=2", "canonical"):
        contestants[f"{name}, plain"] = plain(of_names[name], X)
        if options.onnx:
            contestants[f"{name}, ONNX Runtime"] = onnx(of_names[name], X)
    rounds = max(3, options.rounds // 3) if n * c >= 10**7 else options.rounds
    rows = []
    found = quartiles(contestants, rounds, options.seconds)
    for name, times in found.items():
        ratio = times["ms"] / found[PEER]["ms"]
        row = {"case": case, "rows": n, "features": d, "classes": c, "dtype": dtype, "model": name, **times}
        row["ratio"] = round(ratio, 2)
        print(f"{case:16} {dtype:8} {name:34} {times['ms']:11.4f} ms {ratio:7.2f} times", flush=True)
        rows.append(row)
    if n >= 1_000_000:
        peaks = {name: memory(name, SHAPES[case], dtype) for name in of_names}
        for row in rows:
            if row["model"] in peaks:
                row["peak_mb"] = round(peaks[row["model"]], 1)
                row["memory_ratio"] = round(peaks[row["model"]] / peaks[PEER], 2)
                print(
                    f"{case:16} {dtype:8} {row['model']:34} {row['peak_mb']:11.1f} MB {row['memory_ratio']:7.2f} times"
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.05, help="of each contestant in each round")
    parser.add_argument("--cases", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--dtypes", nargs="*", default=["float64", "float32"])
    parser.add_argument("--onnx", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    parser.add_argument("--shape", type=int, nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory_of:
        print_memory(options.memory_of, tuple(options.shape), options.dtype)
        return
    load = os.getloadavg()[0]
    rows = [row for case in options.cases for dtype in options.dtypes for row in measured(case, dtype, options)]
    if options.out:
        record = {
            "command": f"OMP_NUM_THREADS=1 python benchmarks/prediction_speed.py --rounds {options.rounds} "
            f"--seconds {options.seconds} --dtypes {' '.join(options.dtypes)}",
            "load": {"processors": os.cpu_count(), "before": round(load, 1), "after": round(os.getloadavg()[0], 1)},
            "seed": 0,
            "rows": rows,
            **provenance("cpu"),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
