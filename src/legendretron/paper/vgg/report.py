"""The table of VGG and VGGTron compared with the paper's: Markdown, CSV and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

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
from legendretron.experiments.statistics import Mean, add_holm, verdict
from legendretron.experiments.store import rounded_difference
from legendretron.plots.axes import COLOURS

#: The network that others are compared with.
PLAIN = "VGG"
LEVEL = 0.01
MEASURES = ("accuracy", "log_loss", "calibration_error", "training_seconds")


def published_vgg() -> dict[tuple[str, str], float]:
    """The paper's test accuracies in % by data set (``mnist``, ``fashion-mnist``, ``kmnist``) and network."""
    columns = {"mnist": "mnist_accuracy", "fashion-mnist": "fmnist_accuracy", "kmnist": "kmnist_accuracy"}
    rows = read_csv(files(__package__) / "published.csv")
    return {(dataset, row["method"]): float(row[column]) for row in rows for dataset, column in columns.items()}


def comparison(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row for each data set and network: means, the paper's accuracy, differences to VGG of the same seeds, and tests.

    ``paired`` takes runs of the same seed together, which start from the same convolutions; ``welch`` takes all runs as
    independent. Holm's correction is over all rows of the table.
    """
    paper = published_vgg()
    results = Results(records, "dataset", "model")
    rows: list[dict[str, Any]] = []
    for (dataset, model), own in results.cells.items():
        data = results.facts(dataset)
        row: dict[str, Any] = {"dataset": dataset, **{name: data[name] for name in ("label", "source", "rows")}}
        row |= {"model": model, "seeds": len(own)}
        for name in MEASURES:
            mean = results.mean((dataset, model), name)
            assert mean is not None
            row |= mean.columns(name, "error")
        row |= {"paper": paper.get((dataset, model)), "paired": float("nan"), "welch": float("nan")}
        if model != PLAIN and results.records(dataset, PLAIN):
            found = {name: results.compare((dataset, model), (dataset, PLAIN), name) for name in MEASURES}
            for name, compared in found.items():
                if compared is not None:
                    row |= compared.difference.columns(f"{name} minus VGG", "error")
            if (accuracy := found["accuracy"]) is not None:
                row |= {"paired": accuracy.p, "welch": accuracy.welch}
            if row["paper"] is not None:
                row["paper minus VGG"] = rounded_difference(row["paper"] - paper[dataset, PLAIN])
        rows.append(row)
    for test in ("paired", "welch"):
        add_holm(rows, [test])
    return rows


def _mean(row: dict[str, Any], name: str) -> Mean:
    return Mean(row[name], row[f"{name}: error"], row["seeds"])


def _gap(row: dict[str, Any], name: str, digits: int) -> str:
    if f"{name} minus VGG" not in row:
        return ""
    error = row[f"{name} minus VGG: error"]
    return f"{row[f'{name} minus VGG']:+.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}")


def _verdict(row: dict[str, Any], test: str) -> str:
    return verdict(row.get("accuracy minus VGG", float("nan")), row[test], row[f"{test}, Holm"], level=LEVEL)


def _line(row: dict[str, Any]) -> list[str]:
    complete = row["source"] == "complete"
    published = "" if row["paper"] is None else f"{row['paper']:.2f}"
    off = "" if row["paper"] is None else (f"{row['accuracy'] - row['paper']:+.2f}" if complete else "subset")
    return [
        row["label"],
        row["model"],
        as_text(_mean(row, "accuracy")),
        published,
        off,
        _gap(row, "accuracy", 3),
        f"{row['paper minus VGG']:+.2f}" if "paper minus VGG" in row else "",
        _verdict(row, "paired"),
        _verdict(row, "welch"),
        as_text(_mean(row, "log_loss"), 4),
        as_text(_mean(row, "calibration_error"), 4),
        as_text(_mean(row, "training_seconds"), 1),
    ]


def markdown(rows: list[dict[str, Any]], records: Sequence[Record]) -> list[str]:
    """The table in Markdown, with an explanation of the columns."""
    head = [
        "data set", "network", "ours", "paper", "Δ", "ours - VGG", "paper - VGG", "paired", "Welch", "log-loss",
        "expected calibration error", "seconds",
    ]  # fmt: skip
    settings = records[0]["settings"]
    tested = [row for row in rows if not np.isnan(row["paired"])]
    better = [row for row in tested if row["paired, Holm"] < LEVEL and row["accuracy minus VGG"] > 0]
    worse = [row for row in tested if row["paired, Holm"] < LEVEL and row["accuracy minus VGG"] < 0]
    parts = [
        "# VGG with and without a learned loss",
        f"Test accuracy in %, mean ± standard error over seeds; {settings['epochs']} epochs of {settings['optimiser']} on "
        f"batches of {settings['batch']}, no augmentation, the last weights. The paper gives one number a cell, without "
        "error, and neither layout nor recipe of its network. Δ is ours minus the paper's in points. Ours - VGG is the mean "
        "difference to VGG of the same seed, which starts from the same convolutions; better or worse at 99 % in a paired "
        "and in Welch's t-test, in brackets where it does not survive Holm's correction over the table, = for no "
        "difference. Log-loss and expected calibration error are on the test images; seconds are those of training.",
        markdown_table(head, [_line(row) for row in rows]),
    ]
    if tested:
        parts.append(
            "The paper says that a learned loss can improve the network. By the paired test with Holm's correction, it is "
            f"better than VGG in {len(better)} and worse in {len(worse)} of {len(tested)} comparisons."
        )
    return [*parts, described(records)]


def picture(rows: list[dict[str, Any]], records: Sequence[Record], path: Path) -> Path:
    """Accuracies of all seeds, their mean and, of complete data sets, the paper's; a panel for every data set."""
    labels = list(dict.fromkeys(row["label"] for row in rows))
    models = list(dict.fromkeys(row["model"] for row in rows))
    panels = panels_for(labels, (1.6 + 3.4 * len(labels), 1.9 + 0.55 * len(models)), sharey=True)
    for panel, label in zip(panels, labels, strict=True):
        for row in (row for row in rows if row["label"] == label):
            m = models.index(row["model"])
            own = [r["accuracy"] for r in records if r["dataset"] == row["dataset"] and r["model"] == row["model"]]
            panel.plot(own, [m + 0.22] * len(own), "|", color=COLOURS[m], markersize=7, label="one seed")
            panel.errorbar(
                row["accuracy"], m, xerr=2.0 * np.nan_to_num(row["accuracy: error"]), color=COLOURS[m], marker="o",
                linestyle="", capsize=3, label="mean, two standard errors",
            )  # fmt: skip
            if row["paper"] is not None and row["source"] == "complete":  # a part of the images is another problem
                panel.plot(
                    row["paper"], m - 0.22, "D", color=COLOURS[m], markerfacecolor="white", markersize=6, label="paper"
                )
        panel.set(xlabel="test accuracy (%)", ylim=(len(models) - 0.5, -0.5))
        panel.margins(x=0.12)
        panel.locator_params(axis="x", nbins=5)
        panel.grid(axis="x", color="0.9")
        panel.set_yticks(range(len(models)), models)
    return save_panels(panels, path, ncols=3)


def report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``table_vgg.md``, ``.csv`` and ``.png`` into a folder."""
    rows = comparison(records)
    drawn = picture(rows, records, folder / "table_vgg.png")
    return write_report(folder, "table_vgg", markdown(rows, records), rows, drawn)
