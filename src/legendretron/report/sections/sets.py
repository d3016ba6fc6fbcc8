"""Sets of classes that are to hold the true one: how often they do, and how large they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from legendretron.calibration.prediction_sets import SetCalibration
from legendretron.diagnostics.intervals import drawn_means, interval
from legendretron.report.charts import Chart
from legendretron.report.markup import Cell, grid, note, number, paragraph, percent, section, table
from legendretron.report.measured import Measured

#: Coverages in the table, and the one that classes are listed for.
_ASKED, _USUAL = (0.8, 0.9, 0.95), 0.9
_TITLE = "Prediction sets"


def prediction_sets(model: Any, measured: Measured, seed: int) -> Markup:
    """Return the section on sets, of the model's own calibration."""
    rows, p = measured.rows, np.exp(measured.contestants["model"].log_p)
    calibration: SetCalibration | None = getattr(model, "set_calibration_", None)
    if calibration is None or not np.array_equal(model.classes_, rows.classes):
        return section(
            "sets", _TITLE, paragraph("The model has no prediction sets: call its calibrate_sets, if it has one.")
        )
    every, each = [*np.round(np.arange(0.5, 0.995, 0.05), 2).tolist(), 0.99], np.arange(len(rows))
    sets = {asked: calibration.predict(p, asked) for asked in every}
    columns = {
        asked: (found[each, rows.y].astype(float), found.sum(1), found.sum(1) == 1) for asked, found in sets.items()
    }
    means = {asked: [rows.mean(values.astype(float)) for values in own] for asked, own in columns.items()}
    draws = drawn_means(np.column_stack([columns[asked][0] for asked in _ASKED]), rows.weight, seed)
    listed = []
    for asked, drawn in zip(_ASKED, draws.T, strict=True):
        held = interval(means[asked][0], drawn)
        between = f"{percent(held.low)} to {percent(held.high)}"
        listed.append(
            [
                Cell.of(asked, percent(asked, 0)),
                Cell.of(held.value, percent(held.value), between),
                means[asked][1],
                Cell.share(means[asked][2]),
            ]
        )
    weight = np.bincount(rows.y, rows.weight, len(rows.classes))
    with np.errstate(invalid="ignore"):
        of_class = [np.bincount(rows.y, rows.weight * values, len(weight)) / weight for values in columns[_USUAL][:2]]
    by_class = [
        [name, Cell.share(float(held)), float(size)]
        for name, held, size, known in zip(rows.names, *of_class, weight > 0, strict=True)
        if known
    ]
    covered = [means[asked][0] for asked in every]
    chart = Chart("asked for", "rows whose set holds the label", (0.5, 1), (min(0.5, *covered), 1))
    chart.line([0.5, 1], [0.5, 1], "grey", dashed=True)
    tips = [
        f"asked for {percent(a)}: {percent(b)}, {number(means[a][1], 2)} classes"
        for a, b in zip(every, covered, strict=True)
    ]
    chart.line(every, covered, "c0", tips=tips)
    return section(
        "sets",
        _TITLE,
        paragraph(
            f"Sets of classes that are to hold the true one in {percent(_USUAL, 0)} of the rows hold the label in "
            f"{percent(means[_USUAL][0])}, and have {number(means[_USUAL][1], 2)} classes on average."
        ),
        table(["asked for", "holds the label", "classes in a set", "one class only"], listed),
        grid([chart.figure("Coverage")]),
        table(["class", f"held at {percent(_USUAL, 0)}", "classes in a set"], by_class, tall=len(by_class) > 12),
        note(f"{calibration} The most probable class is always in the set, so coverage is at least the accuracy."),
    )
