"""Saving and loading of fitted models, also of one inside another."""

from __future__ import annotations

import os
import reprlib
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.artifacts import load_state, save_state
from legendretron._internal.fields import (
    NAMES,
    OBJECT,
    Field,
    check_fields,
    integer,
    list_of,
    number,
    one_of,
    optional,
)
from legendretron._internal.json_values import as_json
from legendretron._internal.printable import one_line
from legendretron._internal.sklearn_compat import validate_parameters
from legendretron.calibration.prediction_sets import SetCalibration
from legendretron.estimators.baseline import Baseline
from legendretron.estimators.saved_classes import LABEL, classes_from_state, classes_to_state
from legendretron.links.persistence import link_from_state, link_to_state
from legendretron.preprocessing.drift import UsualRanges
from legendretron.training import History
from legendretron.tuning.noise import FoundNoise

#: What every classifier saves; and what one with a link on a predictor saves, too.
SHARED_FIELDS = {
    "parameters": OBJECT,
    "classes": OBJECT,
    "feature_names_in": optional(NAMES),
    "sets": optional(OBJECT),
}
LINK_FIELDS = {
    **SHARED_FIELDS,
    "link": OBJECT,
    "label_noise": optional(OBJECT),
    "n_iter": integer(0),
    "history": optional(OBJECT),
    "usual": optional(OBJECT),
    "baseline": optional(OBJECT),
}
_WEIGHTS = list_of(
    Field(
        "a pair of a different label and its weight",
        lambda pair: (
            isinstance(pair, list) and len(pair) == 2 and LABEL.accepts(pair[0]) and number(0.0).accepts(pair[1])
        ),
    )
)


class SavedModel:
    """Base of the models that can be saved: they have ``to_state`` and ``from_state``, and are fitted."""

    @abstractmethod
    def to_state(self) -> dict[str, Any]:
        """Return parameters and all that was fitted, as a tree of plain values and arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return a fitted model from what :meth:`to_state` returned; anything else raises a ``ValueError``."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, safetensors with a JSON header; the write is atomic.

        A model that could not be loaded again raises a ``ValueError``: its weights are not finite, or it contains an
        estimator of another library.
        """
        check_is_fitted(self)
        save_state(path, type(self).__name__, self.to_state(), type(self).from_state)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a model that was written by :meth:`save`; other or modified files raise a ``ValueError``.

        Files from any source are safe to load: no code in them is executed, and they take no more memory than their size
        justifies. If the file has the format of another version, the error names that version.
        """
        return load_state(path, {cls.__name__: cls.from_state})


AnyModel = TypeVar("AnyModel", bound=SavedModel)


def part_to_state(model: Any, *classes: type[SavedModel]) -> dict[str, Any]:
    """The state of a model inside another one, with the name of its class, which must be one of some."""
    if type(model) not in classes:
        known = " or a ".join(cls.__name__ for cls in classes)
        raise ValueError(
            f"estimator must be a {known} to be saved, got a {type(model).__name__}; use pickle for other classes."
        )
    check_is_fitted(model)
    return {"class": type(model).__name__, "state": model.to_state()}


def part_from_state(state: Any, *classes: type[AnyModel]) -> AnyModel:
    """The reverse of :func:`part_to_state`."""
    known = {cls.__name__: cls for cls in classes}
    check_fields("the model inside", state, {"class": one_of(*known), "state": OBJECT})
    return known[state["class"]].from_state(state["state"])


# --- what classifiers share ---


def shared_to_state(model: Any, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    """Parameters, classes, names of the features and prediction sets of a fitted classifier."""
    names, sets = getattr(model, "feature_names_in_", None), model._sets
    return {
        "parameters": _encode_parameters(model.get_params(deep=False)) if parameters is None else parameters,
        "classes": classes_to_state(model.classes_),
        "feature_names_in": None if names is None else list(names),
        "sets": None if sets is None else sets.to_state(),
    }


def shared_from_state(cls: type[Any], state: dict[str, Any], n_features: int, **objects: Any) -> Any:
    """The reverse of :func:`shared_to_state`; ``objects`` are parameters that are saved elsewhere."""
    known = {name for name in cls._get_param_names() if name != "estimator"}  # one that is missing has its default
    if unknown := set(state["parameters"]) - known:
        raise ValueError(
            f"parameters must be those of {cls.__name__}; unknown are {one_line(', '.join(sorted(unknown)))}."
        )
    model = cls(**{**state["parameters"], **_decode_class_weight(state["parameters"]), **objects})
    validate_parameters(model)
    model.classes_, model.n_features_in_ = classes_from_state(state["classes"]), n_features
    if (names := state["feature_names_in"]) is not None:
        if len(names) != n_features:
            raise ValueError(f"feature_names_in must be {n_features} names, got {len(names)}.")
        model.feature_names_in_ = np.asarray(names, dtype=object)
    if state["sets"] is not None:
        model._sets = SetCalibration.from_state(state["sets"], len(model.classes_))
    return model


def link_parts_to_state(model: Any) -> dict[str, Any]:
    """All of the above, and the link, what is known of wrong labels, how it was trained, and what it is compared with."""
    noise, history, usual, baseline = model._noise, getattr(model, "history_", None), model._usual, model._baseline
    return {
        **shared_to_state(model),
        "link": link_to_state(model.link_),
        "label_noise": None if noise is None else noise.to_state(),
        "n_iter": model.n_iter_,
        "history": None if history is None else history.to_state(),
        "usual": None if usual is None else usual.to_state(),
        "baseline": None if baseline is None else baseline.to_state(),
    }


def link_parts_from_state(cls: type[Any], state: dict[str, Any], n_features: int, **objects: Any) -> Any:
    """The reverse of :func:`link_parts_to_state`."""
    model = shared_from_state(cls, state, n_features, **objects)
    n_classes, link = len(model.classes_), link_from_state(state["link"])
    if link.n_classes != n_classes:
        raise ValueError(f"n_classes of link must be {n_classes}, the number of classes, got {link.n_classes}.")
    model.link_ = link.eval().requires_grad_(False)
    if state["label_noise"] is not None:
        model._noise = FoundNoise.from_state(state["label_noise"], n_classes)
    model.n_iter_ = state["n_iter"]
    if state["history"] is not None:
        model.history_ = History.from_state(state["history"])
    if state["usual"] is not None:
        model._usual = UsualRanges.from_state(state["usual"], n_features)
    if state["baseline"] is not None:
        model._baseline = Baseline.from_state(state["baseline"], n_classes, n_features)
    return model


def _encode_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator as JSON values."""
    encoded = {}
    for name, value in parameters.items():
        if name == "link" and not isinstance(value, str):
            value = "object"
        elif name == "class_weight" and isinstance(value, dict):
            value = [[label, float(weight)] for label, weight in value.items()]
        elif name == "label_noise" and not (value is None or isinstance(value, str | Real)):
            value = np.asarray(value, dtype=np.float64).tolist()
        elif name == "checkpoint" and value is not None:
            value = os.fspath(value)
        elif name == "random_state" and isinstance(value, np.random.RandomState):
            value = None  # the state of a generator is not saved
        elif name == "cv" and value is not None and not isinstance(value, Integral):
            value = None  # neither is a splitter
        encoded[name] = as_json(value, name)
    return encoded


def _decode_class_weight(parameters: dict[str, Any]) -> dict[str, Any]:
    """Pairs of labels and weights as the dict that they were; nothing if there are none."""
    if not isinstance(pairs := parameters.get("class_weight"), dict | list):
        return {}
    if not _WEIGHTS.accepts(pairs) or len({label for label, _ in pairs}) != len(pairs):
        raise ValueError(f"class_weight must be {_WEIGHTS.wanted}, got {reprlib.repr(pairs)}.")
    return {"class_weight": dict(pairs)}
