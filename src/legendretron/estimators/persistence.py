"""Saving and loading of estimators: one safetensors file with a JSON header. Nothing is unpickled."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.artifacts import read_artifact, write_artifact
from legendretron._internal.plain import plain
from legendretron._internal.sklearn_compat import validate_parameters
from legendretron.estimators.fixed_link import frozen_again, is_fixed, own_link
from legendretron.estimators.formats import ESTIMATOR_KIND as _KIND
from legendretron.estimators.label_noise import FittedNoise
from legendretron.estimators.saved_classes import decode_classes
from legendretron.estimators.saved_form import check_saved_form, decode_class_weight
from legendretron.estimators.saved_noise import decode_noise, encode_noise
from legendretron.estimators.saved_tuning import decode_strengths, decode_tuning, encode_strengths, encode_tuning
from legendretron.estimators.standardization import Standardized
from legendretron.links import Link, link_config
from legendretron.links.persistence import rebuild_link, saved_link
from legendretron.training import History
from legendretron.tuning import Tuning

__all__ = ["encode_classes", "load_estimator", "rebuild_estimator", "save_estimator", "saved_estimator"]


class _Fitted(Protocol):
    """Attributes of a fitted estimator, all of which are saved."""

    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    link_: Link
    history_: History
    n_iter_: int
    alpha_: float
    link_alpha_: float
    gradient_norm_: float
    converged_: bool
    _tuning: Tuning | None
    _noise: FittedNoise | None
    n_features_in_: int
    feature_names_in_: np.ndarray
    _standardized: Standardized

    def __init__(self, **parameters: Any) -> None: ...

    @classmethod
    def _get_param_names(cls) -> list[str]: ...

    def get_params(self, deep: bool) -> dict[str, Any]: ...


Estimator = TypeVar("Estimator", bound=_Fitted)


def save_estimator(estimator: _Fitted, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, atomically."""
    write_artifact(path, _KIND, *_encode(estimator))


def saved_estimator(estimator: _Fitted, prefix: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """JSON and tensors of a fitted estimator, named with a prefix, for a file that holds more than the estimator."""
    tensors, header = _encode(estimator)
    return {"format": _KIND, "header": header}, {f"{prefix}{name}": tensor for name, tensor in tensors.items()}


def _encode(estimator: _Fitted) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and header of a fitted estimator."""
    check_is_fitted(estimator)
    state, noise = estimator._standardized, getattr(estimator, "_noise", None)
    tensors = {
        "coef": torch.as_tensor(estimator.coef_),
        "intercept": torch.as_tensor(estimator.intercept_),
        "standardized.mean": torch.as_tensor(state.mean),
        "standardized.scale": torch.as_tensor(state.scale),
        "standardized.weight": state.weight,
        "standardized.bias": state.bias,
        **{f"link.{name}": tensor for name, tensor in estimator.link_.state_dict().items()},
    }
    header = {
        "estimator": type(estimator).__name__,
        "parameters": _encode_parameters(estimator),
        "link": link_config(estimator.link_),
        "given_link": None,
        "given_link_is_fixed": False,
        "classes": encode_classes(estimator.classes_),
        "n_features_in": int(estimator.n_features_in_),
        "feature_names_in": list(estimator.feature_names_in_) if hasattr(estimator, "feature_names_in_") else None,
        "n_iter": estimator.n_iter_,
        "history": estimator.history_.to_dict(),
        "has_moments": state.moments is not None,
        "strengths": encode_strengths(estimator.alpha_, estimator.link_alpha_),
        "tuning": encode_tuning(getattr(estimator, "_tuning", None)),
        "label_noise": encode_noise(noise),
        "gradient_norm": getattr(estimator, "gradient_norm_", None),
        "converged": getattr(estimator, "converged_", None),
    }
    if noise is not None and noise.matrix is not None:
        tensors["label_noise.matrix"] = torch.as_tensor(noise.matrix)
    given = own_link(getattr(estimator, "link", None))  # a loss is saved as its link
    if isinstance(given, Link):  # saved as given; link_ is its trained copy
        header["given_link"], of_given = saved_link(given, "given_link.")
        header["given_link_is_fixed"] = is_fixed(given) or given is not getattr(estimator, "link", None)
        tensors |= of_given
    if state.moments is not None:
        tensors |= {f"moments.{i}": moment for i, moment in enumerate(state.moments)}
    try:
        validate_parameters(estimator)
        check_saved_form(header, tensors, type(estimator)._get_param_names())
    except ValueError as error:  # loading would raise the same error
        raise ValueError(f"the estimator cannot be saved: {error}") from error
    return tensors, header


def load_estimator(path: str | os.PathLike[str], *classes: type[Estimator]) -> Estimator:
    """Read an estimator of one of the classes; raise a ``ValueError`` for anything else."""
    tensors, header = read_artifact(path, _KIND)
    known = _known(f"{os.fspath(path)!r}", header, classes)
    try:
        return _decode(known, tensors, header)
    except (ValueError, RecursionError) as error:  # too deeply nested to be shown
        raise ValueError(f"{os.fspath(path)!r} is not a model that can be loaded: {error}") from error


def rebuild_estimator(
    saved: dict[str, Any], tensors: dict[str, torch.Tensor], prefix: str, *classes: type[Estimator]
) -> Estimator:
    """Build an estimator of one of the classes from what :func:`saved_estimator` returned.

    Raise a ``ValueError`` for anything else. Tensors without the prefix are not looked at.
    """
    if set(saved) != {"format", "header"} or not isinstance(saved["header"], dict):
        raise ValueError(f"a saved estimator must have a format and a header, got {', '.join(map(str, saved))}.")
    if saved["format"] != _KIND:
        raise ValueError(f"the estimator is in the format {saved['format']!r}, but this version reads {_KIND!r}.")
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return _decode(_known("the file", saved["header"], classes), own, saved["header"])


def _known(place: str, header: dict[str, Any], classes: tuple[type[Estimator], ...]) -> type[Estimator]:
    """The class that a header names."""
    known = {cls.__name__: cls for cls in classes}
    if (saved := _estimator_name(header)) not in known:
        wanted = f"; known are {', '.join(known)}." if len(known) > 1 else f", not a {', '.join(known)}; use its load."
        raise ValueError(f"{place} holds a {saved}{wanted}")
    return known[saved]


def _estimator_name(header: dict[str, Any]) -> str:
    name = header.get("estimator")
    return name if isinstance(name, str) else "model whose header names no estimator"


def _decode(cls: type[Estimator], tensors: dict[str, torch.Tensor], header: dict[str, Any]) -> Estimator:
    """A fitted estimator from what :func:`_encode` returned."""
    check_saved_form(header, tensors, cls._get_param_names())
    parameters = dict(header["parameters"])
    parameters["class_weight"] = decode_class_weight(parameters.get("class_weight"))
    if header["given_link"] is not None:
        given = rebuild_link(header["given_link"], tensors, "given_link.")
        parameters["link"] = frozen_again(given) if header["given_link_is_fixed"] else given
    estimator = cls(**parameters)
    validate_parameters(estimator)
    weight = tensors["standardized.weight"]
    estimator.classes_ = decode_classes(header["classes"])
    estimator.coef_ = tensors["coef"].numpy()
    estimator.intercept_ = tensors["intercept"].numpy()
    precision = str(weight.dtype).removeprefix("torch.")
    link = rebuild_link({**header["link"], "dtype": precision}, tensors, "link.")
    estimator.link_ = link.eval().requires_grad_(False)
    estimator._standardized = Standardized(
        tensors["standardized.mean"].numpy(),
        tensors["standardized.scale"].numpy(),
        weight,
        tensors["standardized.bias"],
        tuple(tensors[f"moments.{i}"] for i in range(3)) if header["has_moments"] else None,
    )
    estimator.history_ = History.from_dict(header["history"])
    estimator.n_iter_ = header["n_iter"]
    estimator.alpha_, estimator.link_alpha_ = decode_strengths(header["strengths"])
    estimator._tuning = decode_tuning(header["tuning"], (estimator.alpha_, estimator.link_alpha_))
    estimator._noise = decode_noise(header["label_noise"], len(estimator.classes_), tensors.get("label_noise.matrix"))
    if header["gradient_norm"] is not None:
        estimator.gradient_norm_, estimator.converged_ = float(header["gradient_norm"]), header["converged"]
    estimator.n_features_in_ = header["n_features_in"]
    if header["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.asarray(header["feature_names_in"], dtype=object)
    return estimator


def _encode_parameters(estimator: _Fitted) -> dict[str, Any]:
    encoded = {}
    for name, value in estimator.get_params(deep=False).items():
        if name == "link" and not isinstance(value, str):
            value = "object"
        elif name == "class_weight" and isinstance(value, dict):
            value = [[_label(label), float(weight)] for label, weight in value.items()]
        elif name == "label_noise" and not (value is None or isinstance(value, str | Real)):
            value = np.asarray(value, dtype=np.float64).tolist()
        elif name == "checkpoint" and value is not None:
            value = os.fspath(value)
        elif name == "random_state" and isinstance(value, np.random.RandomState):
            value = None  # the state of a generator is not saved
        elif name == "cv" and value is not None and not isinstance(value, Integral):
            value = None  # neither is a splitter
        encoded[name] = plain(value, name)
    return encoded


def _label(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def encode_classes(labels: np.ndarray) -> dict[str, Any]:
    """Class labels in a form for JSON; :func:`~legendretron.estimators.saved_classes.decode_classes` is the reverse."""
    if labels.dtype.kind not in "iufbUO" or any(not isinstance(_label(v), str | int | float | bool) for v in labels):
        raise ValueError(f"classes_ must be numbers or strings to be saved, got dtype {labels.dtype}.")
    return {"dtype": "str" if labels.dtype.kind == "U" else labels.dtype.name, "values": [*map(_label, labels)]}
