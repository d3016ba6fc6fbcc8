"""Weights of classes as weights of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import compute_sample_weight

__all__ = ["with_class_weight"]


def with_class_weight(class_weight: Any, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the rows' weights times those of their classes; rows of weight zero are left out."""
    factors = np.ones(len(y))
    if isinstance(class_weight, dict):
        values = np.asarray(list(class_weight.values()), dtype=float)
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise ValueError(f"class_weight must hold finite, non-negative weights, got {class_weight!r}.")
    if class_weight is not None:
        present = weight > 0
        factors[present] = compute_sample_weight(class_weight, y[present])
    weight = weight * factors
    if not weight.any():
        raise ValueError(f"class_weight={class_weight!r} leaves no sample that counts.")
    return weight
