"""Recipes: what a record says about the estimator of a run, and the estimator of a recipe.

A recipe names the class and the parameters that are not at their defaults. It is part of what identifies a run, so a run of
another recipe is another run. What a recipe does not say is said by its version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from legendretron._internal.json_values import as_json
from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators.legendretron import PaperLegendreTronClassifier
from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)

_CLASSES: dict[str, type[BaseEstimator]] = {
    kind.__name__: kind
    for kind in (
        LegendreTronClassifier,
        PaperLegendreTronClassifier,
        MultinomialLogisticClassifier,
        BregmanTronClassifier,
        GLMTronClassifier,
        GPLinkgisticClassifier,
        ISGPLinkgisticClassifier,
        SlIsotronClassifier,
        LogisticRegression,
    )
}
#: Raise the version of a class when its defaults, or what they do, change: runs of the version before are then run again.
VERSIONS = {"LegendreTronClassifier": 1, "MultinomialLogisticClassifier": 1, "LegendreCalibrator": 1}
#: Parameters that belong to a run or to the machine, not to the recipe.
_ELSEWHERE = ("random_state", "device", "verbose", "checkpoint", "n_jobs")
#: Always named, so that a trial with fewer of them is another recipe.
_LENGTHS = ("max_epochs", "max_iter")


def make_recipe(estimator: BaseEstimator) -> dict[str, Any]:
    """Class, version and changed parameters of an estimator: JSON.

    Examples
    --------
    >>> make_recipe(GLMTronClassifier(standardize=False))
    {'estimator': 'GLMTronClassifier', 'max_iter': 200, 'standardize': False}
    """
    name = type(estimator).__name__
    usual = type(estimator)().get_params(deep=False)
    parameters = {
        key: value
        for key, given in estimator.get_params(deep=False).items()
        if key not in _ELSEWHERE and ((value := as_json(given, key)) != usual[key] or key in _LENGTHS)
    }
    return {"estimator": name, **({"version": VERSIONS[name]} if name in VERSIONS else {}), **parameters}


def make_estimator(recipe: Mapping[str, Any], *, device: str = "cpu", seed: int | None = None) -> BaseEstimator:
    """Build the estimator of a recipe, with a seed and, if it has that parameter, on a device.

    Entries that are no parameters, such as the version, are about the run and are left to the experiment.

    Examples
    --------
    >>> make_estimator({"estimator": "GLMTronClassifier", "max_iter": 3}).max_iter
    3
    """
    kind = _CLASSES[recipe["estimator"]]
    known = kind().get_params(deep=False)
    parameters = {name: value for name, value in recipe.items() if name in known}
    if "device" in known:
        parameters["device"] = device
    if "random_state" in known:
        parameters["random_state"] = seed
    return kind(**parameters)


def chosen_strengths(estimator: BaseEstimator) -> dict[str, Any]:
    """The link and the strengths that a fit has chosen; None where it chooses none. JSON has no infinity but its name."""
    chosen: dict[str, Any] = {"link": type(estimator.link_).__name__}
    for name in ("alpha", "link_alpha"):
        value = getattr(estimator, f"{name}_", None)
        number = None if value is None else float(value)
        chosen[name] = "inf" if number == float("inf") else number
    return chosen
