"""Validation of saved estimators: the fields of the header, and the tensors that they require.

Everything that is written or read is checked, field by field and tensor by tensor, before anything is built from it: a
header that requires more than the file holds costs no memory.
"""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from legendretron._internal.fields import Field, check_fields
from legendretron.estimators.saved_classes import decode_classes, is_label
from legendretron.estimators.saved_noise import is_noise
from legendretron.estimators.saved_tuning import is_strengths, is_tuning
from legendretron.links import TransitionNoise
from legendretron.links.base import TensorSpec
from legendretron.links.persistence import check_tensors, saved_layout
from legendretron.links.registry import state_layout
from legendretron.training import History

__all__ = ["check_saved_form", "decode_class_weight", "is_feature_names"]

_PRECISIONS = {str(dtype).removeprefix("torch."): dtype for dtype in (torch.float32, torch.float64)}


def _is_integer(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < 2**63


def _is_weight_of_label(value: Any) -> bool:
    pair = isinstance(value, list) and len(value) == 2
    return pair and is_label(value[0]) and type(value[1]) in (int, float) and 0.0 <= value[1] <= sys.float_info.max


def is_feature_names(value: Any) -> bool:
    """Whether these are different strings, or null."""
    if value is None:
        return True
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _is_gradient_norm(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0.0 <= value <= sys.float_info.max)


_HEADER = {
    "estimator": Field("the name of an estimator", lambda value: isinstance(value, str)),
    "parameters": Field("an object of the estimator's parameters", lambda value: isinstance(value, dict)),
    "link": Field("an object of a link's settings", lambda value: isinstance(value, dict)),
    "given_link": Field(
        "an object of a link's settings, or null", lambda value: value is None or isinstance(value, dict)
    ),
    "classes": Field("an object of dtype and values", lambda value: isinstance(value, dict)),
    "n_features_in": Field("an integer of at least 1", lambda value: _is_integer(value, 1)),
    "feature_names_in": Field("a list of different strings, or null", is_feature_names),
    "n_iter": Field("an integer that is not negative", lambda value: _is_integer(value, 0)),
    "history": Field("an object of columns", lambda value: isinstance(value, dict)),
    "has_moments": Field("true or false", lambda value: isinstance(value, bool)),
    "strengths": Field("a list of two numbers that are not negative", is_strengths),
    "tuning": Field("a list of candidates, or null", is_tuning),
    "given_link_is_fixed": Field("true or false", lambda value: isinstance(value, bool)),
    "gradient_norm": Field("a number that is not negative, or null", _is_gradient_norm),
    "converged": Field("true, false or null", lambda value: value is None or isinstance(value, bool)),
    "label_noise": Field("an object of plan, known and has_matrix, or null", is_noise),
}


def check_saved_form(header: dict[str, Any], tensors: dict[str, Tensor], parameter_names: list[str]) -> None:
    """Raise a ``ValueError`` that names the field or the tensor, if these are not the saved form of a fitted estimator.

    The values of the estimator's parameters are left to its own validation. Time and memory are proportional to the size
    of the input, whatever its values.

    Parameters
    ----------
    header : dict
        The JSON part.
    tensors : dict of str to Tensor
        The tensors.
    parameter_names : list of str
        The estimator's parameters.
    """
    check_fields("the header", header, _HEADER)
    n_classes = len(decode_classes(header["classes"]))
    names = header["feature_names_in"]
    if names is not None and len(names) != header["n_features_in"]:
        raise ValueError(f"feature_names_in must be {header['n_features_in']} names, got {len(names)}.")
    History.from_dict(header["history"])
    if unknown := set(header["parameters"]) - set(
        parameter_names
    ):  # a missing one was added later, and has its default
        raise ValueError(
            f"parameters must be those of {header['estimator']}; unknown are {', '.join(sorted(unknown))}."
        )
    for name, value in header["parameters"].items():
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"{name} must be a number of at most 64 bits, got {reprlib.repr(value)}.")
    decode_class_weight(header["parameters"].get("class_weight"))
    if "link" not in parameter_names and _kind_without_noise(header["link"]) != "softmax":
        raise ValueError(f"link must be of kind 'softmax' in a {header['estimator']}.")
    check_tensors(tensors, _layout(header, n_classes, tensors))
    _check_values(tensors)


def decode_class_weight(encoded: Any) -> Any:
    """Return ``class_weight`` from its form in JSON, where a dict is a list of pairs."""
    if isinstance(encoded, dict) or (isinstance(encoded, list) and not all(map(_is_weight_of_label, encoded))):
        raise ValueError(f"class_weight must be a list of pairs of label and weight, got {reprlib.repr(encoded)}.")
    if not isinstance(encoded, list):
        return encoded
    weights = dict(map(tuple, encoded))
    if len(weights) != len(encoded):
        raise ValueError(f"class_weight must name every label once, got {reprlib.repr(encoded)}.")
    return weights


def _kind_without_noise(link: dict[str, Any]) -> Any:
    """The kind of the link of true labels."""
    inner = link.get("link")
    return inner.get("kind") if link.get("kind") == "noisy" and isinstance(inner, dict) else link.get("kind")


def _layout(header: dict[str, Any], n_classes: int, tensors: dict[str, Tensor]) -> Iterator[TensorSpec]:
    """Yield name, shape and dtype of every tensor that the header requires."""
    if header["link"].get("n_classes") != n_classes:
        raise ValueError(f"n_classes of link must be {n_classes}, the number of classes.")
    k, d = n_classes - 1, header["n_features_in"]
    if "coef" not in tensors or (dtype := tensors["coef"].dtype) not in _PRECISIONS.values():
        raise ValueError(f"coef must be present, in {' or '.join(_PRECISIONS)}.")
    yield TensorSpec("coef", (k, d), dtype)
    yield TensorSpec("intercept", (k,), dtype)
    yield TensorSpec("standardized.mean", (d,), torch.float64)
    yield TensorSpec("standardized.scale", (d,), torch.float64)
    yield TensorSpec("standardized.weight", (d, k), dtype)
    yield TensorSpec("standardized.bias", (k,), dtype)
    trained = d * k + k
    for tensor in state_layout(header["link"], dtype):
        trained += math.prod(tensor.shape) if tensor.trained else 0
        yield tensor._replace(name=f"link.{tensor.name}")
    if header["has_moments"]:
        yield TensorSpec("moments.0", (1, trained), dtype)
        yield TensorSpec("moments.1", (1, trained), dtype)
        yield TensorSpec("moments.2", (), torch.float64)
    if header["label_noise"] is not None and header["label_noise"]["has_matrix"]:
        yield TensorSpec("label_noise.matrix", (n_classes, n_classes), torch.float64)
    given = header["given_link"]
    if given is None and header["given_link_is_fixed"]:
        raise ValueError("given_link must be present if given_link_is_fixed is true.")
    if (header["gradient_norm"] is None) != (header["converged"] is None):
        raise ValueError("gradient_norm and converged must both be present, or both be null.")
    if (given is None) == (header["parameters"].get("link") == "object"):
        raise ValueError("given_link must be present if, and only if, the parameter link is 'object'.")
    if given is not None:
        if given.get("n_classes") != n_classes:
            raise ValueError(f"n_classes of given_link must be {n_classes}, the number of classes.")
        yield from saved_layout(given, "given_link.")


def _check_values(tensors: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(
                f"{name} holds values that are not finite, so the fit has diverged; fit again with a lower learning_rate, or "
                "with scaled features."
            )
    if not bool((tensors["standardized.scale"] > 0.0).all()):
        raise ValueError("standardized.scale must be positive.")
    if (matrix := tensors.get("label_noise.matrix")) is not None:
        try:
            TransitionNoise(matrix)
        except ValueError as error:
            raise ValueError(f"label_noise.matrix: {error}") from error
    for name in ("moments.1", "moments.2"):
        if name in tensors and not bool((tensors[name] >= 0.0).all()):
            raise ValueError(f"{name} must not be negative.")
