"""Write the tables of the pages in docs from the records in docs/results.

    python docs/render.py

Tables are between markers; a test checks that they are up to date.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"


def record(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def first_table(name: str) -> str:
    """The first table of a report that `legendretron reproduce` has written."""
    lines = (RESULTS / name / f"{Path(name).name}.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    end = next((i for i, line in enumerate(lines[start:], start) if not line.startswith("|")), len(lines))
    return "\n".join(lines[start:end])


def sentence(name: str, start: str) -> str:
    """The paragraph of such a report that begins with a text."""
    return next(line for line in (RESULTS / name / f"{name}.md").read_text().splitlines() if line.startswith(start))


def recorded_labels() -> str:
    """Log-losses of recorded and of true test labels as multiples of the rival's, by the share of wrong labels."""
    found = record("recorded_labels")["comparisons"]
    lines = ["| model | against | test labels | wrong labels | log-loss, mean ratio | lower on | higher by over 1 % |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for one in found:
        half = one["summary"]["other half"]
        worse = f"{half['worse_by_1_percent']}, by over two standard errors {len(half['and_by_two_errors'])}"
        lines.append(
            f"| `{one['model']}` | `{one['against']}` | {one['labels']} | {100 * one['noise']:.0f} % | "
            f"{half['mean_ratio']:.3f} | {half['better']} of {half['tables']} | {worse} |"
        )
    return "\n".join(lines)


def chance() -> str:
    """How often the default is worse on made-up tables whose classes are a matter of chance."""
    found = record("chance")
    worse = f"{found['worse_by_2_percent']} of {found['cases']}"
    return f"higher by more than 2 % in {worse} cases, and {found['mean_ratio']:.2f} of it in the mean"


def link_test_size(name: str) -> str:
    """How often a true softmax is rejected, over all tables."""
    found = [100 * row["rejected"] for row in record("link_test")[name] if not row.get("bend")]
    return f"{min(found):.2g} to {max(found):.2g} %"


def link_test_power(bend: float = 0.5) -> str:
    """How often the softmax is rejected if another link is right: the range over classes, by rows."""
    found = [row for row in record("link_test")["power"] if row["bend"] == bend]
    shares = {rows: [100 * row["rejected"] for row in found if row["rows"] == rows] for rows in (300, 1000, 5000)}
    return ", ".join(f"{min(of):.0f} to {max(of):.0f} % with {rows:,} rows" for rows, of in shares.items())


def theory() -> str:
    rows = [
        [
            row["data"], row["link"], str(row["n_points"]), f"{row['median_asymmetry']:.1e}",
            f"{row['indefinite_share']:.0%}", f"{row['nonmonotone_share']:.2%}",
        ]
        for row in record("theory")["links"]
    ]  # fmt: skip
    head = ["data", "link", "points", "median asymmetry", "indefinite symmetric part", "pairs that move backwards"]
    return table(head, rows)


def cost() -> str:
    """What a learned link costs, by what is done and by link: ratios in double precision."""
    links = {"composite, ficnn": 0, "composite, hidden=2": 0, "composite, hidden=8": 1, "canonical": 2}

    def line(what: str, peer: str, name: str, column: str, key: str, **values: object) -> list[str]:
        texts = ["", "", ""]
        for row in record(name)["rows"]:
            same = all(row.get(field) == value for field, value in values.items())
            if same and row[key] in links and row.get("dtype", "float64") == "float64" and row.get(column) is not None:
                texts[links[row[key]]] = f"{row[column]:.2g}"
        return [what, peer, *texts]

    def step(what: str, name: str, shape: str, models: int) -> list[str]:
        peer, column = "logistic regression", "of_logistic_regression"
        return line(f"training step, {what}", peer, name, column, "link", shape=shape, models=models)

    def prediction(what: str, case: str, column: str = "ratio") -> list[str]:
        return line(what, "`LogisticRegression`", "prediction_speed", column, "model", case=case)

    def head(what: str, name: str, network: str, mode: str) -> list[str]:
        return line(f"last layer, {what}", "linear layer", name, "to plain", "last layer", network=network, mode=mode)

    rows = [
        step("26 classes, 16 features", "training_speed", "letter", 1),
        step("1,000 classes, 128 features", "training_speed", "aloi", 1),
        step("100,000 classes, 128 features", "training_speed", "100,000 classes", 1),
        step("60 models of 26 classes on a GPU", "training_speed_gpu", "letter", 60),
        step("60 models of 1,000 classes on a GPU", "training_speed_gpu", "aloi", 60),
        line("memory of a fit, 100,000 classes", "logistic regression", "fit_memory", "of_logistic_regression", "link"),
        prediction("`predict_proba`, 10,000 rows of 26 classes", "letter"),
        prediction("`predict_proba`, 10,000 rows of 1,000 classes", "aloi"),
        prediction("`predict_proba`, a million rows of 10 classes", "10 classes"),
        prediction("memory of that", "10 classes", "memory_ratio"),
        prediction("`predict_proba`, one row of 26 classes", "one row, letter"),
        head("26 classes", "head_speed_cpu", "letter", "eager"),
        head("1,000 classes", "head_speed_cpu", "aloi", "eager"),
        head("1,000 classes on a GPU", "head_speed", "head", "eager"),
        head("the same, captured as a graph", "head_speed", "head", "graph"),
        head("a small network (VGG-5) on a GPU", "head_speed", "vgg5", "eager"),
    ]
    return table(["", "compared with", "composite link", "composite, `hidden=8`", "canonical link"], rows)


def naive_times() -> str:
    found = [row["times_faster"] for row in record("training_speed")["rows"] if row["link"] == "composite, ficnn"]
    known = [times for times in found if times is not None]
    return f"{min(known):.0f} to {max(known):.0f}"


def found_in_defaults(pattern: str) -> str:
    """A group of a pattern in the report on the defaults."""
    return re.search(pattern, (RESULTS / "defaults" / "defaults.md").read_text())[1]


def bars() -> str:
    """Ratios of the benchmarks of speed, beside what is wanted."""
    rows = []
    for row in record("bench")["rows"]:
        reached = " / ".join(f"{ratio:.3g}" for ratio in row["reached"])
        wanted = f"{'at least' if row['at_least'] else 'at most'} {row['wanted']:g}"
        rows.append([row["case"], reached, wanted, "" if row["met"] else "missed", f"`{row['record']}`"])
    return table(["case", "ratio", "wanted", "", "record"], rows)


def with_unit(value: float, units: dict[str, float], least: float = 1.0) -> str:
    """Two digits of a value in the first unit of which it has enough, or in the last one."""
    unit = next((name for name, one in units.items() if value >= least * one), [*units][-1])
    return f"{float(f'{value / units[unit]:.2g}'):,.10g} {unit}"


def duration(seconds: float) -> str:
    if seconds >= 120.0:
        return with_unit(seconds, {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0}, least=2.0)
    return with_unit(seconds, {"s": 1.0, "ms": 1e-3})


def size(number_of_bytes: float) -> str:
    return with_unit(number_of_bytes, {"GB": 1e9, "MB": 1e6, "kB": 1e3})


def scale_rows() -> str:
    rows = [
        [
            f"{row['rows']:,.0f}", size(row["table_bytes"]), str(row["machines"]), f"{row['steps']:,.0f}",
            duration(row["reading_seconds"]), duration(row["computing_seconds"]),
            duration(row["sending_seconds"]["10 Gbit/s"]) if row["machines"] > 1 else "",
            duration(row["seconds_a_pass"]["10 Gbit/s"]),
        ]
        for row in record("scale")["on_paper"]["rows"]
        if row["rows"] in (1e8, 1e10)
    ]  # fmt: skip
    head = ["rows", "Parquet", "machines", "steps", "reading", "computing", "sending at 10 Gbit/s", "one pass"]
    return table(head, rows)


def scale_classes() -> str:
    rows = [
        [
            f"{row['classes']:,}", str(row["class_parts"]), size(row["state_bytes"]),
            duration(row["computing_seconds"]),
            f"{size(row['rows_divided_bytes'])}, {duration(row['rows_divided_seconds']['100 Gbit/s'])}",
            "" if row["class_parts"] == 1 else
            f"{size(row['classes_divided_bytes'])}, {duration(row['classes_divided_seconds']['100 Gbit/s'])}",
        ]
        for row in record("scale")["on_paper"]["classes"]
        if row["classes"] in (10_000, 1_000_000)
    ]  # fmt: skip
    head = ["classes", "divided by", "memory of a process", "computing a step", "gradient, to 8 groups of rows",
            "between the parts of the classes"]  # fmt: skip
    return table(head, rows)


def scale_crossing() -> str:
    found = record("scale")["on_paper"]
    per_class = 4 * found["classes"][0]["parameters"] / (found["classes"][0]["classes"] - 1)
    return f"{256 * found['class_parallel_bytes_a_row'] / per_class:,.0f}"


def mixed_tables() -> str:
    """Log-loss and accuracy on the Titanic's passengers, without and with columns that have text or gaps."""
    held_out = record("mixed_tables")["tables"]["titanic"]["held_out"]
    found = [held_out[columns] for columns in ("complete columns of numbers", "all columns")]
    losses, accuracies = ([row[key] for row in found] for key in ("log_loss", "accuracy"))
    return f"from {losses[0]:.3f} to {losses[1]:.3f}, and raise the accuracy from {accuracies[0]:.1%} to {accuracies[1]:.1%}"


def streaming() -> str:
    """Memory and speed of tables that are read in batches, beside others."""
    rows = [
        [
            row["contestant"], f"{row['rows']:,}", f"{row['peak_mb']:,.0f} MB", f"{row['seconds']:,.0f} s",
            f"{row['rows_per_second']:,.0f}" if "rows_per_second" in row else "", f"{row['test_log_loss']:.3f}",
        ]
        for row in record("streaming")["runs"]
    ]  # fmt: skip
    return table(["", "rows", "peak memory", "time", "rows a second in a pass", "log-loss on other rows"], rows)


def streamed_log_loss(contestant: str, rows: int) -> str:
    (found,) = (row for row in record("streaming")["runs"] if (row["contestant"], row["rows"]) == (contestant, rows))
    return f"{found['test_log_loss']:.3f}"


def text_times() -> str:
    """Time of a streamed fit from text relative to one from Parquet, and the part of the parser."""
    two, four = record("streaming_csv"), record("streaming_csv_four_cores")
    ratios, of_text = sorted(two["ratios"]["one pass"]), [run for run in two["runs"] if "CSV" in run["contestant"]]
    times = two["seconds_of_the_parser_alone"], median(run["seconds"] for run in of_text)
    middle, with_four = (found["seconds_from_csv_to_parquet"]["one pass"] for found in (two, four))
    return (
        f"text takes {ratios[0]:.2f} to {ratios[-1]:.2f} times as long in {len(ratios)} rounds, a median of {middle:.2f} "
        f"([record](../docs/results/streaming_csv.json)), with a peak of {max(run['peak_mb'] for run in of_text):,.0f} MB: "
        f"pyarrow's parser alone takes {times[0]:.0f} of {times[1]:.0f} s, on both cores. On four cores it takes "
        f"{with_four:.2f} times as long ([record](../docs/results/streaming_csv_four_cores.json))"
    )


TABLES = {
    "docs/guide/mixed_tables.md": {"mixed": mixed_tables},
    "docs/guide/large_data.md": {
        "streaming": streaming,
        "default": lambda: streamed_log_loss("streamed, by default", 20_000_000),
        "default_million": lambda: streamed_log_loss("streamed, by default", 1_000_000),
        "five": lambda: streamed_log_loss("streamed, one pass", 5_000_000),
        "twenty": lambda: streamed_log_loss("streamed, one pass", 20_000_000),
    },
    "docs/performance.md": {
        "cost": cost,
        "mean_times": lambda: found_in_defaults(r"Geometric mean of the ratios over 13 data sets: ([\d.]+)"),
        "naive": naive_times,
        "million_times": lambda: f"{record('large_table')['ratios']['fit_seconds']:.2g}",
        "memory": lambda: str(record("sparse_memory")["peak_gb"]["all"]),
    },
    "benchmarks/README.md": {
        "bars": bars,
        "rows": scale_rows,
        "classes": scale_classes,
        "perrow": lambda: f"{record('scale')['on_paper']['class_parallel_bytes_a_row']:,.0f} bytes",
        "crossing": scale_crossing,
        "text": text_times,
    },
    "docs/choosing.md": {
        "better": lambda: found_in_defaults(r"significantly better on some data sets: holds. On (\d+ of \d+: .*)\."),
        "size": lambda: link_test_size("size"),
        "made_up_size": lambda: link_test_size("power"),
        "power": link_test_power,
    },
    "docs/guide/noisy_labels.md": {"recorded": recorded_labels, "chance": chance},
    "docs/guide/bending.md": {"networks": lambda: first_table("network")},
    "docs/results.md": {
        "wins": lambda: found_in_defaults(r"significantly better on some data sets: holds. On (\d+ of \d+)"),
        "cells": lambda: sentence("table_libsvm", "At noise 0"),
        "minutes": lambda: sentence("runtime", "**1,800"),
    },
    "docs/theory.md": {"theory": theory},
}


def rendered(document: str) -> str:
    """The document with its tables rendered again."""
    text = (ROOT / document).read_text()
    for name, make in TABLES[document].items():
        pattern = re.compile(rf"(<!-- {name} -->)(\s*).*?(\s*)(<!-- /{name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{document} has no markers for the table {name!r}.")
        text = pattern.sub(lambda m, make=make: f"{m[1]}{m[2]}{make()}{m[3]}{m[4]}", text)
    return text


if __name__ == "__main__":
    for document in TABLES:
        (ROOT / document).write_text(rendered(document))
        print(f"wrote {document}")
