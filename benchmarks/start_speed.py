"""Processor time of commands on a small table, from the start of Python to the end, beside ``import torch``.

    OMP_NUM_THREADS=1 python benchmarks/start_speed.py --out docs/results/start_speed.json

Most of it is imports. Commands take turns, each in a process of its own, and times are medians of processor time over the
rounds. Modules are compiled to bytecode before, into a folder of this run: that is what happens once for users.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from legendretron import LegendreTronClassifier, TableClassifier
from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance

ROWS, FITTED = 54, 400
LINKS: dict[str, dict[str, Any]] = {
    "composite": {"link_alpha": 1e-3},
    "canonical": {"link_alpha": 1e-3},
    "softmax": {},
}
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


def seconds(words: list[str], environment: dict[str, str]) -> float:
    """Processor time of a process and its threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True, env=environment)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    load = {"processors": os.cpu_count(), "before": round(os.getloadavg()[0], 1)}
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files(folder)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        cases = contestants(folder)
        for words in cases.values():
            seconds(words, environment)  # writes the bytecode
        for _ in range(options.rounds):
            for case, words in cases.items():
                times.setdefault(case, []).append(seconds(words, environment))
    rows = []
    for case, found in times.items():
        low, middle, high = statistics.quantiles(found, n=4, method="inclusive")
        rows.append({
            "case": case,
            "processor_seconds": round(middle, 3),
            "quartiles": [round(low, 3), round(high, 3)],
            "ratio": float(f"{middle / statistics.median(times[PEER]):.3g}"),
        })  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    record = {
        "command": f"OMP_NUM_THREADS=1 python benchmarks/start_speed.py --rounds {options.rounds}",
        "load": {**load, "after": round(os.getloadavg()[0], 1)},
        "seed": 0,
        "table_rows": ROWS,
        "peer": PEER,
        "rows": rows,
        **provenance(),
    }
    if options.out:
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
