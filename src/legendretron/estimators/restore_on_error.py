"""Fits that fail leave the estimator unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["restore_on_error"]


@contextmanager
def restore_on_error(estimator: Any) -> Iterator[None]:
    """Restore the estimator's attributes if the block raises."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
