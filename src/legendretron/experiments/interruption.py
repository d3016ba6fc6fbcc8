"""Training that Ctrl-C has cut short is no result."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

__all__ = ["whole_training"]

_MESSAGE = "Training was interrupted"


@contextmanager
def whole_training() -> Iterator[None]:
    """Inside, a training that was interrupted raises KeyboardInterrupt.

    Estimators end quietly on a first Ctrl-C and keep the weights they have, with a warning; a sweep must not take that
    for a result. Whether a training has converged is told by its result, so that warning is left out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("error", message=_MESSAGE)
        try:
            yield
        except UserWarning as warning:
            if _MESSAGE not in str(warning):
                raise
            raise KeyboardInterrupt from None
