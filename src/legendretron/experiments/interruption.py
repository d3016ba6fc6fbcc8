"""Training whose result is kept, and tells itself whether it has converged."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

__all__ = ["whole_training"]


@contextmanager
def whole_training() -> Iterator[None]:
    """Inside, no warning says that a training has not converged: its record does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
