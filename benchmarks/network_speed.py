"""Time of LegendreNetClassifier() on letter, on a thousand rows and on a million, with the memory of the last.

    python benchmarks/network_speed.py --data DIR --device cuda --out docs/results/network_speed_gpu.json

Each case is fitted in a process of its own. Before it is timed, a model is fitted to a few rows, so that imports, compilation
and the start of a GPU are not counted. A million rows are those of ``large_table.py``, in single precision. Peak memory is
that of the whole process, Python, libraries and data included; that on the GPU is beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

import large_table
import study
from harness import Benchmark, measure_apart, peak_mb, show
from legendretron import LegendreNetClassifier

CASES = ("letter", "letter, 1,000 rows", "made up, 1,000,000 rows")


def measure(case: str, device: str, data: Path | None, rows: int) -> dict[str, Any]:
    """Fit one case in this process, and test it."""
    if case == CASES[2]:
        X, y = large_table.made_up(rows + 100_000, seed=0)
        train, test, X = slice(rows), slice(rows, None), X.astype(np.float32)
    else:
        X, y, _ = study.load("letter", data)
        X = X.toarray() if hasattr(X, "toarray") else X
        order = np.random.default_rng(0).permutation(len(y))
        train = order[: 1000 if case == CASES[1] else int(0.8 * len(y))]
        test = order[int(0.8 * len(y)) :]
    before = peak_mb() / 1e3
    with threadpool_limits(1):
        for k in range(2):  # the first fit to rows of this shape compiles, or captures, its steps
            LegendreNetClassifier(device=device, max_steps=60, random_state=k).fit(X[train][:2000], y[train][:2000])
        found = study.fit_and_score(
            LegendreNetClassifier(device=device, random_state=0), X[train], y[train], X[test], y[test]
        )
        found |= {"rows": len(y[train]), "peak_before_fit_gb": before, "peak_gb": peak_mb() / 1e3}
        if device == "cuda":
            found["peak_on_device_gb"] = torch.cuda.max_memory_allocated() / 1e9
        if case != CASES[2]:
            boosting = study.fit_and_score(
                HistGradientBoostingClassifier(random_state=0), X[train], y[train], X[test], y[test]
            )
            found |= {f"boosting_{name}": boosting[name] for name in ("fit_seconds", "predict_seconds", "log_loss")}
    return found


def main() -> None:
    benchmark = Benchmark(__doc__, cuda=True)
    benchmark.add_argument("--data", type=Path, help="folder of LIBSVM's data sets")
    benchmark.add_argument("--rows", type=int, default=1_000_000, help="of the table that is made up")
    benchmark.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    benchmark.add_argument("--only", choices=CASES, help="fit this case here, and print what was measured")
    options = benchmark.start()
    if options.only:
        print(json.dumps(measure(options.only, options.device, options.data, options.rows)))
        return
    words = ["--device", options.device, "--rows", options.rows]
    words += ["--data", options.data] if options.data else []
    cases = {}
    for case in options.cases:
        cases[case] = show(measure_apart("--only", case, *words))
        benchmark.write(cases=cases)  # a long case may be stopped


if __name__ == "__main__":
    main()
