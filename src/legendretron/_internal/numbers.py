"""Numbers as text: with a decimal point or comma, and perhaps with thousands set apart."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np

__all__ = ["THOUSANDS", "written_numbers"]

#: Marks between thousands, each with its forms in print: spaces that do not break a line, and a typographic apostrophe.
THOUSANDS = {".": ".", ",": ",", "'": "'\u2019", " ": " \u00a0\u202f"}


def written_numbers(texts: Sequence[str], decimal: str = ".", thousands: str | None = None) -> np.ndarray:
    """Return the numbers that texts are, NaN where one is none; thousands are groups of three digits, or not set apart.

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
