"""Reading a table as features and labels."""

from __future__ import annotations

import difflib
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from legendretron._internal.validation import check_choice
from legendretron.datasets.table_files import format_of, quoted, read_frame
from legendretron.datasets.text_form import TextOptions

__all__ = [
    "MISSING",
    "Table",
    "as_matrix",
    "as_numbers",
    "choose_columns",
    "columns_of",
    "has_only_numbers",
    "read_columns",
    "read_table",
    "texts_of",
    "typed_labels",
]

#: What to do with rows that have gaps: leave that to others, leave out the rows, or raise an error.
MISSING = ("impute", "drop-rows", "error")

_EXACT = 2.0**53  #: up to here a double holds every integer


@dataclass(frozen=True)
class Table:
    r"""What :func:`read_table` returns.

    Attributes
    ----------
    path : Path
        The file.
    X : data frame, ndarray or sparse matrix of shape (n, d)
        Features; a data frame of floats unless the file was LIBSVM text.
    y : ndarray of shape (n,) or None
        Labels: integers, booleans or strings; None if no target was given.
    feature_names : tuple of str or None
        Names of the columns of ``X``; None for LIBSVM text, which has none.
    target : str or None
        The column of the labels.
    written : ndarray of shape (n,) or None
        The labels as the text of a CSV or TSV file has them.
    rows : ndarray of shape (n,) or None
        Numbers of the rows in the file, from 0, if some were left out.
    left_out : int
        Number of rows that were left out.
    kept : data frame or None
        Further columns that were asked for.

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

    path: Path
    X: Any
    y: np.ndarray | None
    feature_names: tuple[str, ...] | None
    target: str | None
    written: np.ndarray | None = None
    rows: np.ndarray | None = None
    left_out: int = 0
    kept: Any = None

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
) -> Table:
    r"""Read features and labels from a CSV, TSV, Parquet or LIBSVM file.

    Every feature must be a number, without missing values: otherwise the error names the columns. (Tables with more are for
    :class:`~legendretron.TableClassifier`.) Nothing is unpickled.

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
    format : {"csv", "tsv", "parquet", "libsvm"}, optional
        By the file extension if not given.
    n_features : int, optional
        Number of features of a LIBSVM file, whose lines leave out zeros; the largest that occurs if not given.
    text : TextOptions, optional
        Separator, decimal mark, encoding and marks of missing values of CSV and TSV; guessed if not given.

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
        read_columns(path, target, features=features, drop=drop, format=format, n_features=n_features, text=text)
    )


def read_columns(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    format: str | None = None,
    n_features: int | None = None,
    text: TextOptions | None = None,
    as_text: Sequence[str] = (),
    keep: Sequence[str] = (),
    missing: str = "impute",
) -> Table:
    """Read features as they are: numbers, text and dates, with gaps. Labels are as in :func:`read_table`.

    Parameters
    ----------
    path, target, features, drop, format, n_features, text
        As in :func:`read_table`.
    as_text : sequence of str
        Features that stay text in CSV and TSV, even if they look like numbers.
    keep : sequence of str
        Further columns to return, as they are written. Only those in ``features`` are features as well.
    missing : {"impute", "drop-rows", "error"}
        What to do with rows in which a feature or the label is missing. ``"impute"``: features are left as they are, and a
        missing label is an error.
    """
    path = Path(path)
    check_choice("missing", missing, MISSING)
    kind = format_of(path, format)
    if kind == "libsvm":
        if keep:
            raise ValueError(f"{str(path)!r} is LIBSVM text, which has no columns to keep: {quoted(keep)}.")
        return _from_libsvm(path, target, features, drop, n_features)
    texts = texts_of(target, as_text, features, keep)
    frame = read_frame(path, kind, as_text=texts, text=text)
    table = columns_of(path, frame, kind, target, features=features, drop=drop, keep=keep, missing=missing)
    if table.rows is not None and not len(table.rows):
        raise ValueError(f"no row of {str(path)!r} is without a missing value; leave out the columns that are empty.")
    return table


def texts_of(
    target: str | None, as_text: Sequence[str], features: Sequence[str] | None, keep: Sequence[str]
) -> list[str]:
    """Columns that are read as they are written: labels, categories, and columns to keep that are no features."""
    return [*([] if target is None else [target]), *as_text, *_only_kept(features, keep)]


def _only_kept(features: Sequence[str] | None, keep: Sequence[str]) -> list[str]:
    return [name for name in keep if name not in (features or ())]


def columns_of(
    path: Path,
    frame: Any,
    kind: str,
    target: str | None,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    missing: str = "impute",
    first_row: int = 0,
) -> Table:
    """Features and labels of a data frame that was read from a file, or of a part of it that begins at ``first_row``.

    See :func:`read_columns`.
    """
    _check_known(path, list(frame.columns), keep)
    only_kept = _only_kept(features, keep)
    columns = choose_columns(path, list(frame.columns), target, features, [*(drop or ()), *only_kept])
    rewritten = [name for name in keep if name in columns and _is_numeric(frame[name].dtype) and kind != "parquet"]
    if rewritten:
        warnings.warn(
            f"column {quoted(rewritten)} is kept, but is also a feature that is a number: it is written as a number, so that "
            "00136 becomes 136.",
            stacklevel=2,
        )
    rows = None
    if missing == "drop-rows":
        whole = ~frame[[*columns, *([] if target is None else [target])]].isna().any(axis=1).to_numpy()
        rows = first_row + np.flatnonzero(whole)
        frame = frame[whole]
    elif missing == "error":
        _check_gaps(path, frame[columns])
    if target is not None and frame[target].isna().any():
        lacking = int(frame[target].isna().sum())
        raise ValueError(
            f"target column {target!r} of {str(path)!r} has {lacking} missing values (empty, NA, NaN, null and the like "
            "count as such); leave those rows out (--missing drop-rows), or name the class otherwise."
        )
    table = Table(
        path,
        frame[columns],
        None,
        tuple(columns),
        target,
        rows=rows,
        left_out=0 if rows is None else len(whole) - len(rows),
        kept=frame[list(dict.fromkeys(keep))] if keep else None,
    )
    if target is None:
        return table
    name = f"target column {target!r} of {str(path)!r}"
    if kind == "parquet":
        return replace(table, y=_labels(frame[target], name))
    written = [str(value) for value in frame[target]]
    return replace(table, y=typed_labels(written, name), written=np.asarray(written, dtype=object))


def typed_labels(texts: list[str], name: str) -> np.ndarray:
    """Labels from text, integers or booleans if all of them are; ``name`` says in messages where they stand."""
    return _labels(_parsed(texts), name)


def has_only_numbers(table: Table, *, gaps: bool = False) -> bool:
    """Whether all features are numbers, or true and false, without gaps unless these are allowed."""
    if scipy.sparse.issparse(table.X) or isinstance(table.X, np.ndarray):
        return True
    return all(_is_numeric(dtype) for dtype in table.X.dtypes) and (gaps or not table.X.isna().any(axis=None))


def as_numbers(table: Table) -> Table:
    """Return a table with features as floats, or raise a ``ValueError`` that names the columns that hold anything else."""
    if scipy.sparse.issparse(table.X) or isinstance(table.X, np.ndarray):
        return table
    return replace(table, X=_numbers(table.path, table.X))


def _from_libsvm(
    path: Path, target: str | None, features: Sequence[str] | None, drop: Sequence[str] | None, n_features: int | None
) -> Table:
    from legendretron.datasets.libsvm import read_libsvm

    if features is not None or drop:
        raise ValueError(f"{str(path)!r} is LIBSVM text, whose features have no names to choose or drop by.")
    if target is not None:
        warnings.warn(f"target {target!r} is ignored: in LIBSVM text each line begins with its label.", stacklevel=3)
    X, labels = read_libsvm(path, n_features=n_features)
    return Table(path, X, _labels(labels, f"label of {str(path)!r}"), None, None)


def choose_columns(
    path: Path, names: list[str], target: str | None, features: Sequence[str] | None, drop: Sequence[str] | None
) -> list[str]:
    """The columns of the features, after checking every given name."""
    _check_known(path, names, [] if target is None else [target], "target ")
    _check_known(path, names, [] if features is None else features)
    _check_known(path, names, drop or [])
    chosen = [name for name in names if name != target] if features is None else list(dict.fromkeys(features))
    if target in chosen:
        raise ValueError(f"{target!r} is the target and cannot be a feature too; take it out of features.")
    if drop and target in drop:
        raise ValueError(f"{target!r} is the target and cannot be dropped.")
    chosen = [name for name in chosen if name not in (drop or [])]
    if not chosen:
        raise ValueError(f"{str(path)!r} has no column left for a feature; it has {quoted(names)}.")
    unnamed = [name for name in chosen if name.startswith("Unnamed: ")]
    if unnamed and features is None:
        raise ValueError(
            f"{str(path)!r} has a column without a name (row numbers, often); leave it out (fit --drop) as "
            f"{unnamed[0]!r}, or name it."
        )
    return chosen


def _check_known(path: Path, names: list[str], wanted: Sequence[str], role: str = "") -> None:
    lacking = [name for name in wanted if name not in names]
    if not lacking:
        return
    close = difflib.get_close_matches(lacking[0], names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        hint = "; its columns seem not to be separated by commas (or, in TSV, by tabs)."
    elif all(_is_number(name) for name in names):
        hint = "; the first line must hold the names of the columns."
    raise ValueError(f"{str(path)!r} has no {role}column {quoted(lacking)}; it has {quoted(names, most=20)}{hint}")


#: Numbers as labels may be written. Not with leading zeros: 01 and 1 are two classes, and 01 must stay 01.
_WHOLE = re.compile(r"\s*([+-]?(?:0|[1-9][0-9]*))(?:\.0*)?\s*")
_NUMBER = re.compile(r"\s*[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(path: Path, frame: Any) -> Any:
    """The features as floats: float32 if all of them are, else float64."""
    text = [name for name in frame.columns if not _is_numeric(frame[name].dtype)]
    if text:
        examples = [f"{name!r} (such as {_first_text(frame[name])!r})" for name in text[:8]]
        rest = f" and {len(text) - 8} more" if len(text) > 8 else ""
        raise ValueError(
            f"columns that are not numbers in {str(path)!r}: {', '.join(examples)}{rest}; leave them out (fit --drop), or "
            "encode them as numbers."
        )
    _check_gaps(path, frame)
    single = all(dtype == np.float32 for dtype in frame.dtypes)
    frame = frame.astype(np.float32 if single else np.float64)
    infinite = [name for name in frame.columns if not np.isfinite(frame[name].to_numpy()).all()]
    if infinite:
        raise ValueError(f"infinite values in columns of {str(path)!r}: {quoted(infinite)}; replace them.")
    return frame


def _is_numeric(dtype: Any) -> bool:
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    return is_bool_dtype(dtype) or (is_numeric_dtype(dtype) and not is_complex_dtype(dtype))


def _check_gaps(path: Path, frame: Any) -> None:
    missing = frame.isna().sum()
    missing = missing[missing > 0]
    if len(missing):
        counts = ", ".join(f"{name!r} ({count})" for name, count in missing.iloc[:8].items())
        rest = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        raise ValueError(
            f"missing values in columns of {str(path)!r}: {counts}{rest}; fill them in, or leave out the rows (--missing "
            "drop-rows) or columns."
        )


def _first_text(column: Any) -> str:
    """The first value of a column that is not a number."""
    import pandas

    present = column.dropna().astype(object)
    words = present[pandas.to_numeric(present.astype(str), errors="coerce").isna()]
    return str((words if len(words) else present).iloc[0]) if len(present) else ""


def _labels(column: Any, name: str) -> np.ndarray:
    """Labels as integers, booleans or strings."""
    values: np.ndarray = np.asarray(column)
    if values.dtype.kind == "i":
        return values.astype(np.int64)
    if values.dtype.kind in "fu":
        whole = np.isfinite(values) & (np.abs(values) <= _EXACT) & (values == np.floor(values))
        if not whole.all():
            raise ValueError(
                f"{name} holds {values[~whole][0]}, which is not a whole number; this is classification: classes are whole "
                "numbers or text."
            )
        return values.astype(np.int64)
    if values.dtype.kind == "b":
        return values
    return np.asarray([str(value) for value in values], dtype=object)


def _parsed(texts: list[str]) -> np.ndarray:
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
    return table.X if scipy.sparse.issparse(table.X) or isinstance(table.X, np.ndarray) else table.X.to_numpy()
