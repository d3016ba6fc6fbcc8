"""Saving and loading of classifiers of tables: encoder and estimator in one safetensors file with a JSON header."""

from __future__ import annotations

import os
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.artifacts import read_artifact, write_artifact
from legendretron._internal.fields import Field, check_fields
from legendretron.estimators.loading import SAVED
from legendretron.estimators.persistence import rebuild_estimator, saved_estimator
from legendretron.preprocessing import TableEncoder

__all__ = [
    "TABLE_FORMAT",
    "load_table_classifier",
    "rebuild_table_classifier",
    "save_table_classifier",
    "saved_table_classifier",
]

TABLE_FORMAT = "legendretron-table"
#: Name and number of the format: raise the number when the content or its meaning changes.
_KIND = f"{TABLE_FORMAT}-2"
_NAME = "TableClassifier"
#: Before the names of the tensors of the estimator.
_INNER = "estimator."

_HEADER = {
    "estimator": Field(f"{_NAME!r}", lambda value: value == _NAME),
    "encoder": Field("an object", lambda value: isinstance(value, dict)),
    "inner": Field("an object", lambda value: isinstance(value, dict)),
}


class _Fitted(Protocol):
    """Attributes of a fitted classifier, all of which are saved."""

    estimator_: Any
    encoder_: TableEncoder

    @classmethod
    def from_fitted(cls, estimator: Any, encoder: TableEncoder) -> Self: ...


Classifier = TypeVar("Classifier", bound=_Fitted)


def save_table_classifier(classifier: _Fitted, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to a file, atomically."""
    header, tensors = _encode(classifier, "")
    write_artifact(path, _KIND, tensors, header)


def saved_table_classifier(classifier: _Fitted, prefix: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """JSON and tensors of a fitted classifier, named with a prefix, for a file that holds more than the classifier."""
    header, tensors = _encode(classifier, prefix)
    return {"format": _KIND, "header": header}, tensors


def _encode(classifier: _Fitted, prefix: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    check_is_fitted(classifier)
    if type(classifier.estimator_) not in SAVED or type(classifier.encoder_) is not TableEncoder:
        raise ValueError(
            f"estimator must be a {' or '.join(cls.__name__ for cls in SAVED)} and encoder a TableEncoder to be saved, got "
            f"{type(classifier.estimator_).__name__} and {type(classifier.encoder_).__name__}."
        )
    inner, tensors = saved_estimator(classifier.estimator_, f"{prefix}{_INNER}")
    header = {"estimator": _NAME, "encoder": classifier.encoder_.to_dict(), "inner": inner}
    try:
        TableEncoder.from_dict(header["encoder"])
    except ValueError as error:  # loading would raise the same error
        raise ValueError(f"the classifier cannot be saved: {error}") from error
    return header, tensors


def load_table_classifier(path: str | os.PathLike[str], cls: type[Classifier]) -> Classifier:
    """Read a classifier; raise a ``ValueError`` for anything else."""
    tensors, header = read_artifact(path, _KIND)
    try:
        return _decode(header, tensors, "", cls)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a model that can be loaded: {error}") from error


def rebuild_table_classifier(
    saved: dict[str, Any], tensors: dict[str, torch.Tensor], prefix: str, cls: type[Classifier]
) -> Classifier:
    """Build a classifier from what :func:`saved_table_classifier` returned; raise a ``ValueError`` for anything else."""
    if set(saved) != {"format", "header"} or not isinstance(saved["header"], dict):
        raise ValueError(f"a saved classifier must have a format and a header, got {', '.join(map(str, saved))}.")
    if saved["format"] != _KIND:
        raise ValueError(f"the classifier is in the format {saved['format']!r}, but this version reads {_KIND!r}.")
    return _decode(saved["header"], tensors, prefix, cls)


def _decode(header: dict[str, Any], tensors: dict[str, torch.Tensor], prefix: str, cls: type[Classifier]) -> Classifier:
    check_fields("the header", header, _HEADER)
    own = f"{prefix}{_INNER}"
    if stray := [name for name in tensors if name.startswith(prefix) and not name.startswith(own)]:
        raise ValueError(f"there are tensors that belong to nothing: {', '.join(stray[:3])}.")
    encoder = TableEncoder.from_dict(header["encoder"])
    estimator = rebuild_estimator(header["inner"], tensors, own, *SAVED)
    names = encoder.get_feature_names_out()
    if not np.array_equal(getattr(estimator, "feature_names_in_", ()), names):
        raise ValueError(f"the features of the estimator must be what the encoder returns, {', '.join(names[:8])}.")
    return cls.from_fitted(estimator, encoder)
