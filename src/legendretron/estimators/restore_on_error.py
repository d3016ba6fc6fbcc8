"""Nothing is left half fitted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["restore_on_error"]


@contextmanager
def restore_on_error(estimator: Any) -> Iterator[None]:
    """Keep the estimator as it was when fitting fails."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
