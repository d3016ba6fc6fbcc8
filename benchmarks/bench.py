"""Every case that is to be fast, beside its peer: run all benchmarks of speed, and compare with bars and with before.

    make bench
    python benchmarks/bench.py --out bench --data DIR --only training prediction

Each benchmark is a case of a file of this folder, which times its contestants in turn and writes a record. What counts is
the ratio of two medians of the same run. It is compared with the bar of the case, and with the last record in docs/results,
so that a loss of speed is seen. ``--render`` runs nothing and looks at the records themselves; ``python docs/render.py``
then writes the table of bars into README.md of this folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance

HERE = Path(__file__).resolve().parent
RECORDS = HERE.parent / "docs" / "results"
#: A ratio that has grown by more than this is pointed out.
SLOWER = 1.15
#: By device and the name of the record: the case, and its file.
CASES = {
    "cpu": {
        "training_speed": ("speed.py", "training_speed"),
        "head_speed_cpu": ("speed.py", "head_speed"),
        "loss_speed": ("speed.py", "loss_speed"),
        "prediction_speed": ("speed.py", "prediction_speed"),
        "start_speed": ("large_table.py", "start_speed"),
        "inverse_speed": ("speed.py", "inverse_speed"),
        "logistic_speed": ("speed.py", "logistic_speed"),
        "fit_memory": ("speed.py", "fit_memory"),
    },
    "cuda": {
        "training_speed_gpu": ("speed.py", "training_speed"),
        "head_speed": ("speed.py", "head_speed"),
        "loss_speed_gpu": ("speed.py", "loss_speed"),
    },
}


class Bar(NamedTuple):
    """What the rows of a record that have these values are to reach."""

    case: str
    record: str
    column: str
    wanted: float
    values: dict[str, Any]
    at_least: bool = False

    def ratios(self, rows: list[dict[str, Any]]) -> list[float]:
        """What has been reached, once for each precision."""
        found = [row for row in rows if all(row.get(name) == value for name, value in self.values.items())]
        return [float(row[self.column]) for row in found if row.get(self.column) is not None]


def _steps(record: str, link: str, wanted: dict[tuple[str, int], float]) -> list[Bar]:
    return [
        Bar(f"{link} step / logistic regression's: {_times(models)}{shape}", record, "of_logistic_regression", bar,
            {"shape": shape, "models": models, "link": link})
        for (shape, models), bar in wanted.items()
    ]  # fmt: skip


def _times(models: int) -> str:
    return f"{models} x " if models > 1 else ""


def _bars() -> list[Bar]:
    few = {("letter", 1): 2.5, ("letter", 20): 2.5, ("aloi", 1): 1.6}
    many = {("letter", 20): 2.0, ("letter", 60): 2.0, ("aloi", 20): 1.5, ("aloi", 60): 1.5}
    bars = _steps("training_speed", "composite, ficnn", {**few, ("100,000 classes", 1): 1.5})
    bars += _steps("training_speed", "composite, hidden=8", few)  # what LegendreTronClassifier() tries from 300 rows on
    bars += _steps("training_speed", "canonical", few)
    for (shape, models), bar in {("vehicle", 1): 15, ("letter", 1): 15, ("aloi", 1): 8, ("letter", 20): 100}.items():
        values = {"shape": shape, "models": models, "link": "composite, ficnn"}
        bars.append(Bar(f"naive / ours: {_times(models)}{shape}", "training_speed", "times_faster", bar, values, True))
    for network, bar, naive in (("letter", 2.5, 5), ("aloi", 1.6, 4)):
        values = {"network": network, "last layer": "composite, ficnn"}
        wide = values | {"last layer": "composite, hidden=8"}
        bars += [
            Bar(f"eager head / plain layer: {network}", "head_speed_cpu", "to plain", bar, values),
            Bar(f"eager head of hidden=8 / plain layer: {network}", "head_speed_cpu", "to plain", bar, wide),
            Bar(f"naive / eager head: {network}", "head_speed_cpu", "of naive", naive, values, True),
            Bar(f"numbers kept by the head / plain: {network}", "head_speed_cpu", "saved to plain", 2, values),
        ]
    canonical = {"rows": 256, "classes": 1000, "loss": "canonical, 4 nests"}
    bars.append(Bar("CanonicalLoss / cross_entropy: 1000 classes", "loss_speed", "ratio", 2, canonical))
    bars += [
        Bar(
            f"CanonicalLoss / cross_entropy on a GPU: {rows:,} x 1000",
            "loss_speed_gpu",
            "ratio",
            2,
            canonical | {"rows": rows},
        )
        for rows in (256, 65_536)
    ]
    bars += [
        Bar(f"{case}: fit / LogisticRegression's", "logistic_speed", "ratio", bar, {"case": case})
        for case, bar in (("dense", 1.2), ("news20", 2))
    ]
    for model in ("composite, hidden=2", "composite, hidden=8", "canonical"):
        usual = 2.5 if model == "composite, hidden=8" else 1.5
        for case, bar in (("letter", usual), ("aloi", usual), ("10 classes", usual), ("one row, letter", 2)):
            values = {"case": case, "model": model}
            name = f"predict_proba / LogisticRegression's: {model}, {case}"
            bars.append(Bar(name, "prediction_speed", "ratio", bar, values))
            if case == "10 classes":
                bars.append(Bar(f"{name}, memory", "prediction_speed", "memory_ratio", bar, values))
    bars += [
        Bar(f"{case}: 54 rows / import torch", "start_speed", "ratio", 0.5, {"case": case})
        for case in ("predict, composite", "predict, canonical", "predict, softmax", "evaluate")
    ]
    for hidden in (2, 8):
        inverse = {"classes": 1000, "hidden": hidden, "map": "inverse"}
        bars.append(Bar(f"link(p) / forward: 1000 classes, hidden={hidden}", "inverse_speed", "ratio", 20, inverse))
    composite = {"link": "composite, ficnn"}
    bars.append(Bar("memory of a fit / logistic regression's: 100,000 classes", "fit_memory", "of_logistic_regression",
                    1.2, composite))  # fmt: skip
    for link in ("composite, ficnn", "canonical"):
        bars += _steps("training_speed_gpu", link, many)
    for link in ("composite, ficnn", "composite, hidden=8", "canonical"):
        values = {"shape": "letter", "models": 20, "link": link}
        bars.append(Bar(f"torch.compile / our kernels: 20 x letter, {link}", "training_speed_gpu",
                        "torch_compile_to_ours", 1.3, values, True))  # fmt: skip
    for network, mode, bar in (("head", "eager", 1.3), ("vgg5", "eager", 1.05), ("head", "graph", 1.1)):
        values = {"network": network, "mode": mode, "last layer": "composite, ficnn"}
        bars.append(Bar(f"head / plain layer on a GPU: {network}, {mode}", "head_speed", "to plain", bar, values))
    return bars


BARS = _bars()


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows of a record; none if it is not there."""
    if not path.exists():
        return []
    record = json.loads(path.read_text())
    if "cases" in record:  # of logistic regression
        return [{"case": case["case"], "ratio": case["ratios"]["processor_seconds"]} for case in record["cases"]]
    return list(record["rows"])


def compare(folder: Path, records: Path) -> list[dict[str, Any]]:
    """What each case has reached in a folder, what is wanted, and what it was in the records."""
    found = []
    for bar in BARS:
        ratios, before = (bar.ratios(rows_of(where / f"{bar.record}.json")) for where in (folder, records))
        if not ratios:
            continue
        worst: Callable[..., float] = min if bar.at_least else max
        row: dict[str, Any] = {"case": bar.case, "wanted": bar.wanted, "at_least": bar.at_least, "reached": ratios}
        row["met"] = worst(ratios) >= bar.wanted if bar.at_least else worst(ratios) <= bar.wanted
        row["before"] = before if folder != records else None
        if before and folder != records:
            change = worst(ratios) / worst(before)
            row["slower"] = bool((1 / change if bar.at_least else change) > SLOWER)
        found.append({**row, "record": bar.record})
    return found


def _format_ratios(ratios: list[float] | None) -> str:
    return " / ".join(f"{ratio:.3g}" for ratio in ratios or [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for files of results")
    parser.add_argument("--data", type=Path, help="folder of news20.scale.bz2, to time logistic regression on it too")
    parser.add_argument("--device", choices=CASES, default="cpu")
    parser.add_argument("--only", nargs="+", help="benchmarks to run, by the beginning of their names")
    parser.add_argument(
        "--render", action="store_true", help="run nothing, and compare the records with what is wanted"
    )
    options = parser.parse_args()
    folder = RECORDS if options.render else options.out
    folder.mkdir(parents=True, exist_ok=True)
    for name, (file, case) in ({} if options.render else CASES[options.device]).items():
        if options.only and not name.startswith(tuple(options.only)):
            continue
        words = ["--device", options.device] * (options.device == "cuda")
        words += ["--data", str(options.data)] * (name == "logistic_speed" and options.data is not None)
        print(f"--- {name}", flush=True)
        command = [sys.executable, HERE / file, case, *words, "--out", folder / f"{name}.json"]
        subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)
    rows = compare(folder, RECORDS)
    width = max((len(row["case"]) for row in rows), default=0)
    for row in rows:
        sign = ">=" if row["at_least"] else "<="
        marks = ("" if row["met"] else "  missed") + ("  SLOWER than the record" if row.get("slower") else "")
        before = f"  (record {_format_ratios(row['before'])})" if row["before"] else ""
        print(
            f"{row['case']:{width}}  {_format_ratios(row['reached']):>16}  wanted {sign} {row['wanted']:g}{before}{marks}"
        )
    record = {"command": "python benchmarks/bench.py", "rows": rows, **provenance(options.device)}
    write_atomically(folder / "bench.json", (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
