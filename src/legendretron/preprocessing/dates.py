"""Dates as text: year first, day first or month first."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from legendretron._internal.extras import pandas

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
    """Whether nearly all texts are dates of some form, read or not.

    Examples
    --------
    >>> look_like_other_dates(["31.05.24", "2024-05-31"]), look_like_other_dates(["3.5", "x"])
    (True, False)
    """
    return sum(_OTHER_DATE.fullmatch(text) is not None for text in texts) >= _MOST_ARE * len(texts)


def may_be_either(text: str) -> bool:
    """Whether the form of a date does not tell if the day or the month comes first; with points it is always the day.

    Examples
    --------
    >>> may_be_either("03/04/2020"), may_be_either("03.04.2020"), may_be_either("2020-04-03")
    (True, False, False)
    """
    found = _YEAR_LAST.fullmatch(text)
    return found is not None and found[2] != "."


def dates_of(texts: list[str], kind: str = "date") -> np.ndarray:
    """Return days since 1970-01-01 of dates that are written as one of ``DATE_KINDS``; NaN where a text is none.

    Examples
    --------
    >>> dates_of(["1970-01-03", "1970-01-01T12:00:00Z", "3.1.1970", "1970-13-01"]).tolist()
    [2.0, 0.5, nan, nan]
    >>> dates_of(["1970-01-03", "3.1.1970", "1/3/1970", "31.1.1970"], "day-first date").tolist()
    [2.0, 2.0, 59.0, 30.0]
    """
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
