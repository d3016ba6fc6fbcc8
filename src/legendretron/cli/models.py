"""Models of the command line: loading them, and reading data for them, whole or in batches."""

from __future__ import annotations

import bisect
import glob
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from legendretron._internal.artifacts import read_kind
from legendretron._internal.columns import quoted
from legendretron._internal.extras import pandas
from legendretron._internal.labels import label_text, similar_texts
from legendretron._internal.numbers import PLAIN
from legendretron.cli.options import LabeledTableOptions, wrong
from legendretron.cli.outputs import check_no_input
from legendretron.cli.terminal import Terminal
from legendretron.datasets.table_files import FORMATS, format_of, header_of
from legendretron.datasets.tables import (
    Table,
    TableParts,
    as_matrix,
    as_numbers,
    check_numbers,
    find_parts,
    numbers_among,
    read_in_chunks,
)
from legendretron.datasets.text_form import numbers_in
from legendretron.preprocessing.drift import DriftWatch

if TYPE_CHECKING:
    from legendretron.estimators import LegendreCalibrator, LegendreNetClassifier, TableClassifier
    from legendretron.estimators.base import LinearLinkClassifier
    from legendretron.estimators.numpy_predictor import NumpyPredictor


class LeftOut:
    """Counts of rows that were left out of a table, or of its parts: those with gaps, and those without a label."""

    def __init__(self, *tables: Table) -> None:
        self.incomplete = self.unlabelled = 0
        self._lost: set[str] = set()  # labels of these rows
        self._there: set[str] = set()  # labels of all others
        for table in tables:
            self.add(table)

    def add(self, table: Table) -> None:
        """Take in what was left out of a table."""
        there = [] if table.y is None else [*table.classes]
        there += [] if table.written is None else {*table.written.tolist()}
        self.count(table.left_out, table.unlabelled, table.labels_left_out, there)

    def count(self, incomplete: int, unlabelled: int, lost: Collection[Any], there: Collection[Any]) -> None:
        """Take in numbers of rows that were left out, their labels, and the labels of all others."""
        self.incomplete += incomplete
        self.unlabelled += unlabelled
        self._lost |= {label_text(label) for label in lost}
        self._there |= {label_text(label) for label in there}

    @property
    def total(self) -> int:
        """All rows that were left out."""
        return self.incomplete + self.unlabelled

    def tell(self, terminal: Terminal) -> None:
        """Say how many there are, and warn of classes that have no other rows."""
        for number, what in ((self.unlabelled, "without a label"), (self.incomplete, "with missing values")):
            if number:
                terminal.note(
                    f"{number:,} row{'s' if number > 1 else ''} {what} {'were' if number > 1 else 'was'} left out"
                )
        if vanished := sorted(self._lost - self._there):
            classes = f"{'class' if len(vanished) == 1 else 'classes'} {quoted(vanished)}"
            terminal.warning(f"all rows of {classes} have missing values and were left out.")


#: What ``predict`` and ``evaluate`` take: what ``fit`` writes, and what ``calibrate`` does.
Model: TypeAlias = (
    "LinearLinkClassifier | LegendreNetClassifier | TableClassifier | LegendreCalibrator | NumpyPredictor"
)

#: Names of their classes, which files hold.
_MODELS = (
    "LegendreTronClassifier",
    "PaperLegendreTronClassifier",
    "MultinomialLogisticClassifier",
    "LegendreNetClassifier",
    "TableClassifier",
    "LegendreCalibrator",
)


def is_model(path: Path) -> bool:
    """Whether a file, whole or damaged, is a model rather than a table."""
    return path.suffix.lower() == ".safetensors" or read_kind(path) in _MODELS


def load_model(path: Path, *, only_predict: bool = False) -> Model:
    """Read a model written by ``fit`` or ``calibrate``, or by the ``save`` of an estimator or a calibrator.

    With ``only_predict``, one that need not import torch and scikit-learn, where there is a quick way to its predictions.
    """
    if only_predict:
        from legendretron.estimators.numpy_predictor import load_predictor

        if (predictor := load_predictor(path)) is not None:
            return predictor
    from legendretron.estimators import load

    try:
        return load(path)
    except ValueError as error:
        if any(path.suffix.lower() in ends for ends in FORMATS.values()):
            raise ValueError(f"{str(path)!r} is a table, not a model; give the model first, then the data.") from error
        raise


def load_estimator(path: Path) -> LinearLinkClassifier | TableClassifier:
    """Read a model written by ``fit``, or by the ``save`` of an estimator."""
    from legendretron.estimators import LegendreCalibrator

    model: Any = load_model(path)
    if isinstance(model, LegendreCalibrator):
        raise ValueError(f"{str(path)!r} was written by 'legendretron calibrate'; give a model that 'fit' wrote.")
    return model


def find_table(
    data: Path, format: str | None, stream: bool | None = False, outputs: Mapping[str, Path | None] | None = None
) -> TableParts:
    """The files of a table, and whether it is read into memory. Outputs, by their options, must not be among them."""
    if data.is_fifo():
        raise ValueError(f"{str(data)!r} is a pipe, which can be read only once; write the data to a file first.")
    if data.is_dir() or (not data.is_file() and glob.has_magic(str(data))):
        parts = find_parts(data, format)
        if stream is False and len(parts.files) > 1:
            raise wrong("DATA", f"{str(data)!r} is {len(parts.files)} files, which are read in batches; give one file.")
    else:
        try:
            parts = TableParts((data,), format_of(data, format))
        except ValueError as error:
            reason = (
                f"the name of {str(data)!r} does not tell its format; give one of {', '.join(FORMATS)}, or convert it."
            )
            raise wrong("--format", reason) from error
        if stream is None:
            stream = data.is_file() and data.stat().st_size >= _LARGE
    for path in parts.files:
        check_no_input(outputs or {}, {"DATA": path})
    return replace(parts, whole=stream is False)


def check_target(parts: TableParts, options: LabeledTableOptions, question: str) -> None:
    """Raise a usage error that asks for the column of the labels, and lists the columns, if none is given."""
    if options.target is None and parts.format != "libsvm":
        names, most = header_of(parts.files[0], parts.format, options.text), 20
        rest = f" and {len(names) - most} more" if len(names) > most else ""
        raise wrong("--target", f"{question} There are: {', '.join(names[:most])}{rest}.")


def linear_of(model: Any) -> Any:
    """Return the estimator with a linear predictor: the model itself, or the one behind an encoder."""
    return getattr(model, "estimator_", model)


def _is_calibrator(model: Model) -> TypeGuard[LegendreCalibrator]:
    return "map_" in vars(model)  # without an import of its class


def _find_inner_model(model: Model) -> Any:
    """The model that a calibrator calibrates, or the model itself."""
    if _is_calibrator(model) and model.estimator is not None:
        inner = model.estimator_
        # a FrozenEstimator has the fitted model in it, a TableClassifier one that is not fitted
        return inner if "encoder_" in vars(inner) else getattr(inner, "estimator", inner)
    return model


def _find_table_classifier(model: Model) -> Any:
    """The classifier of tables that a model is, or calibrates; None if there is none."""
    inner = _find_inner_model(model)
    return inner if hasattr(inner, "encoder_") else None


def tables_for(model: Model, parts: TableParts, target: str | None, **reading: Any) -> Iterator[Table]:
    """Read the features that a model knows, in its order, as one table or in parts; other columns are ignored."""
    wanted = _columns_for(model, parts.files[0], target, parts.format)
    return (_ready(model, table) for table in read_in_chunks(parts, target, **reading, **wanted))


def read_labeled_table(
    terminal: Terminal, model: Model, data: Path, options: LabeledTableOptions, **more: Any
) -> tuple[Table, np.ndarray]:
    """Read a table for a model, say which rows are left out, and return it with its labels as places in ``classes_``."""
    parts = find_table(data, options.format)
    check_target(parts, options, "which column contains the labels?")
    (table,) = tables_for(model, parts, options.target, **options.reading, **more)
    LeftOut(table).tell(terminal)
    return table, class_numbers(model, table)


def _columns_for(model: Model, path: Path, target: str | None, format: str) -> dict[str, Any]:
    """Which columns to read for a model, as arguments of ``read_columns``."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None and target in names:
        raise wrong("--target", f"{target!r} is a feature of the model; name the column of the true classes.")
    if format == "libsvm":
        if _is_calibrator(model) and model.estimator is None:
            raise ValueError(
                f"{str(path)!r} is LIBSVM text, but the model calibrates predictions; give a CSV, TSV or Parquet file."
            )
        if _find_table_classifier(model) is not None:
            raise ValueError(
                f"{str(path)!r} is LIBSVM text, but the model was fitted to a table with named columns; give such a table."
            )
        return {"n_features": model.n_features_in_}
    if (encoded := _find_table_classifier(model)) is not None:
        columns = [column for column in encoded.encoder_.columns_ if not column.is_left_out]
        as_text = [column.name for column in columns if column.kind == "categories"]
        return {"features": [column.name for column in columns], "as_text": as_text}
    return {} if names is None else {"features": [str(name) for name in names]}


def _ready(model: Model, table: Table) -> Table:
    """A table that was read for a model, after a check of the number of its columns; numbers unless it is to be encoded."""
    if (encoded := _find_table_classifier(model)) is not None:
        if table.marks != PLAIN:  # the encoder does not know how the numbers in text are written
            there = numbers_among(table)
            columns = [column.name for column in encoded.encoder_.columns_ if column.kind == "number"]
            check_numbers(table, [name for name in columns if name not in there])
        return table
    names = None if hasattr(model, "feature_names_in_") else table.feature_names
    if names is not None and len(names) != model.n_features_in_:
        raise ValueError(
            f"the model was fitted on {model.n_features_in_} features without names, but {str(table.path)!r} has "
            f"{len(names)}: {quoted(names)}; leave only the model's, in their order."
        )
    return as_numbers(table)


def weights_of(table: Table, column: str) -> np.ndarray:
    """Return the weights of rows from a column that :func:`tables_for` has kept."""
    kept = table.kept[column]
    numbers = pandas.to_numeric(kept, errors="coerce") if table.form is None else numbers_in(kept, table.marks)
    weights: np.ndarray = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        raise ValueError(
            f"column {column!r} of {str(table.path)!r} must contain weights that are numbers and not negative, got "
            f"{kept[bad].iloc[0]!r} in {table.place_of(int(bad.argmax()))}; mend it, or leave out --weight."
        )
    return weights


def log_probability_parts(
    model: Model, table: Table, watch: DriftWatch | None = None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of the rows of a table that :func:`tables_for` has read, with their log-probabilities."""
    X = check_features(model, table, watch)
    yield from (model if _is_calibrator(model) else linear_of(model))._predict_parts(X, log=True)


def features_for(model: Model, table: Table) -> Any:
    """Return the features of a table that :func:`tables_for` has read, with names if the model knows names."""
    return table.X if hasattr(model, "feature_names_in_") else as_matrix(table)


def check_features(model: Model, table: Table, watch: DriftWatch | None = None) -> Any:
    """Return the features of a table that :func:`tables_for` has read, as the model takes them; of a calibrator, scores.

    Values that are not like those of the fit are counted by ``watch``, if it is given, and else named in a warning.
    """
    check, X = model._check_features, features_for(model, table)
    try:
        with without_names(), watch or nullcontext():
            checked = check(X)
    except ValueError as error:
        with without_names(), DriftWatch():
            row = _first_refused(check, X)
        if row is None:
            raise
        raise ValueError(f"{str(table.path)!r}, {table.place_of(row)}: {error}") from error
    if watch is not None and hasattr(inner := _find_inner_model(model), "_usual"):
        from legendretron.preprocessing.drift import feature_tallies

        watch.add(feature_tallies(inner, X))
    return checked


def _first_refused(check: Callable[[Any], Any], X: Any) -> int | None:
    """The first row that a check refuses, by halving; None if it refuses no row alone, or if rows have no place in a file."""
    if not hasattr(X, "iloc"):
        return None

    def refuses(rows: slice) -> bool:
        try:
            check(X.iloc[rows])
        except ValueError:
            return True
        return False

    row = bisect.bisect_left(range(len(X)), True, key=lambda last: refuses(slice(0, last + 1)))
    return row if row < len(X) and refuses(slice(row, row + 1)) else None


@contextmanager
def without_names() -> Iterator[None]:
    """Inside the block, features need no names: LIBSVM text has none, and its features are numbered as the model's are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield


def log_probabilities(model: Model, table: Table, watch: DriftWatch | None = None) -> np.ndarray:
    """Return the log-probabilities of a table that :func:`tables_for` has read."""
    dtype = np.float64 if _is_calibrator(model) else linear_of(model)._precision()
    log_p = np.empty((table.X.shape[0], len(model.classes_)), dtype=dtype)
    for rows, part in log_probability_parts(model, table, watch):
        log_p[rows] = part
    return log_p


def probabilities(model: Model, table: Table) -> np.ndarray:
    """Return what ``predict_proba`` gives for a table that :func:`tables_for` has read."""
    if _is_calibrator(model):
        return np.exp(log_probabilities(model, table, DriftWatch()))
    X = check_features(model, table, DriftWatch())
    return linear_of(model)._predict_all(X, log=False)


def class_numbers(model: Model, table: Table) -> np.ndarray:
    """Return the labels of a table as indices into ``classes_``.

    They are compared as text, first as parsed and then as written: a column of numbers or booleans in one file may be text
    in another.
    """
    assert table.y is not None
    texts = [label_text(label) for label in model.classes_]
    # labels of a file have no white space at their ends; those of a model fitted in Python may
    places = {text.strip(): place for place, text in enumerate(texts)} | {
        text: place for place, text in enumerate(texts)
    }
    found = [_find_places(labels, places) for labels in (table.y, table.written) if labels is not None]
    numbers = next((numbers for numbers, unknown in found if not unknown), None)
    if numbers is None:
        numbers, unknown = found[0]
        where = "" if table.feature_names is None else f", the first in {table.place_of(int((numbers < 0).argmax()))}"
        raise ValueError(
            f"{str(table.path)!r} has labels that the model does not know: {quoted(unknown)}{where}; it knows "
            f"{quoted(texts)}{_alike(unknown, texts)}."
        )
    return numbers


def _alike(unknown: list[str], known: list[str]) -> str:
    """The end of a sentence on labels that differ only by case, or white space, from known ones."""
    groups = [group for group in similar_texts([*known, *unknown]) if not {*group} <= {*known}]
    pairs = [(group[-1], group[0]) for group in groups if group[0] in known]
    return f"; {pairs[0][0]!r} differs from {pairs[0][1]!r} only by case or white space" if pairs else ""


def _find_places(labels: np.ndarray, places: dict[str, int]) -> tuple[np.ndarray, list[str]]:
    """Indices of labels, and the labels that are unknown."""
    codes, different = pandas.factorize(np.asarray(labels), use_na_sentinel=False)
    texts = [label_text(label) for label in different]
    unknown = sorted(text for text in texts if text not in places)
    return np.asarray([places.get(text, -1) for text in texts])[codes], unknown


#: Bytes from which a file is read in batches.
_LARGE = 2**30
#: Bytes below which torch and scikit-learn take longer to import than predictions take without them.
_SMALL = 2**24


def is_small(data: Path) -> bool:
    """Whether a table is one file of little size."""
    return data.is_file() and data.stat().st_size < _SMALL
