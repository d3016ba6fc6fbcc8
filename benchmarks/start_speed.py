"""Processor time of commands on a small table, from the start of Python to the end, beside ``import torch``.

    OMP_NUM_THREADS=1 python benchmarks/start_speed.py --out docs/results/start_speed.json

Most of it is imports. Commands take turns, each in a process of its own, and times are medians of processor time over the
rounds. Modules are compiled to bytecode before, into a folder of this run: that is what happens once for users.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness import Benchmark, Times, run_process, show
from legendretron import LegendreTronClassifier, TableClassifier

ROWS, FITTED = 54, 400
LINKS: dict[str, dict[str, Any]] = {"composite": {"link_alpha": 1e-3}, "canonical": {"link_alpha": 1e-3}, "softmax": {}}
PEER = "import torch"


def files(folder: Path) -> None:
    """A model of each link, and a table for them: numbers with gaps, and text."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=FITTED), "b": rng.normal(size=FITTED)})
    frame["city"] = rng.choice(["Rome", "Bern", "Oslo"], FITTED)
    score = frame["a"] + frame["b"] + (frame["city"] == "Rome")
    labels = np.where(score > 0.3, "yes", np.where(frame["b"] > 0, "no", "maybe"))
    frame.loc[:5, "a"] = np.nan
    for link, given in LINKS.items():
        model = TableClassifier(LegendreTronClassifier(link, alpha=1e-3, random_state=0, **given))
        model.fit(frame, labels).save(folder / link)
    frame[:ROWS].assign(kind=labels[:ROWS]).to_csv(folder / "few.csv", index=False)


def contestants(folder: Path) -> dict[str, list[str]]:
    """Words after ``python``, by case."""
    command, table = ["-m", "legendretron"], str(folder / "few.csv")
    imports = {f"import {name}": ["-c", f"import {name}"] for name in ("numpy", "pandas", "torch", "sklearn.base")}
    with_labels = [str(folder / "composite"), table, "--target", "kind"]
    return {
        **imports,
        "import legendretron": ["-c", "import legendretron"],
        "--version": [*command, "--version"],
        "--help": [*command, "--help"],
        **{f"predict, {link}": [*command, "predict", str(folder / link), table] for link in LINKS},
        "evaluate": [*command, "evaluate", *with_labels],
        "suspicious --no-refit": [*command, "suspicious", *with_labels, "--no-refit"],
    }


def main() -> None:
    benchmark = Benchmark(__doc__)
    benchmark.add_argument("--rounds", type=int, default=7)
    options = benchmark.start()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        files(Path(folder))
        cases = contestants(Path(folder))
        for number in range(options.rounds + 1):
            for case, words in cases.items():
                process = run_process(*words, PYTHONPYCACHEPREFIX=f"{folder}/bytecode")
                if number:  # the first round writes the bytecode
                    found.setdefault(case, []).append(process.processor_seconds)
    times = {case: Times.of(seconds) for case, seconds in found.items()}
    rows = []
    for case, (median, *quartiles) in times.items():
        row = {"case": case, "processor_seconds": round(median, 3), "quartiles": [round(q, 3) for q in quartiles]}
        rows.append(show(row | {"ratio": float(f"{median / times[PEER].median:.3g}")}))
    benchmark.write(table_rows=ROWS, peer=PEER, rows=rows)


if __name__ == "__main__":
    main()
