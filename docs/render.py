"""Write the tables of the pages in docs from the records in docs/results.

    python docs/render.py

Tables are between markers; a test checks that they are up to date.
"""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

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


def defaults() -> str:
    """LegendreTronClassifier() beside LogisticRegressionCV: scores, and how much longer a fit takes."""
    with (RESULTS / "defaults" / "defaults.csv").open() as file:
        found = {(row["dataset"], row["model"]): row for row in csv.DictReader(file)}
    marks = {"better": "**", "worse": "*"}

    def cell(row: dict[str, str]) -> str:
        texts = []
        for name, digits in (("accuracy", 1), ("log_loss", 3)):
            mark = marks.get(row[f"{name}: verdict"], "")
            texts.append(f"{mark}{float(row[name]):.{digits}f}{mark}")
        return " / ".join(texts)

    rows = []
    for dataset in dict.fromkeys(name for name, _ in found):
        base, ours = (found.get((dataset, model)) for model in ("LogisticRegressionCV", "LegendreTronClassifier()"))
        if base is None or ours is None:
            continue
        shape = f"{int(ours['rows']):,} x {int(ours['features']):,}, {ours['classes']}"
        ratio = float(ours["fit_seconds"]) / float(base["fit_seconds"])
        rows.append([ours["label"], shape, cell(base), cell(ours), f"{ratio:.1f}"])
    return table(
        [
            "data set",
            "rows x features, classes",
            "LogisticRegressionCV",
            "LegendreTronClassifier()",
            "times as long to fit",
        ],
        rows,
    )


def made_up_tables() -> str:
    """Log-loss and time of the default on made-up tables beside logistic regression."""
    lines = [
        [
            name,
            f"{found['log_loss_logistic']:.3f}",
            f"{found['log_loss']:.3f}",
            f"{found['worst_to_median']:.2f}",
            f"{found['median_time_ratio']:.1f}",
        ]
        for name, found in record("made_up_tables")["tables"].items()
    ]
    head = ["table", "log-loss, LogisticRegressionCV", "ours", "worst split / median", "times as long to fit"]
    return table(head, lines)


def link_test_size() -> str:
    """Share of false rejections of softmax, by table."""
    rows = sorted(record("link_test")["size"], key=lambda row: row["rejected"])
    shape = [f"{row['rows']:,} x {row['features']}, {row['classes']}" for row in rows]
    return table(
        ["labels drawn from a logistic regression of", "rows x features, classes", "rejected"],
        [[row["label"], size, f"{100 * row['rejected']:.0f} %"] for row, size in zip(rows, shape, strict=True)],
    )


def link_test_power() -> str:
    """Share of rejections of softmax where another link is right, by rows, classes and bend."""
    rows = record("link_test")["power"]
    bends = sorted({row["bend"] for row in rows})
    found = {(row["classes"], row["rows"], row["bend"]): row["rejected"] for row in rows}
    head = ["classes", "rows", *(f"bend {bend:g}" for bend in bends)]
    shapes = dict.fromkeys((classes, n) for classes, n, _ in found)
    return table(head, [[str(c), f"{n:,}", *(f"{100 * found[c, n, bend]:.0f} %" for bend in bends)] for c, n in shapes])


def speed() -> str:
    keys = ("shape", "models", "dtype", "link")
    gpu = {tuple(r[name] for name in keys): r["ms"] for r in record("training_speed_gpu")["rows"]}
    rows = [
        [
            row["shape"],
            str(row["models"]),
            row["link"],
            row["dtype"],
            f"{row['ms']:.3g} ms",
            "" if row["times_faster"] is None else f"{row['times_faster']:.1f}",
            f"{row['of_logistic_regression']:.2f}",
            f"{on_gpu:.2f} ms" if (on_gpu := gpu.get(tuple(row[name] for name in keys))) is not None else "",
        ]
        for row in record("training_speed")["rows"]
    ]
    head = [
        "shape",
        "models",
        "link",
        "precision",
        "time per step",
        "times faster than plain",
        "relative to logistic regression",
        "H200",
    ]
    return table(head, rows)


def theory() -> str:
    rows = [
        [
            row["data"],
            row["link"],
            str(row["n_points"]),
            f"{row['median_asymmetry']:.1e}",
            f"{row['indefinite_share']:.0%}",
            f"{row['nonmonotone_share']:.2%}",
        ]
        for row in record("theory")["links"]
    ]
    head = ["data", "link", "points", "median asymmetry", "indefinite symmetric part", "pairs that move backwards"]
    return table(head, rows)


def families() -> str:
    """Canonical families and predictors that were tried: accuracy and log-loss by data set."""
    rows = record("canonical_families")["rows"]
    data = list(dict.fromkeys(row["data"] for row in rows))
    found = {(row["model"], row["data"]): row for row in rows}
    models = dict.fromkeys(row["model"] for row in rows)
    return table(
        ["predictor, link", "canonical", *(f"{name}: accuracy, log-loss" for name in data)],
        [
            [
                model,
                "yes" if found[model, data[0]]["canonical"] else "no",
                *(f"{found[model, name]['accuracy']:.1f}, {found[model, name]['log_loss']:.3f}" for name in data),
            ]
            for model in models
        ],
    )


def by_problem(column: str, digits: int) -> str:
    """A column of the table of AUCs, methods by problems, with the paper's AUCs."""
    with (RESULTS / "table_auc" / "table_auc.csv").open() as file:
        found = {(row["method"], row["problem"]): row for row in csv.DictReader(file)}
    methods, problems = (list(dict.fromkeys(key[i] for key in found)) for i in (0, 1))
    rows = []
    for method in methods:
        cells = [found[method, problem] for problem in problems]
        published = dict.fromkeys(
            (problem.split(",")[0], row["paper"]) for problem, row in zip(problems, cells, strict=True)
        )
        paper = " / ".join(f"{float(value):.1f}" for _, value in published)
        rows.append(
            [method, *(f"{float(row[column]):.{digits}f}" for row in cells), *([paper] if column == "auc" else [])]
        )
    return table(["method", *problems, *(["paper, MNIST / FMNIST"] if column == "auc" else [])], rows)


def slopes() -> str:
    rows = [
        [
            f"{row['spread']:g}",
            f"{row['lipschitz_isotonic_s']:.2f} s",
            f"{row['bregman_of_values_s']:.2f} s",
            f"{row['bregman_of_labels_s']:.2f} s",
            f"{row['generic_500_s'] / row['lipschitz_isotonic_500_s']:.0f}",
            f"{row['largest_difference_500']:.0e}",
        ]
        for row in record("slope_bounds")["rows"]
    ]
    head = [
        "spread of the predictors",
        "Lipschitz isotonic, 60,000",
        "Bregman, of values",
        "Bregman, of labels",
        "times faster than a generic solver, 500",
        "largest difference to it",
    ]
    return table(head, rows)


def head() -> str:
    names = {
        "head": "last layer alone, 1000 classes, 2048 features",
        "vgg5": "VGG-5, 10 classes",
        "resnet50": "ResNet-50, 1000 classes",
    }
    rows = [
        [
            names[row["network"]],
            {"graph": "GPU alone (captured)", "eager": "plain loop", "compiled": "compiled"}[row["mode"]],
            row["last layer"],
            f"{row['ms']:.3f} ms",
            f"{100 * (row.get('to plain', 1.0) - 1):+.1f} %",
        ]
        for row in record("head_speed")["rows"]
    ]
    return table(["network", "mode", "last layer", "time per step", "extra"], rows)


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


def mean_times() -> str:
    text = (RESULTS / "defaults" / "defaults.md").read_text()
    return re.search(r"Geometric mean of the ratios over 13 data sets: ([\d.]+)", text)[1]


def bars() -> str:
    """Ratios of the benchmarks of speed, beside what is wanted."""
    rows = []
    for row in record("bench")["rows"]:
        reached = " / ".join(f"{ratio:.3g}" for ratio in row["reached"])
        wanted = f"{'at least' if row['at_least'] else 'at most'} {row['wanted']:g}"
        rows.append([row["case"], reached, wanted, "" if row["met"] else "missed", f"`{row['record']}`"])
    return table(["case", "ratio", "wanted", "", "record"], rows)


def scale_measured() -> str:
    found = record("scale")
    sent = {(s["features"], s["classes"], s["rows"]): s for s in found["processes"]["rows"]}
    split = {(s["features"], s["classes"], s["rows"]): s for s in found["processes"]["classes"]}
    rows = []
    for step in found["steps"]:
        key = step["features"], step["classes"], step["rows"]
        by_classes = split.get(key)
        rows.append([
            f"{key[0]}, {key[1]:,}", f"{key[2]:,}", f"{step['parameters']:,}",
            f"{1e3 * (step['gradient_seconds'] + step['update_seconds']):.3g} ms",
            f"{sent[key]['bytes']:,}", f"{1e3 * sent[key]['message_seconds']:.2g} ms",
            "" if by_classes is None else f"{by_classes['bytes']:,}",
        ])  # fmt: skip
    head = [
        "features, classes",
        "rows of a process",
        "parameters",
        "step of one process",
        "bytes of a step, rows divided by two",
        "time of that message",
        "bytes of a step, classes divided by two",
    ]
    return table(head, rows)


def duration(seconds: float) -> str:
    for unit, size in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size * (2 if size > 1.0 else 1) or unit == "ms":
            return f"{float(f'{seconds / size:.2g}'):,.10g} {unit}"
    raise AssertionError


def size(number_of_bytes: float) -> str:
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number_of_bytes >= one or unit == "kB":
            return f"{float(f'{number_of_bytes / one:.2g}'):,.10g} {unit}"
    raise AssertionError


def scale_rows() -> str:
    rows = [
        [
            f"{row['rows']:,.0f}", size(row["table_bytes"]), str(row["machines"]), f"{row['steps']:,.0f}",
            duration(row["reading_seconds"]), duration(row["computing_seconds"]),
            duration(row["sending_seconds"]["10 Gbit/s"]) if row["machines"] > 1 else "",
            duration(row["seconds_a_pass"]["10 Gbit/s"]),
        ]
        for row in record("scale")["on_paper"]["rows"]
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
    ]  # fmt: skip
    head = ["classes", "divided by", "memory of a process", "computing a step", "gradient, to 8 groups of rows",
            "between the parts of the classes"]  # fmt: skip
    return table(head, rows)


def scale_crossing() -> str:
    found = record("scale")["on_paper"]
    per_class = 4 * found["classes"][0]["parameters"] / (found["classes"][0]["classes"] - 1)
    return f"{256 * found['class_parallel_bytes_a_row'] / per_class:,.0f}"


def mixed_tables() -> str:
    """What text, dates and gaps are worth, and how far apart the ways to the same probabilities are."""
    rows = []
    for name, found in record("mixed_tables")["tables"].items():
        scores = [
            f"{found['held_out'][columns]['log_loss']:.3f} / {100 * found['held_out'][columns]['accuracy']:.1f} %"
            for columns in ("complete columns of numbers", "all columns")
        ]
        ways = found["differences"]["logistic"]
        largest = [_power(ways[way]) for way in ("scikit-learn's pipeline", "command line", "ONNX Runtime")]
        rows.append([name, f"{found['rows']:,} x {found['columns']}, {found['gaps']:,} gaps", *scores, *largest])
    return table(
        [
            "table",
            "rows x columns",
            "complete columns of numbers",
            "all columns",
            "pipeline",
            "file and command",
            "ONNX",
        ],
        rows,
    )


def streaming() -> str:
    """Memory and speed of tables that are read in batches, beside others."""
    rows = [
        [
            row["contestant"],
            f"{row['rows']:,}",
            f"{row['peak_mb']:,.0f} MB",
            f"{row['seconds']:,.0f} s",
            f"{speed:,.0f}" if (speed := row.get("rows_per_second")) is not None else "",
            f"{row['test_log_loss']:.3f}",
        ]
        for row in record("streaming")["runs"]
    ]
    return table(["", "rows", "peak memory", "time", "rows a second in a pass", "log-loss on other rows"], rows)


def streamed_log_loss(contestant: str, rows: int) -> str:
    (found,) = (row for row in record("streaming")["runs"] if (row["contestant"], row["rows"]) == (contestant, rows))
    return f"{found['test_log_loss']:.3f}"


def _power(difference: float) -> str:
    """An upper bound, as a power of ten: the digits depend on the processor."""
    return "0" if difference == 0.0 else f"< 1e{math.ceil(math.log10(difference))}"


TABLES = {
    "docs/scale.md": {
        "measured": scale_measured,
        "reading": lambda: f"{record('scale')['reading']['rows_a_second']:,.0f} rows a second",
        "rows": scale_rows,
        "classes": scale_classes,
        "perrow": lambda: f"{record('scale')['on_paper']['class_parallel_bytes_a_row']:,.0f} bytes",
        "crossing": scale_crossing,
        "messages": lambda: str(record("scale")["processes"]["classes"][-1]["messages"]),
    },
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
        "mean_times": mean_times,
        "naive": naive_times,
        "million_times": lambda: f"{record('large_table')['ratios']['fit_seconds']:.2g}",
    },
    "benchmarks/README.md": {"bars": bars},
    "docs/choosing.md": {
        "defaults": defaults,
        "made up": made_up_tables,
        "size": link_test_size,
        "power": link_test_power,
    },
    "docs/guide/bending.md": {"networks": lambda: first_table("network")},
    "docs/results.md": {
        "libsvm": lambda: first_table("table_libsvm"),
        "cells": lambda: sentence("table_libsvm", "At noise 0"),
        "runtime": lambda: first_table("runtime"),
        "minutes": lambda: sentence("runtime", "**1,800"),
        "sizes": lambda: first_table("figure_training_size"),
        "speed": speed,
        "vgg": lambda: first_table("table_vgg"),
        "head": head,
        "auc": lambda: by_problem("auc", 2),
        "brier": lambda: by_problem("brier", 4),
        "slopes": slopes,
        "transfer": lambda: first_table("loss_transfer"),
        "memory": lambda: str(record("sparse_memory")["peak_gb"]["all"]),
        "memory_fit": lambda: str(record("many_classes")["fit, one epoch"]["peak_gb"]),
        "memory_evaluate": lambda: str(record("many_classes")["evaluate"]["peak_gb"]),
    },
    "docs/theory.md": {"theory": theory, "families": families},
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
