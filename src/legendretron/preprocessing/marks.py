"""Decimal marks and marks between thousands, as numbers in text show them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from legendretron._internal.numbers import written_numbers

__all__ = ["Marks", "marks_of"]


class Marks(NamedTuple):
    """How numbers are written: decimal mark, and what separates thousands."""

    decimal: str
    thousands: str | None = None

    @property
    def in_words(self) -> str:
        """As arguments of ``pandas.read_csv``."""
        given = {"decimal": self.decimal if self.decimal != "." else None, "thousands": self.thousands}
        return " and ".join(f"{name}={mark!r}" for name, mark in given.items() if mark is not None)

    def numbers(self, texts: list[str]) -> np.ndarray:
        """The numbers that texts are; NaN where one is none."""
        return written_numbers(texts, *self)


#: Ways to write numbers that are not read without being told. A comma alone is taken for a decimal mark.
_OTHER = (
    Marks(","),
    Marks(",", "."),
    Marks(".", ","),
    Marks(",", " "),
    Marks(".", " "),
    Marks(".", "'"),
    Marks(",", "'"),
)


def marks_of(texts: list[str]) -> Marks | None:
    """Return the way in which most texts are numbers, if they are in more than without marks between thousands.

    Examples
    --------
    >>> marks_of(["1.234,56", "12,5", "?"]), marks_of(["1,5"]), marks_of(["1.5", "x"])
    (Marks(decimal=',', thousands='.'), Marks(decimal=',', thousands=None), None)
    """
    best, most = None, int(np.isfinite(written_numbers(texts)).sum())
    for marks in _OTHER:
        count = int(np.isfinite(marks.numbers(texts)).sum())
        if count > most:
            best, most = marks, count
    return best
