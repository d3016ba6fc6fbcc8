"""As many threads as pay off for the work of a step, restored afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: Multiplications in a step below which a second thread costs more than it saves.
_WORTH_A_THREAD = 2e7


def thread_count(multiplications: float, available: int) -> int:
    """Number of threads that pay off for a step of this size.

    Examples
    --------
    >>> thread_count(1e6, available=8), thread_count(1e8, available=8), thread_count(1e10, available=8)
    (1, 5, 8)
    """
    return max(1, min(available, int(multiplications / _WORTH_A_THREAD)))


class _Lowered:
    """The process's number of threads before the first of those inside ``threads_for`` entered."""

    lock = threading.Lock()
    inside = 0
    before = 1


@contextmanager
def threads_for(multiplications: float) -> Iterator[None]:
    """Set the number of threads inside, and restore the old one afterwards, also after an error.

    Several Python threads may be inside at once. Torch passes its number on to new Python threads, so one that enters
    second may already see the lowered number: what counts is the number before the first entered.
    """
    with _Lowered.lock:
        current = torch.get_num_threads()
        if _Lowered.inside == 0:
            _Lowered.before = current
        _Lowered.inside += 1
        wanted = thread_count(multiplications, _Lowered.before)
        if current != wanted:
            torch.set_num_threads(wanted)
    try:
        yield
    finally:
        with _Lowered.lock:
            _Lowered.inside -= 1
            torch.set_num_threads(current if _Lowered.inside else _Lowered.before)
