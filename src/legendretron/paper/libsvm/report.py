"""The table of LIBSVM data sets compared with the paper's: Markdown, CSV and a picture."""

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
    is_trial,
    markdown_table,
    panels_for,
    read_csv,
    save_panels,
    write_report,
)
from legendretron.experiments.results import Results
from legendretron.experiments.statistics import Mean, add_holm, verdict
from legendretron.plots.axes import COLOURS

#: Level of the paper's t-tests.
LEVEL = 0.01
PAPERS = ("LegendreTron", "logistic regression")
TUNED = tuple(f"{model}, tuned" for model in PAPERS)
#: Tests by name: the models that each compares, and its head in the table.
TESTS = {
    "welch": (PAPERS, "better at 99 %"),
    "paired": (PAPERS, "paired"),
    "tuned, paired": (TUNED, "tuned"),
}
MARKERS = ("o", "s", "^", "P")
#: Runs behind each of the paper's cells; its ± is their standard error.
REPETITIONS = 20
_PUBLISHED = files(__package__) / "published.csv"


def published_accuracies() -> dict[tuple[str, float, str], Mean]:
    """The paper's test accuracies in % by data set, noise level and model."""
    return {
        (row["dataset"], float(row["eta"]), model): Mean(
            float(row[f"{column}_accuracy"]), float(row[f"{column}_se"]), REPETITIONS
        )
        for row in read_csv(_PUBLISHED)
        for model, column in zip(PAPERS, ("lt", "mlr"), strict=True)
    }


def published_better() -> dict[tuple[str, float], str]:
    """Which model the paper prints in bold, better at 99 %, by data set and noise level; empty for none."""
    names = {"LT": PAPERS[0], "MLR": PAPERS[1], "": ""}
    return {(row["dataset"], float(row["eta"])): names[row["better_at_99"]] for row in read_csv(_PUBLISHED)}


def comparison(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row for each data set and noise level: our means, the paper's, their difference, and the tests.

    Tests compare LegendreTron with logistic regression, each by the paper's recipe. ``welch`` takes the runs as
    independent, as the paper does; ``paired`` knows that both models saw the same splits, and so does ``tuned, paired``,
    which compares the tuned ones. Holm's correction is over all rows of the table, for each test.
    """
    paper = published_accuracies()
    results = Results(records, "dataset", "noise", "model")
    rows = []
    for dataset, noise in dict.fromkeys(cell[:2] for cell in results.cells):
        data = results.facts(dataset)
        row: dict[str, Any] = {"dataset": dataset}
        row |= {name: data[name] for name in ("label", "source", "rows", "features", "classes")} | {"noise": noise}
        for model in (cell[2] for cell in results.cells if cell[:2] == (dataset, noise)):
            ours = results.mean((dataset, noise, model), "accuracy")
            assert ours is not None
            row |= {f"{model}: seeds": ours.n, f"{model}: accuracy": ours.value, f"{model}: standard error": ours.error}
            published = paper.get((dataset, noise, model))
            if published is not None and data["source"] == "complete":  # the paper is not about subsets
                gaps = ours.value - published.value, ours.error - published.error
                row |= {
                    f"{model}: paper": published.value,
                    f"{model}: paper's standard error": published.error,
                    f"{model}: difference in standard errors": ours.minus(published),
                    # within two combined standard errors, or one point
                    f"{model}: reproduced": bool(abs(ours.minus(published)) <= 2.0 or abs(gaps[0]) <= 1.0),
                    # rounded to the paper's two digits, a half either way
                    f"{model}: to the digit": all(abs(gap) <= 0.005 + 1e-9 for gap in gaps),
                }
        for name, ((first, second), _) in TESTS.items():
            found = results.compare((dataset, noise, first), (dataset, noise, second), "accuracy")
            row[name] = float("nan") if found is None else found.welch if name == "welch" else found.p
            if found is not None:
                row[f"{name}: advantage"] = found.difference.value
        rows.append(row)
    for name in TESTS:
        add_holm(rows, [name])
    return rows


def _verdict(row: dict[str, Any], test: str) -> str:
    difference = row.get(f"{test}: advantage", float("nan"))
    return verdict(difference, row[test], row[f"{test}, Holm"], level=LEVEL, better="LT", worse="LR")


def _cells(row: dict[str, Any], model: str) -> tuple[str, str, str]:
    """Ours, the paper's, and the difference in standard errors, in bold where it is not reproduced."""
    if f"{model}: accuracy" not in row:
        return "", "", ""
    ours = Mean(row[f"{model}: accuracy"], row[f"{model}: standard error"], row[f"{model}: seeds"])
    if f"{model}: paper" not in row:
        return as_text(ours), "", "" if row["source"] == "complete" else "subset"
    paper = Mean(row[f"{model}: paper"], row[f"{model}: paper's standard error"], REPETITIONS)
    gap = f"{row[f'{model}: difference in standard errors']:+.1f}"
    if ours.n < 2:
        gap = ""  # one run has no error
    elif not row[f"{model}: reproduced"]:
        gap = f"**{gap}**"
    return as_text(ours), as_text(paper), gap


def markdown(rows: list[dict[str, Any]], records: Sequence[Record]) -> list[str]:
    """The table in Markdown, with an explanation of the columns."""
    models = list(dict.fromkeys(record["model"] for record in records))
    ours = [name for name in models if name not in PAPERS]
    shown = {name: head for name, (pair, head) in TESTS.items() if pair == PAPERS or set(pair) <= set(ours)}
    beside = ["LT ours", "LT paper", "Δ/se", "LR ours", "LR paper", "Δ/se"]
    head = ["data set", "noise", *beside, *ours, *shown.values()]
    lines = []
    for row in rows:
        cells = [cell for model in PAPERS for cell in _cells(row, model)]
        further = [_cells(row, model)[0] for model in ours]
        verdicts = [_verdict(row, test) for test in shown]
        lines.append([row["label"], f"{100 * row['noise']:g}%", *cells, *further, *verdicts])
    compared = [(row, model) for row in rows for model in PAPERS if f"{model}: reproduced" in row]
    counted = [row[f"{model}: reproduced"] for row, model in compared if row["noise"] in (0.0, 0.2)]
    exact = [row[f"{model}: to the digit"] for row, model in compared]
    parts = [
        "# LIBSVM, UCI and Statlog data sets under label noise",
        "Test accuracy in %, mean ± standard error over splits. LT is LegendreTron and LR multinomial logistic regression, "
        "both by the paper's recipe; Δ/se is ours minus the paper's in combined standard errors, bold where it is more than "
        "two and more than one point. Tuned models choose their penalty on a fifth of the (noisy) training rows. Better at "
        "99 %: LT against LR in Welch's t-test, and in a paired one, and the tuned models in a paired one; "
        "in brackets where it does not survive Holm's correction over the whole table; = for no difference.",
        markdown_table(head, lines),
    ]
    parts += _of_tuning(records)
    if counted and not is_trial(records):
        share = np.mean(counted)
        parts.append(
            f"At noise 0 and 20 %, {sum(counted)} of {len(counted)} cells ({share:.0%}) of complete data sets are within two "
            "combined standard errors of the paper or one point. At all noise levels, "
            f"{sum(exact)} of {len(exact)} have the published mean and standard error to the last printed digit."
        )
    return [*parts, described(records)]


def _of_tuning(records: Sequence[Record]) -> list[str]:
    """Notes on the tuned models: fits that did not converge, and strengths at the end of the list."""
    lines = []
    for model in dict.fromkeys(record["model"] for record in records if "tuning" in record["settings"]):
        own = [record for record in records if record["model"] == model]
        weakest, *_, strongest = own[0]["settings"]["tuning"]["strengths"]
        cut = sum(not record["converged"] for record in own)
        ends = [sum(record["alpha"] == end for record in own) for end in (weakest, strongest)]
        lines.append(
            f"- {model}: {cut} of {len(own):,} fits had not converged; {ends[0]} chose the weakest penalty, {weakest:g}, and "
            f"{ends[1]} the strongest, {strongest:g}: a longer list might do better there."
        )
    return ["\n".join(lines)] if lines else []


def picture(rows: list[dict[str, Any]], models: Sequence[str], path: Path) -> Path:
    """Ours and the paper's for every data set, one panel per noise level; in the order of the models."""
    levels = sorted({row["noise"] for row in rows})
    names = list(dict.fromkeys(row["label"] for row in rows))
    titles = [f"{100 * level:g}% of training labels flipped" for level in levels]
    size = (2.0 + 3.4 * len(levels), 1.6 + 0.42 * len(names))
    panels = panels_for(titles, size, sharey=True, sharex=True)
    for panel, level in zip(panels, levels, strict=True):
        own = {row["label"]: row for row in rows if row["noise"] == level}
        for m, model in enumerate(models):
            shift = (m - (len(models) - 1) / 2) * 0.17
            for kind, filled in (("accuracy", True), ("paper", False)):
                key = f"{model}: {kind}"
                error = f"{model}: paper's standard error" if kind == "paper" else f"{model}: standard error"
                at = [(i + shift, own[name]) for i, name in enumerate(names) if name in own and key in own[name]]
                if at:
                    panel.errorbar(
                        [row[key] for _, row in at], [y for y, _ in at],
                        xerr=[2 * np.nan_to_num(row[error]) for _, row in at],
                        color=COLOURS[m], marker=MARKERS[m], linestyle="", elinewidth=1,
                        # hollow ones go around what they are compared with
                        markersize=4 if filled else 8, markerfacecolor=COLOURS[m] if filled else "none",
                        label=model if filled else f"{model}, paper",
                    )  # fmt: skip
        panel.set(xlabel="test accuracy (%)", xlim=(0, 100))
        panel.set_yticks(range(len(names)), [name.replace(" (", "\n(") for name in names])
        panel.grid(axis="x", color="0.9")
    panels[0].invert_yaxis()
    return save_panels(panels, path, ncols=3, title="bars: two standard errors")


def report(records: list[Record], folder: Path) -> list[Path]:
    """Write ``table_libsvm.md``, ``.csv`` and ``.png`` into a folder."""
    rows = comparison(records)
    models = list(dict.fromkeys(record["model"] for record in records))
    drawn = picture(rows, models, folder / "table_libsvm.png")
    return write_report(folder, "table_libsvm", markdown(rows, records), rows, drawn)
