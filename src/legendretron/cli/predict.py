"""``legendretron predict``: classes and probabilities for new rows."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from legendretron._internal.extras import import_extra, pandas
from legendretron.cli.command_options import PredictOptions
from legendretron.cli.models import (
    LeftOut,
    Model,
    find_streamed_parts,
    format_for,
    is_small,
    load_model,
    log_probability_parts,
    probabilities,
    table_for,
    tables_for,
)
from legendretron.cli.options import wrong
from legendretron.cli.outputs import (
    TABLES,
    check_outputs,
    file_or_none,
    frame_bytes,
    frames_to,
    json_columns,
    text_of,
    write_output,
)
from legendretron.cli.terminal import Terminal, grid
from legendretron.datasets.tables import Table
from legendretron.preprocessing.drift import DriftWatch


def predict(terminal: Terminal, options: PredictOptions) -> None:
    """See :class:`~legendretron.cli.command_options.PredictOptions`."""
    out, data = file_or_none(options.out), options.data
    check_outputs({"--out": out}, {"MODEL": options.model, "DATA": data}, out_ends=TABLES)
    import_extra("pandas", "writing predictions", "cli")
    estimator = load_model(options.model, only_predict=is_small(data) and options.sets is None)
    if options.sets is not None:
        _check_sets(estimator, options)
    reading = {**options.reading, "keep": options.keep or ()}
    watch = DriftWatch()
    parts = find_streamed_parts(data, options.format, options.stream, {"--out": out})
    if parts is not None:
        tables = tables_for(estimator, parts, None, **reading)
        try:
            _predict_in_parts(estimator, tables, options, out, terminal, watch)
        except KeyboardInterrupt as stopped:
            what = "predictions are not complete" if out is None else "no predictions were written"
            raise KeyboardInterrupt(f"interrupted, {what}") from stopped
        return
    table = table_for(estimator, data, None, format_for(data, options.format), **reading)
    frame = _predictions(estimator, table, options, terminal, watch)
    LeftOut(table).tell(terminal)
    drift = terminal.drift(watch.found)
    if out is None:
        terminal.result(
            {"rows": len(frame), "drift": drift, **json_columns(frame, table.kept)}, frame_bytes(frame, ".csv").decode()
        )
        return
    write_output(out, frame_bytes(frame, out.suffix.lower()))
    _tell(Counter(frame["prediction"]), list(frame), drift, out, terminal)


def _check_sets(estimator: Any, options: PredictOptions) -> None:
    """Raise an error, before anything is read, if sets cannot be predicted."""
    try:
        estimator.set_calibration_.thresholds(options.sets)
    except AttributeError as error:
        reason = (
            f"{str(options.model)!r} has no held-out predictions, since its penalties were given; fit it without "
            "--alpha and --link-alpha, or calibrate it."
        )
        raise wrong("--sets", reason) from error
    except ValueError as error:
        raise wrong("--sets", str(error)) from error


def _predictions(estimator: Any, table: Table, options: PredictOptions, terminal: Terminal, watch: DriftWatch) -> Any:
    """Predictions for the rows of a table, after the columns to keep."""
    numbers = np.empty(table.X.shape[0], dtype=np.intp)
    for rows, log_p in log_probability_parts(estimator, table, watch):
        numbers[rows] = log_p.argmax(1)
    columns: dict[str, Any] = {} if table.kept is None else {name: table.kept[name].array for name in table.kept}
    predicted: dict[str, Any] = {"prediction": estimator.classes_[numbers]}
    if options.proba or options.sets is not None:
        p = probabilities(estimator, table)
        if options.proba:
            predicted |= {f"p({label})": own for label, own in zip(estimator.classes_, p.T, strict=True)}
        if options.sets is not None:
            sets = estimator.set_calibration_.predict(p, options.sets)
            predicted |= {f"set({label})": own for label, own in zip(estimator.classes_, sets.T, strict=True)}
    if twice := [name for name in columns if name in predicted or (name in ("rows", "drift") and terminal.json)]:
        raise wrong("--keep", f"{twice[0]!r} is the name of a column of predictions.")
    return pandas.DataFrame(columns | predicted)


def _predict_in_parts(
    estimator: Model,
    tables: Iterator[Table],
    options: PredictOptions,
    out: Path | None,
    terminal: Terminal,
    watch: DriftWatch,
) -> None:
    """Predict some rows after the other, and write as it goes; the file is there when all of them are in it."""
    if out is None and terminal.json:
        reason = "with --json, predictions for a table that is read in batches go to a file; give it."
        raise wrong("--out", reason)
    counts: Counter[Any] = Counter()
    names: list[str] = []
    left_out = LeftOut()
    with nullcontext() if out is None else frames_to(out) as write:
        for table in tables:
            left_out.add(table)
            if table.X.shape[0] == 0:
                continue
            frame = _predictions(estimator, table, options, terminal, watch)
            if write is None:
                sys.stdout.write(text_of(frame, ".csv", header=not names))
            else:
                write(frame)
            names = list(frame)
            counts.update(frame["prediction"])
        if not names:
            raise ValueError("there is no row to predict.")
    left_out.tell(terminal)
    drift = terminal.drift(watch.found)
    if out is not None:
        _tell(counts, names, drift, out, terminal)


def _tell(counts: Counter[Any], names: list[str], drift: list[dict[str, Any]], out: Path, terminal: Terminal) -> None:
    view = grid("prediction", "rows")
    for label in sorted(counts):
        view.add_row(str(label), f"{counts[label]:,}")
    view.caption = f"written to {out}"
    rows = sum(counts.values())
    terminal.result({"rows": rows, "drift": drift, "out": str(out), "columns": names}, view, even_if_quiet=False)
