"""Text in tables: without white space at its ends, and with gaps where a mark for a missing value stands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from legendretron._internal.extras import import_extra
from legendretron._internal.numbers import Marks, written_numbers
from legendretron.datasets.text_form import TextForm, TextOptions, given_decimal

__all__ = ["MISSING_MARKS", "clean_frame", "clean_names", "marks_for", "numbers_in", "type_columns"]

#: Fields of a text file that count as missing, as pandas has them. In files with types only the empty text does.
MISSING_MARKS = (
    "", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip


def marks_for(form: TextForm | None, given: Collection[str]) -> frozenset[str]:
    """Return all texts that stand for a missing value in a file of text, or, without a form, of another format."""
    return frozenset([*(("",) if form is None else MISSING_MARKS), *(mark.strip() for mark in given)])


def clean_names(names: Sequence[Any]) -> list[str]:
    """Return names of columns without white space at their ends."""
    return [str(name).strip() for name in names]


def clean_frame(frame: Any, given: TextOptions, form: TextForm | None = None, as_text: Sequence[str] = ()) -> Any:
    """Return a data frame with clean text.

    Parameters
    ----------
    frame : data frame
        As it was read.
    given : TextOptions
        Marks of missing values that users have named: in files with types, numbers among them are looked for, too. If a
        decimal mark, or one between thousands, is given, columns of such files of which all texts are numbers become such.
    form : TextForm, optional
        How the file is written, if it is text. Columns of which all texts turn out to be numbers, or true and false, become
        such.
    as_text : sequence of str
        Columns that stay text.
    """
    types = import_extra("pandas", "reading tables", "cli").api.types
    marks, changed = marks_for(form, given.na), {}
    numbers = [] if form is not None else [number for number in written_numbers([*given.na]) if np.isfinite(number)]
    decimal = given_decimal(given)
    spelled = Marks(decimal or ".", given.thousands) if form is None and (decimal or given.thousands) else None
    for name in frame.columns:
        column = frame[name]
        if types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
            if numbers and (missing := column.isin(numbers)).any():
                changed[name] = column.mask(missing)
            continue
        cleaned = _clean(column, marks)
        if form is not None and name not in as_text and (cleaned is not column or form.thousands is not None):
            cleaned = _typed(cleaned, form)
        elif spelled is not None and name not in as_text and types.infer_dtype(cleaned, skipna=True) == "string":
            found = numbers_in(cleaned, spelled)
            cleaned = cleaned if (found.isna() & cleaned.notna()).any() else found
        if cleaned is not column:
            changed[name] = cleaned
    return frame.assign(**changed) if changed else frame


def _clean(column: Any, marks: frozenset[str]) -> Any:
    """The column itself if there is nothing to clean."""
    types = import_extra("pandas", "reading tables", "cli").api.types
    if hasattr(column.dtype, "categories"):
        of_categories = column.cat.categories.to_series()
        same = _clean(of_categories, marks) is of_categories
        return column if same else _clean(column.astype(object), marks).astype("category")
    if types.is_object_dtype(column.dtype):
        if types.infer_dtype(column, skipna=True) not in ("string", "mixed", "mixed-integer"):
            return column
        cleaned = column.map(lambda value: value.strip() if isinstance(value, str) else value)
    elif types.is_string_dtype(column.dtype):
        cleaned = column.str.strip()
    else:
        return column
    missing = cleaned.isin(marks)
    if not missing.any() and not ((cleaned != column) & column.notna()).any():
        return column
    return cleaned.mask(missing)


def type_columns(frame: Any, form: TextForm, as_text: Sequence[str] = ()) -> Any:
    """Return a data frame of a text file whose rows were chosen: columns of which only other rows held words are typed."""
    types = import_extra("pandas", "reading tables", "cli").api.types
    texts = [name for name in frame.columns if name not in as_text and types.infer_dtype(frame[name]) == "string"]
    return frame.assign(**{name: _typed(frame[name], form) for name in texts})


def _typed(column: Any, form: TextForm) -> Any:
    """The column as numbers, or true and false, if all texts are."""
    present = column.dropna()
    if not len(present) or not all(isinstance(value, str) for value in present.unique()):
        return column
    words = present.str.lower()
    if words.isin(("true", "false")).all():
        truth = (words == "true").astype(object).reindex(column.index)
        return truth if len(present) < len(column) else truth.astype(bool)
    numbers = numbers_in(column, form)
    return column if (numbers.isna() & column.notna()).any() else numbers


def numbers_in(column: Any, form: TextForm | Marks | None) -> Any:
    """Return the numbers of a column of text, NaN where there is none."""
    pandas = import_extra("pandas", "reading tables", "cli")
    codes, different = pandas.factorize(column)
    marks = (".", None) if form is None else (form.decimal, form.thousands)
    numbers = np.append(written_numbers([str(value).strip() for value in different], *marks), np.nan)
    return pandas.Series(numbers[codes], index=column.index, name=column.name)
