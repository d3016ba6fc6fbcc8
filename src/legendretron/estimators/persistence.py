"""Estimators in one file: safetensors with a JSON header. Nothing is unpickled."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import numpy as np
import torch

from legendretron.artifacts import read_artifact, write_artifact
from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.standardized import Standardized
from legendretron.links import Link, link_config, make_link
from legendretron.training import History

__all__ = ["load_any_estimator", "load_estimator", "save_estimator"]

_KIND = "legendretron-estimator-1"
Estimator = TypeVar("Estimator", bound=LinearLinkClassifier)


def save_estimator(estimator: LinearLinkClassifier, path: str | os.PathLike[str]) -> None:
    """See :meth:`LinearLinkClassifier.save`."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    state = estimator._standardized
    tensors = {
        "coef": torch.as_tensor(estimator.coef_),
        "intercept": torch.as_tensor(estimator.intercept_),
        "standardized.mean": torch.as_tensor(state.mean),
        "standardized.scale": torch.as_tensor(state.scale),
        "standardized.weight": state.weight,
        "standardized.bias": state.bias,
        **{f"link.{name}": tensor for name, tensor in estimator.link_.state_dict().items()},
    }
    settings = {
        "estimator": type(estimator).__name__,
        "parameters": _encode_parameters(estimator),
        "link": link_config(estimator.link_),
        "classes": _encode_array(estimator.classes_),
        "n_features_in": int(estimator.n_features_in_),
        "feature_names_in": list(estimator.feature_names_in_) if hasattr(estimator, "feature_names_in_") else None,
        "n_iter": estimator.n_iter_,
        "history": estimator.history_.to_dict(),
    }
    given = getattr(estimator, "link", None)
    if isinstance(given, Link):  # the link that was handed over is a parameter, and not what it has become
        settings["given_link"] = {**link_config(given), "dtype": _precision(given)}
        tensors |= {f"given_link.{name}": tensor for name, tensor in given.state_dict().items()}
    if state.moments is not None:
        tensors |= {f"moments.{i}": moment for i, moment in enumerate(state.moments)}
    write_artifact(path, _KIND, tensors, settings)


def load_estimator(cls: type[Estimator], path: str | os.PathLike[str]) -> Estimator:
    """See :meth:`LinearLinkClassifier.load`."""
    tensors, settings = read_artifact(path, _KIND)
    name = repr(os.fspath(path))
    if settings["estimator"] != cls.__name__:
        raise ValueError(f"{name} holds a {settings['estimator']}, not a {cls.__name__}; use its load.")
    return _rebuild(cls, settings, tensors)


def load_any_estimator(path: str | os.PathLike[str]) -> LinearLinkClassifier:
    """Read an estimator of whichever kind was saved; refuse anything else with a ``ValueError``."""
    from legendretron.estimators.legendretron import LegendreTronClassifier
    from legendretron.estimators.multinomial import MultinomialLogisticClassifier

    tensors, settings = read_artifact(path, _KIND)
    known = {cls.__name__: cls for cls in (LegendreTronClassifier, MultinomialLogisticClassifier)}
    if settings["estimator"] not in known:
        raise ValueError(f"{os.fspath(path)!r} holds a {settings['estimator']}; known are {', '.join(known)}.")
    return _rebuild(known[settings["estimator"]], settings, tensors)


def _rebuild(cls: type[Estimator], settings: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Estimator:
    weight = tensors["standardized.weight"]
    link = _rebuild_link(settings["link"], weight.dtype, tensors, "link.")
    parameters = _decode_parameters(settings["parameters"])
    if parameters.get("link") == "object":
        given = dict(settings["given_link"])
        parameters["link"] = _rebuild_link(given, getattr(torch, given.pop("dtype")), tensors, "given_link.")
    moments = tuple(tensors[f"moments.{i}"] for i in range(3)) if "moments.0" in tensors else None
    estimator = cls(**parameters)
    estimator.classes_ = _decode_array(settings["classes"])
    estimator.coef_ = tensors["coef"].numpy()
    estimator.intercept_ = tensors["intercept"].numpy()
    estimator.link_ = link.eval().requires_grad_(False)
    estimator._standardized = Standardized(
        tensors["standardized.mean"].numpy(),
        tensors["standardized.scale"].numpy(),
        weight,
        tensors["standardized.bias"],
        moments,
    )
    estimator.history_ = History.from_dict(settings["history"])
    estimator.n_iter_ = settings["n_iter"]
    estimator.n_features_in_ = settings["n_features_in"]
    if settings["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.asarray(settings["feature_names_in"], dtype=object)
    k, d = len(estimator.classes_) - 1, estimator.n_features_in_
    if estimator.coef_.shape != (k, d) or estimator.intercept_.shape != (k,) or weight.shape != (d, k):
        raise ValueError(f"coefficients have shape {estimator.coef_.shape}, but {k + 1} classes and {d} features.")
    return estimator


def _rebuild_link(config: dict[str, Any], dtype: torch.dtype, tensors: dict[str, torch.Tensor], prefix: str) -> Link:
    config = dict(config)
    link = make_link(config.pop("kind"), config.pop("n_classes"), dtype=dtype, **config)
    link.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
    return link


def _precision(link: Link) -> str:
    parameter = next(link.parameters(), None)
    return "float32" if parameter is None else str(parameter.dtype).removeprefix("torch.")


def _encode_parameters(estimator: LinearLinkClassifier) -> dict[str, Any]:
    encoded = {}
    for name, value in estimator.get_params(deep=False).items():
        if name == "link" and not isinstance(value, str):
            value = "object"
        elif name == "class_weight" and isinstance(value, dict):
            value = [[_plain(label), float(weight)] for label, weight in value.items()]
        elif name == "checkpoint" and value is not None:
            value = os.fspath(value)
        elif name == "random_state" and isinstance(value, np.random.RandomState):
            value = None  # a generator that has been used cannot be written down
        encoded[name] = _plain(value)
    return encoded


def _decode_parameters(encoded: dict[str, Any]) -> dict[str, Any]:
    weights = encoded.get("class_weight")
    if isinstance(weights, list):
        return {**encoded, "class_weight": dict(map(tuple, weights))}
    return dict(encoded)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _encode_array(labels: np.ndarray) -> dict[str, Any]:
    kind = "object" if labels.dtype.kind == "O" else labels.dtype.str
    if labels.dtype.kind not in "iufbUO" or any(not isinstance(_plain(v), str | int | float | bool) for v in labels):
        raise ValueError(f"classes_ must be numbers or strings to be saved, got dtype {labels.dtype}.")
    return {"dtype": kind, "values": labels.tolist()}


def _decode_array(encoded: dict[str, Any]) -> np.ndarray:
    return np.asarray(encoded["values"], dtype=np.dtype(encoded["dtype"]))
