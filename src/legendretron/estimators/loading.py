"""Loading of fitted estimators of any kind."""

from __future__ import annotations

import os

from legendretron.estimators.legendretron import LegendreTronClassifier
from legendretron.estimators.multinomial import MultinomialLogisticClassifier
from legendretron.estimators.persistence import load_estimator

__all__ = ["SAVED", "load_any_estimator"]

#: The estimators that files hold.
SAVED = (LegendreTronClassifier, MultinomialLogisticClassifier)


def load_any_estimator(path: str | os.PathLike[str]) -> LegendreTronClassifier | MultinomialLogisticClassifier:
    """Read an estimator of whichever kind was saved; raise a ``ValueError`` for anything else."""
    return load_estimator(path, *SAVED)
