"""Rows in chunks, so that the memory for intermediate results does not grow with the data."""

from __future__ import annotations

#: Numbers that are computed at once: 32 MiB in double precision.
ENTRIES_AT_ONCE = 2**22
#: The same where each chunk is read again soon, while it is still in a cache of the processor.
ENTRIES_IN_CACHE = 2**17
#: Rows below which a matrix product would mostly wait for its other factor.
ROWS_OF_A_PRODUCT = 64


def chunks(n: int, width: int) -> list[slice]:
    """Return slices of ``n`` rows, each of as many rows of ``width`` numbers as are computed at once.

    Examples
    --------
    >>> chunks(5, 2**21)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return _slices(n, max(1, ENTRIES_AT_ONCE // width))


def chunks_in_cache(n: int, width: int) -> list[slice]:
    """As :func:`chunks`, but of so few rows that they stay in the cache; or of those that a matrix product needs.

    Examples
    --------
    >>> chunks_in_cache(300_000, 2)[-1]
    slice(262144, 300000, None)
    """
    return _slices(n, max(1, ENTRIES_IN_CACHE // width, min(ROWS_OF_A_PRODUCT, ENTRIES_AT_ONCE // width)))


def _slices(n: int, at_once: int) -> list[slice]:
    return [slice(start, min(start + at_once, n)) for start in range(0, n, at_once)]
