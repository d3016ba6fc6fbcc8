"""Time and peak memory of the command line on 20,000 rows of 10,000 classes: fit one epoch, then evaluate.

    OMP_NUM_THREADS=1 python benchmarks/many_classes.py --out docs/results/many_classes.json

Each command is a process of its own, and its peak memory that of the whole process, Python and libraries included. The table
of probabilities alone takes 1.6 GB in double precision; `evaluate` needs it whole for areas under ROC curves.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from harness import Benchmark, run_process


def run(*words: object) -> dict[str, float]:
    """Seconds and peak memory of a command of ``legendretron``."""
    found = run_process("-m", "legendretron", *words, "--quiet")
    return {"seconds": round(found.seconds, 1), "peak_gb": round(found.peak_gb, 2)}


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--rows", type=int, default=20_000)
    benchmark.add_argument("--classes", type=int, default=10_000)
    options = benchmark.start()
    rng = np.random.default_rng(0)
    labels = np.arange(options.rows) % options.classes
    features = rng.normal(size=(options.classes, 10))[labels] + rng.normal(size=(options.rows, 10))
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "data.parquet"), Path(folder, "model.safetensors")
        pd.DataFrame(features, columns=list("abcdefghij")).assign(label=labels).to_parquet(data)
        fit = run("fit", data, "-t", "label", "-o", model, "--epochs", 1, "--seed", 0)
        evaluate = run("evaluate", model, data, "-t", "label")
    benchmark.write(shape=[*features.shape, options.classes], **{"fit, one epoch": fit, "evaluate": evaluate})


if __name__ == "__main__":
    main()
