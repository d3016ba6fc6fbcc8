"""Rows in chunks, so that the memory for intermediate results does not grow with the data."""

from __future__ import annotations

__all__ = ["chunks"]

#: Numbers that are computed at once: 32 MiB in double precision.
ENTRIES_AT_ONCE = 2**22


def chunks(n: int, width: int) -> list[slice]:
    """Return slices of ``n`` rows, each of as many rows of ``width`` numbers as are computed at once.

    Examples
    --------
    >>> chunks(5, 2**21)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    at_once = max(1, ENTRIES_AT_ONCE // width)
    return [slice(start, min(start + at_once, n)) for start in range(0, n, at_once)]
