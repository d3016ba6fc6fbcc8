"""Scores of the model beside what it is compared with."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from legendretron.diagnostics.intervals import DRAWS, Estimate
from legendretron.report.charts import forest
from legendretron.report.markup import (
    Cell,
    Head,
    figure,
    grid,
    note,
    number,
    paragraph,
    percent,
    rows_in_words,
    section,
    table,
    verdict,
)
from legendretron.report.measured import SCORES, Measured

#: Of the contestants, in all pictures.
COLOURS = {"model": "c0", "against": "c1", "temperature": "c2", "logistic": "c4", "dummy": "grey"}
_HEADS = {
    "accuracy": ("accuracy", "(higher is better)"),
    "log_loss": ("log-loss", "(lower)"),
    "brier": ("Brier score", "(lower)"),
    "auc": ("area under ROC", "(higher)"),
}


def _shown(name: str, value: float) -> str:
    return percent(value) if name == "accuracy" else number(value)


def _cell(name: str, found: Estimate) -> Cell:
    low, high = _shown(name, found.low), _shown(name, found.high)
    return Cell.of(found.value, _shown(name, found.value), f"{low} to {high}")


def scores(measured: Measured, notes: list[str]) -> Markup:
    """Return the section of the scores."""
    names = {key: one.name for key, one in measured.contestants.items()}
    rows = [[names[key], *(_cell(score, measured.score(key, score)) for score in SCORES)] for key in names]
    pictures = []
    for score, title in (("log_loss", "Log-loss (lower is better)"), ("accuracy", "Accuracy (higher is better)")):
        # class frequencies alone are so far away that the others could not be told apart
        entries = [(name, *measured.score(key, score), COLOURS[key]) for key, name in names.items() if key != "dummy"]
        pictures.append(figure(forest(entries, title), f"{title}, with 95 % intervals"))
    sampled = ""
    if len(measured.ranked) < len(measured.rows):
        sampled = f" Areas under ROC curves are of {rows_in_words(len(measured.ranked))} drawn at random."
    impossible = [
        note(
            f"{one.name} gave the true class a probability of zero on {rows_in_words(one.impossible)}. They count "
            "as 10\u207b\u00b9\u2075; the log-loss would be infinite."
        )
        for one in measured.contestants.values()
        if one.impossible
    ]
    weights = " Rows count by their weights." if measured.rows.weighted else ""
    exact = (
        " Where all rows are right, or none, the interval of the accuracy is the exact one of a binomial distribution."
    )
    exact = exact if any(map(measured.all_or_none, names)) else ""
    return section(
        "scores",
        "Scores",
        table(["", *map(Head, _HEADS.values())], rows),
        grid(pictures),
        note(
            f"Small print: 95 % bootstrap intervals, from {DRAWS:,} draws of the rows with replacement. Overlapping "
            "intervals do not mean that two models are equally good: the sentences above use the interval of the difference."
            f"{exact}{weights}{sampled}"
        ),
        *(note(text) for text in notes),
        *impossible,
    )


def comparison(measured: Measured) -> Markup:
    """Return the section of two models side by side."""
    one, other = measured.contestants["model"], measured.contestants["against"]
    rows = []
    for score in SCORES:
        change = measured.difference("model", "against", score)
        better = measured.better("model", "against", score)
        winner = one.name if better > 0 else other.name
        told = verdict(better > 0, f"{winner} is better") if better else "no clear difference"
        own, their = measured.score("model", score).value, measured.score("against", score).value
        rows.append(
            [
                " ".join(_HEADS[score]),
                Cell.of(own, _shown(score, own)),
                Cell.of(their, _shown(score, their)),
                _cell(score, change),
                told,
            ]
        )
    right, also = one.rows.right, other.rows.right
    weight = measured.rows.weight

    def share(which: np.ndarray) -> Cell:
        return Cell.share(float(weight[which].sum() / weight.sum()))

    agreement = [
        [f"{one.name} right", share(right & also), share(right & ~also)],
        [f"{one.name} wrong", share(~right & also), share(~right & ~also)],
    ]
    same = float(weight[one.rows.predicted == other.rows.predicted].sum() / weight.sum())
    return section(
        "against",
        "Side by side",
        table(["", Head((one.name,), True), Head((other.name,), True), "difference", "verdict"], rows),
        paragraph(f"Both predict the same class on {percent(same)} of the rows."),
        table(["", Head((f"{other.name} right",), True), Head((f"{other.name} wrong",), True)], agreement),
        note(
            "Differences are of the same rows in each draw, so their intervals are narrower than those of the scores."
        ),
    )
