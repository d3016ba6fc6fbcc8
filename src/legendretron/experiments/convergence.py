"""Training whose record tells whether it has converged."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

__all__ = ["unconverged_allowed"]


@contextmanager
def unconverged_allowed() -> Iterator[None]:
    """Inside, no warning says that a training has not converged: its record does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
