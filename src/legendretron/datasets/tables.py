"""Reading a table as features and labels: one file as a whole, or one or several in parts."""

from __future__ import annotations

import glob
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from legendretron._internal.columns import check_known, choose_names, quoted
from legendretron._internal.extras import pandas
from legendretron._internal.labels import label_text
from legendretron._internal.numbers import EXACT, PLAIN, Marks, marks_of
from legendretron._internal.parameters import check_choice, spell
from legendretron.datasets.table_files import SUFFIXES, FileRows, Wanted, format_of, read_frames
from legendretron.datasets.text_file import lines_of_rows, place_of_row
from legendretron.datasets.text_form import (
    GUESS,
    TextForm,
    TextOptions,
    marks_in,
    numbers_and_words,
    numbers_in,
    type_columns,
)

#: What to do with rows in which features are missing: leave that to others, leave out the rows, or raise an error.
MISSING = ("impute", "drop-rows", "error")
#: What to do with rows whose label is missing.
MISSING_LABELS = ("error", "drop")

_PLACES = 3  #: of missing labels that a message names
_ENTRIES = 2**20  #: of a table that are looked at together
#: What counts as a missing label, in text files and in others.
_MARKS_ARE = {True: "empty, NA, NaN, null and the like count as such", False: "null and the empty text count as such"}


@dataclass(frozen=True)
class Table:
    r"""What :func:`read_table` returns.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "flowers.csv")
    ...     _ = path.write_text("width,kind\n1.5,rose\n2.5,tulip\n")
    ...     table = read_table(path, "kind")
    >>> table.X.shape, table.target
    ((2, 1), 'kind')
    """

    path: Path  #: the file
    X: Any  #: (n, d), features: a data frame of floats; of LIBSVM text an array or a sparse matrix
    y: np.ndarray | None  #: (n,), labels: integers, booleans or strings; None if no target was given
    feature_names: tuple[str, ...] | None  #: names of the columns of ``X``; None for LIBSVM text, which has none
    target: str | None  #: the column of the labels
    written: np.ndarray | None = None  #: (n,), the labels as the text of a CSV or TSV file has them
    rows: np.ndarray | None = None  #: (n,), numbers of the rows in the file, from 0, if some were left out
    left_out: int = 0  #: rows that were left out since features are missing
    unlabelled: int = 0  #: rows that were left out since the label is missing
    labels_left_out: frozenset[str] = frozenset()  #: labels of rows that were left out, as text
    kept: Any = None  #: data frame of the columns that were to be kept, as they stand in the file
    form: TextForm | None = None  #: how a CSV or TSV file is written
    first_row: int = 0  #: number of the first row in the file, if the table is a part of it
    marks: Marks = PLAIN  #: how numbers in text are written

    def place_of(self, row: int) -> str:
        """Where in the file a row of the table stands: a line of text, or a row group of Parquet."""
        return place_of_row(self.path, int(self.numbers_of(np.array([row]))[0]), self.form)

    def numbers_of(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of rows of the table in the file, from 0."""
        numbers: np.ndarray = self.first_row + rows if self.rows is None else self.rows[rows]
        return numbers

    def lines_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Lines of the file at which rows of the table begin, from 1; None if it is not CSV or TSV, or they are not found."""
        if self.form is None:
            return None
        numbers = self.numbers_of(rows).tolist()
        lines = lines_of_rows(self.path, set(numbers), self.form)
        return np.array([lines[number] for number in numbers], dtype=np.int64) if len(lines) == len(numbers) else None

    @property
    def classes(self) -> np.ndarray:
        """The different labels, sorted."""
        if self.y is None:
            raise ValueError(f"{str(self.path)!r} was read without a target, so there are no classes; name one.")
        return np.unique(self.y)


def read_table(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    format: str | None = None,
    n_features: int | None = None,
    text: TextOptions | None = None,
    missing_labels: str = "error",
) -> Table:
    r"""Read features and labels from a file: CSV, TSV, Parquet, Feather, JSON lines, Excel (its first sheet) or LIBSVM text.

    Every feature must be a number, without missing values: otherwise the error names the columns. (Tables with more are for
    :class:`~legendretron.TableClassifier`.) White space at the ends of names, labels and other text is taken off. Nothing is
    unpickled.

    Parameters
    ----------
    path : path
        The file. Text may be compressed (``.gz``, ``.bz2``, ``.xz``). The first line of CSV and TSV holds the names.
    target : str, optional
        Column of the labels. Labels that are whole numbers become integers, unless some are written with leading zeros: then
        all are kept as they are written. Not needed for LIBSVM, whose lines begin with the label.
    features : sequence of str, optional
        Columns to take, in this order; all but the target if not given.
    drop : sequence of str, optional
        Columns to leave out.
    format : {"csv", "tsv", "parquet", "feather", "jsonl", "excel", "libsvm"}, optional
        By the file extension if not given.
    n_features : int, optional
        Number of features of a LIBSVM file, whose lines leave out zeros; the largest that occurs if not given.
    text : TextOptions, optional
        Separator, decimal mark, encoding and marks of missing values of CSV and TSV; guessed if not given.
    missing_labels : {"error", "drop"}, default="error"
        What to do with rows whose label is missing: raise an error that says where they are, or leave them out.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "flowers.csv")
    ...     _ = path.write_text("width,length,kind\n1.5,2,rose\n2.5,1,tulip\n")
    ...     table = read_table(path, "kind")
    >>> table.feature_names, table.y.tolist()
    (('width', 'length'), ['rose', 'tulip'])
    """
    return as_numbers(
        read_columns(
            path, target, features=features, drop=drop, format=format, n_features=n_features,
            text=text or GUESS, missing_labels=missing_labels,
        )
    )  # fmt: skip


def read_columns(
    path: str | os.PathLike[str], target: str | None = None, *, format: str | None = None, **how: Any
) -> Table:
    """Read features as they are: numbers, text and dates, with gaps. Labels are as in :func:`read_table`.

    For the other arguments see :class:`~legendretron.datasets.table_files.Wanted`.
    """
    path, wanted = Path(path), Wanted(target, **how)
    check_choice("missing", wanted.missing, MISSING)
    check_choice("missing_labels", wanted.missing_labels, MISSING_LABELS)
    kind = format_of(path, format)
    if kind == "libsvm":
        return _from_libsvm(path, wanted)
    (read,) = read_frames(path, kind, wanted)
    if len(read.frame) == 0:
        raise ValueError(f"{str(path)!r} has column names but no rows.")
    table = columns_of(path, read, wanted)
    if table.rows is not None and not len(table.rows):
        what = (
            "has a label" if not table.left_out else "is without a missing value; leave out the columns that are empty"
        )
        raise ValueError(f"no row of {str(path)!r} {what}.")
    return table


def numbers_among(table: Table) -> list[str]:
    """Names of the features that are numbers."""

    def is_number(column: Any) -> bool:
        if column.dtype == object:  # integers that are too long for 64 bits
            return pandas.api.types.infer_dtype(column, skipna=True) in ("integer", "mixed-integer-float")
        return _is_numeric(column.dtype) and not pandas.api.types.is_bool_dtype(column.dtype)

    return [name for name in table.X.columns if is_number(table.X[name])]


def codes_among(table: Table) -> list[str]:
    """Names of the features that are digits, but no numbers, since some begin with a zero or are very long."""
    texts = [name for name in table.X.columns if not _is_numeric(table.X[name].dtype)]
    return [name for name in texts if all(str(text).isdigit() for text in table.X[name].dropna().unique())]


def whole_numbers_among(table: Table) -> list[str]:
    """Names of the features of a text file that are whole numbers from 0 up, as codes without leading zeros are."""
    if table.form is None:
        return []
    numbers = {name: table.X[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in numbers_among(table)}
    return [name for name, own in numbers.items() if not ((own < 0) | (own != np.floor(own)) & ~np.isnan(own)).any()]


def columns_of(
    path: Path,
    read: FileRows,
    wanted: Wanted,
    *,
    first_row: int = 0,
    faults: dict[int, str] | None = None,
    in_parts: bool = False,
) -> Table:
    """Features and labels of what was read from a file, or, if it is read in parts, of one that begins at ``first_row``.

    With a dictionary for ``faults``, rows without a label, or with text or an infinite value in a column of ``numbers``, are
    left out and added there.
    """
    target, missing, missing_labels = wanted.target, wanted.missing, wanted.missing_labels
    frame, kept = read.frame, read.kept
    check_known(repr(str(path)), list(frame.columns), wanted.keep)
    left_out_columns = [*(wanted.drop or ()), *(name for name in wanted.only_kept if name != target)]
    columns = choose_columns(path, list(frame.columns), target, wanted.features, left_out_columns)
    needed = {*columns, target}
    for name in [name for name, dtype in frame.dtypes.items() if dtype.kind == "O" and name in needed]:
        if (nested := _first_nested(frame[name])) is not None:
            or_not = "" if name == target else f", or leave the column out ({spell('drop', name)})"
            raise ValueError(
                f"column {name!r} of {str(path)!r} holds values of type {type(nested).__name__}, which are neither numbers, "
                f"dates nor text; convert them{or_not}."
            )
    labeled = np.ones(len(frame), dtype=bool) if target is None else frame[target].notna().to_numpy()
    if missing_labels == "error" and faults is None and not labeled.all():
        raise _missing_labels_error(path, read, target, first_row + np.flatnonzero(~labeled), in_parts)
    whole = labeled if missing_labels == "drop" else np.ones(len(frame), dtype=bool)
    if missing == "drop-rows":
        whole = whole & frame[columns].notna().all(axis=1).to_numpy()
    unlabelled = int((~labeled).sum()) if missing_labels == "drop" else 0
    left_out = int((~whole).sum()) - unlabelled
    rows, lost = None, frozenset[str]()
    if missing == "drop-rows" or missing_labels == "drop":
        rows = first_row + np.flatnonzero(whole)
        if target is not None:
            lost = frozenset(label_text(label) for label in frame[target][labeled & ~whole].unique())
        frame, kept = frame[whole], None if kept is None else kept[whole]
        if read.form is not None and not whole.all():
            frame = type_columns(frame, read.form, wanted.texts, wanted.may_hold_codes)
    if faults is not None:
        frame, found = without_faults(frame, target, [name for name in wanted.numbers if name in columns], read.form)
        rows = np.arange(first_row, first_row + len(read.frame)) if rows is None else rows
        faults |= {int(rows[row]): fault for row, fault in found.items()}
        rows = np.delete(rows, list(found))
    table = Table(
        path,
        frame[columns],
        None,
        tuple(columns),
        target,
        rows=rows,
        left_out=left_out,
        unlabelled=unlabelled,
        labels_left_out=lost,
        kept=None if kept is None else kept[list(dict.fromkeys(wanted.keep))],
        form=read.form,
        first_row=first_row,
        marks=marks_in(read.form or wanted.text),
    )
    if missing == "error":
        _check_gaps(table)
    if target is None:
        return table
    name = f"target column {target!r} of {str(path)!r}"
    if read.form is None:
        return replace(table, y=_labels(frame[target], name))
    codes, different = pandas.factorize(frame[target])
    written = [str(value) for value in different]
    texts = y = np.asarray(written, dtype=object)[codes]
    # where fractions stand in this part, all labels may be text: that of another part tells
    with suppress(ValueError) if in_parts else nullcontext():
        y = type_labels(written, name)[codes]
    return replace(table, y=y, written=texts)


def _first_nested(column: Any) -> Any:
    """The first list, or other value that holds others, of a column of objects; None if there is none."""
    if pandas.api.types.infer_dtype(column, skipna=True) not in ("mixed", "mixed-integer"):
        return None
    return next((value for value in column if isinstance(value, list | tuple | dict | np.ndarray)), None)


def _missing_labels_error(
    path: Path, read: FileRows, target: str | None, rows: np.ndarray, in_parts: bool
) -> ValueError:
    places = [place_of_row(path, row, read.form) for row in rows[:_PLACES].tolist()]
    how_many = f"at least {len(rows)}" if in_parts else f"{len(rows)} of {len(read.frame)}"
    return ValueError(
        f"{how_many} labels in target column {target!r} of {str(path)!r} are missing "
        f"({_MARKS_ARE[read.form is not None]}), in {', '.join(places)}{', ...' if len(rows) > _PLACES else ''}; "
        f"{spell('missing_labels', 'drop')} leaves those rows out; if this is the name of a class, give it another."
    )


def without_faults(
    frame: Any, target: str | None, numbers: Sequence[str], form: TextForm | None
) -> tuple[Any, dict[int, str]]:
    """The frame without rows that have no label, or text or an infinite value in a column of numbers; and their faults."""
    faults: dict[int, str] = {}
    if target is not None:
        faults = dict.fromkeys(np.flatnonzero(frame[target].isna()).tolist(), "the label is missing")
    for name in numbers:
        if not _is_numeric(frame[name].dtype):
            found, words = numbers_and_words(frame[name], form, name)
            faults = words | faults
            frame = frame.assign(**{name: found})
        for row in np.flatnonzero(_is_infinite(frame[name])).tolist():
            faults.setdefault(row, f"column {name!r} holds an infinite value")
    return frame.drop(frame.index[list(faults)]) if faults else frame, faults


def type_labels(labels: Any, name: str, origins: Sequence[str] = ()) -> np.ndarray:
    """Labels as integers, booleans or strings; texts are numbers or booleans if all of them are.

    ``name`` says in messages where they stand, and ``origins`` in which file each was met first.
    """
    _check_one_kind(labels, name, origins)
    is_text = isinstance(labels, list) and labels and all(isinstance(label, str) for label in labels)
    return _labels(_parse_labels(labels) if is_text else labels, name)


def _check_one_kind(labels: Any, name: str, origins: Sequence[str]) -> None:
    """Raise a ``ValueError`` for labels that are true and false in some rows, 1 and 0 in others: as text, four classes."""
    kinds = [_is_truth(label) for label in labels] if isinstance(labels, list) else []
    if {*kinds} != {True, False}:
        return
    shown = [
        f"{labels[place]!r}" + (f" in {origins[place]}" if len({*origins}) > 1 else "")
        for place in (kinds.index(True), kinds.index(False))
    ]
    raise ValueError(
        f"{name} holds true and false in some rows and numbers in others, such as {' and '.join(shown)}; write one or the "
        "other."
    )


def _is_truth(label: Any) -> bool | None:
    """True for true and false, False for a whole number, None for any other label."""
    if isinstance(label, str):
        return True if label.lower() in ("true", "false") else False if _WHOLE.fullmatch(label) else None
    return isinstance(label, bool)


def has_only_numbers(table: Table, *, gaps: bool = False) -> bool:
    """Whether all features are numbers, or true and false, without gaps unless these are allowed."""
    if not hasattr(table.X, "columns"):  # LIBSVM text
        return True
    return all(_is_numeric(dtype) for dtype in {*table.X.dtypes}) and (gaps or not table.X.isna().any(axis=None))


def as_numbers(table: Table) -> Table:
    """Return a table with features as floats, float32 if all of them are, else float64.

    A ``ValueError`` names the columns that hold anything else.
    """
    if not hasattr(table.X, "columns"):  # LIBSVM text
        return table
    check_numbers(table, table.X.columns)
    _check_gaps(table)
    check_finite(table)
    single = all(dtype == np.float32 for dtype in table.X.dtypes)
    return replace(table, X=table.X.astype(np.float32 if single else np.float64))


def check_numbers(table: Table, columns: Iterable[str]) -> None:
    """Raise a ``ValueError`` that names those of some columns that are not numbers."""
    frame = table.X
    numeric = {*_numeric_names(frame)}
    text = [column for column in columns if column not in numeric]
    if not text:
        return
    words = [_first_text(frame[column], table.marks) for column in text[:8]]
    examples = [f"{column!r} (such as {word!r})" for column, (word, _) in zip(text, words, strict=False)]
    rest = f" and {len(text) - 8} more" if len(text) > 8 else ""
    marks = marks_of([str(value) for value in frame[text[0]].dropna().unique()], table.marks)
    read = "" if marks is None else f"read the file with {marks.in_words}, "
    raise ValueError(
        f"columns that are not numbers in {str(table.path)!r}: {', '.join(examples)}{rest}, the first in "
        f"{table.place_of(words[0][1])}; {read}correct them, or encode them as numbers, or fit without them "
        f"({spell('drop', text[0])})."
    )


def _from_libsvm(path: Path, wanted: Wanted) -> Table:
    from legendretron.datasets.libsvm import read_libsvm

    check_no_names(path, wanted.features, wanted.drop, wanted.keep)
    if wanted.target is not None:
        warnings.warn(
            f"target {wanted.target!r} is ignored: in LIBSVM text each line begins with its label.", stacklevel=3
        )
    X, labels = read_libsvm(path, n_features=wanted.n_features)
    return Table(path, X, _labels(labels, f"label of {str(path)!r}"), None, None)


def check_no_names(
    path: Path, features: Sequence[str] | None, drop: Sequence[str] | None, keep: Sequence[str] = ()
) -> None:
    """Raise a ``ValueError`` if columns of LIBSVM text are named."""
    if keep or features is not None or drop:
        raise ValueError(f"{str(path)!r} is LIBSVM text, whose features have no names to choose, drop or keep by.")


def choose_columns(
    path: Path, names: list[str], target: str | None, features: Sequence[str] | None, drop: Sequence[str] | None
) -> list[str]:
    """The columns of the features of a file, after checking every given name."""
    chosen = choose_names(repr(str(path)), names, target=target, features=features, drop=drop or ())
    unnamed = [name for name in chosen if name.startswith("Unnamed: ")]
    if unnamed and features is None:
        raise ValueError(
            f"{str(path)!r} has a column without a name (row numbers, often); leave it out by "
            f"{spell('drop', unnamed[0])}, or name it."
        )
    return chosen


#: Numbers as labels may be written. Not with leading zeros: 01 and 1 are two classes, and 01 must stay 01.
_WHOLE = re.compile(r"\s*([+-]?(?:0|[1-9][0-9]*))(?:\.0*)?\s*")
_NUMBER = re.compile(r"\s*[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")


def check_finite(table: Table) -> None:
    """Raise a ``ValueError`` that says where they are if there are infinite values among the features."""
    numeric = _numeric_names(table.X)
    step, columns = max(1, _ENTRIES // max(1, len(table.X))), []
    for start in range(0, len(numeric), step):
        some = numeric[start : start + step]
        infinite = np.isinf(table.X[some].to_numpy(dtype=np.float64, na_value=np.nan)).any(axis=0)
        columns += [name for name, own in zip(some, infinite, strict=True) if own]
    if columns:
        first = int(_is_infinite(table.X[columns[0]]).argmax())
        raise ValueError(
            f"infinite values, or numbers too large for double precision, in columns of {str(table.path)!r}: "
            f"{quoted(columns)}, the first in {table.place_of(first)}; replace them."
        )


def _is_infinite(column: Any) -> np.ndarray:
    infinite: np.ndarray = np.isinf(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return infinite


def _numeric_names(frame: Any) -> list[str]:
    """Names of the columns of numbers, or of true and false."""
    numeric = {dtype for dtype in {*frame.dtypes} if _is_numeric(dtype)}  # few, of however many columns
    return [name for name, dtype in frame.dtypes.items() if dtype in numeric]


def _is_numeric(dtype: Any) -> bool:
    types = pandas.api.types
    return types.is_bool_dtype(dtype) or (types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype))


def _check_gaps(table: Table) -> None:
    gaps = table.X.isna()
    missing = gaps.sum()
    missing = missing[missing > 0]
    if len(missing):
        counts = ", ".join(f"{name!r} ({count})" for name, count in missing.iloc[:8].items())
        rest = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        place = table.place_of(int(gaps.any(axis=1).to_numpy().argmax()))
        raise ValueError(
            f"missing values in columns of {str(table.path)!r}: {counts}{rest}, the first in {place}; fill them in, or leave "
            f"out the rows ({spell('missing', 'drop-rows')}) or columns."
        )


def _first_text(column: Any, marks: Marks) -> tuple[str, int]:
    """The first value of a column that is not a number, and its row."""
    present = column.notna().to_numpy()
    values = column.astype(object).astype(str)
    words = present & numbers_in(values, marks).isna().to_numpy()
    if not present.any():
        return "", 0
    row = int((words if words.any() else present).argmax())
    return str(values.iloc[row]), row


def _labels(column: Any, name: str) -> np.ndarray:
    """Labels as integers, booleans or strings."""
    values: np.ndarray = np.asarray(column)
    if values.dtype.kind == "i":
        return values.astype(np.int64)
    if values.dtype.kind in "fu":
        whole = np.isfinite(values) & (np.abs(values) <= EXACT) & (values == np.floor(values))
        if not whole.all():
            raise ValueError(
                f"{name} holds {values[~whole][0]}, which is not a whole number; this is classification: classes are whole "
                "numbers or text."
            )
        return values.astype(np.int64)
    if values.dtype.kind == "b":
        return values
    return np.asarray([str(value) for value in values], dtype=object)


def _parse_labels(texts: list[str]) -> np.ndarray:
    """Labels from text: numbers or booleans if all of them are."""
    if all(text.lower() in ("true", "false") for text in texts):
        return np.array([text.lower() == "true" for text in texts])
    whole = [_WHOLE.fullmatch(text) for text in texts]
    if all(whole):
        numbers = [int(match[1]) for match in whole if match]
        if max(map(abs, numbers)) < 2**63:
            return np.array(numbers, dtype=np.int64)
    elif all(_NUMBER.fullmatch(text) for text in texts):
        return np.array([float(text) for text in texts])
    return np.asarray(texts, dtype=object)


def as_matrix(table: Table) -> Any:
    """Return the features without their names, for a model that was fitted without names."""
    return table.X.to_numpy() if hasattr(table.X, "columns") else table.X


ROWS_AT_ONCE = 2**15


def read_in_chunks(
    parts: TableParts, target: str | None = None, *, faults: dict[int, str] | None = None, **how: Any
) -> Iterator[Table]:
    """Read the files of a table one after the other, as tables of some rows each, or as one table if it is read whole.

    See :class:`Wanted` for the other arguments.
    """
    if parts.whole:
        yield read_columns(parts.files[0], target, format=parts.format, **how)
        return
    wanted = Wanted(target, **how)
    if parts.format == "libsvm":
        check_no_names(parts.files[0], wanted.features, wanted.drop, wanted.keep)
        from legendretron.datasets.libsvm import LibsvmSource  # which imports torch and scikit-learn
        from legendretron.streaming.source import ROWS_OF_A_FILE

        source = LibsvmSource(parts.files, wanted.n_features)
        for block, path in enumerate(parts.files):
            for batch in source.read_block(block):
                first = int(batch.row_numbers[0]) % ROWS_OF_A_FILE
                yield Table(path, batch.X, batch.y, None, None, first_row=first)
        return
    for path in parts.files:
        done = 0
        bad_lines: dict[int, str] | None = None if faults is None else {}
        for read in read_frames(path, parts.format, wanted, ROWS_AT_ONCE, bad_lines):
            yield columns_of(path, read, wanted, first_row=done, faults=faults, in_parts=True)
            done += len(read.frame)
        if faults is not None and bad_lines:
            faults |= {-line: fault for line, fault in bad_lines.items()}


@dataclass(frozen=True)
class TableParts:
    """Files that make up one table, in the order of their names."""

    files: tuple[Path, ...]  #: at least one
    format: str  #: of all of them
    whole: bool = False  #: whether it is one file that is read into memory, not in batches


def find_parts(path: str | os.PathLike[str], format: str | None = None) -> TableParts:
    """Find the files of a table."""
    path = Path(path)
    if path.is_dir():
        files = []
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            hidden = any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
            with suppress(ValueError):  # of another format than those of tables
                files += [] if hidden or not format_of(file, format) else [file]
        if not files:
            raise ValueError(f"folder {str(path)!r} holds no table: no file in it ends in {SUFFIXES}.")
    elif not path.exists() and glob.has_magic(str(path)):
        files = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())
        if not files:
            raise ValueError(f"no file matches the pattern {str(path)!r}.")
    else:
        files = [path]
    formats = {file: format_of(file, format) for file in files}
    if len(set(formats.values())) > 1:
        some = [next(file for file in files if formats[file] == kind) for kind in sorted(set(formats.values()))]
        raise ValueError(
            f"{str(path)!r} holds files of several formats, such as {quoted(some)}; give a pattern for one."
        )
    return TableParts(tuple(files), formats[files[0]])
