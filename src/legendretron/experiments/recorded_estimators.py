"""Estimators from the settings in a record, settings from estimators, and which settings identify a run.

Settings are part of a run's key exactly as written. For the project's own records, neither a parameter that is added later
nor a new default of an old one may change the keys of earlier runs or the meaning of their settings. Three rules ensure this:

- recipes are made by :func:`recorded_settings`, from
  :data:`~legendretron.experiments.recorded_defaults.RECORDED_DEFAULTS` and not from the constructors' defaults;
- they name a parameter that is not listed there only if it differs from its own default;
- :func:`estimator_of` fills in missing settings of a record from the same defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from legendretron.estimators import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators.legendretron import LINK_SETTINGS
from legendretron.experiments.recorded_defaults import LATER_DEFAULTS, RECORDED_DEFAULTS
from legendretron.links import link_class
from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)

__all__ = ["chosen_strengths", "estimator_of", "estimator_settings", "identifying_settings", "recorded_settings"]

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
#: Parameters that belong to a run or to the machine, not to the recipe.
_ELSEWHERE = ("random_state", "device", "verbose", "checkpoint", "checkpoint_every", "n_jobs", "keep_interrupted")


def estimator_settings(estimator: BaseEstimator) -> dict[str, Any]:
    """All parameters of an estimator but seed and device, with its class: JSON.

    Examples
    --------
    >>> estimator_settings(GLMTronClassifier())["estimator"]
    'GLMTronClassifier'
    """
    parameters = {name: value for name, value in estimator.get_params().items() if name not in _ELSEWHERE}
    return {"estimator": type(estimator).__name__, **parameters}


def chosen_strengths(estimator: BaseEstimator) -> dict[str, Any]:
    """The link and the strengths that a fit has chosen; None where it chooses none. JSON has no infinity but its name."""
    found: dict[str, Any] = {"link": type(estimator.link_).__name__}
    for name in ("alpha", "link_alpha"):
        value = getattr(estimator, f"{name}_", None)
        number = None if value is None else float(value)
        found[name] = "inf" if number == float("inf") else number
    return found


def recorded_settings(kind: type[BaseEstimator], **parameters: Any) -> dict[str, Any]:
    """Settings of an estimator with some parameters, and the recorded defaults for the others.

    Parameters that were added later are included only where they change something: see :func:`identifying_settings`.

    Examples
    --------
    >>> recorded_settings(GLMTronClassifier, standardize=False)["max_iter"]
    200
    """
    estimator = estimator_of({"estimator": kind.__name__}).set_params(**parameters)
    return identifying_settings(estimator_settings(estimator))


def identifying_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that affect results: the same for a committed record and for a recipe of later code.

    Settings of estimators that are not the project's own are returned as they are.

    Examples
    --------
    >>> identifying_settings({"estimator": "GLMTronClassifier"}) == estimator_settings(GLMTronClassifier())
    True
    """
    name_of_class = settings.get("estimator")
    if not isinstance(name_of_class, str) or name_of_class not in RECORDED_DEFAULTS:
        return dict(settings)
    recorded = RECORDED_DEFAULTS[name_of_class]
    neutral = {**_CLASSES[name_of_class]().get_params(), **LATER_DEFAULTS}
    given = {**recorded, **settings}
    if name_of_class == LegendreTronClassifier.__name__:
        # settings of other links, at defaults of today, which do nothing: records hold them at their old ones
        own = _settings_of(given["link"])
        given |= {name: recorded[name] for name in LINK_SETTINGS if name not in own and given[name] == neutral[name]}
    return {
        name: value
        for name, value in given.items()
        if name in recorded or name not in neutral or value != neutral[name]
    }


def estimator_of(settings: Mapping[str, Any], *, device: str = "cpu", seed: int | None = None) -> BaseEstimator:
    """Build the estimator of :func:`estimator_settings`, with a seed and, if it has that parameter, on a device."""
    kind = _CLASSES[settings["estimator"]]
    known = kind().get_params()
    unsaid = {**LATER_DEFAULTS, **RECORDED_DEFAULTS.get(settings["estimator"], {})}
    parameters = {name: value for name, value in {**unsaid, **settings}.items() if name in known}
    if kind is LegendreTronClassifier:
        parameters = _without_foreign_settings(parameters, unsaid)
    if "device" in known:
        parameters["device"] = device
    if "random_state" in known:
        parameters["random_state"] = seed
    return kind(**parameters)


def _without_foreign_settings(parameters: dict[str, Any], unsaid: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters without those of other links, which records hold at their old defaults."""
    own = _settings_of(parameters["link"])
    return {
        name: value
        for name, value in parameters.items()
        if name not in LINK_SETTINGS or name in own or value != unsaid.get(name)
    }


def _settings_of(link: Any) -> tuple[str, ...]:
    """Names of a link's settings; an object has none to be given."""
    return tuple(link_class(link).setting_names()) if isinstance(link, str) else ()
