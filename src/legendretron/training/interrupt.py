"""Ctrl-C between two steps, not in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["CHOICE_INTERRUPTED", "INTERRUPTED", "stop_requests"]

#: Warning where a fit that Ctrl-C has ended is kept.
INTERRUPTED = "Training was interrupted; the weights reached so far are kept."
#: Warning where it has ended the choice of strengths.
CHOICE_INTERRUPTED = "Training was interrupted; the strengths are the best ones of those tried so far."


@contextmanager
def stop_requests(active: bool = True) -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C only sets a flag, which the yielded function reads; a second one interrupts as usual.

    Nothing changes if not ``active``, or outside the main thread, where signals cannot be caught.
    """
    requested = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    if not active or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, before)
