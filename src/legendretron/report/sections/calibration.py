"""Whether probabilities can be taken as they are: reliability, and what recalibration would bring."""

from __future__ import annotations

from functools import partial

import numpy as np
from markupsafe import Markup

from legendretron.diagnostics.decomposition import Recalibrated
from legendretron.diagnostics.smooth_calibration import smooth_curve_of_outcomes, smooth_error_of_outcomes
from legendretron.plots import ReliabilityDisplay
from legendretron.plots.models import draw_rows
from legendretron.report.charts import chart_figure, chart_svg
from legendretron.report.markup import (
    Cell,
    figure,
    grid,
    heading,
    note,
    number,
    paragraph,
    percent,
    rows_in_words,
    section,
    table,
)
from legendretron.report.measured import CalibrationError, Measured, map_in_threads
from legendretron.report.sections.scores import calibration_in_words

#: Classes with a picture of their own, the worst first.
_PICTURES = 12
#: Rows that curves of single classes are drawn from, and numbers (rows x classes) that their errors are computed from.
_CLASS_ROWS, _CLASS_NUMBERS = 5000, 5e5
_DRAWS, _CLASS_DRAWS = 100, 60


def class_errors(measured: Measured, key: str, seed: int) -> np.ndarray:
    """Return the smooth calibration error of the probability of each class, ``(C,)``."""
    rows, log_p = measured.rows, measured.contestants[key].log_p
    some = draw_rows(len(rows), int(_CLASS_NUMBERS / log_p.shape[1]), seed)
    p = np.exp(log_p[some])
    p /= p.sum(1, keepdims=True)
    right, weight = rows.y[some], rows.weight[some]
    return np.array([smooth_error_of_outcomes(p[:, [k]], (right == k)[:, None], weight) for k in range(log_p.shape[1])])


def calibration(
    measured: Measured, error: CalibrationError, fitted: dict[str, Recalibrated], errors: np.ndarray, seed: int
) -> Markup:
    """Return the section on calibration; ``fitted`` is empty if there were too few rows to recalibrate on."""
    words, _ = calibration_in_words(measured, error)
    intro = paragraph(
        "Probabilities are calibrated if, for example, predictions with a probability of 70 % are right seven times "
        f"in ten. Those of the model {words}. The curve shows how often the predicted class was right, against its "
        "predicted probability; on the dashed line both agree, below it the model is overconfident."
    )
    parts = [intro, grid(_top_label(measured, seed)), _decompose(measured, fitted)]
    if len(measured.rows.classes) > 2:
        parts.append(_by_class(measured, errors, seed))
    return section("calibration", "Can the probabilities be trusted?", *parts)


def _reliability(measured: Measured, seed: int, most: int, draws: int, column: int | None = None) -> ReliabilityDisplay:
    """Return smooth curves of the models: of the predicted class, or of a class."""
    rows = measured.rows
    some = draw_rows(len(rows), most, seed)
    curves = {}
    for key in _models(measured):
        one = measured.contestants[key]
        if column is None:
            confidence, right = one.rows.confidence[some], one.rows.right[some]
        else:
            confidence, right = np.exp(one.log_p[some, column]), rows.y[some] == column
        curves[one.name] = smooth_curve_of_outcomes(
            confidence[:, None],
            right[:, None],
            n_bootstrap=draws,
            level=0.95,
            seed=seed,
            sample_weight=rows.weight[some],
        )
    return ReliabilityDisplay(curves, " of the predicted class" if column is None else "")


def _has_curve(display: ReliabilityDisplay) -> bool:
    """Whether some part of the axis has rows enough for a curve."""
    return any(np.isfinite(curve.frequency).any() for curve in display.curves.values())


def _models(measured: Measured) -> list[str]:
    return [key for key in ("model", "against") if key in measured.contestants]


def _top_label(measured: Measured, seed: int) -> list[Markup]:
    display = _reliability(measured, seed, len(measured.rows), _DRAWS)
    first = note("There are too few rows to draw a reliability curve.")
    if _has_curve(display):
        caption = "Reliability of the predicted class, smooth, with 95 % bands"
        first = chart_figure(display.chart(), caption, height=330)
    accuracy, gap = measured.score("model", "accuracy").value, measured.score("model", "gap").value
    text = f"Predicted probability: {percent(accuracy + gap)} on average; accuracy: {percent(accuracy)}"
    return [first, chart_figure(display.counts(log=False), text, height=330)]


def _decompose(measured: Measured, fitted: dict[str, Recalibrated]) -> Markup:
    if not fitted:
        return note("There are too few rows for cross-validated recalibration.")
    rows = []
    for loss, title in (("log_loss", "Log-loss"), ("brier", "Brier score")):
        for key in fitted:
            name = measured.contestants[key].name
            parts = measured.parts[key, loss]
            cost, rest, most = parts.calibration, parts.refinement, parts.uncertainty
            rows.append(
                [
                    f"{name}, {title}",
                    cost.value + rest.value,
                    Cell.estimate(cost, partial(number, digits=4)),
                    Cell.estimate(rest),
                    most.value,
                    Cell.estimate(parts.resolution),
                ]
            )
    own, maps = measured.parts["model", "log_loss"].calibration, fitted["model"]
    if own.sign > 0:
        share = own.value / measured.score("model", "log_loss").value
        verdict = f"Recalibration would lower the log-loss by {number(own.value, 4)}, {percent(share)} of it."
    else:
        verdict = "Recalibration would not clearly lower the log-loss: the interval of the gain includes zero."
    temperature = float(np.exp(np.mean(np.log(maps.temperatures))))
    return (
        heading("Calibration and refinement")
        + paragraph(
            f"{verdict} The rest, refinement, could only be lowered by distinguishing the classes better. The best "
            f"temperature is {number(temperature, 2)}; above 1 it makes probabilities less extreme, below 1 more."
        )
        + table(["", "score", "calibration", "refinement", "uncertainty", "resolution"], rows)
        + note(
            "Calibration is the score minus that of the same model after recalibration by LegendreCalibrator, "
            f"fitted to at most {rows_in_words(maps.fitted_to)} of these rows and judged on others, in "
            f"{len(maps.temperatures)} turns. A slightly negative value means that there was nothing to learn. "
            "Uncertainty is the score of the class frequencies, and resolution is by how much the predictions "
            "reduce it: refinement is uncertainty minus resolution."
        )
    )


def _by_class(measured: Measured, errors: np.ndarray, seed: int) -> Markup:
    rows, names = measured.rows, measured.rows.spoken
    count = np.bincount(rows.y, minlength=len(names))
    worst = [k for k in np.argsort(-errors, kind="stable") if count[k] > 0][:_PICTURES]
    pictures = []
    displays = map_in_threads(lambda k: _reliability(measured, seed, _CLASS_ROWS, _CLASS_DRAWS, int(k)), worst)
    for k, display in zip(worst, displays, strict=True):
        if _has_curve(display):
            picture = chart_svg(display.chart(), 240, 210)
            pictures.append(figure(picture, f"{names[k]}: error {percent(float(errors[k]))}"))
    if not pictures:
        return Markup("")
    which = (
        "Every class"
        if len(pictures) == len(names)
        else f"The {len(pictures)} classes of {len(names)} with the largest error"
    )
    drawn = f" Curves are of {rows_in_words(_CLASS_ROWS)} drawn at random." if len(rows) > _CLASS_ROWS else ""
    return (
        heading("Reliability of each class")
        + paragraph(
            f"{which}: its probability on every row, against how often it was the true one, with 95 % bands.{drawn}"
        )
        + grid(pictures, small=True)
    )
