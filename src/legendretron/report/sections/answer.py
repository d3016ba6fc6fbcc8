"""The answer in a sentence, and four numbers."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from legendretron.diagnostics.decomposition import LEAST_ROWS
from legendretron.preprocessing.drift import Tally
from legendretron.report.markup import number, percent, tiles
from legendretron.report.measured import CalibrationError, Measured

#: A calibration error below this is small, even where so many rows show that it is there; and so is a share of the log-loss.
_SMALL = 0.01
#: Columns that are named.
_NAMED = 8
_BETTER = {1: "better than", 0: "not clearly different from", -1: "worse than"}


def calibration_in_words(measured: Measured, error: CalibrationError) -> tuple[str, int]:
    """Return what is to be made of the probabilities, and whether that is good (1), bad (-1), or neither (0)."""
    points, gap = f"{100 * error.error:.1f} percentage points", measured.score("model", "gap")
    if len(measured.rows) < LEAST_ROWS:
        return f"cannot be judged by fewer than {LEAST_ROWS} rows", 0
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
    parts = measured.parts.get(("model", "log"))
    if parts is None or parts.calibration.sign <= 0:
        return 0.0
    return parts.calibration.value / parts.score.value


def summary(measured: Measured, error: CalibrationError, drift: Sequence[Tally] = ()) -> list[tuple[str, int]]:
    """Return sentences of plain text, each with 1 if it is good news, -1 if bad, and 0 otherwise."""
    accuracy, usual = measured.score("model", "accuracy"), measured.score("dummy", "accuracy").value
    said = [
        (
            f"The model is right on {percent(accuracy.value)} of the rows (95 % interval {percent(accuracy.low)} to "
            f"{percent(accuracy.high)}); to name the most frequent class each time would be right on {percent(usual)}.",
            0,
        )
    ]
    if drift:
        rest = f"; and {len(drift) - _NAMED} more columns" if len(drift) > _NAMED else ""
        said.append((f"These rows are not like those of the fit. {'; '.join(map(str, drift[:_NAMED]))}{rest}.", -1))
    if (better := measured.better("model", "dummy")) < 1:
        how = "worse" if better < 0 else "not clearly better"
        said.append((f"By log-loss it is {how} than predicting the class frequencies for every row.", -1))
    words, good = calibration_in_words(measured, error)
    said.append((f"Its probabilities {words}.", good))
    if "logistic" in measured.contestants:
        said.append(_compared(measured, "logistic", "a logistic regression tuned on these rows"))
    if "against" in measured.contestants:
        said.append(_compared(measured, "against", f"the other one, {measured.contestants['against'].name}"))
    return said


def _compared(measured: Measured, other: str, name: str) -> tuple[str, int]:
    better = measured.better("model", other)
    own, their = (measured.score(key, "log_loss").value for key in ("model", other))
    return f"By log-loss it is {_BETTER[better]} {name} ({number(own)} against {number(their)}).", better


def main_numbers(measured: Measured, error: CalibrationError) -> Markup:
    """Return the main numbers."""
    accuracy, loss, auc = (measured.score("model", name) for name in ("accuracy", "log_loss", "auc"))
    dummy = measured.score("dummy", "log_loss").value
    shown = (
        ("accuracy", percent(accuracy.value), f"{percent(accuracy.low)} to {percent(accuracy.high)}"),
        (
            "log-loss, lower is better",
            number(loss.value),
            f"{number(loss.low)} to {number(loss.high)}; without features {number(dummy)}",
        ),
        ("calibration error", percent(error.error), f"by chance up to {percent(error.by_chance)}"),
        (
            "area under the ROC curve",
            number(auc.value),
            f"{number(auc.low)} to {number(auc.high)}; without features 0.5",
        ),
    )
    return tiles(shown)
