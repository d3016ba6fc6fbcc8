"""Reading ahead in a thread, while the caller works on what has been read."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

T = TypeVar("T")
_POLL = 0.05  # seconds between two looks whether the caller has gone


def read_ahead(items: Iterable[T], depth: int = 4) -> Generator[T]:
    """Yield the items, which a thread reads up to ``depth`` of in advance.

    An error of the iterable is raised here, in its place. Closing the generator, or leaving it to be collected, ends the
    thread, and closes the iterable in it.

    Examples
    --------
    >>> list(read_ahead(range(3)))
    [0, 1, 2]
    """
    ready: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(depth)
    gone = threading.Event()

    def put(done: bool, item: T | BaseException | None) -> bool:
        while not gone.is_set():
            try:
                ready.put((done, item), timeout=_POLL)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        iterator = iter(items)
        try:
            for item in iterator:
                if not put(False, item):
                    break
            put(True, None)
        except BaseException as error:  # whatever it is, the caller is to see it
            put(True, error)
        finally:
            if hasattr(iterator, "close"):
                iterator.close()

    thread = threading.Thread(target=read, name="legendretron-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            done, item = ready.get()
            if not done:
                yield item  # type: ignore[misc]
            elif isinstance(item, BaseException):
                raise item
            else:
                return
    finally:
        gone.set()
        thread.join()
