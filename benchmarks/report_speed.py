"""Time and size of an evaluation report on 100,000 rows of 50 columns and 26 classes.

    python benchmarks/report_speed.py --out docs/results/report_speed.json

The command is timed as users run it, from the start of Python to the end: reading a CSV file, predicting, fitting what the
model is compared with, and writing the page. Processor time is that of all threads; on a machine with other work, it tells
more than the time on the clock, and the load of the machine is kept with it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

from legendretron import LegendreTronClassifier
from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.experiments.rounding import rounded

COLUMNS, CLASSES, FITTED = 50, 26, 20_000
#: Of a learned link; they are given, since tuning is not what is timed.
SETTINGS: dict[str, Any] = {"alpha": 1e-3, "link_alpha": 1e-3, "max_epochs": 30, "random_state": 0}


def files(folder: Path, rows: int) -> tuple[Path, Path]:
    """A fitted model and a table of other rows."""
    X, y = make_classification(
        FITTED + rows,
        COLUMNS,
        n_informative=30,
        n_classes=CLASSES,
        n_clusters_per_class=1,
        class_sep=2.0,
        random_state=0,
    )
    frame = pd.DataFrame(X.round(5), columns=[f"x{place}" for place in range(COLUMNS)])
    labels = np.array([chr(ord("A") + k) for k in range(CLASSES)])[y]
    model, table = folder / "model.safetensors", folder / "test.csv"
    LegendreTronClassifier(**SETTINGS).fit(frame[:FITTED], labels[:FITTED]).save(model)
    frame[FITTED:].assign(letter=labels[FITTED:]).to_csv(table, index=False)
    return model, table


def timed(model: Path, table: Path, out: Path, threads: int) -> dict[str, Any]:
    """Run the command in a process of its own."""
    words = ["evaluate", str(model), str(table), "--target", "letter", "--report", str(out), "--json", "--quiet"]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "legendretron", *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    seconds = time.perf_counter() - began
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "processor_seconds": now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime,
        "megabytes": out.stat().st_size / 1e6,
        "load_average": os.getloadavg()[0],
        "summary": json.loads(done.stdout)["summary"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, table = files(Path(folder), options.rows)
        timed(model, table, Path(folder, "first.html"), options.threads)  # compiles what is kept on disk
        found = timed(model, table, Path(folder, "report.html"), options.threads)
    record = rounded(
        {
            "command": f"python benchmarks/report_speed.py --rows {options.rows} --threads {options.threads}",
            "seed": 0,
            "shape": [options.rows, COLUMNS, CLASSES],
            "settings": SETTINGS,
            "cores": os.cpu_count(),
            **found,
            **provenance(),
            "threads": options.threads,
        }
    )
    text = json.dumps(record, indent=1) + "\n"
    print(text, end="")
    if options.out:
        write_atomically(options.out, text.encode())


if __name__ == "__main__":
    main()
