"""The answer in a sentence, and four numbers."""

from __future__ import annotations

from legendretron.report.bootstrap import Estimate
from legendretron.report.markup import escaped, number, percent
from legendretron.report.measured import CalibrationError, Measured

__all__ = ["calibration_in_words", "summary", "tiles"]

#: A calibration error below this is small, even where so many rows show that it is there.
_SMALL = 0.01
_BETTER = {1: "better than", 0: "not clearly different from", -1: "worse than"}


def calibration_in_words(error: CalibrationError, gap: Estimate) -> tuple[str, int]:
    """Return what is to be made of the probabilities, and whether that is good (1) or bad (-1).

    Parameters
    ----------
    error : CalibrationError
        Of the predicted class.
    gap : Estimate
        Mean confidence less accuracy.
    """
    points = f"{100 * error.error:.1f} percentage points"
    if error.error <= error.by_chance:
        return "can be taken as they are: they agree with the observed frequencies up to chance", 1
    if error.error < _SMALL:
        return f"can be taken as they are: they are off by less than one percentage point ({points})", 1
    if gap.sign > 0:
        return f"are over-confident: on average they promise {100 * gap.value:.1f} percentage points too much", -1
    if gap.sign < 0:
        return f"are under-confident: on average they promise {-100 * gap.value:.1f} percentage points too little", -1
    return f"are off by {points} on average, some too high and some too low", -1


def summary(measured: Measured, error: CalibrationError) -> list[tuple[str, int]]:
    """Return sentences of plain text, each with 1 if it is good news, -1 if bad, and 0 otherwise."""
    model = measured.contestants["model"].name
    accuracy = measured.score("model", "accuracy")
    said = [
        (
            f"{model} is right on {percent(accuracy.value)} of the rows (95 % interval {percent(accuracy.low)} to "
            f"{percent(accuracy.high)}).",
            0,
        )
    ]
    words, good = calibration_in_words(error, measured.score("model", "gap"))
    said.append((f"Its probabilities {words}.", good))
    if "logistic" in measured.contestants:
        said.append(_compared(measured, "logistic", "a tuned logistic regression"))
    if "against" in measured.contestants:
        said.append(_compared(measured, "against", measured.contestants["against"].name))
    if measured.better("model", "dummy") < 1:
        said.append(("By log-loss it is not clearly better than predicting the class frequencies for every row.", -1))
    return said


def _compared(measured: Measured, other: str, name: str) -> tuple[str, int]:
    better = measured.better("model", other)
    own, their = (measured.score(key, "log_loss").value for key in ("model", other))
    return f"It is {_BETTER[better]} {name} (log-loss {number(own)} against {number(their)}).", better


def tiles(measured: Measured, error: CalibrationError) -> str:
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
    return (
        '<div class="tiles">'
        + "".join(
            f"<div><span>{escaped(name)}</span><b>{escaped(value)}</b><span>{escaped(rest)}</span></div>"
            for name, value, rest in shown
        )
        + "</div>"
    )
