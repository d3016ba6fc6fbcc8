"""``legendretron suspicious``: rows whose labels are probably wrong."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from legendretron._internal.extras import pandas
from legendretron.cli.command_options import THRESHOLD, SuspiciousOptions
from legendretron.cli.models import check_features, linear_of, load_estimator, read_labeled_table
from legendretron.cli.options import wrong
from legendretron.cli.outputs import (
    TABLES,
    check_outputs,
    file_or_none,
    frames_to,
    json_columns,
    write_picture,
)
from legendretron.cli.summaries import found_noise, noise_in_words
from legendretron.cli.terminal import Terminal, grid
from legendretron.datasets.tables import Table

if TYPE_CHECKING:
    from legendretron.estimators import TableClassifier
    from legendretron.estimators.base import LinearLinkClassifier

#: Parts of the rows, each judged by a model that was fitted to the others.
FOLDS = 5


def suspicious(terminal: Terminal, options: SuspiciousOptions) -> None:
    """See :class:`~legendretron.cli.command_options.SuspiciousOptions`."""
    model, data, out, plot = options.model, options.data, file_or_none(options.out), options.plot
    check_outputs({"--out": out, "--plot": plot}, {"MODEL": model, "DATA": data}, out_ends=TABLES)
    fitted = load_estimator(model)
    table, places = read_labeled_table(terminal, fitted, data, options, keep=options.keep or ())
    estimator = linear_of(fitted)
    y = estimator.classes_[places]
    try:
        folds = folds_for(estimator, y) if options.refit else None
    except ValueError as error:
        raise wrong("--refit", f"{error}; give --no-refit.") from error
    quality, suggested = judge(fitted, table, y, folds)
    frame = suspicious_frame(table, y, quality, suggested, options.threshold)
    payload = {
        "rows": len(y),
        "suspicious": len(frame),
        "threshold": options.threshold,
        "refit": options.refit,
        "label_noise": found_noise(estimator),
        "out": None if out is None else str(out),
        "plot": None if plot is None else str(plot),
    }
    if plot is not None:
        from legendretron.plots import LabelQualityDisplay

        write_picture(plot, LabelQualityDisplay(quality, options.threshold).plot)
        terminal.note(f"picture: {plot}")
    if out is None and terminal.json:
        if twice := [name for name in options.keep or () if name in payload]:
            raise wrong("--keep", f"{twice[0]!r} is the name of a part of the result.")
        terminal.result({**payload, **json_columns(frame, table.kept)})
        return
    with frames_to(out) as write:
        write(frame)
    if out is not None:
        terminal.result(payload, _view(payload), even_if_quiet=False)


def folds_for(estimator: LinearLinkClassifier, y: np.ndarray) -> int:
    """Return in how many parts to hold out rows; a ``ValueError`` if some rows could not be judged."""
    classes, counts = np.unique(y, return_counts=True)
    per_class = estimator.label_noise == "class-conditional" or np.ndim(estimator.label_noise) == 2
    alone = classes[counts < 2]
    if len(classes) < 2:
        raise ValueError(f"all labels are {str(classes[0])!r}, so nothing can be fitted to them")
    if len(alone) and (per_class or len(classes) - len(alone) < 2):
        raise ValueError(
            f"class {str(alone[0])!r} has one row, and a model fitted to the other rows does not know that class"
        )
    return int(min(FOLDS, counts.max()))


def judge(
    model: LinearLinkClassifier | TableClassifier, table: Any, y: np.ndarray, folds: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability that each label is right, and the most probable class of each row.

    The first is ``estimator.label_quality``. With ``folds``, rows are judged by models that have not seen them.
    """
    estimator = linear_of(model)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class in y has only")
        posterior = estimator._posterior(check_features(model, table), y, folds, groups=None)
    own = np.searchsorted(estimator.classes_, y)
    return posterior[np.arange(len(y)), own], estimator.classes_[posterior.argmax(1)]


def suspicious_frame(
    table: Table, y: np.ndarray, quality: np.ndarray, suggested: np.ndarray, threshold: float = THRESHOLD
) -> Any:
    """Return a data frame of the rows of a table below a threshold, the lowest quality first.

    After the columns to keep are the line of CSV or TSV, from 1 as in editors and in errors, and the number of the row,
    from 0 as in Python.
    """
    order = np.argsort(quality, kind="stable")
    places = order[quality[order] < threshold]
    lines = table.lines_of(places)
    columns = {} if table.kept is None else {name: table.kept[name].array[places] for name in table.kept}
    found = {
        **({} if lines is None else {"line": lines}),
        "row_from_0": table.numbers_of(places),
        "label": y[places],
        "suggested": suggested[places],
        "quality": quality[places],
    }
    if twice := [name for name in columns if name in found]:
        raise wrong("--keep", f"{twice[0]!r} is the name of a column of the result.")
    return pandas.DataFrame(columns | found)


def _view(payload: dict[str, Any]) -> Any:
    view = grid("suspicious rows", f"{payload['suspicious']:,} of {payload['rows']:,}")
    view.add_row("judged by", "models that have not seen them" if payload["refit"] else "the model itself")
    if payload["label_noise"] is not None:
        view.add_row("wrong labels in the fit", noise_in_words(payload["label_noise"]))
    view.add_row("written to", payload["out"])
    return view
