"""The order of classes inside the estimators: of two, the second comes first.

The linear predictor of a link is that of its first class, but in scikit-learn that of the second.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

__all__ = ["swap_classes", "swap_labels"]


def swap_labels(labels: Any, n_classes: int) -> Any:
    """Turn indices into ``classes_`` into those of the link's classes, or back; arrays or tensors."""
    return 1 - labels if n_classes == 2 else labels


def swap_classes(values: Any) -> Any:
    """Bring values per class, along the last axis, from the link's order into that of ``classes_``, or back.

    Examples
    --------
    >>> import numpy as np
    >>> swap_classes(np.array([[0.2, 0.8]])), swap_classes(np.array([0.2, 0.3, 0.5]))
    (array([[0.8, 0.2]]), array([0.2, 0.3, 0.5]))
    """
    if values.shape[-1] != 2:
        return values
    return values.flip(-1) if isinstance(values, Tensor) else values[..., ::-1]
