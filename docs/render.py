"""Write the tables of README.md, docs/results.md and docs/theory.md from the records in docs/results.

    python docs/render.py

Tables stand between markers; a test checks that they are what this script writes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"


def record(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def compare() -> str:
    text = (RESULTS / "compare_logistic.md").read_text()
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def first_table(name: str) -> str:
    """The first table of a report that `legendretron reproduce` has written."""
    lines = (RESULTS / name / f"{Path(name).name}.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    end = next((i for i, line in enumerate(lines[start:], start) if not line.startswith("|")), len(lines))
    return "\n".join(lines[start:end])


def sentence(name: str, start: str) -> str:
    """The paragraph of such a report that begins so."""
    return next(line for line in (RESULTS / name / f"{name}.md").read_text().splitlines() if line.startswith(start))


def scales() -> str:
    rows = [
        [
            row["dataset"],
            row["features"],
            row["model"],
            f"{row['noise']:.0%}",
            f"{row['accuracy']:.2f} ± {row['standard_error']:.2f}",
            f"{row['paper']:.2f} ± {row['paper_standard_error']:.2f}",
            f"{row['gap_in_standard_errors']:+.1f}",
        ]
        for row in record("feature_scale")["rows"]
    ]
    return table(["data set", "features", "model", "noise", "accuracy %", "paper %", "Δ/se"], rows)


def speed() -> str:
    gpu = {(r["shape"], r["models"], r["dtype"], r["link"]): r["ms"] for r in record("training_speed_gpu")["rows"]}
    rows = [
        [
            row["shape"],
            str(row["models"]),
            row["link"],
            row["dtype"],
            f"{row['ms']:.2f} ms",
            f"{row['times_faster']:.1f}",
            f"{row['of_logistic_regression']:.2f}",
            f"{gpu[row['shape'], row['models'], row['dtype'], row['link']]:.2f} ms",
        ]
        for row in record("training_speed")["rows"]
    ]
    head = [
        "shape",
        "models",
        "link",
        "precision",
        "a step",
        "times faster than plain",
        "of logistic regression",
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


def auc() -> str:
    found = {(row["method"], row["problem"]): row for row in record("paper_auc")["rows"]}
    problems = list(dict.fromkeys(problem for _, problem in found))
    methods = [
        "LegendreTron",
        "ISGP-Linkgistic",
        "GP-Linkgistic",
        "Logistic regression",
        "GLMTron",
        "BregmanTron",
        "BregmanTron_label",
        "BregmanTron_approx",
        "SlIsotron",
        "SlIsotron, published step",
    ]
    rows = []
    for method in methods:
        cells = [found[method, problem] for problem in problems]
        paper = list(dict.fromkeys((problem.split(",")[0], found[method, problem]["paper"]) for problem in problems))
        rows.append(
            [
                method,
                *(f"{cell['auc']:.2f}" for cell in cells),
                " / ".join(f"{value:.1f}" for _, value in paper),
                " / ".join(f"{cell['cpu_seconds']:.0f} s" for cell in cells),
            ]
        )
    return table(["method", *problems, "paper, MNIST / FMNIST", "time"], rows)


def brier() -> str:
    found = {(row["method"], row["problem"]): row["brier"] for row in record("paper_auc")["rows"] if "brier" in row}
    problems = list(dict.fromkeys(problem for _, problem in found))
    methods = list(dict.fromkeys(method for method, _ in found))
    return table(
        ["method", *problems], [[method, *(f"{found[method, p]:.4f}" for p in problems)] for method in methods]
    )


def penalties() -> str:
    found = {(row["method"], row["problem"]): row["auc"] for row in record("paper_auc")["rows"]}
    problems = list(dict.fromkeys(problem for _, problem in found))
    methods = [method for method, problem in found if "C=" in method and problem == problems[0]]
    return table(["", *problems], [[method, *(f"{found[method, p]:.2f}" for p in problems)] for method in methods])


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


def vgg() -> str:
    def pair(line: dict, name: str, digits: int, factor: float = 1.0) -> str:
        return f"{factor * line[name]:.{digits}f} ± {factor * line[f'{name}_standard_error']:.{digits}f}"

    rows = [
        [
            line["dataset"],
            line["model"],
            pair(line, "accuracy", 2),
            "" if line["paper_accuracy"] is None else f"{line['paper_accuracy']:.2f}",
            pair(line, "log_loss", 4),
            pair(line, "calibration_error", 2, 100.0),
            f"{line['seconds']:.1f} s",
        ]
        for line in record("paper_vgg")["summary"]
    ]
    return table(["data set", "model", "accuracy %", "paper %", "log-loss", "calibration error %", "training"], rows)


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
            f"{row['extra_percent']:+.1f} %",
        ]
        for row in record("head_speed")["rows"]
    ]
    return table(["network", "how", "last layer", "a step", "extra"], rows)


TABLES = {
    "README.md": {"compare": compare},
    "docs/results.md": {
        "libsvm": lambda: first_table("table_libsvm"),
        "cells": lambda: sentence("table_libsvm", "At noise 0"),
        "iris": lambda: first_table("iris_200_seeds/table_libsvm"),
        "scales": scales,
        "runtime": lambda: first_table("runtime"),
        "minutes": lambda: sentence("runtime", "**1,800"),
        "sizes": lambda: first_table("figure_training_size"),
        "speed": speed,
        "vgg": vgg,
        "head": head,
        "auc": auc,
        "brier": brier,
        "penalties": penalties,
        "slopes": slopes,
        "memory": lambda: str(record("sparse_memory")["peak_gb"]["all"]),
    },
    "docs/theory.md": {"theory": theory},
}


def rendered(document: str) -> str:
    """The document with its tables made anew."""
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
