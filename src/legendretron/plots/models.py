"""Models and labels as users give them: one or many, inside pipelines and searches, labels of any kind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from legendretron.links import Link
from legendretron.losses import CanonicalLoss, ProperLoss

__all__ = [
    "as_columns",
    "checked_classes",
    "classes_of",
    "core",
    "link_of",
    "loss_of",
    "named",
    "normalized",
    "partial_losses",
    "predictors",
    "scale_to_log",
    "shown",
]


def named(what: str, given: Any, name: str | None = None) -> dict[str, Any]:
    """Return one or several models by name; those in a list are named after their class.

    Parameters
    ----------
    what : str
        What to call the argument in errors.
    given : object, sequence or mapping of str to object
        A model, or several.
    name : str, optional
        Name of a single model.
    """
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name must be a string, got {name!r}.")
    if isinstance(given, Mapping | Sequence) and not isinstance(given, str):
        if not len(given):
            raise ValueError(f"{what} must hold at least one model, got none.")
        if name is not None:
            raise ValueError(f"name is for a single model; name several by a dict, got name={name!r}.")
    if isinstance(given, Mapping):
        if bad := [key for key in given if not isinstance(key, str)]:
            raise ValueError(f"{what} must be named by strings, got {bad[0]!r}.")
        return dict(given)
    if isinstance(given, Sequence) and not isinstance(given, str):
        kinds = [type(core(model)[0]).__name__ for model in given]
        names = [
            f"{kind} {kinds[:i].count(kind) + 1}" if kinds.count(kind) > 1 else kind for i, kind in enumerate(kinds)
        ]
        return dict(zip(names, given, strict=True))
    return {name if name is not None else type(core(given)[0]).__name__: given}


def core(estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the classifier inside pipelines and searches, and the features as it gets them."""
    while True:
        if isinstance(estimator, Pipeline):
            if X is not None:
                X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator, X


def link_of(estimator: Any) -> Link:
    """Return the link of a fitted classifier."""
    check_is_fitted(estimator)
    link = getattr(estimator, "link_", None)
    if not isinstance(link, Link):
        raise ValueError(
            f"estimator must have a link, as LegendreTronClassifier and MultinomialLogisticClassifier do, got "
            f"{type(estimator).__name__} without link_."
        )
    return link


def loss_of(estimator: Any) -> ProperLoss:
    """Return the loss of a fitted classifier, in its normalised form."""
    link_of(estimator)  # which raises an error if there is none
    return normalized(estimator.loss_)


def normalized(loss: ProperLoss) -> ProperLoss:
    """Return the loss in the form that costs nothing for a perfect forecast."""
    if isinstance(loss, CanonicalLoss) and not loss.normalized:
        return CanonicalLoss(loss.canonical_link, normalized=True)
    return loss


def classes_of(estimator: Any) -> np.ndarray:
    """Return the classes in the order of the link and the loss of a fitted classifier."""
    check_is_fitted(estimator)
    return np.asarray(getattr(estimator, "link_classes_", estimator.classes_))


def predictors(estimator: Any, X: Any) -> torch.Tensor:
    """Return the predictors that a fitted classifier puts into its link, ``(n, C - 1)``."""
    z = np.asarray(estimator.linear_predictor(X))
    return torch.as_tensor(z.reshape(len(z), -1))


def partial_losses(loss: ProperLoss, p: np.ndarray) -> np.ndarray:
    """Return the partial losses at probabilities ``(m, C)``, in the precision of the loss."""
    dtype = next((t.dtype for t in loss.state_dict().values() if t.is_floating_point()), torch.float64)
    with torch.no_grad():
        found: np.ndarray = loss.partial_losses(torch.as_tensor(np.ascontiguousarray(p), dtype=dtype)).double().numpy()
    return found


def scale_to_log(middle: float, n_classes: int) -> float:
    """Return the factor by which a Bayes risk in the middle becomes that of the log-loss, ``log C``."""
    if not middle > 0:
        raise ValueError(
            f"the Bayes risk of equal probabilities must be positive to be scaled, got {middle:.3g}; use scale='own'."
        )
    return math.log(n_classes) / middle


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

    Without ``classes``, integers from 0 to ``C - 1`` are column numbers; of any other labels, all ``C`` classes must occur,
    and columns are in sorted order.
    """
    y = np.asarray(y)
    if y.ndim != 1 or not len(y):
        raise ValueError(f"y must hold one label for each row, got shape {y.shape}.")
    if classes is None:
        if y.dtype.kind in "iu" and y.min() >= 0 and y.max() < n_classes:
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
