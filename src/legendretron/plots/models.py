"""Models as users give them: one or many, inside pipelines and searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from legendretron.links import Link


def named(what: str, given: Any, name: str | None = None) -> dict[str, Any]:
    """Return one or several models by name; those in a list are named after their class."""
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


def classes_of(estimator: Any) -> np.ndarray:
    """Return the classes in the order of the link and the loss of a fitted classifier."""
    check_is_fitted(estimator)
    return np.asarray(getattr(estimator, "link_classes_", estimator.classes_))


def predictors(estimator: Any, X: Any) -> torch.Tensor:
    """Return the predictors that a fitted classifier puts into its link, ``(n, C - 1)``."""
    z = np.asarray(estimator.linear_predictor(X))
    return torch.as_tensor(z.reshape(len(z), -1))
