"""As many threads as the work of a step is worth, given back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["thread_count", "threads_for"]

#: Multiplications in a step below which a second thread costs more than it brings.
_WORTH_A_THREAD = 2e7


def thread_count(multiplications: float, available: int) -> int:
    """Number of threads for a step of so many multiplications.

    Examples
    --------
    >>> thread_count(1e6, available=8), thread_count(1e8, available=8), thread_count(1e10, available=8)
    (1, 5, 8)
    """
    return max(1, min(available, int(multiplications / _WORTH_A_THREAD)))


@contextmanager
def threads_for(multiplications: float) -> Iterator[int]:
    """Use the right number of threads inside, and the old one again afterwards, whatever happens."""
    before = torch.get_num_threads()
    inside = thread_count(multiplications, before)
    if inside == before:
        yield before
        return
    torch.set_num_threads(inside)
    try:
        yield inside
    finally:
        torch.set_num_threads(before)
