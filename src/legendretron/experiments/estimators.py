"""Estimators from the settings in a record, and settings from estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)

__all__ = ["estimator_of", "settings_of"]

_CLASSES: dict[str, type[BaseEstimator]] = {
    kind.__name__: kind
    for kind in (
        LegendreTronClassifier,
        MultinomialLogisticClassifier,
        BregmanTronClassifier,
        GLMTronClassifier,
        GPLinkgisticClassifier,
        ISGPLinkgisticClassifier,
        SlIsotronClassifier,
        LogisticRegression,
    )
}
#: Parameters that belong to a run or its place, not to the recipe.
_ELSEWHERE = ("random_state", "device", "verbose", "checkpoint", "checkpoint_every", "n_jobs", "keep_interrupted")


def settings_of(estimator: BaseEstimator) -> dict[str, Any]:
    """All parameters of an estimator but seed and device, with its class: JSON.

    Examples
    --------
    >>> settings_of(GLMTronClassifier())["estimator"]
    'GLMTronClassifier'
    """
    parameters = {name: value for name, value in estimator.get_params().items() if name not in _ELSEWHERE}
    return {"estimator": type(estimator).__name__, **parameters}


def estimator_of(settings: Mapping[str, Any], *, device: str = "cpu", seed: int | None = None) -> BaseEstimator:
    """The estimator of :func:`settings_of`, with a seed and, if it knows devices, on a device."""
    kind = _CLASSES[settings["estimator"]]
    known = kind().get_params()
    parameters = {name: value for name, value in settings.items() if name in known}
    if "device" in known:
        parameters["device"] = device
    if "random_state" in known:
        parameters["random_state"] = seed
    return kind(**parameters)
