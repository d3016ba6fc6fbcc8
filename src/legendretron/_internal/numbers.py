"""Numbers as text: with a decimal point or comma, and perhaps with thousands set apart."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from legendretron._internal.parameters import spell

#: Marks between thousands, each with its forms in print: spaces that do not break a line, and a typographic apostrophe.
THOUSANDS = {".": ".", ",": ",", "'": "'\u2019", " ": " \u00a0\u202f"}


def written_numbers(texts: Sequence[str], decimal: str = ".", thousands: str | None = None) -> np.ndarray:
    """Parse texts as numbers, NaN where one is not a number; thousands are groups of three digits, or not separated.

    Examples
    --------
    >>> written_numbers(["1.234,5", "-12", "12.34", "31.12.2020", "1e3"], ",", ".").tolist()
    [1234.5, -12.0, nan, nan, 1000.0]
    """
    pattern = _pattern(decimal, thousands)
    without = str.maketrans({**dict.fromkeys(THOUSANDS[thousands] if thousands else "", ""), decimal: "."})
    found = [float(text.translate(without)) if pattern.fullmatch(text) else np.nan for text in texts]
    return np.array(found, dtype=np.float64)


@functools.cache
def _pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    grouped = f"[0-9]{{1,3}}(?:[{re.escape(THOUSANDS[thousands])}][0-9]{{3}})+|" if thousands else ""
    mark = re.escape(decimal)
    return re.compile(f"[+-]?(?:(?:{grouped}[0-9]+)(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?")


#: Up to here a double holds every integer.
EXACT = 2.0**53
#: Least share of different whole numbers that must stay different in double precision.
_DIFFERENT = 0.9


def lose_digits(whole_numbers: Iterable[Any]) -> bool:
    """Whether different whole numbers, or texts of such, are so long that many are the same in double precision.

    Then they are names, as those of orders, rather than amounts.

    Examples
    --------
    >>> lose_digits([10**22, 10**22 + 1]), lose_digits(["10000000000000000000000", "20000000000000000000000"])
    (True, False)
    """
    different = set(whole_numbers)
    return len({float(number) for number in different}) < _DIFFERENT * len(different)


class Marks(NamedTuple):
    """How numbers are written: decimal mark, and what separates thousands."""

    decimal: str
    thousands: str | None = None

    @property
    def in_words(self) -> str:
        """As parameters of a reader of tables."""
        given = {"decimal": self.decimal if self.decimal != "." else None, "thousands": self.thousands}
        return " and ".join(spell(name, mark) for name, mark in given.items() if mark is not None)

    def numbers(self, texts: list[str]) -> np.ndarray:
        """Parse texts as numbers; NaN where one is not."""
        return written_numbers(texts, *self)


#: How numbers are written in most programs.
PLAIN = Marks(".")
#: Ways to write numbers that are not read by default. A comma alone is a decimal mark.
_OTHER = (
    Marks(","),
    Marks(",", "."),
    Marks(".", ","),
    Marks(",", " "),
    Marks(".", " "),
    Marks(".", "'"),
    Marks(",", "'"),
)


def marks_of(texts: list[str], known: Marks = PLAIN) -> Marks | None:
    """Return the way in which most texts are numbers, if more of them are than in the way that they were read.

    Examples
    --------
    >>> marks_of(["1.234,56", "12,5", "?"]), marks_of(["1,5"]), marks_of(["1.5", "x"])
    (Marks(decimal=',', thousands='.'), Marks(decimal=',', thousands=None), None)
    >>> marks_of(["3.432"], Marks(","))
    Marks(decimal=',', thousands='.')
    """
    best, most = None, int(np.isfinite(known.numbers(texts)).sum())
    for marks in _OTHER:
        if known.decimal == "," != marks.decimal:  # which was given, or found in other columns
            continue
        count = int(np.isfinite(marks.numbers(texts)).sum())
        if count > most:
            best, most = marks, count
    return best
