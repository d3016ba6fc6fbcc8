"""Which classes are told apart: per class, confusions, ROC and precision-recall curves, and sets of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from legendretron.calibration.prediction_sets import SetCalibration
from legendretron.diagnostics.intervals import drawn_means, interval
from legendretron.diagnostics.scores import RankingCurve, class_scores
from legendretron.plots import PredictionSetDisplay
from legendretron.plots.chart import Chart, Line
from legendretron.plots.label_quality import measure_sets
from legendretron.report.charts import chart_figure, heat_map
from legendretron.report.markup import (
    Cell,
    beside,
    block,
    figure,
    grid,
    note,
    number,
    paragraph,
    percent,
    rows_in_words,
    section,
    table,
)
from legendretron.report.measured import Measured
from legendretron.report.sections.scores import unpredicted_in_words

#: Most classes of a heat map, and of one with numbers in its cells.
_MAPPED, _WRITTEN = 30, 12
#: Pairs that are listed.
_PAIRS = 15
#: Curves that are drawn: all classes if there are no more, else the worst and the best.
_CURVES = 6
#: With fewer rows, the area of a class has no interval.
_LEAST_FOR_ERROR = 10


def classes(measured: Measured, errors: np.ndarray) -> Markup:
    """Return the section with a row for every class; ``errors`` (C,) are those of calibration."""
    rows, model = measured.rows, measured.contestants["model"]
    names, share = rows.names, rows.share
    predicted = rows.weight @ np.exp(model.log_p) / len(rows)
    found = class_scores(rows.y, model.rows.predicted, len(names), rows.weight)
    areas = measured.areas["model"]
    recall = np.array([row["recall"] for row in found])
    order = np.argsort(recall, kind="stable").tolist()  # classes without rows are last
    ranked = np.bincount(rows.y[measured.ranked], minlength=len(names))
    body, uncertain = [], False
    for k in order:
        half = 1.96 * areas.error[k]
        low, high = max(areas.area[k] - half, 0.0), min(areas.area[k] + half, 1.0)
        between = ""
        if min(ranked[k], len(measured.ranked) - ranked[k]) >= _LEAST_FOR_ERROR and half > 0:
            between = f"{number(low)} to {number(high)}"
        else:
            uncertain = True
        body.append(
            [
                str(rows.classes[k]),
                Cell.of(found[k]["rows"], f"{found[k]['rows']:,}"),
                Cell.share(found[k]["recall"]),
                Cell.share(found[k]["precision"]),
                Cell.of(float(areas.area[k]), small=between),
                Cell.share(float(share[k])),
                Cell.share(float(predicted[k])),
                Cell.share(float(errors[k])),
            ]
        )
    worst, best = order[0], order[int(np.isfinite(recall).sum()) - 1]
    said = rows.spoken
    if recall[worst] < recall[best]:
        intro = (
            f"Recall is lowest for {said[worst]}, {percent(recall[worst])}, and highest for {said[best]}, "
            f"{percent(recall[best])}."
        )
    else:
        intro = f"Recall is {percent(recall[best])} for every class."
    intro = " ".join(
        [intro, unpredicted_in_words(measured).replace("It", "The model", 1), "Click a column head to sort."]
    )
    few = note(
        f"Areas have no interval where a class, or all others, have fewer than {_LEAST_FOR_ERROR} rows, or no mistake."
    )
    heads = [
        "class",
        "rows",
        "recall: found",
        "precision: right when predicted",
        "area under ROC",
        "share of rows",
        "mean probability",
        "calibration error",
    ]
    listed = table(heads, body, tall=len(names) > 12)
    return section("classes", "Class by class", paragraph(intro), listed, few if uncertain else "")


def confusions(measured: Measured) -> Markup:
    """Return the section on mistakes."""
    rows, model = measured.rows, measured.contestants["model"]
    names, n = rows.names, len(rows.classes)
    flat = rows.y * n + model.rows.predicted
    different, place = np.unique(flat, return_inverse=True)
    weight = np.bincount(place, rows.weight)
    count, sure = np.bincount(place), np.bincount(place, rows.weight * model.rows.confidence) / weight
    own = np.bincount(rows.y, rows.weight, n)
    wrong = [k for k in np.argsort(-weight, kind="stable") if different[k] // n != different[k] % n]
    listed = []
    for k in wrong[:_PAIRS]:
        true, predicted = divmod(int(different[k]), n)
        listed.append(
            [
                names[true],
                names[predicted],
                Cell.of(int(count[k]), f"{count[k]:,}"),
                Cell.share(float(weight[k] / own[true])),
                Cell.share(float(sure[k])),
            ]
        )
    if not wrong:
        return section("confusions", "Mistakes", paragraph("No row is predicted wrongly."))
    total = float(weight[wrong].sum())
    first = float(weight[wrong[: len(listed)]].sum())
    true, predicted = divmod(int(different[wrong[0]]), n)
    said = rows.spoken
    intro = (
        f"The most frequent mistake is to predict {said[predicted]} instead of {said[true]}, on "
        f"{percent(float(weight[wrong[0]] / own[true]))} of the rows of {said[true]}."
    )
    picture = Markup("")
    if n <= _MAPPED:
        matrix = np.zeros(n * n)
        matrix[different] = weight
        numbers = np.zeros(n * n, dtype=int)
        numbers[different] = count
        with np.errstate(invalid="ignore"):
            share = np.nan_to_num(matrix.reshape(n, n) / own[:, None])

        def tip(a: int, b: int) -> str:
            many = rows_in_words(int(numbers[a * n + b]))
            return f"true {names[a]}, predicted {names[b]}\n{many}, {percent(share[a, b])} of the class"

        cells = heat_map(share, numbers.reshape(n, n), names, tip, text=n <= _WRITTEN)
        told = " Numbers are rows, and percent of the true class." if n <= _WRITTEN else ""
        picture = figure(
            cells, f"True classes in rows, predicted ones in columns; blue is right, orange is wrong.{told}"
        )
    covered = (
        f"These {len(listed)} pairs are {percent(first / total)} of all mistakes." if len(wrong) > len(listed) else ""
    )
    heads = ["true class", "predicted", "rows", "share of the class", "mean confidence"]
    pairs = block(table(heads, listed), note(covered) if covered else Markup(""))
    return section("confusions", "Mistakes", paragraph(intro), beside(picture, pairs, names))


def ranking(measured: Measured) -> Markup:
    """Return the section of ROC and precision-recall curves."""
    rows, model = measured.rows, measured.contestants["model"]
    chosen, names = measured.ranked, measured.rows.spoken
    y, weight = rows.y[chosen], rows.weight[chosen]
    areas = measured.areas["model"].area
    if len(names) == 2:
        drawn = [1]
    else:
        order = [int(k) for k in np.argsort(areas, kind="stable") if np.isfinite(areas[k])]
        drawn = order if len(order) <= _CURVES else [*order[: _CURVES // 2], *order[-_CURVES // 2 :]]
    ends = np.array([0.0, 1.0])
    roc, found = [Line(ends, ends, style="--")], []
    for place, k in enumerate(drawn):
        scores = model.log_p[chosen, k] - (model.log_p[chosen, 1 - k] if len(names) == 2 else 0.0)
        curve = RankingCurve.of(scores, y == k, weight)
        false, found_share = curve.roc
        roc.append(Line(false, found_share, f"{names[k]} (area {number(areas[k])})", place))
        label = f"{names[k]} (average precision {number(curve.average_precision)})"
        found.append(Line(curve.recall[::-1], curve.precision[::-1], label, place))
    unit = (0.0, 1.0)
    charts = {
        "ROC curve": Chart("false positives: share of the other rows", "share of the class found", roc, "", unit, unit),
        "Precision-recall curve": Chart("recall: share of the class found", "precision", found, "", unit, unit),
    }
    each = f"{_CURVES // 2} classes"
    if len(names) == 2:
        which = f"of {names[1]} against {names[0]}"
    elif len(drawn) == int(np.isfinite(areas).sum()):
        which = "of each class against all others"
    else:
        which = f"of the {each} with the smallest area and the {each} with the largest, each against all others"
    sampled = ""
    if len(chosen) < len(rows):
        sampled = note(f"From {rows_in_words(len(chosen))} drawn at random.")
    return section(
        "ranking",
        "Ranking: ROC and precision-recall",
        paragraph(
            f"Curves {which}. The area under a ROC curve is the probability that a row of the class is ranked above another "
            "row; one half is guessing."
        ),
        grid([chart_figure(chart, caption, height=330) for caption, chart in charts.items()]),
        sampled,
    )


#: Coverages that are drawn, those in the table, and the one that classes are listed for.
_EVERY = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99]
_ASKED, _USUAL = (0.8, 0.9, 0.95), 0.9
_TITLE = "Prediction sets"


def prediction_sets(model: Any, measured: Measured, log_p: np.ndarray, seed: int, *, recorded: bool) -> Markup:
    """Return the section on sets, of the model's own calibration and from what it predicts.

    ``recorded`` says whether some labels of the rows are taken to be wrong.
    """
    rows = measured.rows
    calibration: SetCalibration | None = getattr(model, "set_calibration_", None)
    if calibration is None or not np.array_equal(model.classes_, rows.classes):
        return section(
            "sets", _TITLE, paragraph("The model has no prediction sets: call its calibrate_sets, if it has one.")
        )
    p = np.exp(log_p)
    held, size = measure_sets(calibration, p, rows.y, _EVERY)
    coverage, mean_size, single = (values @ rows.weight / len(rows) for values in (held, size, size == 1))
    some = [_EVERY.index(asked) for asked in _ASKED]
    draws = drawn_means([*held[some]], rows.weight, seed)
    listed = []
    for place, asked, drawn in zip(some, _ASKED, draws.T, strict=True):
        found = Cell.estimate(interval(float(coverage[place]), drawn), percent)
        listed.append(
            [Cell.of(asked, percent(asked, 0)), found, float(mean_size[place]), Cell.share(float(single[place]))]
        )
    usual = _EVERY.index(_USUAL)
    weight = np.bincount(rows.y, rows.weight, len(rows.classes))
    with np.errstate(invalid="ignore"):
        of_class = [np.bincount(rows.y, rows.weight * values[usual], len(weight)) / weight for values in (held, size)]
    by_class = [
        [name, Cell.share(float(share)), float(classes)]
        for name, share, classes, known in zip(rows.names, *of_class, weight > 0, strict=True)
        if known
    ]
    chart = PredictionSetDisplay(_EVERY, coverage, mean_size).chart()
    return section(
        "sets",
        _TITLE,
        paragraph(
            f"Prediction sets with a nominal coverage of {percent(_USUAL, 0)} contain the label in "
            f"{percent(float(coverage[usual]))} of the rows, and have {number(float(mean_size[usual]), 2)} classes "
            f"on average.{' They are for true classes: wrong labels lower the coverage.' if recorded else ''}"
        ),
        table(["nominal coverage", "coverage", "mean size", "sets of one class"], listed),
        grid([chart_figure(chart, "Coverage")]),
        table(["class", f"held at {percent(_USUAL, 0)}", "classes in a set"], by_class, tall=len(by_class) > 12),
        note(f"{calibration} The most probable class is always in the set, so coverage is at least the accuracy."),
    )
