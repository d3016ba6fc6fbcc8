"""``legendretron predict``: classes and probabilities for new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from legendretron._internal.extras import import_extra
from legendretron.cli.options import (
    AnyModelFile,
    DataFile,
    DecimalOption,
    EncodingOption,
    FormatOption,
    Missing,
    MissingOption,
    NaOption,
    SepOption,
)
from legendretron.cli.outputs import check_outputs, check_suffix, frame_bytes, write_output
from legendretron.cli.report import Report, grid

__all__ = ["predict"]


def predict(
    report: Report,
    model: AnyModelFile,
    data: DataFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="File for the predictions: .csv, .tsv or .parquet.", show_default="print as CSV"
        ),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add a column p(class) for every class.")] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of DATA to write before the predictions, such as a number of the row; repeat it for several.",
            show_default=False,
        ),
    ] = None,
    missing: MissingOption = Missing.impute,
    sep: SepOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    na: NaOption = None,
    format: FormatOption = None,
) -> None:
    """Predict the class of each row of a table, in its order.

    The columns the model was fitted on are found by their names, wherever they are in the table; others are ignored.
    If predictions of another model were calibrated, these are the columns of its predictions.

    Probabilities are those of the true classes, also if some labels of the fit were wrong: see fit --label-noise.
    """
    import numpy as np

    from legendretron.cli.models import format_for, load_model, log_probability_parts, probabilities, table_for
    from legendretron.datasets.text_form import TextOptions

    if out is not None:
        check_suffix(out, (".csv", ".tsv", ".parquet"), "--out")
        check_outputs({"--out": out}, {"MODEL": model, "DATA": data})
    pandas = import_extra("pandas", "writing predictions", "cli")
    estimator = load_model(model)
    table = table_for(
        estimator, data, None, format_for(data, format), text=TextOptions(sep, decimal, encoding, tuple(na or ())),
        missing=str(missing), keep=keep or (),
    )  # fmt: skip
    if table.left_out:
        report.note(f"{table.left_out:,} rows with missing values were left out")
    numbers = np.empty(table.X.shape[0], dtype=np.intp)
    for rows, log_p in log_probability_parts(estimator, table):
        numbers[rows] = log_p.argmax(1)
    columns: dict[str, Any] = {} if table.kept is None else {name: table.kept[name].to_numpy() for name in table.kept}
    predicted: dict[str, Any] = {"prediction": estimator.classes_[numbers]}
    if proba:
        by_class = zip(estimator.classes_, probabilities(estimator, table).T, strict=True)
        predicted |= {f"p({label})": own for label, own in by_class}
    if twice := [name for name in columns if name in predicted or (name == "rows" and report.json)]:
        raise typer.BadParameter(f"{twice[0]!r} is the name of a column of predictions.", param_hint="'--keep'")
    columns |= predicted
    frame = pandas.DataFrame(columns)
    if out is None:
        report.result({"rows": len(frame), **columns}, frame_bytes(frame, ".csv").decode())
        return
    write_output(out, frame_bytes(frame, out.suffix.lower()))
    view = grid("prediction", "rows")
    for label, count in zip(*np.unique(columns["prediction"], return_counts=True), strict=True):
        view.add_row(str(label), f"{count:,}")
    view.caption = f"written to {out}"
    report.result({"rows": len(frame), "out": str(out), "columns": list(columns)}, view, even_if_quiet=False)
