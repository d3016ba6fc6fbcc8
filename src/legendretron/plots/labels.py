"""Labels of any kind, and the classes of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def shown(label: Any) -> str:
    """Return a label for a text: strings as they are, numbers as "class 1"."""
    return str(label) if isinstance(label, str) else f"class {label}"


def checked_classes(classes: Any, n_classes: int) -> np.ndarray:
    """Return names of the columns; by default their numbers."""
    if classes is None:
        return np.arange(n_classes)
    found = np.asarray(classes)
    if found.shape != (n_classes,) or len(np.unique(found)) != n_classes:
        raise ValueError(f"classes must name {n_classes} different classes, one for each column, got {classes!r}.")
    return found


def as_columns(y: ArrayLike, n_classes: int, classes: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of any kind as column numbers ``(n,)``, and the class of each column ``(C,)``.

    Without ``classes``, integers from 0 to ``C - 1`` among which 0 occurs are column numbers: without it, they may as well
    count from 1. Of any other labels, all ``C`` classes must occur, and columns are in sorted order.
    """
    y = np.asarray(y)
    if y.ndim != 1 or not len(y):
        raise ValueError(f"y must hold one label for each row, got shape {y.shape}.")
    if classes is None:
        if y.dtype.kind in "iu" and y.min() == 0 and y.max() < n_classes:
            return y, np.arange(n_classes)
        found = np.unique(y)
        if len(found) != n_classes:
            shown = ", ".join(map(repr, found[:5].tolist())) + (", ..." if len(found) > 5 else "")
            raise ValueError(
                f"y holds {len(found)} classes ({shown}), but predictions have {n_classes} columns; name the classes of the "
                "columns by classes=."
            )
        classes = found
    names = checked_classes(classes, n_classes)
    order = np.argsort(names)
    place = np.searchsorted(names, y, sorter=order).clip(max=n_classes - 1)
    columns = order[place]
    if (wrong := names[columns] != y).any():
        raise ValueError(f"y holds the label {y[wrong][0].item()!r}, which is not among the classes {names.tolist()}.")
    return columns, names
