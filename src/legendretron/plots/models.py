"""Models as users give them: one or many, inside pipelines and searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from legendretron._internal.validation import at_least_single
from legendretron.accelerate.log_proba import log_proba
from legendretron.links import Link
from legendretron.losses import ProperLoss
from legendretron.simplex import append_reference

#: Classifiers that have what most displays draw, for errors.
_OWNERS = "LegendreTronClassifier and MultinomialLogisticClassifier"


def name_models(what: str, given: Any, name: str | None = None) -> dict[str, Any]:
    """Return one or several models by name; those in a list are named after their class."""
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name must be a string, got {name!r}.")
    if isinstance(given, Mapping | Sequence) and not isinstance(given, str):
        if not len(given):
            raise ValueError(f"{what} must contain at least one model, got none.")
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


def single(display: str, given: Any) -> Any:
    """Return the model of a display for one, or raise a ``ValueError`` if there are several."""
    if isinstance(given, Mapping | Sequence) and not isinstance(given, str):
        raise ValueError(
            f"{display} draws one model, got a {type(given).__name__} of {len(given)}; draw one figure for each, in a loop, "
            "or on axes of your own by ax=."
        )
    return given


def core(estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the classifier inside pipelines, searches and classifiers of tables, and the features as it gets them."""
    while True:
        if isinstance(estimator, Pipeline):
            if X is not None:
                X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        elif hasattr(
            estimator, "encoder_"
        ):  # a fitted TableClassifier, which also has the attributes of a search inside
            X = None if X is None else estimator.encode(X)
            estimator = estimator.estimator_
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator, X


def core_with(display: str, attribute: str, estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """As :func:`core`, for a display of one fitted estimator whose class has an attribute."""
    model, X = core(single(display, estimator), X)
    check_is_fitted(model)
    if not hasattr(type(model), attribute):  # not of the object: some properties raise
        raise ValueError(
            f"estimator must have {attribute}, as {_OWNERS} do, got {type(model).__name__} without {attribute}."
        )
    return model, X


def link_of(estimator: Any) -> Link:
    """Return the link of a fitted classifier."""
    check_is_fitted(estimator)
    link = getattr(estimator, "link_", None)
    if not isinstance(link, Link):
        raise ValueError(f"estimator must have a link, as {_OWNERS} do, got {type(estimator).__name__} without link_.")
    return link


def classes_of(estimator: Any) -> np.ndarray:
    """Return the classes in the order of the link and the loss of a fitted classifier."""
    check_is_fitted(estimator)
    return np.asarray(getattr(estimator, "link_classes_", estimator.classes_))


def predictors(estimator: Any, X: Any) -> torch.Tensor:
    """Return the predictors that a fitted classifier puts into its link, ``(n, C - 1)``."""
    z = np.asarray(estimator.linear_predictor(X))
    return torch.as_tensor(z.reshape(len(z), -1))


def draw_rows(n: int, most: int, seed: int) -> np.ndarray:
    """Return the indices of all rows, or of the most that are wanted, drawn at random."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def format_label(label: Any) -> str:
    """Return a label for a text: strings as they are, numbers as "class 1"."""
    return str(label) if isinstance(label, str) else f"class {label}"


def check_classes(classes: Any, n_classes: int) -> np.ndarray:
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
        raise ValueError(f"y must contain one label for each row, got shape {y.shape}.")
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
    names = check_classes(classes, n_classes)
    order = np.argsort(names)
    place = np.searchsorted(names, y, sorter=order).clip(max=n_classes - 1)
    columns = order[place]
    if (wrong := names[columns] != y).any():
        raise ValueError(f"y holds the label {y[wrong][0].item()!r}, which is not among the classes {names.tolist()}.")
    return columns, names


#: Where the predictors of probabilities 1/4 and 3/4 are looked for: from large steps to small and back, in any unit.
_FAR = np.sinh(np.linspace(-14.0, 14.0, 201))
#: How far a forecast may be from certain to be called perfect.
_NEARLY = 1e-12


def like(module: nn.Module, values: np.ndarray) -> Tensor:
    """Return numbers as a tensor in the precision of a link or a loss, at least single, and where it is."""
    own = next((t for t in module.state_dict().values() if t.is_floating_point()), torch.empty(0, dtype=torch.float64))
    return torch.as_tensor(np.ascontiguousarray(values)).to(own.device, at_least_single(own).dtype)


def inverse_link(link: Link, z: np.ndarray) -> np.ndarray:
    """Return the probabilities of predictors, ``(n, C - 1) -> (n, C)``."""
    with torch.no_grad():
        p: np.ndarray = log_proba(link, like(link, z)).exp().double().cpu().numpy()
    return p


def partial_losses(of: Link | ProperLoss, p: np.ndarray) -> np.ndarray:
    """Return partial losses at probabilities ``(m, C)``, so that a perfect forecast costs nothing."""
    n_classes = p.shape[1]
    certain = (1 - n_classes * _NEARLY) * np.eye(n_classes) + _NEARLY
    q = like(of, np.concatenate([p, certain]))
    with torch.no_grad():
        if isinstance(of, ProperLoss):
            losses = of.partial_losses(q)
        else:
            z = of.link(q)
            losses = of.potential(z).unsqueeze(-1) - append_reference(z)
    found: np.ndarray = losses.double().cpu().numpy()
    return found[: len(p)] - np.diagonal(found[len(p) :])


def scale_to_log(middle: float, n_classes: int) -> float:
    """Return the factor by which a Bayes risk in the middle becomes that of the log-loss, ``log C``."""
    if not middle > 0:
        raise ValueError(
            f"the Bayes risk of equal probabilities must be positive to be scaled, got {middle:.3g}; use scale='own'."
        )
    return math.log(n_classes) / middle


def sigmoid_unit(probability: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float] | None:
    """Return shift and scale: a predictor is ``shift + scale * z`` for ``z`` in the sigmoid's unit.

    There, probabilities of 1/4 and 3/4 are where the sigmoid has them. None if the link does not rise from one to the other.
    """
    far = np.maximum.accumulate(probability(_FAR))
    if not (far[0] < 0.25 and far[-1] > 0.75):
        return None
    quarter, three = np.interp([0.25, 0.75], far, _FAR)
    for number in (101, 401):  # the first grid is coarse far away from zero
        near = np.linspace(quarter - 0.5 * (three - quarter), three + 0.5 * (three - quarter), number)
        quarter, three = np.interp([0.25, 0.75], np.maximum.accumulate(probability(near)), near)
    return ((quarter + three) / 2, (three - quarter) / (2 * np.log(3))) if three > quarter else None
