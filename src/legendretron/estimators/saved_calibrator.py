"""Saving and loading of calibrators: one safetensors file with a JSON header. Nothing is unpickled.

A calibrator around one of our estimators is saved together with it, in the same file.
"""

from __future__ import annotations

import math
import os
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.artifacts import read_artifact, write_artifact
from legendretron._internal.fields import Field, check_fields
from legendretron._internal.plain import plain
from legendretron._internal.sklearn_compat import validate_parameters
from legendretron.calibration.map import CalibrationMap
from legendretron.estimators.formats import TABLE_FORMAT
from legendretron.estimators.label_noise import wrong_share
from legendretron.estimators.loading import SAVED
from legendretron.estimators.persistence import encode_classes, rebuild_estimator, saved_estimator
from legendretron.estimators.saved_classes import decode_classes
from legendretron.estimators.saved_form import is_feature_names
from legendretron.estimators.saved_table_classifier import rebuild_table_classifier, saved_table_classifier
from legendretron.estimators.scores import ScoreForm
from legendretron.estimators.table_classifier import TableClassifier
from legendretron.links.base import TensorSpec
from legendretron.links.persistence import check_tensors

__all__ = ["load_calibrator", "save_calibrator"]

#: Name and number of the format: raise the number when the content or its meaning changes.
_KIND = "legendretron-calibrator-3"
_NAME = "LegendreCalibrator"
#: Before the names of the tensors of the estimator whose probabilities are calibrated.
_INNER = "inner."


def _is_number(value: Any, least: float, most: float) -> bool:
    return type(value) in (int, float) and least <= value <= most


def _is_candidates(value: Any) -> bool:
    """Rows of strength (null: infinite), whether with shape, held-out log-loss (null: none), weight."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(
            isinstance(row, list)
            and len(row) == 4
            and (row[0] is None or _is_number(row[0], 0.0, 1e300))
            and isinstance(row[1], bool)
            and (row[2] is None or _is_number(row[2], 0.0, 1e300))
            and _is_number(row[3], 0.0, 1.0)
            for row in value
        )
    )


_HEADER = {
    "estimator": Field(f"{_NAME!r}", lambda value: value == _NAME),
    "parameters": Field("an object of the calibrator's parameters", lambda value: isinstance(value, dict)),
    "classes": Field("an object of dtype and values", lambda value: isinstance(value, dict)),
    "is_proba": Field("true or false", lambda value: isinstance(value, bool)),
    "columns": Field("an integer of at least 1", lambda value: type(value) is int and value >= 1),
    "floor": Field("a number from 0 to 0.5", lambda value: _is_number(value, 0.0, 0.5)),
    "rank": Field("an integer of at least 0", lambda value: type(value) is int and value >= 0),
    "precision": Field("'float32' or 'float64'", lambda value: value in ("float32", "float64")),
    "feature_names_in": Field("a list of different strings, or null", is_feature_names),
    "replaced": Field("a number from 0 to 1", lambda value: _is_number(value, 0.0, 1.0)),
    "candidates": Field("a list of candidates", _is_candidates),
    "inner": Field("an object, or null", lambda value: value is None or isinstance(value, dict)),
    "inner_is_frozen": Field("true or false", lambda value: isinstance(value, bool)),
}


class _Fitted(Protocol):
    """Attributes of a fitted calibrator."""

    estimator: Any
    estimator_: Any
    classes: Any
    order: str
    classes_: np.ndarray
    map_: CalibrationMap
    noise_rate_: float
    cv_results_: dict[str, np.ndarray]
    n_features_in_: int
    feature_names_in_: np.ndarray
    _form: ScoreForm
    _precision: str

    def __init__(self, **parameters: Any) -> None: ...

    @classmethod
    def _get_param_names(cls) -> list[str]: ...

    def get_params(self, deep: bool) -> dict[str, Any]: ...


Calibrator = TypeVar("Calibrator", bound=_Fitted)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def save_calibrator(calibrator: _Fitted, path: str | os.PathLike[str]) -> None:
    """Write a fitted calibrator to a file, atomically."""
    check_is_fitted(calibrator)
    inner, frozen = _inner_of(calibrator)
    found = calibrator.cv_results_
    parameters = {**calibrator.get_params(deep=False), "estimator": None}  # it is the inner one
    parameters["classes"] = None if calibrator.classes is None else encode_classes(np.asarray(calibrator.classes))
    if isinstance(parameters["strength"], float | int) and math.isinf(parameters["strength"]):
        parameters["strength"] = "infinite"
    names = getattr(calibrator, "feature_names_in_", None) if inner is None else None
    of_inner, inner_tensors = (None, {}) if inner is None else _saved_inner(inner)
    header = {
        "estimator": _NAME,
        "parameters": plain(parameters, "parameters"),
        "classes": encode_classes(calibrator.classes_),
        **calibrator._form._asdict(),
        "rank": calibrator.map_.rank,
        "precision": calibrator._precision,
        "feature_names_in": None if names is None else list(names),
        "replaced": calibrator.noise_rate_ / wrong_share(1.0, len(calibrator.classes_)),
        "candidates": [
            [_finite(strength), bool(shape), _finite(loss), float(weight)]
            for strength, shape, loss, weight in zip(
                found["strength"], found["shape"], found["log_loss"], found["weight"], strict=True
            )
        ],
        "inner": of_inner,
        "inner_is_frozen": frozen,
    }
    tensors = {**calibrator.map_.state_dict(), **inner_tensors}
    try:
        validate_parameters(calibrator)
        _check(header, tensors, type(calibrator)._get_param_names())
    except ValueError as error:  # loading would raise the same error
        raise ValueError(f"the calibrator cannot be saved: {error}") from error
    write_artifact(path, _KIND, tensors, header)


def _inner_of(calibrator: _Fitted) -> tuple[Any, bool]:
    """The fitted estimator inside, if there is one, and whether it is frozen; a ``ValueError`` if it is not one of ours."""
    if calibrator.estimator is None:
        return None, False
    frozen = isinstance(calibrator.estimator_, FrozenEstimator)
    inner = calibrator.estimator_.estimator if frozen else calibrator.estimator_
    if type(inner) not in (*SAVED, TableClassifier):
        known = " or ".join(cls.__name__ for cls in (*SAVED, TableClassifier))
        raise ValueError(
            f"estimator must be None, or a {known}, for a calibrator to be saved, got "
            f"{type(inner).__name__}; save it by its own means, and fit LegendreCalibrator() on its probabilities: "
            "fit(estimator.predict_proba(X), y)."
        )
    return inner, frozen


def _saved_inner(inner: Any) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    return (saved_table_classifier if isinstance(inner, TableClassifier) else saved_estimator)(inner, _INNER)


def _check(header: dict[str, Any], tensors: dict[str, torch.Tensor], parameter_names: list[str]) -> None:
    """Raise a ``ValueError`` that names what is wrong with a saved calibrator."""
    check_fields("the header", header, _HEADER)
    n_classes = len(decode_classes(header["classes"]))
    if max(2, header["columns"]) != n_classes:
        raise ValueError(f"columns must be {n_classes}, the number of classes, or 1 for two, got {header['columns']}.")
    names = header["feature_names_in"]
    if names is not None and len(names) != header["columns"]:
        raise ValueError(f"feature_names_in must be {header['columns']} names, got {len(names)}.")
    if unknown := set(header["parameters"]) - set(parameter_names):
        raise ValueError(f"parameters must be those of {_NAME}; unknown are {', '.join(sorted(unknown))}.")
    if not isinstance(header["parameters"].get("classes"), dict | None):
        raise ValueError(f"classes must be an object or null in parameters, got {header['parameters']['classes']!r}.")
    if header["parameters"].get("estimator") is not None:
        raise ValueError("estimator must be null in a saved calibrator.")
    if header["is_proba"] and header["floor"] == 0.0:
        raise ValueError("floor must be positive for probabilities.")
    has_inner = header["inner"] is not None
    if header["inner_is_frozen"] and not has_inner:
        raise ValueError("inner must be present if inner_is_frozen is true.")
    if has_inner and not (header["is_proba"] and header["columns"] == n_classes and names is None):
        raise ValueError("is_proba, columns and feature_names_in must be those of the probabilities of inner.")
    own = {name: tensor for name, tensor in tensors.items() if not (has_inner and name.startswith(_INNER))}
    rank = header["rank"]
    if rank > (0 if header["parameters"].get("order") == "preserved" else n_classes):
        raise ValueError(f"rank must be at most the number of classes, and 0 where the order is preserved, got {rank}.")
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(("inverse_temperature", "floor"), ()),
        **dict.fromkeys(("slope", "rise", "bias"), (n_classes,)),
        "directions": (2, n_classes, rank),
        "mixing": (2, rank, n_classes),
    }
    check_tensors(own, [TensorSpec(name, shape, torch.float64) for name, shape in shapes.items()])
    for name, tensor in own.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{name} holds values that are not finite.")
    if not 0.0 < float(tensors["floor"]) < 1.0 or not float(tensors["inverse_temperature"]) > 0.0:
        raise ValueError("floor must be between 0 and 1, and inverse_temperature positive.")


def load_calibrator(path: str | os.PathLike[str], cls: type[Calibrator]) -> Calibrator:
    """Read a calibrator; raise a ``ValueError`` for anything else."""
    tensors, header = read_artifact(path, _KIND)
    try:
        _check(header, tensors, cls._get_param_names())
        parameters = dict(header["parameters"])
        if parameters.get("classes") is not None:
            parameters["classes"] = decode_classes(parameters["classes"])
        if parameters.get("strength") == "infinite":
            parameters["strength"] = math.inf
        classes = decode_classes(header["classes"])
        if header["inner"] is not None:
            inner = _rebuild_inner(header["inner"], tensors, classes)
            parameters["estimator"] = FrozenEstimator(inner) if header["inner_is_frozen"] else clone(inner)
        calibrator = cls(**parameters)
        validate_parameters(calibrator)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a calibrator that can be loaded: {error}") from error
    ordered = calibrator.order == "preserved"
    of_logits = CalibrationMap(len(classes), rank=header["rank"], ordered=ordered)
    of_logits.load_state_dict({name: tensor for name, tensor in tensors.items() if not name.startswith(_INNER)})
    calibrator.classes_, calibrator.map_ = classes, of_logits.eval()
    calibrator._form = ScoreForm(header["is_proba"], header["columns"], header["floor"])
    calibrator._precision = header["precision"]
    calibrator.noise_rate_ = wrong_share(header["replaced"], len(classes))
    strengths, shapes, losses, weights = zip(*header["candidates"], strict=True)
    calibrator.cv_results_ = {
        "strength": np.array([math.inf if g is None else g for g in strengths]),
        "shape": np.array(shapes),
        "log_loss": np.array([math.nan if loss is None else loss for loss in losses]),
        "weight": np.array(weights),
    }
    calibrator.n_features_in_ = header["columns"]
    names = header["feature_names_in"]
    if calibrator.estimator is not None:
        calibrator.estimator_ = calibrator.estimator if header["inner_is_frozen"] else inner
        calibrator.n_features_in_, names = inner.n_features_in_, getattr(inner, "feature_names_in_", None)
    if names is not None:
        calibrator.feature_names_in_ = np.asarray(names, dtype=object)
    return calibrator


def _rebuild_inner(saved: dict[str, Any], tensors: dict[str, torch.Tensor], classes: np.ndarray) -> Any:
    if str(saved.get("format")).startswith(TABLE_FORMAT):
        inner: Any = rebuild_table_classifier(saved, tensors, _INNER, TableClassifier)
    else:
        inner = rebuild_estimator(saved, tensors, _INNER, *SAVED)
    if inner.classes_.dtype != classes.dtype or not np.array_equal(inner.classes_, classes):
        raise ValueError(f"classes must be those of inner, {inner.classes_}, got {classes}.")
    return inner
