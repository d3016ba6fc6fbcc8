"""``legendretron evaluate``: how good a model's probabilities are on a table with known labels."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from legendretron._internal.columns import quoted
from legendretron._internal.labels import label_text
from legendretron.cli.command_options import EvaluateOptions
from legendretron.cli.models import (
    LeftOut,
    Model,
    check_streamable,
    class_numbers,
    features_for,
    find_streamed_parts,
    format_for,
    is_small,
    load_model,
    log_probabilities,
    missing_target,
    table_for,
    tables_for,
    weights_of,
    without_names,
)
from legendretron.cli.options import find_given
from legendretron.cli.outputs import check_outputs, draw_picture, write_output
from legendretron.cli.terminal import Terminal, grid
from legendretron.datasets.tables import Table, TableParts
from legendretron.diagnostics.scores import Scores, baseline_of, class_scores, scores_of
from legendretron.preprocessing.drift import DriftWatch

if TYPE_CHECKING:  # it imports torch and scikit-learn, which takes seconds
    from legendretron.report import EvaluationReport

_NAMES = {
    "accuracy": "accuracy (higher is better)",
    "log_loss": "log-loss (lower)",
    "brier": "Brier score (lower)",
    "calibration_error": "calibration error (lower)",
    "auc": "area under the ROC curve (higher)",
}


class _Evaluated(NamedTuple):
    """What a command has found out about a model, and perhaps another."""

    n_rows: int
    left_out: LeftOut
    scores: dict[str, Scores]  #: of "model", and of "against"
    baseline: Scores
    classes: list[dict[str, float]]  #: rows, precision and recall of each
    y: np.ndarray  #: labels, of some of the rows if there are very many
    log_p: dict[str, np.ndarray]  #: log-probabilities of these rows, by the name of the model
    weights: np.ndarray | None = None
    report: EvaluationReport | None = None


def evaluate(terminal: Terminal, options: EvaluateOptions) -> None:
    """See :class:`~legendretron.cli.command_options.EvaluateOptions`."""
    data, plot, page = options.data, options.plot, options.report
    outputs, inputs = {"--plot": plot, "--report": page}, {"MODEL": options.model, "DATA": data}
    check_outputs(outputs, inputs if options.against is None else {**inputs, "--against": options.against})
    only_predict = page is None and is_small(data)
    model = load_model(options.model, only_predict=only_predict)
    other = None if options.against is None else load_model(options.against, only_predict=only_predict)
    parts = find_streamed_parts(data, options.format, options.stream, outputs)
    kind = format_for(data, options.format) if parts is None else parts.format
    if options.target is None and kind != "libsvm":
        first = data if parts is None else parts.files[0]
        raise missing_target("which column contains the true classes?", first, kind, options.text)
    watch = DriftWatch()
    if parts is not None:
        check_streamable(find_given(options, "report", "against", "weight"))
        found = _evaluate_in_parts(options, model, parts, watch)
    else:
        found = _evaluate_whole(options, model, other, kind, watch)
    found.left_out.tell(terminal)
    classes = [{"class": label, **row} for label, row in zip(model.classes_, found.classes, strict=True)]
    payload = {
        "rows": found.n_rows,
        "rows_left_out": found.left_out.total,
        "rows_without_label": found.left_out.unlabelled,
        **dataclasses.asdict(found.scores["model"]),
        "baseline": dataclasses.asdict(found.baseline),
        "against": None if other is None else dataclasses.asdict(found.scores["against"]),
        "classes": classes,
        "drift": terminal.drift(watch.found),
        "plot": None if plot is None else str(plot),
        "report": None if page is None else str(page),
    }
    if page is not None and found.report is not None:
        write_output(page, found.report.to_html().encode())
        payload["summary"] = found.report.summary
        terminal.note(f"report: {page}")
    if plot is not None:
        predictions = {name: np.exp(log_p) for name, log_p in found.log_p.items()}
        write_output(plot, draw_reliability(found.y, predictions, plot.suffix, found.weights))
        terminal.note(f"picture: {plot}")
    view = score_view(f"{found.n_rows:,} rows", **found.scores, baseline=found.baseline)
    terminal.result(payload, view, _class_view(classes))


def _evaluate_in_parts(options: EvaluateOptions, model: Model, parts: TableParts, watch: DriftWatch) -> _Evaluated:
    """Score a model on a table that is read in batches."""
    from legendretron.cli.running_scores import RunningScores  # which imports torch

    running, left_out = RunningScores(len(model.classes_)), LeftOut()
    for table in tables_for(model, parts, options.target, **options.reading):
        left_out.add(table)
        if table.X.shape[0]:
            running.add(class_numbers(model, table), log_probabilities(model, table, watch))
    scores, (y, log_p) = {"model": running.scores()}, running.some_rows()
    return _Evaluated(
        running.n_rows, left_out, scores, running.baseline(), running.classes(), y, {options.model.stem: log_p}
    )


def _evaluate_whole(
    options: EvaluateOptions, model: Model, other: Model | None, format: str, watch: DriftWatch
) -> _Evaluated:
    """Score a model, and another one beside it, on a table in memory: by the report, if there is to be one."""

    def read(model: Model) -> Table:
        return table_for(model, options.data, options.target, format, weight=options.weight, **options.reading)

    models, tables = {options.model.stem: model}, [read(model)]
    y, log_p = class_numbers(model, tables[0]), [log_probabilities(model, tables[0], watch)]
    weights = None if options.weight is None else weights_of(tables[0], options.weight)
    if other is not None and options.against is not None:
        if not np.array_equal(model.classes_, other.classes_):
            raise ValueError(
                f"{str(options.against)!r} has other classes than {str(options.model)!r}; compare models of the same "
                "classes."
            )
        tables.append(read(other))
        # both are None unless rows with missing values are left out
        if tables[0].rows is not None and not np.array_equal(tables[0].rows, np.asarray(tables[1].rows)):
            raise ValueError(
                f"{str(options.against)!r} takes other columns of {str(options.data)!r}, with other missing values; fill "
                "them in."
            )
        log_p.append(log_probabilities(other, tables[1], DriftWatch()))
        name = options.against.stem
        models[name if name not in models else str(options.against)] = other
    n_classes = len(model.classes_)
    baseline = baseline_of(np.bincount(y, weights, n_classes))
    by_class = class_scores(y, log_p[0].argmax(1), n_classes, weights)
    keys, report = ("model", "against")[: len(models)], None
    if options.report is None:
        scores = {key: scores_of(y, own, weights) for key, own in zip(keys, log_p, strict=True)}
    else:
        report = _report(models, tables, y, weights, log_p)
        scores = {key: report._measured.scores(key) for key in keys}
    predicted = dict(zip(models, log_p, strict=True))
    return _Evaluated(len(y), LeftOut(tables[0]), scores, baseline, by_class, y, predicted, weights, report)


def _report(
    models: dict[str, Model], tables: list[Table], y: np.ndarray, weights: np.ndarray | None, log_p: list[np.ndarray]
) -> EvaluationReport:
    """Evaluate a model on the table that was read for it, beside another one on its own columns of the same rows."""
    from legendretron.report import EvaluationReport

    path, model = tables[0].path, next(iter(models.values()))
    if len(present := np.unique(y if weights is None else y[weights > 0])) < 2:
        raise ValueError(
            f"{str(path)!r} has rows of one class only, {quoted([label_text(model.classes_[present[0]])])}; a report needs "
            "rows of at least two."
        )
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    names = [*models, None]
    given = [(own, features_for(own, table)) for own, table in zip(models.values(), tables, strict=True)]
    with without_names():
        return EvaluationReport(
            *given[0],
            model.classes_[y],
            weights,
            given[1] if len(given) > 1 else None,
            name=names[0],
            against_name=names[1],
            data=path.name,
            facts={"SHA-256 of the file": digest},
            row_numbers=tables[0].rows,
            log_proba=tuple(log_p) if len(log_p) > 1 else log_p[0],
        )


def draw_reliability(
    y: np.ndarray, predictions: dict[str, np.ndarray], suffix: str, sample_weight: np.ndarray | None = None
) -> bytes:
    """Return a reliability diagram in the format of a file extension; errors in its legend are those of the scores."""
    from legendretron.plots import ReliabilityDisplay

    curves: dict[str, Any] = {"strategy": "smooth", "sample_weight": sample_weight}
    return draw_picture(lambda: ReliabilityDisplay.from_predictions(y, predictions, **curves), suffix)


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
