"""Classes inside the estimators: their order, and their weights.

With two classes the order is reversed: the linear predictor of a link is that of its first class, but in scikit-learn that
of the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import compute_sample_weight
from torch import Tensor


def swap_labels(labels: Any, n_classes: int) -> Any:
    """Turn indices into ``classes_`` into those of the link's classes, or back; arrays or tensors."""
    return 1 - labels if n_classes == 2 else labels


def swap_classes(values: Any) -> Any:
    """Reorder values per class, along the last axis, from the link's order to that of ``classes_``, or back.

    Examples
    --------
    >>> import numpy as np
    >>> swap_classes(np.array([[0.2, 0.8]])), swap_classes(np.array([0.2, 0.3, 0.5]))
    (array([[0.8, 0.2]]), array([0.2, 0.3, 0.5]))
    """
    if values.shape[-1] != 2:
        return values
    return values.flip(-1) if isinstance(values, Tensor) else values[..., ::-1]


def apply_class_weight(class_weight: Any, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the rows' weights times those of their classes; rows of weight zero are left out."""
    factors = np.ones(len(y))
    if isinstance(class_weight, dict):
        values = np.asarray(list(class_weight.values()), dtype=float)
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise ValueError(f"class_weight must contain finite, non-negative weights, got {class_weight!r}.")
    if class_weight is not None:
        present = weight > 0
        factors[present] = compute_sample_weight(class_weight, y[present])
    weight = weight * factors
    if not weight.any():
        raise ValueError(f"class_weight={class_weight!r} leaves no sample with a positive weight.")
    return weight
