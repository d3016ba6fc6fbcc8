"""The summary in a few sentences, and the scores of the model and of its alternatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from markupsafe import Markup

from legendretron.diagnostics.decomposition import LEAST_ROWS
from legendretron.diagnostics.intervals import DRAWS
from legendretron.preprocessing.drift import Tally
from legendretron.report.charts import forest
from legendretron.report.markup import (
    Cell,
    between,
    figure,
    grid,
    note,
    number,
    paragraph,
    percent,
    rows_in_words,
    section,
    table,
    tiles,
    verdict,
)
from legendretron.report.measured import SCORES, CalibrationError, Measured
from legendretron.report.rows import EvaluationRows

#: Of the contestants, in all pictures.
COLORS = {"model": "c0", "against": "c1", "temperature": "c2", "logistic": "c4", "dummy": "grey"}
_HEADS = {
    "accuracy": ("accuracy", "(higher is better)"),
    "log_loss": ("log-loss", "(lower)"),
    "brier": ("Brier score", "(lower)"),
    "auc": ("area under ROC", "(higher)"),
}


def _text_of(score: str) -> Callable[[float], str]:
    return percent if score == "accuracy" else number


def scores(measured: Measured, notes: list[str]) -> Markup:
    """Return the section of the scores."""
    names = {key: one.name for key, one in measured.contestants.items()}
    rows = [
        [names[key], *(Cell.estimate(measured.score(key, score), _text_of(score)) for score in SCORES)] for key in names
    ]
    pictures = []
    for score, title in (("log_loss", "Log-loss (lower is better)"), ("accuracy", "Accuracy (higher is better)")):
        # class frequencies alone are so far away that the others could not be told apart
        entries = [(name, *measured.score(key, score), COLORS[key]) for key, name in names.items() if key != "dummy"]
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
        table(["", *_HEADS.values()], rows),
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
        text = _text_of(score)
        own, their = (measured.score(key, score).value for key in ("model", "against"))
        values = Cell.of(own, text(own)), Cell.of(their, text(their)), Cell.estimate(change, text)
        rows.append([" ".join(_HEADS[score]), *values, told])
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
        table(["", one.name, other.name, "difference", "verdict"], rows),
        paragraph(f"Both predict the same class on {percent(same)} of the rows."),
        table(["", f"{other.name} right", f"{other.name} wrong"], agreement),
        note(
            "Differences are of the same rows in each draw, so their intervals are narrower than those of the scores."
        ),
    )


#: A calibration error, or a share of the log-loss, below this is small, even where it is significant.
_SMALL = 0.01
#: Columns, or classes, that are named; and classes whose shares are given.
_NAMED, _CLASSES = 8, 12
_BETTER = {1: "better than", 0: "not clearly different from", -1: "worse than"}


def calibration_in_words(measured: Measured, error: CalibrationError) -> tuple[str, int]:
    """Return what is to be made of the probabilities, and whether that is good (1), bad (-1), or neither (0)."""
    points, gap = f"{100 * error.error:.1f} percentage points", measured.score("model", "gap")
    if len(measured.rows) < LEAST_ROWS:
        return f"cannot be evaluated on fewer than {LEAST_ROWS} rows", 0
    if error.error <= error.by_chance or error.error < _SMALL:
        chance = error.error <= error.by_chance
        # the error is of the predicted class; the log-loss knows of the others, too
        if (saved := _saved_by_recalibration(measured)) >= _SMALL:
            near = "up to chance" if chance else f"up to {points}"
            return (
                f"are right for the predicted class {near}, but recalibration would lower the log-loss by {percent(saved)}",
                0,
            )
        if chance:
            return "can be taken as they are: they agree with the observed frequencies up to chance", 1
        return f"can be taken as they are: they are off by less than one percentage point ({points})", 1
    if gap.sign > 0 and gap.value > error.error / 2:
        return f"are over-confident: on average they promise {100 * gap.value:.1f} percentage points too much", -1
    if gap.sign < 0 and -gap.value > error.error / 2:
        return f"are under-confident: on average they promise {-100 * gap.value:.1f} percentage points too little", -1
    return f"are off by {points} on average, some too high and some too low", -1


def _saved_by_recalibration(measured: Measured) -> float:
    """Share of the log-loss, zero if the interval does not rule that out."""
    parts = measured.parts.get(("model", "log_loss"))
    if parts is None or parts.calibration.sign <= 0:
        return 0.0
    return parts.calibration.value / parts.score.value


def classes_in_words(rows: EvaluationRows, target: str) -> str:
    """Return a sentence on what is predicted: its name, which may be empty, and its classes with their shares."""
    share, names, n = rows.share, rows.spoken, len(rows.classes)
    shown = range(n) if n <= _CLASSES else np.sort(np.argsort(-share, kind="stable")[:_CLASSES]).tolist()
    of_these = [
        f"{names[k]} ({percent(float(share[k]))}{' of the rows' if place == 0 else ''})"
        for place, k in enumerate(shown)
    ]
    last = of_these.pop() if n == len(of_these) else f"one of {n - len(of_these):,} more"
    what = (
        target if target and n <= _CLASSES else f"{target}, one of {n:,} classes" if target else f"one of {n:,} classes"
    )
    return f"The model predicts {what}: {', '.join(of_these)} or {last}."


def unpredicted_in_words(measured: Measured) -> str:
    """Return a sentence on classes that are never predicted although rows have them; empty if there are none."""
    rows = measured.rows
    predicted = np.bincount(measured.contestants["model"].rows.predicted, minlength=len(rows.classes))
    never = np.flatnonzero((predicted == 0) & (rows.share > 0)).tolist()
    if not never:
        return ""
    names = [rows.spoken[k] for k in never[:_NAMED]]
    rest = [f"{len(never) - _NAMED:,} other classes"] if len(never) > _NAMED else []
    *first, last = names + rest
    return f"It never predicts {', '.join(first)}{' or ' if first else ''}{last}."


def summary(
    measured: Measured, error: CalibrationError, drift: Sequence[Tally] = (), remark: str = ""
) -> list[tuple[str, int]]:
    """Return sentences of plain text, each with 1 if it is good news, -1 if bad, and 0 otherwise.

    ``remark`` is a sentence on what labels are compared with.
    """
    accuracy, usual = measured.score("model", "accuracy"), measured.score("dummy", "accuracy").value
    said = [
        (
            f"The model is right on {percent(accuracy.value)} of the rows (95 % interval {between(accuracy, percent)}); to "
            f"name the most frequent class each time would be right on {percent(usual)}.",
            0,
        )
    ]
    if drift:
        rest = f"; and {len(drift) - _NAMED} more columns" if len(drift) > _NAMED else ""
        said.append((f"These rows are unlike the training data. {'; '.join(map(str, drift[:_NAMED]))}{rest}.", -1))
    if remark:
        said.append((remark, 0))
    if (better := measured.better("model", "dummy")) < 1:
        how = "worse" if better < 0 else "not clearly better"
        said.append((f"By log-loss it is {how} than predicting the class frequencies for every row.", -1))
    if never := unpredicted_in_words(measured):
        said.append((never, -1))
    words, good = calibration_in_words(measured, error)
    said.append((f"Its probabilities {words}.", good))
    if "logistic" in measured.contestants:
        said.append(_compare_with(measured, "logistic", "a logistic regression of the same training rows"))
    if "against" in measured.contestants:
        said.append(_compare_with(measured, "against", f"the other one, {measured.contestants['against'].name}"))
    return said


def _compare_with(measured: Measured, other: str, name: str) -> tuple[str, int]:
    better = measured.better("model", other)
    own, their = (measured.score(key, "log_loss").value for key in ("model", other))
    return f"By log-loss it is {_BETTER[better]} {name} ({number(own)} against {number(their)}).", better


def main_numbers(measured: Measured, error: CalibrationError) -> Markup:
    """Return the main numbers."""
    accuracy, loss, auc = (measured.score("model", name) for name in ("accuracy", "log_loss", "auc"))
    dummy = measured.score("dummy", "log_loss").value
    shown = (
        ("accuracy", percent(accuracy.value), between(accuracy, percent)),
        ("log-loss, lower is better", number(loss.value), f"{between(loss)}; without features {number(dummy)}"),
        ("calibration error", percent(error.error), f"by chance up to {percent(error.by_chance)}"),
        ("area under the ROC curve", number(auc.value), f"{between(auc)}; without features 0.5"),
    )
    return tiles(shown)
