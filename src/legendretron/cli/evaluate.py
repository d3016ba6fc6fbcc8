"""``legendretron evaluate``: how good a model's probabilities are on a table with known labels."""

from __future__ import annotations

import dataclasses
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legendretron._internal.extras import import_extra
from legendretron.cli.options import AnyModelFile, DataFile, FormatOption
from legendretron.cli.outputs import check_outputs, check_suffix, write_output
from legendretron.cli.report import Report, grid

if TYPE_CHECKING:
    import numpy as np

    from legendretron.diagnostics.scores import Scores

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
    format: FormatOption = None,
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
    )
    from legendretron.diagnostics.scores import baseline_scores, class_scores, scores_of

    if plot is not None:
        check_suffix(plot, (".png", ".svg", ".pdf"), "--plot")
        check_outputs({"--plot": plot}, {"MODEL": model, "DATA": data})
        import_extra("matplotlib", "drawing", "plots")
    estimator = load_model(model)
    kind = format_for(data, format)
    if target is None and kind != "libsvm":
        raise missing_target("which column holds the true classes?", data, kind)
    table = table_for(estimator, data, target, kind)
    y = class_numbers(estimator, table)
    log_p = log_probabilities(estimator, table)
    scores, baseline = scores_of(y, log_p), baseline_scores(y, log_p.shape[1])
    classes = [
        {"class": label, **row}
        for label, row in zip(estimator.classes_, class_scores(y, log_p.argmax(1), log_p.shape[1]), strict=True)
    ]
    payload = {
        "rows": len(y),
        **dataclasses.asdict(scores),
        "baseline": dataclasses.asdict(baseline),
        "classes": classes,
        "plot": None if plot is None else str(plot),
    }
    if plot is not None:
        write_output(plot, draw_reliability(y, {model.stem: np.exp(log_p)}, plot.suffix))
        report.note(f"picture: {plot}")
    views = score_view(f"{len(y):,} rows", model=scores, baseline=baseline), _class_view(classes)
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
