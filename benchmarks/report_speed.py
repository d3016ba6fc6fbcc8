"""Time and size of an evaluation report on 100,000 rows of 50 columns and 26 classes.

    python benchmarks/report_speed.py --out docs/results/report_speed.json

The command is timed as users run it, from the start of Python to the end: reading a CSV file, predicting, fitting what the
model is compared with, and writing the page. Processor time is that of all threads; on a machine with other work, it tells
more than the time on the clock, and the load of the machine is kept with it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

from harness import Benchmark, run_process
from legendretron import LegendreTronClassifier

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


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--rows", type=int, default=100_000)
    benchmark.add_argument("--threads", type=int, default=1)
    options = benchmark.start()
    with tempfile.TemporaryDirectory() as folder:
        model, table = files(Path(folder), options.rows)
        page = Path(folder, "report.html")
        words = [
            "-m",
            "legendretron",
            "evaluate",
            model,
            table,
            "--target",
            "letter",
            "--report",
            page,
            "--json",
            "--quiet",
        ]
        run_process(*words, threads=options.threads)  # compiles what is kept on disk
        found = run_process(*words, threads=options.threads)
        megabytes = page.stat().st_size / 1e6
    benchmark.write(
        shape=[options.rows, COLUMNS, CLASSES],
        settings=SETTINGS,
        seconds=found.seconds,
        processor_seconds=found.processor_seconds,
        megabytes=megabytes,
        summary=json.loads(found.output)["summary"],
    )


if __name__ == "__main__":
    main()
