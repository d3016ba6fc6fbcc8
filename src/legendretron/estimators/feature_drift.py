"""Features that are far from those of the fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from legendretron.preprocessing.drift import Tally

if TYPE_CHECKING:  # they import torch and scikit-learn, which takes seconds
    from legendretron.estimators.base import LinearLinkClassifier
    from legendretron.estimators.numpy_predictor import NumpyPredictor

#: Standard deviations from the mean beyond which a number is far. At most a 25th of the numbers of any distribution are.
_FAR = 5.0


def feature_tallies(estimator: LinearLinkClassifier | NumpyPredictor, X: Any) -> list[Tally]:
    """Count the numbers of each feature that are far from those of the fit.

    An estimator knows means and deviations of its features, and not their ranges; neither if it did not standardize them,
    nor of sparse ones. Then nothing is counted.
    """
    mean, scale = estimator._standardized.mean, estimator._standardized.scale
    if hasattr(X, "tocsr") or not mean.any():
        return []
    numbers = np.asarray(X)
    far = np.zeros(len(mean), dtype=np.int64)
    extremes = numbers.min(0, initial=math.inf), numbers.max(0, initial=-math.inf)
    inside = np.all([np.abs(values - mean) <= _FAR * scale for values in extremes], axis=0)
    for k in np.flatnonzero(~inside):  # few features have numbers so far away
        far[k] = np.count_nonzero(np.abs(numbers[:, k] - mean[k]) > _FAR * scale[k])
    names = getattr(estimator, "feature_names_in_", [f"column {place}" for place in range(len(mean))])
    return [
        Tally(
            str(name),
            "outside",
            f"more than {_FAR:g} standard deviations from the mean of the fit, {middle:.4g}",
            1.0 / _FAR**2,
            math.inf,
            int(count),
            len(numbers),
        )
        for name, middle, count in zip(names, mean.tolist(), far.tolist(), strict=True)
    ]
