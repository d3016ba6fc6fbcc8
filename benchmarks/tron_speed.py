"""Time of fits of SlIsotron and ISGP-Linkgistic, beside those of an older version of the library, in turns.

    git worktree add ../older c013d34
    OMP_NUM_THREADS=1 python benchmarks/tron_speed.py --older ../older/src --out docs/results/tron_speed.json

Every fit has a process of its own, on random data of the shape of MNIST's training images, with the settings of
``legendretron reproduce table_auc``. Medians of processor time, without the time to compile or to import.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SETTINGS: dict[str, dict[str, Any]] = {
    "SlIsotronClassifier": {"standardize": False, "max_iter": 100},
    "ISGPLinkgisticClassifier": {"standardize": False, "alpha": 1e-3, "max_iter": 20, "random_state": 0},
}


def fit(name: str, n: int, d: int, max_iter: int | None) -> dict[str, float]:
    import numpy as np

    from legendretron import trons

    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, d)), 2.0 * rng.normal(size=d) / np.sqrt(d)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(0.5 - X @ w))).astype(int)
    settings = {**SETTINGS[name], **({} if max_iter is None else {"max_iter": max_iter})}
    kind = getattr(trons, name)
    kind(**{**settings, "max_iter": 2}).fit(X[:500], y[:500])  # compiled functions are compiled, or read from disk
    began = time.process_time()
    model = kind(**settings).fit(X, y)
    return {
        "seconds": time.process_time() - began,
        "n_iter": model.n_iter_,
        "last_loss": float(model.history_["train_loss"][-1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--older", type=Path, help="folder of the older version, its src")
    parser.add_argument("--size", type=int, nargs=2, default=[60_000, 784])
    parser.add_argument("--max-iter", type=int, help="iterations, if not those of the table")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        print(json.dumps(fit(options.fit, *options.size, options.max_iter)))
        return
    from legendretron._internal.files import write_atomically
    from legendretron._internal.provenance import provenance

    load = os.getloadavg()[0]
    versions = {"this": None, **({} if options.older is None else {"older": str(options.older)})}
    rest = ["--size", *map(str, options.size)]
    rest += [] if options.max_iter is None else ["--max-iter", str(options.max_iter)]
    rows = []
    for name in SETTINGS:
        found: dict[str, list[dict[str, float]]] = {version: [] for version in versions}
        for _ in range(options.rounds):
            for version, path in versions.items():
                env = os.environ if path is None else {**os.environ, "PYTHONPATH": path}
                command = [sys.executable, __file__, "--fit", name, *rest]
                out = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
                found[version].append(json.loads(out))
        seconds = {version: statistics.median(f["seconds"] for f in fits) for version, fits in found.items()}
        for version, fits in found.items():
            ratio = seconds[version] / seconds.get("older", seconds["this"])
            row = {
                "estimator": name,
                "version": version,
                "seconds": round(seconds[version], 2),
                "ratio": round(ratio, 3),
            }
            rows.append({**row, "all": [round(f["seconds"], 2) for f in fits], "n_iter": fits[0]["n_iter"]})
            rows[-1]["last_loss"] = float(f"{fits[0]['last_loss']:.10g}")
            print(f"{name:26} {version:6} {seconds[version]:8.2f} s {ratio:6.2f} times", flush=True)
    if options.out:
        record = {
            "command": f"OMP_NUM_THREADS=1 python benchmarks/tron_speed.py --older DIR {' '.join(rest)} "
            f"--rounds {options.rounds}",
            "load": {"processors": os.cpu_count(), "before": round(load, 1), "after": round(os.getloadavg()[0], 1)},
            "seed": 0,
            "rows": rows,
            **provenance("cpu"),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
