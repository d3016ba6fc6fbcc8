"""``legendretron evaluate``: how good a model's probabilities are on a table with known labels."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from legendretron._internal.columns import quoted
from legendretron._internal.labels import label_text
from legendretron.cli.command_options import EvaluateOptions
from legendretron.cli.models import (
    LeftOut,
    Model,
    check_target,
    class_numbers,
    features_for,
    find_table,
    is_small,
    load_model,
    log_probabilities,
    tables_for,
    weights_of,
    without_names,
)
from legendretron.cli.options import wrong
from legendretron.cli.outputs import check_outputs, write_output, write_picture
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


def evaluate(terminal: Terminal, options: EvaluateOptions) -> None:
    """See :class:`~legendretron.cli.command_options.EvaluateOptions`."""
    plot, page, weight = options.plot, options.report, options.weight
    outputs, inputs = {"--plot": plot, "--report": page}, {"MODEL": options.model, "DATA": options.data}
    check_outputs(outputs, inputs if options.against is None else {**inputs, "--against": options.against})
    only_predict = page is None and is_small(options.data)
    models = {options.model.stem: load_model(options.model, only_predict=only_predict)}
    if options.against is not None:
        name = options.against.stem
        name = name if name not in models else str(options.against)
        models[name] = load_model(options.against, only_predict=only_predict)
    model, *others = models.values()
    parts = find_table(options.data, options.format, options.stream, outputs)
    check_target(parts, options, "which column contains the true classes?")
    if page is not None and not parts.whole:
        raise wrong("--report", "it needs all rows in memory, but DATA is read in batches; leave it out.")
    if weight == options.target and weight is not None:
        raise wrong("--weight", f"{weight!r} is the column of the true classes; name the column of the weights.")
    if others and not np.array_equal(model.classes_, others[0].classes_):
        raise ValueError(
            f"{str(options.against)!r} has other classes than {str(options.model)!r}; compare models of the same classes."
        )
    watch = DriftWatch()
    found = [
        _predict(model, parts, options, watch),
        *(_predict(other, parts, options, DriftWatch()) for other in others),
    ]
    if len(found) > 1 and not np.array_equal(found[0].rows, found[1].rows):
        raise ValueError(
            f"{str(options.against)!r} takes other columns of {str(options.data)!r}, with other missing values; fill them in."
        )
    y, weights, log_p = found[0].y, found[0].weights, [each.log_p for each in found]
    found[0].left_out.tell(terminal)
    n_classes = len(model.classes_)
    baseline = baseline_of(np.bincount(y, weights, n_classes))
    keys, report = ("model", "against")[: len(models)], None
    if page is None:
        scores = {key: scores_of(y, own, weights) for key, own in zip(keys, log_p, strict=True)}
    else:
        report = _report(models, [each.table for each in found], options.target, y, weights, log_p)
        scores = {key: report._measured.scores(key) for key in keys}
    by_class = class_scores(y, log_p[0].argmax(1), n_classes, weights)
    classes = [{"class": label, **row} for label, row in zip(model.classes_, by_class, strict=True)]
    payload = {
        "rows": len(y),
        "rows_left_out": found[0].left_out.total,
        "rows_without_label": found[0].left_out.unlabelled,
        **dataclasses.asdict(scores["model"]),
        "baseline": dataclasses.asdict(baseline),
        "against": dataclasses.asdict(scores["against"]) if others else None,
        "classes": classes,
        "drift": terminal.drift(watch.found),
        "plot": None if plot is None else str(plot),
        "report": None if page is None else str(page),
    }
    if page is not None and report is not None:
        write_output(page, report.to_html().encode())
        payload["summary"] = report.summary
        terminal.note(f"report: {page}")
    if plot is not None:
        predictions = {name: np.exp(own) for name, own in zip(models, log_p, strict=True)}
        write_reliability(plot, y, predictions, weights)
        terminal.note(f"picture: {plot}")
    view = score_view(f"{len(y):,} rows", **scores, baseline=baseline)
    terminal.result(payload, view, _class_view(classes))


class _Predicted(NamedTuple):
    """What a model predicts for the rows of a table."""

    table: Table  #: the last part of it
    left_out: LeftOut
    rows: np.ndarray  #: numbers of the rows in the files, of all parts
    y: np.ndarray  #: labels, as places of classes
    log_p: np.ndarray
    weights: np.ndarray | None


def _predict(model: Model, parts: TableParts, options: EvaluateOptions, watch: DriftWatch) -> _Predicted:
    """Predict all rows; of a table that is read in batches, labels and probabilities alone stay in memory."""
    reading, weight, left_out = options.reading, options.weight, LeftOut()
    if weight is not None:
        if weight in getattr(model, "feature_names_in_", ()):
            raise wrong("--weight", f"{weight!r} is a feature of the model; name the column of the weights.")
        reading["keep"] = [weight]
    rows, y, log_p, weights = [], [], [], []
    for table in tables_for(model, parts, options.target, **reading):
        left_out.add(table)
        if table.X.shape[0]:
            rows.append(table.numbers_of(np.arange(table.X.shape[0])))
            y.append(class_numbers(model, table))
            log_p.append(log_probabilities(model, table, watch))
            weights += [] if weight is None else [weights_of(table, weight)]
    if not y:
        raise ValueError("there is no row to evaluate.")
    if weights and not any(part.any() for part in weights):
        raise ValueError(
            f"column {weight!r} of {str(options.data)!r} holds only zeros; mend the column, or leave out --weight."
        )
    joined = [np.concatenate(each) if each else None for each in (rows, y, log_p, weights)]
    return _Predicted(table, left_out, *joined)  # type: ignore[arg-type]


def _report(
    models: dict[str, Model],
    tables: list[Table],
    target: str | None,
    y: np.ndarray,
    weights: np.ndarray | None,
    log_p: list[np.ndarray],
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
            target=target,
            facts={"SHA-256 of the file": digest},
            row_numbers=tables[0].rows,
            log_proba=tuple(log_p) if len(log_p) > 1 else log_p[0],
        )


def write_reliability(
    path: Path, y: np.ndarray, predictions: dict[str, np.ndarray], sample_weight: np.ndarray | None = None
) -> None:
    """Write a reliability diagram; errors in its legend are those of the scores."""
    from legendretron.plots import ReliabilityDisplay

    curves: dict[str, Any] = {"strategy": "smooth", "sample_weight": sample_weight}
    write_picture(path, lambda: ReliabilityDisplay.from_predictions(y, predictions, **curves))


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
