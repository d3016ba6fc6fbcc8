"""``legendretron evaluate``: how good a model's probabilities are on a table with known labels."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from legendretron._internal.extras import import_extra
from legendretron.cli.left_out import LeftOut
from legendretron.cli.options import (
    AnyModelFile,
    DataFile,
    DecimalOption,
    EncodingOption,
    FormatOption,
    Missing,
    MissingLabels,
    MissingLabelsOption,
    MissingOption,
    NaOption,
    SepOption,
    StreamOption,
    ThousandsOption,
)
from legendretron.cli.outputs import check_outputs, check_suffix, write_output
from legendretron.cli.report import Report, grid

if TYPE_CHECKING:
    import numpy as np

    from legendretron.cli.models import Model
    from legendretron.datasets.tables import Table
    from legendretron.diagnostics.scores import Scores
    from legendretron.report import EvaluationReport

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
    html: Annotated[
        Path | None,
        typer.Option("--report", help="File for a report (.html): one page with all about the model.",
                     show_default=False),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Another model, to put beside this one.", show_default=False, readable=False),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(help="Column of the weights of rows.", show_default=False, rich_help_panel="Data"),
    ] = None,
    missing: MissingOption = Missing.impute,
    missing_labels: MissingLabelsOption = MissingLabels.error,
    sep: SepOption = None,
    decimal: DecimalOption = None,
    thousands: ThousandsOption = None,
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
        label_text,
        load_model,
        log_probabilities,
        missing_target,
        table_for,
        tables_for,
        weights_of,
    )
    from legendretron.cli.streams import check_streamable, is_small, streamed_parts
    from legendretron.datasets.table_files import quoted
    from legendretron.datasets.text_form import TextOptions
    from legendretron.diagnostics.scores import baseline_of, class_scores, scores_of
    from legendretron.preprocessing.drift import DriftWatch

    if plot is not None:
        check_suffix(plot, (".png", ".svg", ".pdf"), "--plot")
        import_extra("matplotlib", "drawing", "plots")
    if html is not None:
        check_suffix(html, (".html", ".htm"), "--report")
    inputs = {"MODEL": model, "DATA": data, **({} if against is None else {"--against": against})}
    check_outputs({"--plot": plot, "--report": html}, inputs)
    only_predict = html is None and is_small(data)
    estimator = load_model(model, only_predict=only_predict)
    other = None if against is None else load_model(against, only_predict=only_predict)
    text = TextOptions(sep, decimal, encoding, tuple(na or ()), thousands)
    parts = streamed_parts(data, format, stream, {"--plot": plot, "--report": html})
    kind = format_for(data, format) if parts is None else parts.format
    if target is None and kind != "libsvm":
        raise missing_target(
            "which column holds the true classes?", data if parts is None else parts.files[0], kind, text
        )
    options: dict[str, Any] = {"text": text, "missing": str(missing), "missing_labels": str(missing_labels)}
    predictions: dict[str, np.ndarray] = {}
    watch = DriftWatch()
    weights = table = other_table = None
    if parts is not None:
        from legendretron.cli.running_scores import RunningScores

        check_streamable({"--report": html, "--against": against, "--weight": weight})
        running, left_out = RunningScores(len(estimator.classes_), limited=True), LeftOut()
        for table in tables_for(estimator, parts, target, **options):
            left_out.add(table)
            if table.X.shape[0]:
                running.add(class_numbers(estimator, table), log_probabilities(estimator, table, watch))
        scores, baseline, by_class = {"model": running.scores()}, running.baseline(), running.classes()
        n_rows, (y, log_p) = running.n_rows, running.some_rows()
    else:
        table = table_for(estimator, data, target, kind, weight=weight, **options)
        y, log_p = class_numbers(estimator, table), log_probabilities(estimator, table, watch)
        n_rows, left_out = len(y), LeftOut(table)
        weights = None if weight is None else weights_of(table, weight)
        scores = {} if html is not None else {"model": scores_of(y, log_p, weights)}
        baseline = baseline_of(np.bincount(y, weights, log_p.shape[1]))
        by_class = class_scores(y, log_p.argmax(1), log_p.shape[1], weights)
    predictions[model.stem] = np.exp(log_p)
    left_out.tell(report)
    if other is not None and against is not None and table is not None:
        if not np.array_equal(estimator.classes_, other.classes_):
            raise ValueError(
                f"{str(against)!r} has other classes than {str(model)!r}; compare models of the same classes."
            )
        other_table = table_for(other, data, target, kind, weight=weight, **options)
        # both are None unless rows with missing values are left out
        if table.rows is not None and not np.array_equal(table.rows, np.asarray(other_table.rows)):
            raise ValueError(
                f"{str(against)!r} takes other columns of {str(data)!r}, with other missing values; fill them in."
            )
        other_log_p = log_probabilities(other, other_table, DriftWatch())
        if html is None:
            scores["against"] = scores_of(y, other_log_p, weights)
        predictions[against.stem if against.stem != model.stem else str(against)] = np.exp(other_log_p)
    made = None
    if html is not None and table is not None:
        if len(present := np.unique(y if weights is None else y[weights > 0])) < 2:
            raise ValueError(
                f"{str(data)!r} has rows of one class only, {quoted([label_text(estimator.classes_[present[0]])])}; a report "
                "needs rows of at least two."
            )
        pair = None if other is None or other_table is None else (other, other_table)
        made = _report((estimator, table), pair, y, weights, [*predictions], log_p if pair is None else (log_p, other_log_p))
        write_output(html, made.to_html().encode())
        scores = {key: made._measured.scores(key) for key in ("model", "against") if key in made._measured.contestants}
    classes = [{"class": label, **row} for label, row in zip(estimator.classes_, by_class, strict=True)]
    payload = {
        "rows": n_rows,
        "rows_left_out": left_out.total,
        "rows_without_label": left_out.unlabelled,
        **dataclasses.asdict(scores["model"]),
        "baseline": dataclasses.asdict(baseline),
        "against": dataclasses.asdict(scores["against"]) if other is not None else None,
        "classes": classes,
        "drift": report.drift(watch.found),
        "plot": None if plot is None else str(plot),
        "report": None if html is None else str(html),
    }
    if made is not None:
        payload["summary"] = made.summary
        report.note(f"report: {html}")
    if plot is not None:
        write_output(plot, draw_reliability(y, predictions, plot.suffix, weights))
        report.note(f"picture: {plot}")
    views = score_view(f"{n_rows:,} rows", **scores, baseline=baseline), _class_view(classes)
    report.result(payload, *views)


def _report(
    model: tuple[Model, Table],
    against: tuple[Model, Table] | None,
    y: np.ndarray,
    weights: np.ndarray | None,
    names: list[str],
    log_proba: Any,
) -> EvaluationReport:
    """Evaluate a model on the table that was read for it, beside another one on its own columns of the same rows."""
    from legendretron.cli.models import features_for, without_names
    from legendretron.cli.wording import saying_options
    from legendretron.report import EvaluationReport

    estimator, table = model
    with table.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with saying_options(), without_names():
        return EvaluationReport(
            estimator,
            features_for(estimator, table),
            estimator.classes_[y],
            weights,
            None if against is None else (against[0], features_for(*against)),
            name=names[0],
            against_name=None if against is None else names[1],
            data=table.path.name,
            facts={"SHA-256 of the file": digest},
            row_numbers=table.rows,
            log_proba=log_proba,
        )


def draw_reliability(
    y: np.ndarray, predictions: dict[str, np.ndarray], suffix: str, sample_weight: np.ndarray | None = None
) -> bytes:
    """Return a reliability diagram in the format of a file extension; errors in its legend are those of the scores."""
    matplotlib = import_extra("matplotlib", "drawing", "plots")
    matplotlib.use("Agg")  # a file, never a window
    from matplotlib import pyplot

    from legendretron.plots import ReliabilityDisplay

    curves: dict[str, Any] = {"strategy": "smooth", "sample_weight": sample_weight}
    figure = ReliabilityDisplay.from_predictions(y, predictions, **curves).figure_
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
