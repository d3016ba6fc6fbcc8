"""Values of one column of a data frame: numbers, truth values, dates or text, and gaps."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

import numpy as np

from legendretron._internal.extras import pandas
from legendretron._internal.numbers import EXACT, lose_digits
from legendretron._internal.parameters import spell

#: Kinds of columns of dates, by what may come first in them besides the year, which can always; the first that fits is taken.
DATE_KINDS = ("date", "day-first date", "month-first date")

_TIME = r"([T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
#: Dates of ISO 8601, with or without a time of day and its offset; also with points, or bars.
_YEAR_FIRST = re.compile(rf"(\d{{4}})([-./])(\d{{1,2}})\2(\d{{1,2}}){_TIME}")
_YEAR_LAST = re.compile(rf"(\d{{1,2}})([-./])(\d{{1,2}})\2(\d{{4}}){_TIME}")
#: Dates that are not read: with two digits for the year, or the name of a month; perhaps with a time of day.
_OTHER_DATE = re.compile(
    r"(?:\d{1,2}([./-])\d{1,2}\1(?:\d{4}|\d{2})|\d{4}([./-])\d{1,2}\2\d{1,2}"
    r"|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{4}|[A-Za-z]{3,9} \d{1,2}, \d{4})(?:[T ]\d{1,2}:\d{2}.*)?"
)
_MOST_ARE = 0.9
_DAY = 86_400e6  #: in microseconds


def look_like_dates(texts: list[str]) -> bool:
    """Whether all texts have the form of a date that can be read; ends at the first that has not."""
    return all(_YEAR_FIRST.fullmatch(text) or _YEAR_LAST.fullmatch(text) for text in texts)


def look_like_other_dates(texts: list[str]) -> bool:
    """Whether nearly all texts are dates of some form, read or not."""
    return sum(_OTHER_DATE.fullmatch(text) is not None for text in texts) >= _MOST_ARE * len(texts)


def find_dates(texts: list[str]) -> tuple[str, np.ndarray]:
    """Return the one of ``DATE_KINDS`` in which most texts are dates, and which of them are."""
    are_dates = {kind: np.isfinite(dates_of(texts, kind)) for kind in DATE_KINDS}
    best = max(DATE_KINDS, key=lambda kind: are_dates[kind].sum())  # the first of those that are equally good
    return best, are_dates[best]


def are_day_numbers(numbers: np.ndarray) -> bool:
    """Whether all numbers are days from 1900 to 2100 as year, month and day, such as 20240531."""
    if not len(numbers) or numbers.min() < 19000101 or numbers.max() > 21001231 or (numbers % 1.0).any():
        return False
    years, rest = np.divmod(numbers.astype(np.int64), 10_000)
    months, days = np.divmod(rest, 100)
    if months.min() < 1 or months.max() > 12 or days.min() < 1:
        return False
    first = (12 * (years - 1970) + months - 1).astype("datetime64[M]")
    lengths = ((first + 1).astype("datetime64[D]") - first.astype("datetime64[D]")).astype(np.int64)
    return bool((days <= lengths).all())


def may_be_either(text: str) -> bool:
    """Whether the form of a date does not tell if the day or the month comes first; with points it is always the day."""
    found = _YEAR_LAST.fullmatch(text)
    return found is not None and found[2] != "."


def dates_of(texts: list[str], kind: str = "date") -> np.ndarray:
    """Return days since 1970-01-01 of dates that are written as one of ``DATE_KINDS``; NaN where a text is none."""
    shaped = [_as_iso(text, kind) for text in texts]
    return days_of(pandas.to_datetime(pandas.Series(shaped, dtype=object), format="ISO8601", utc=True, errors="coerce"))


def _as_iso(text: str, kind: str) -> str | None:
    if found := _YEAR_FIRST.fullmatch(text):
        year, _, month, day, time = found.groups()
    elif kind != "date" and (found := _YEAR_LAST.fullmatch(text)):
        day, _, month, year, time = found.groups()
        if kind == "month-first date":
            day, month = month, day
    else:
        return None
    return f"{year}-{month:0>2}-{day:0>2}{time or ''}"


def days_of(column: Any) -> np.ndarray:
    """Days since 1970-01-01 of a column of dates; a date without an offset is taken as it is."""
    stamps = column
    if not pandas.api.types.is_datetime64_any_dtype(column.dtype):
        stamps = pandas.to_datetime(column, utc=True)
    if getattr(stamps.dtype, "tz", None) is not None:
        stamps = stamps.dt.tz_convert("UTC").dt.tz_localize(None)
    moments = stamps.to_numpy(dtype="datetime64[us]")
    days: np.ndarray = moments.astype(np.int64) / _DAY
    days[np.isnat(moments)] = np.nan
    return days


#: What pandas calls the values of a column of objects, and how they are read.
_OBJECTS: dict[str, str] = {
    "string": "text",
    "empty": "number",
    "boolean": "boolean",
    **dict.fromkeys(("integer", "floating", "mixed-integer-float", "decimal"), "number"),
    **dict.fromkeys(("datetime", "datetime64", "date"), "date"),
}


class Texts(NamedTuple):
    """Texts of a column: the different ones in the order in which they appear, and which of them each row has (gaps: -1)."""

    codes: np.ndarray
    different: list[str]


class Values(NamedTuple):
    """Values of a column."""

    kind: Literal["number", "boolean", "date", "text"]  #: what they are
    numbers: np.ndarray  #: (n,), numbers as float64, gaps as NaN; of dates, days since 1970-01-01. Empty for text
    texts: Texts | None = None  #: for text only
    single: bool = False  #: whether the column holds float32
    declared: bool = False  #: whether the type of the column says that its values are categories

    @property
    def gaps(self) -> np.ndarray:
        """Which rows have no value."""
        found: np.ndarray = np.isnan(self.numbers) if self.texts is None else self.texts.codes < 0
        return found


def read_values(name: str, column: Any) -> Values:
    """Return the values of a column of a data frame, or raise a ``ValueError`` that names it.

    Text is kept as it is; an empty one is a gap. A column of pandas' type ``category`` is text, whatever the categories are.
    """
    types = pandas.api.types
    dtype = column.dtype
    if hasattr(dtype, "categories"):
        return Values("text", np.empty(0), texts_of(name, column), declared=True)
    if types.is_object_dtype(dtype):
        inferred = types.infer_dtype(column, skipna=True)
        kind = _OBJECTS.get(inferred)
        if kind is None:
            present = column.dropna()
            examples = list(dict.fromkeys(type(value).__name__ for value in present))
            word = next((value for value in present if isinstance(value, str)), None)
            example, advice = "", ""
            if word is not None:
                example, advice = (
                    f" ({word!r})",
                    f"if that is a missing value, read the file with {spell('na_values', word)}; or ",
                )
            raise ValueError(
                f"column {name!r} holds values of type {' and '.join(examples[:3])}{example}, which have no common meaning; "
                f"{advice}convert them to numbers, dates or text, or leave the column out."
            )
    elif types.is_bool_dtype(dtype):
        kind = "boolean"
    elif types.is_complex_dtype(dtype):
        raise ValueError(f"Complex data not supported: column {name!r}; leave it out, or convert it to numbers.")
    elif types.is_numeric_dtype(dtype):
        kind = "number"
    elif types.is_datetime64_any_dtype(dtype):
        kind = "date"
    elif types.is_string_dtype(dtype):
        kind = "text"
    else:
        raise ValueError(
            f"column {name!r} is of type {dtype}, which is neither numbers, dates nor text; convert it, or leave it out."
        )
    if kind == "text":
        return Values("text", np.empty(0), texts_of(name, column))
    if kind == "date":
        return Values("date", days_of(column))
    numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    too_long = np.nanmax(np.abs(numbers), initial=0.0) > EXACT and is_whole(column)
    if too_long and lose_digits(column.dropna().tolist()):
        return Values("text", np.empty(0), texts_of(name, column))
    if np.isinf(numbers).any():
        row = int(np.isinf(numbers).argmax())
        raise ValueError(f"column {name!r} holds an infinite value in row {row} (from 0); replace it.")
    return Values("boolean" if kind == "boolean" else "number", numbers, single=dtype == np.float32)


def is_whole(column: Any) -> bool:
    """Whether a column holds integers, by its type or, of objects, by its values."""
    types = pandas.api.types
    if types.is_object_dtype(column.dtype):
        return bool(types.infer_dtype(column, skipna=True) == "integer")
    return bool(types.is_integer_dtype(column.dtype))


def texts_of(name: str, column: Any) -> Texts:
    """Return the values of a column as texts; numbers are written as short as possible, so that 1.0 is '1'."""
    try:
        codes, found = pandas.factorize(column)  # gaps are -1
    except TypeError as error:
        bad = next((value for value in column if type(value).__hash__ is None), column.iloc[0])  # a list, for instance
        raise ValueError(
            f"column {name!r} holds values of type {type(bad).__name__}, which are not text; convert them, or leave the "
            "column out."
        ) from error
    different = [number_text(value) for value in found]
    if bad := next((value for value in found if isinstance(value, bytes | complex)), None):
        raise ValueError(f"column {name!r} holds {bad!r}, which is not text; convert it, or leave the column out.")
    empty = {place for place, text in enumerate(different) if text == ""}
    if not empty and len(set(different)) == len(different):
        return Texts(codes, different)
    places: dict[str, int] = {}
    new = [-1 if place in empty else places.setdefault(text, len(places)) for place, text in enumerate(different)]
    return Texts(np.append(new, -1)[codes], list(places))


def number_text(value: Any) -> str:
    """Return a value as the text of a category."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value.item() if isinstance(value, np.generic) else value)


def numbers_of(texts: list[str]) -> np.ndarray:
    """Return the numbers that texts are; NaN where one is none."""
    numbers: np.ndarray = pandas.to_numeric(pandas.Series(texts, dtype=object), errors="coerce").to_numpy(np.float64)
    return numbers
