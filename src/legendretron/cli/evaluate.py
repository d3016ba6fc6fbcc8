"""``legendretron evaluate``: how good a model's probabilities are on a table with known labels."""

from __future__ import annotations

import dataclasses
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    StreamOption,
)
from legendretron.cli.outputs import check_outputs, check_suffix, write_output
from legendretron.cli.report import Report, grid

if TYPE_CHECKING:
    import numpy as np

    from legendretron.cli.scores import Scores

__all__ = ["draw_reliability", "evaluate", "score_view"]

_NAMES = {
    "accuracy": "accuracy (higher is better)",
    "log_loss": "log-loss (lower)",
    "brier": "Brier score (lower)",
    "calibration_error": "calibration error (lower)",
    "auc": "area under the ROC curve (higher)",
}


def evaluate(
    report: Report,
    model: AnyModelFile,
    data: DataFile,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", help="Column of the true classes. LIBSVM text needs none.", show_default=False,
            rich_help_panel="Data",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="File for a picture (.png, .svg or .pdf) of predicted against observed frequencies.",
                     show_default=False),
    ] = None,
    missing: MissingOption = Missing.impute,
    sep: SepOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    na: NaOption = None,
    format: FormatOption = None,
    stream: StreamOption = None,
) -> None:  # fmt: skip
    """Score a model on rows whose classes are known, preferably rows that it was not fitted on.

    The model is compared with a baseline that ignores the features: it predicts the class frequencies of this table for
    every row. A model that is no better has learned nothing.
    """
    import numpy as np

    from legendretron.cli.models import (
        class_numbers,
        format_for,
        load_model,
        log_probabilities,
        missing_target,
        table_for,
        tables_for,
    )
    from legendretron.cli.running_scores import RunningScores
    from legendretron.cli.streams import streamed_parts
    from legendretron.datasets.text_form import TextOptions

    if plot is not None:
        check_suffix(plot, (".png", ".svg", ".pdf"), "--plot")
        check_outputs({"--plot": plot}, {"MODEL": model, "DATA": data})
        import_extra("matplotlib", "drawing", "plots")
    estimator = load_model(model)
    text = TextOptions(sep, decimal, encoding, tuple(na or ()))
    parts = streamed_parts(data, format, stream, {"--plot": plot})
    kind = format_for(data, format) if parts is None else parts.format
    if target is None and kind != "libsvm":
        raise missing_target(
            "which column holds the true classes?", data if parts is None else parts.files[0], kind, text
        )
    running, left_out = RunningScores(len(estimator.classes_), limited=parts is not None), 0
    if parts is None:
        tables = iter([table_for(estimator, data, target, kind, text=text, missing=str(missing))])
    else:
        tables = tables_for(estimator, parts, target, text=text, missing=str(missing))
    for table in tables:
        left_out += table.left_out
        if table.X.shape[0]:
            running.add(class_numbers(estimator, table), log_probabilities(estimator, table))
    if left_out:
        report.note(f"{left_out:,} rows with missing values were left out")
    scores, baseline = running.scores(), running.baseline()
    classes = [{"class": label, **row} for label, row in zip(estimator.classes_, running.classes(), strict=True)]
    payload = {
        "rows": running.n_rows,
        **dataclasses.asdict(scores),
        "baseline": dataclasses.asdict(baseline),
        "classes": classes,
        "plot": None if plot is None else str(plot),
    }
    if plot is not None:
        y, log_p = running.some_rows()
        write_output(plot, draw_reliability(y, {model.stem: np.exp(log_p)}, plot.suffix))
        report.note(f"picture: {plot}")
    views = score_view(f"{running.n_rows:,} rows", model=scores, baseline=baseline), _class_view(classes)
    report.result(payload, *views)


def draw_reliability(y: np.ndarray, predictions: dict[str, np.ndarray], suffix: str) -> bytes:
    """Return a reliability diagram in the format of a file extension."""
    matplotlib = import_extra("matplotlib", "drawing", "plots")
    matplotlib.use("Agg")  # a file, never a window
    from matplotlib import pyplot

    from legendretron.plots import ReliabilityDisplay

    figure = ReliabilityDisplay.from_predictions(y, predictions).figure_
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=130, format=suffix.lstrip(".").lower())
    pyplot.close(figure)
    return buffer.getvalue()


def _number(value: float, pattern: str) -> str:
    return "-" if math.isnan(value) else format(value, pattern)


def score_view(title: str, **scores: Scores) -> Any:
    """Return a table of scores, a column for each of the names."""
    view = grid(title, *scores)
    for key, name in _NAMES.items():
        pattern = ".2%" if key == "accuracy" else "z.4f"  # z: no negative zero
        view.add_row(name, *(_number(getattr(of, key), pattern) for of in scores.values()))
    return view


def _class_view(classes: list[dict[str, Any]]) -> Any:
    view = grid("class", "rows", "precision", "recall")
    for row in classes:
        view.add_row(
            str(row["class"]), f"{row['rows']:,}", _number(row["precision"], ".2%"), _number(row["recall"], ".2%")
        )
    return view
