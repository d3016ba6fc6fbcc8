"""``legendretron predict``: classes and probabilities for new rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from legendretron._internal.extras import import_extra, pandas
from legendretron._internal.parameters import ParameterError
from legendretron.cli.command_options import PredictOptions
from legendretron.cli.models import (
    LeftOut,
    find_table,
    is_small,
    load_model,
    log_probability_parts,
    probabilities,
    tables_for,
)
from legendretron.cli.options import Missing, wrong
from legendretron.cli.outputs import TABLES, check_outputs, file_or_none, frames_to, json_columns
from legendretron.cli.terminal import Terminal, grid
from legendretron.datasets.tables import Table
from legendretron.preprocessing.drift import DriftWatch

#: Parts of the result that are no columns.
_OF_ALL_ROWS = ("rows", "rows_left_out", "drift")


def predict(terminal: Terminal, options: PredictOptions) -> None:
    """See :class:`~legendretron.cli.command_options.PredictOptions`."""
    out, data = file_or_none(options.out), options.data
    check_outputs({"--out": out}, {"MODEL": options.model, "DATA": data}, out_ends=TABLES)
    import_extra("pandas", "writing predictions", "cli")
    estimator = load_model(options.model, only_predict=is_small(data) and options.sets is None)
    if options.sets is not None:
        _check_sets(estimator, options)
    parts = find_table(data, options.format, options.stream, {"--out": out})
    watch, left_out = DriftWatch(), LeftOut()
    counts, names, columns, begun = Counter[Any](), list[str](), dict[str, list[Any]](), 0
    with frames_to(out) as write:
        for table in tables_for(estimator, parts, None, **options.reading, keep=options.keep or ()):
            first, n = begun, table.X.shape[0]
            begun += n + table.left_out
            left_out.add(table)
            if n == 0:
                continue
            frame = _predictions(estimator, table, options, terminal, watch, first)
            counts.update(frame["prediction"])
            names = list(frame)
            if out is None and terminal.json:
                for name, values in json_columns(frame, table.kept).items():
                    columns.setdefault(name, []).extend(values)
            else:
                write(frame)
        if not names:
            raise ValueError("there is no row to predict.")
    left_out.tell(terminal)
    payload = {"rows": sum(counts.values()), "rows_left_out": left_out.total, "drift": terminal.drift(watch.found)}
    if out is None:
        terminal.result({**payload, **columns})
        return
    view = grid("prediction", "rows")
    for label in sorted(counts):
        view.add_row(str(label), f"{counts[label]:,}")
    terminal.result({**payload, "out": str(out), "columns": names}, view, f"written to {out}", even_if_quiet=False)


def _check_sets(estimator: Any, options: PredictOptions) -> None:
    """Raise an error, before anything is read, if sets cannot be predicted."""
    try:
        estimator.set_calibration_.thresholds(options.sets)
    except AttributeError as error:
        calibrates = hasattr(estimator, "map_")
        way_out = (
            "its strength was given; calibrate again without --strength"
            if calibrates
            else "its penalties were given; fit it without --alpha and --link-alpha, or calibrate it"
        )
        raise wrong("--sets", f"{str(options.model)!r} has no held-out predictions, since {way_out}.") from error
    except ValueError as error:
        reason = f"it {error.reason}" if isinstance(error, ParameterError) else str(error)
        raise wrong("--sets", reason) from error


def _predictions(
    estimator: Any, table: Table, options: PredictOptions, terminal: Terminal, watch: DriftWatch, first: int
) -> Any:
    """Predictions for the rows of a table, the first of which is row ``first`` of DATA, after the columns to keep."""
    numbers = np.empty(table.X.shape[0], dtype=np.intp)
    for rows, log_p in log_probability_parts(estimator, table, watch):
        numbers[rows] = log_p.argmax(1)
    columns: dict[str, Any] = {} if table.kept is None else {name: table.kept[name].array for name in table.kept}
    predicted: dict[str, Any] = {}
    if options.missing == Missing.drop_rows:  # or else nobody could tell which rows these are
        predicted["row_from_0"] = first + table.numbers_of(np.arange(len(numbers))) - table.first_row
    predicted["prediction"] = estimator.classes_[numbers]
    if options.proba or options.sets is not None:
        p = probabilities(estimator, table)
        if options.proba:
            predicted |= {f"p({label})": own for label, own in zip(estimator.classes_, p.T, strict=True)}
        if options.sets is not None:
            sets = estimator.set_calibration_.predict(p, options.sets)
            predicted |= {f"set({label})": own for label, own in zip(estimator.classes_, sets.T, strict=True)}
    if twice := [name for name in columns if name in predicted or (name in _OF_ALL_ROWS and terminal.json)]:
        raise wrong("--keep", f"{twice[0]!r} is the name of a column of predictions.")
    return pandas.DataFrame(columns | predicted)
