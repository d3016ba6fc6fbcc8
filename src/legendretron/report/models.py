"""What a fitted model can tell about itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from legendretron.estimators import LegendreCalibrator
from legendretron.plots.models import core


def inner(model: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the classifier inside pipelines, searches, calibrators and classifiers of tables, and its features.

    A calibrator of scores is its own classifier.
    """
    found, X = core(model, X)
    while True:
        if isinstance(found, LegendreCalibrator) and found.estimator is not None:
            found, X = core(found.estimator_, X)
        elif isinstance(found, FrozenEstimator):
            found, X = core(found.estimator, X)
        else:
            return found, X


def feature_names(model: Any, classifier: Any, n_features: int) -> list[str]:
    """Return names of the features of the classifier inside a model."""
    own = getattr(classifier, "feature_names_in_", None)
    if own is None and isinstance(model, Pipeline) and len(model) > 1:
        try:
            own = model[:-1].get_feature_names_out()
        except (AttributeError, ValueError):  # not every transformer knows names
            own = None
    if own is None and classifier is model:
        own = getattr(model, "feature_names_in_", None)
    if own is not None and len(own) == n_features:
        return [str(name) for name in np.asarray(own).tolist()]
    return [f"column {place}" for place in range(n_features)]
