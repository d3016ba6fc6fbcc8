"""Whether probabilities can be taken as they are: reliability, and what recalibration would bring."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from legendretron.diagnostics import SmoothCalibrationCurve, smooth_calibration_curve
from legendretron.diagnostics.decomposition import Recalibrated
from legendretron.diagnostics.smooth_calibration import smooth_error_of_outcomes
from legendretron.report.charts import Chart
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
from legendretron.report.measured import CalibrationError, Measured
from legendretron.report.sections.scores import COLOURS, calibration_in_words

#: Cells of a smooth curve for each point that is drawn.
_STEP = 32
#: Bars of the histogram of confidences.
_BARS = 20
#: Classes with a picture of their own, the worst first.
_PICTURES = 12
#: Rows that curves of single classes are drawn from, and numbers (rows x classes) that their errors are computed from.
_CLASS_ROWS, _CLASS_NUMBERS = 5000, 5e5
_DRAWS, _CLASS_DRAWS = 100, 60


def _some(n: int, most: int, seed: int) -> np.ndarray:
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def class_errors(measured: Measured, key: str, seed: int) -> np.ndarray:
    """Return the smooth calibration error of the probability of each class, ``(C,)``."""
    rows, log_p = measured.rows, measured.contestants[key].log_p
    some = _some(len(rows), int(_CLASS_NUMBERS / log_p.shape[1]), seed)
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
        "Probabilities are calibrated if of all rows that are given 70 %, seven in ten come true. Those of "
        f"the model {words}. The curve shows how often the predicted class was right, against the probability "
        "that it was given; on the dashed line both agree, below it the model promises too much."
    )
    parts = [intro, grid([_top_label(measured, seed), _histogram(measured)]), _decompose(measured, fitted)]
    if len(measured.rows.classes) > 2:
        parts.append(_by_class(measured, errors, seed))
    return section("calibration", "Can the probabilities be trusted?", *parts)


def _reliability(measured: Measured, keys: list[str], seed: int, small: bool, **curve: object) -> Chart | None:
    """Return smooth curves of some contestants; None if no part of the axis has rows enough for one."""
    width, height = (240, 210) if small else (400, 330)
    axes = "predicted probability", "how often it came true"
    chart = Chart(*axes, (0, 1), (0, 1), small=small, width=width, height=height)
    chart.line([0, 1], [0, 1], "grey", dashed=True)
    rows = measured.rows
    n, draws = (_CLASS_ROWS, _CLASS_DRAWS) if small else (len(rows), _DRAWS)
    some, drawn = _some(len(rows), n, seed), False
    for key in keys:
        p = np.exp(measured.contestants[key].log_p[some])
        p /= p.sum(1, keepdims=True)
        found: SmoothCalibrationCurve = smooth_calibration_curve(
            rows.y[some],
            p,
            n_bootstrap=draws,
            level=0.95,
            seed=seed,
            sample_weight=rows.weight[some],
            **curve,  # type: ignore[arg-type]
        )
        x = found.confidence[_STEP // 2 :: _STEP]
        y, low, high = (values[_STEP // 2 :: _STEP] for values in (found.frequency, found.low, found.high))
        name = measured.contestants[key].name
        tips = [
            f"{name}\npredicted {percent(a)}, came true {percent(b)}\n95 % band {percent(c, 0)} to {percent(d, 0)}"
            for a, b, c, d in zip(x.tolist(), y.tolist(), low.tolist(), high.tolist(), strict=True)
        ]
        chart.band(x, low, high, COLOURS[key])
        chart.line(x, y, COLOURS[key], name if len(keys) > 1 else "", tips=tips)
        drawn = drawn or bool(np.isfinite(y).any())
    return chart if drawn else None


def _models(measured: Measured) -> list[str]:
    return [key for key in ("model", "against") if key in measured.contestants]


def _top_label(measured: Measured, seed: int) -> Markup:
    chart = _reliability(measured, _models(measured), seed, small=False, kind="top")
    if chart is None:
        return note("There are too few rows to draw how often the predicted class was right.")
    return chart.figure("Reliability of the predicted class, smooth, with 95 % bands")


def _histogram(measured: Measured) -> Markup:
    edges = np.linspace(0, 1, _BARS + 1)
    chart_share = {}
    for key in _models(measured):
        scores = measured.contestants[key].rows
        count, _ = np.histogram(scores.confidence, edges, weights=measured.rows.weight)
        chart_share[key] = count / count.sum()
    most = max(float(share.max()) for share in chart_share.values())
    chart = Chart("probability of the predicted class", "share of rows", (0, 1), (0, 1.05 * most), height=330)
    middle = (edges[:-1] + edges[1:]) / 2
    for key, share in chart_share.items():
        tips = [
            f"{percent(share[k])} of the rows got {percent(edges[k], 0)} to {percent(edges[k + 1], 0)}"
            for k in range(_BARS)
        ]
        if key == "model":
            name = measured.contestants[key].name if len(chart_share) > 1 else ""
            chart.histogram(edges, share, COLOURS[key], tips, name)
        else:
            chart.line(middle, share, COLOURS[key], measured.contestants[key].name)
    accuracy, gap = measured.score("model", "accuracy").value, measured.score("model", "gap").value
    text = f"How sure the model is: {percent(accuracy + gap)} on average, and right on {percent(accuracy)}"
    return chart.figure(text)


def _decompose(measured: Measured, fitted: dict[str, Recalibrated]) -> Markup:
    if not fitted:
        return note("There are too few rows to recalibrate the model on some and to judge the others.")
    rows = []
    for loss, title in (("log", "Log-loss"), ("brier", "Brier score")):
        for key in fitted:
            name = measured.contestants[key].name
            parts = measured.parts[key, loss]
            cost, rest, most = parts.calibration, parts.refinement, parts.uncertainty
            rows.append(
                [
                    f"{name}, {title}",
                    cost.value + rest.value,
                    Cell.of(cost.value, number(cost.value, 4), f"{number(cost.low, 4)} to {number(cost.high, 4)}"),
                    Cell.of(rest.value, small=f"{number(rest.low)} to {number(rest.high)}"),
                    most.value,
                    Cell.of(
                        parts.resolution.value,
                        small=f"{number(parts.resolution.low)} to {number(parts.resolution.high)}",
                    ),
                ]
            )
    own, maps = measured.parts["model", "log"].calibration, fitted["model"]
    if own.sign > 0:
        share = own.value / measured.score("model", "log_loss").value
        verdict = f"Recalibration would lower the log-loss by {number(own.value, 4)}, {percent(share)} of it."
    else:
        verdict = "Recalibration would not clearly lower the log-loss: the interval of the gain holds zero."
    temperature = float(np.exp(np.mean(np.log(maps.temperatures))))
    return (
        heading("Calibration and refinement")
        + paragraph(
            f"{verdict} What is left, refinement, could only be lowered by telling classes apart better. The best "
            f"temperature is {number(temperature, 2)}; above 1 it makes probabilities less extreme, below 1 more."
        )
        + table(["", "score", "calibration", "refinement", "uncertainty", "resolution"], rows)
        + note(
            "Calibration is the score less that of the same model after recalibration by LegendreCalibrator, fitted to at "
            f"most {rows_in_words(maps.fitted_to)} of these rows and judged on others, in {len(maps.temperatures)} turns. A "
            "slightly negative value means that there was nothing to learn. Uncertainty is the score of the class "
            "frequencies, and resolution what is saved of it: refinement is uncertainty less resolution."
        )
    )


def _by_class(measured: Measured, errors: np.ndarray, seed: int) -> Markup:
    rows, names = measured.rows, measured.rows.spoken
    count = np.bincount(rows.y, minlength=len(names))
    worst = [k for k in np.argsort(-errors, kind="stable") if count[k] > 0][:_PICTURES]
    pictures = []
    for k in worst:
        chart = _reliability(measured, _models(measured), seed, small=True, kind="classwise", column=int(k))
        if chart is not None:
            pictures.append(figure(chart.svg(), f"{names[k]}: error {percent(float(errors[k]))}"))
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
