"""The table of AUCs compared with the paper's: Markdown, CSV and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from legendretron.experiments.experiment import Record
from legendretron.experiments.rendering import (
    as_text,
    described,
    markdown_table,
    panels_for,
    read_csv,
    save_panels,
    write_report,
)
from legendretron.experiments.results import Results
from legendretron.experiments.statistics import Mean
from legendretron.experiments.store import rounded_difference
from legendretron.paper.auc.methods import in_order, source_of
from legendretron.plots.axes import COLOURS

#: Difference to the paper, in points, from which it is printed in bold.
NOTABLE = 1.0
#: What is measured, besides the AUC, and the digits it is shown with.
MEASURED = {"brier": 4, "log_loss": 4, "cpu_seconds": 0}


def published_auc() -> dict[tuple[str, str], float]:
    """The paper's test AUCs in % by data set (``mnist``, ``fashion-mnist``) and method."""
    columns = {"mnist": "mnist_auc", "fashion-mnist": "fmnist_auc"}
    names = {"Logistic regression": "logistic regression"}
    return {
        (dataset, names.get(row["method"], row["method"])): float(row[column])
        for row in read_csv(files(__package__) / "published.csv")
        for dataset, column in columns.items()
    }


def comparison(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row for each problem and method: means over seeds, the paper's AUC, and the difference in points.

    The paper has one AUC for a data set and method. Variants of a method, named after a comma, are compared with it too,
    and so is every problem of a data set.
    """
    paper = published_auc()
    results = Results(in_order(records), "dataset", "model")
    rows = []
    for cell, seeds in results.cells.items():
        means = {name: mean for name in ("auc", *MEASURED) if (mean := results.mean(cell, name)) is not None}
        published = paper[source_of(cell[0]), cell[1].split(",")[0]]
        row: dict[str, Any] = {"problem": results.facts(cell[0])["label"], "method": cell[1], "seeds": len(seeds)}
        row |= means["auc"].columns("auc") | {"paper": published}
        row["difference"] = rounded_difference(means["auc"].value - published)
        for name in MEASURED:
            row |= means[name].columns(name)
        rows.append({**row, "n_iter": max(run["n_iter"] for run in seeds.values())})
    return rows


def _cells(row: dict[str, Any]) -> list[str]:
    gap = f"{row['difference']:+.2f}"
    measured = [
        as_text(Mean(row[name], row[f"{name}: standard error"], row["seeds"]), digits)
        for name, digits in MEASURED.items()
    ]
    return [
        row["method"],
        f"{row['paper']:.1f}",
        as_text(Mean(row["auc"], row["auc: standard error"], row["seeds"])),
        f"**{gap}**" if abs(row["difference"]) > NOTABLE else gap,
        *measured,
        str(row["n_iter"]),
    ]


def markdown(rows: list[dict[str, Any]], records: Sequence[Record]) -> list[str]:
    """A table for each problem, with what the columns mean."""
    head = ["method", "paper's AUC", "AUC", "difference", "Brier score", "log-loss", "CPU seconds", "iterations"]
    parts = [
        "# Binary problems of MNIST and Fashion-MNIST",
        "AUC in %, Brier score and log-loss on the test images; AUC less the paper's in points, bold where they are more "
        f"than {NOTABLE:g} apart. The paper prints one digit, and one AUC for a data set: variants of a method, named after "
        "a comma, and all problems of a data set are compared with the same. CPU seconds are those of the training, with "
        "the choice of a penalty where it is tuned.",
    ]
    for problem in dict.fromkeys(row["problem"] for row in rows):
        own = [_cells(row) for row in rows if row["problem"] == problem]
        parts += [f"## {problem}", markdown_table(head, own)]
    return [*parts, described(records)]


def picture(rows: list[dict[str, Any]], path: Path) -> Path:
    """AUCs, ours and the paper's, of every method; one panel per problem."""
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    size = (2.6 + 3.2 * len(problems), 1.6 + 0.32 * len(methods))
    panels = panels_for(problems, size, sharey=True, sharex=True)
    for panel, problem in zip(panels, problems, strict=True):
        own = [row for row in rows if row["problem"] == problem]
        at = [methods.index(row["method"]) for row in own]
        panel.plot(
            [row["paper"] for row in own], at, color=COLOURS[1], marker="D", markersize=7, linestyle="",
            markerfacecolor="white", label="paper",
        )  # fmt: skip
        errors = [2 * row["auc: standard error"] if row["seeds"] > 1 else 0.0 for row in own]
        panel.errorbar(
            [row["auc"] for row in own], at, xerr=errors, color=COLOURS[0], marker="o", markersize=5, linestyle="",
            elinewidth=1, label="ours, with two standard errors" if any(errors) else "ours",
        )  # fmt: skip
        panel.set(xlabel="test AUC (%)")
        panel.set_yticks(range(len(methods)), methods)
        panel.grid(color="0.9")
        panel.set_axisbelow(True)
    panels[0].invert_yaxis()
    return save_panels(panels, path, ncols=2)


def report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``table_auc.md``, ``.csv`` and ``.png`` into a folder."""
    rows = comparison(records)
    drawn = picture(rows, folder / "table_auc.png")
    return write_report(folder, "table_auc", markdown(rows, records), rows, drawn)
