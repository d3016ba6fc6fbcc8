"""Predictions of saved classifiers in plain numpy: for a few rows, importing torch and scikit-learn takes longest by far."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from legendretron._internal.artifacts import load_state
from legendretron._internal.chunks import chunks
from legendretron._internal.fields import array, check_fields
from legendretron.estimators.numpy_links import LINKS
from legendretron.estimators.saved_classes import classes_from_state
from legendretron.preprocessing.column import columns_from_state
from legendretron.preprocessing.drift import tell_drift

__all__ = ["NumpyPredictor", "load_predictor"]

#: Classes with a linear predictor, by name: importing them imports torch.
_LINEAR = ("LegendreTronClassifier", "PaperLegendreTronClassifier", "MultinomialLogisticClassifier")


class NumpyPredictor:
    """A saved linear classifier, of numbers or of tables, that predicts by numpy alone.

    Whatever it refuses is given to the classifier itself, so that there is one place that says why.

    Parameters
    ----------
    path : path
        The file.
    state : dict
        State of the linear classifier in it. One of many errors is raised if anything is not as it should be.
    encoder : namespace of columns_ and _single, optional
        Of a classifier of tables, as in :class:`~legendretron.preprocessing.TableEncoder`.
    """

    def __init__(
        self, path: str | os.PathLike[str], state: dict[str, Any], encoder: SimpleNamespace | None = None
    ) -> None:
        self._path, self.classes_ = path, classes_from_state(state["classes"])
        names, link, n_out, width = (
            state["feature_names_in"],
            state["link"],
            len(self.classes_) - 1,
            state["coef"].shape[1],
        )
        self.coef_, self.intercept_ = _take(state, "coef", n_out, width), _take(state, "intercept", n_out)
        if self.coef_.dtype != self.intercept_.dtype or (names is not None and len(names) != width):
            raise ValueError("coef, intercept and names do not belong together.")
        if link["n_classes"] != len(self.classes_):
            raise ValueError("the link has other classes.")
        self._log_proba = LINKS[link["kind"]](partial(_take, link["tensors"]), n_out, **link["settings"])
        mean, scale = (_take(state["units"], name, width) for name in ("mean", "scale"))
        self.n_features_in_ = width
        if encoder is None:
            self._standardized = SimpleNamespace(mean=mean, scale=scale)
        else:
            if width != sum(len(column.outputs) for column in encoder.columns_):
                raise ValueError("the encoder returns another number of features.")
            self.encoder_, self.n_features_in_ = encoder, len(encoder.columns_)
            names = [column.name for column in encoder.columns_]
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    @cached_property
    def model(self) -> Any:
        """The classifier itself."""
        from legendretron.estimators.any_model import load

        return load(self._path)

    def _check_features(self, X: Any) -> Any:
        """Features as an array; of a data frame, the columns that are not left out, in their order."""
        if hasattr(self, "encoder_"):
            kept = [column for column in self.encoder_.columns_ if not column.is_left_out]
            encoded = [column.encode(X[column.name]) for column in kept]
            array = np.column_stack([part for part, _ in encoded])
            array = array.astype(np.float32 if self.encoder_._single else np.float64)
            tell_drift([tally for _, tallies in encoded for tally in tallies])
        else:
            array = np.asarray(X)
        if array.dtype != object:
            with np.errstate(over="ignore"):  # checked below
                array = array.astype(self.coef_.dtype, order="C")  # sums in the same order for tables of any kind
        if array.shape[1:] != self.coef_.shape[1:] or array.dtype == object or not np.isfinite(array).all():
            return self.model._check_features(X)
        return array

    def _precision(self) -> Any:
        return self.coef_.dtype

    def _log_proba_in_parts(self, X: Any) -> Iterator[tuple[slice, np.ndarray]]:
        """Log-probabilities of checked features, in chunks of rows."""
        if not isinstance(X, np.ndarray):  # a sparse matrix
            yield from self._linear._log_proba_in_parts(X)
            return
        weight, bias = self.coef_.T.astype(np.float64), self.intercept_.astype(np.float64)
        for rows in chunks(len(X), len(self.classes_)):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # checked below
                log_p = self._log_proba(X[rows].astype(np.float64) @ weight + bias).astype(self.coef_.dtype)
            if not np.isfinite(log_p).all():
                log_p = self._linear._predict_all(X[rows], log=True)  # which raises, unless rounding differs
            elif len(self.classes_) == 2:  # the link's first class is the second one
                log_p = log_p[:, ::-1]
            yield rows, log_p

    def _predict_all(self, X: Any, *, log: bool) -> np.ndarray:
        parts = [part for _, part in self._log_proba_in_parts(X)]
        return np.concatenate(parts) if log else np.exp(np.concatenate(parts))

    @property
    def _linear(self) -> Any:
        return getattr(self.model, "estimator_", self.model)


def load_predictor(path: str | os.PathLike[str]) -> NumpyPredictor | None:
    """Read a classifier with a softmax, canonical or composite link; None for anything else, damaged files among it."""

    def read_table(state: dict[str, Any]) -> NumpyPredictor | None:
        encoder, inner = state["encoder"], state["estimator"]
        columns = columns_from_state(encoder)
        if inner["class"] not in _LINEAR or not encoder["has_names"]:
            return None
        return NumpyPredictor(path, inner["state"], SimpleNamespace(columns_=columns, _single=encoder["single"]))

    readers: dict[str, Callable[[dict[str, Any]], NumpyPredictor | None]]
    readers = {**dict.fromkeys(_LINEAR, partial(NumpyPredictor, path)), "TableClassifier": read_table}
    try:
        return load_state(path, readers, "numpy")
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None  # what is wrong is said where the classifier itself is loaded


def _take(arrays: dict[str, np.ndarray], name: str, *shape: int) -> np.ndarray:
    """An array of this shape, or one of many errors."""
    check_fields(name, {name: arrays[name]}, {name: array(*shape, dtype=("float32", "float64"))})
    return arrays[name]
