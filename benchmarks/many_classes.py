"""Time and peak memory of the command line on 20,000 rows of 10,000 classes: fit one epoch, then evaluate.

    OMP_NUM_THREADS=1 python benchmarks/many_classes.py --out docs/results/many_classes.json

Each command is a process of its own, and its peak memory that of the whole process, Python and libraries included. The table
of probabilities alone takes 1.6 GB in double precision; `evaluate` needs it whole for areas under ROC curves.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance


def run(*words: object) -> dict[str, float]:
    """Seconds and peak memory of a command of ``legendretron``."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "legendretron", *map(str, words), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return {"seconds": round(time.perf_counter() - began, 1), "peak_gb": round(used.ru_maxrss / 1e6, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=10_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    labels = np.arange(options.rows) % options.classes
    features = rng.normal(size=(options.classes, 10))[labels] + rng.normal(size=(options.rows, 10))
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "data.parquet"), Path(folder, "model.safetensors")
        pd.DataFrame(features, columns=list("abcdefghij")).assign(label=labels).to_parquet(data)
        fit = run("fit", data, "-t", "label", "-o", model, "--epochs", 1, "--seed", 0)
        evaluate = run("evaluate", model, data, "-t", "label")
    record = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/many_classes.py",
        "seed": 0,
        "shape": [*features.shape, options.classes],
        "fit, one epoch": fit,
        "evaluate": evaluate,
        **provenance(),
    }
    print(json.dumps(record, indent=1))
    if options.out:
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
