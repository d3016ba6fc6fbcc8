"""Predictions of saved classifiers in plain numpy: for a few rows, importing torch and scikit-learn takes longest by far.

The formulas of the links are those of :mod:`legendretron.links`, in double precision; a test compares the two.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from legendretron._internal.artifacts import load_state
from legendretron._internal.chunks import chunks
from legendretron._internal.fields import array, check_fields
from legendretron._internal.parameters import check_choice, check_integer
from legendretron.estimators.saved_classes import classes_from_state
from legendretron.preprocessing.column import columns_from_state
from legendretron.preprocessing.drift import UsualRanges, tell_drift

#: Classes with a linear predictor, by name: importing them imports torch.
_LINEAR = ("LegendreTronClassifier", "PaperLegendreTronClassifier", "MultinomialLogisticClassifier")


class NumpyPredictor:
    """A saved linear classifier, of numbers or of tables, that predicts by numpy alone.

    Whatever it refuses is given to the classifier itself, so that there is one place that says why. A state that is not as it
    should be raises one of many errors. The encoder, of a classifier of tables, has ``columns_`` and ``_single`` as a
    :class:`~legendretron.preprocessing.TableEncoder`.
    """

    def __init__(
        self, path: str | os.PathLike[str], state: dict[str, Any], encoder: SimpleNamespace | None = None
    ) -> None:
        self._path, self.classes_ = path, classes_from_state(state["classes"])
        names, link = state["feature_names_in"], state["link"]
        n_out, width = len(self.classes_) - 1, state["coef"].shape[1]
        self.coef_, self.intercept_ = _take(state, "coef", n_out, width), _take(state, "intercept", n_out)
        if self.coef_.dtype != self.intercept_.dtype or (names is not None and len(names) != width):
            raise ValueError("coef, intercept and names do not belong together.")
        if link["n_classes"] != len(self.classes_):
            raise ValueError("the link has other classes.")
        self._log_proba = _LINKS[link["kind"]](partial(_take, link["tensors"]), n_out, **link["settings"])
        noise, self._floor, self._matrix = state["label_noise"], 0.0, None  # see FoundNoise
        if noise is not None:
            self._floor = noise["floor"]
            if not 0.0 <= self._floor < 1.0:
                raise ValueError("the floor of predictions is no share.")
            if noise["recorded"] and noise["matrix"] is not None:
                self._matrix = _take(noise, "matrix", n_out + 1, n_out + 1)
        self.n_features_in_ = width
        if encoder is None:
            self._usual = None if state["usual"] is None else UsualRanges.from_state(state["usual"], width)
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
            encoded = [column.encode(X[column.name]) for column in self.encoder_.columns_ if not column.is_left_out]
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

    def _predict_parts(self, X: Any, *, log: bool) -> Iterator[tuple[slice, np.ndarray]]:
        """Probabilities of checked features, or their logarithms, in chunks of rows."""
        if not isinstance(X, np.ndarray):  # a sparse matrix
            yield from self._linear._predict_parts(X, log=log)
            return
        weight, bias = self.coef_.T.astype(np.float64), self.intercept_.astype(np.float64)
        for rows in chunks(len(X), len(self.classes_)):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # checked below
                log_p = self._log_proba(X[rows].astype(np.float64) @ weight + bias).astype(self.coef_.dtype)
            if not np.isfinite(log_p).all():  # which raises, unless rounding differs
                yield rows, self._linear._predict_all(X[rows], log=log)
                continue
            if self._matrix is not None:
                log_p = np.log(np.exp(log_p) @ self._matrix.astype(log_p.dtype))
            if len(self.classes_) == 2:  # the link's first class is the second one
                log_p = log_p[:, ::-1]
            if self._floor > 0.0:
                log_p = np.logaddexp(log_p + math.log1p(-self._floor), math.log(self._floor / len(self.classes_)))
            yield rows, log_p if log else np.exp(log_p)

    def _predict_all(self, X: Any, *, log: bool) -> np.ndarray:
        return np.concatenate([part for _, part in self._predict_parts(X, log=log)])

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


# --- links ---

#: From predictors (n, C - 1) to log-probabilities (n, C).
_LogProba = Callable[[np.ndarray], np.ndarray]


def _with_reference(z: np.ndarray) -> np.ndarray:
    return np.concatenate([z, np.zeros((len(z), 1))], axis=1)


def _log_sum_exp(x: np.ndarray, axis: int) -> np.ndarray:
    top = x.max(axis, keepdims=True)
    total: np.ndarray = top + np.log(np.exp(x - top).sum(axis, keepdims=True))
    return total


def _log_softmax_plus(z: np.ndarray) -> np.ndarray:
    x = _with_reference(z)
    x -= x.max(1, keepdims=True)  # first: beside large log-odds, the logarithm of the sum would be rounded away
    log_p: np.ndarray = x - np.log(np.exp(x).sum(1, keepdims=True))
    return log_p


def _softmax(take: Callable[..., np.ndarray], n_out: int) -> _LogProba:
    return _log_softmax_plus


def _canonical(take: Callable[..., np.ndarray], n_out: int, n_nests: int) -> _LogProba:
    """See :class:`~legendretron.potentials.NestedLogSumExp`."""
    check_integer("n_nests", n_nests, 1)
    mu, gate_bias = np.exp(take("nests.log_mu", n_nests), dtype=np.float64)[:, None], take("nests.gate_bias", n_nests)
    beta = np.exp(take("nests.log_beta", 1), dtype=np.float64)
    offsets = np.column_stack([take("nests.offsets", n_nests, n_out), take("nests.reference_offset", n_nests)])

    def log_proba(z: np.ndarray) -> np.ndarray:
        x = _with_reference(z)
        exponents = mu * (x - x.max(1, keepdims=True))[:, None] + offsets  # (n, M, C)
        inside = _log_sum_exp(exponents, 2)
        gate = beta / mu * inside + gate_bias[:, None]
        log_p: np.ndarray = _log_sum_exp(gate - _log_sum_exp(gate, 1) + exponents - inside, 1)[:, 0]
        return log_p

    return log_proba


def _composite(
    take: Callable[..., np.ndarray], n_out: int, n_blocks: int, hidden: int, depth: int, network: str
) -> _LogProba:
    """See :class:`~legendretron.potentials.FICNN`, which is the only network here."""
    check_choice("network", network, ("ficnn",))
    for name, value in {"n_blocks": n_blocks, "hidden": hidden, "depth": depth}.items():
        check_integer(name, value, 1)
    rank, blocks = depth * hidden + 1, []
    for i in range(n_blocks):
        weight, bias = take(f"blocks.{i}.weight", rank, n_out), take(f"blocks.{i}.bias", rank)
        raw = take(f"blocks.{i}.raw_mixing", (depth - 1) * hidden + 1, hidden).astype(np.float64)
        mixing = np.split(np.logaddexp(0.0, raw) / hidden, range(hidden, len(raw), hidden))
        alpha, gamma = (np.logaddexp(0.0, take(f"blocks.{i}.raw_{name}", 1)) for name in ("alpha", "gamma"))
        blocks.append((weight, bias, mixing, alpha, gamma))

    def log_proba(z: np.ndarray) -> np.ndarray:
        for weight, bias, mixing, alpha, gamma in blocks:
            units = np.split(z @ weight.T + bias, range(hidden, rank, hidden), axis=1)
            for k, positive in enumerate(mixing):
                units[k + 1] = units[k + 1] + np.logaddexp(0.0, units[k]) @ positive.T
            slopes = [np.exp(-np.logaddexp(0.0, -unit)) for unit in units]
            for k in range(depth - 1, -1, -1):
                slopes[k] = slopes[k] * (slopes[k + 1] @ mixing[k])
            z = alpha * z + gamma * (np.concatenate(slopes, axis=1) @ weight)
        return _log_softmax_plus(z)

    return log_proba


#: Links by name: functions of a reader of tensors, the number of predictors and the settings.
_LINKS: dict[str, Callable[..., _LogProba]] = {"softmax": _softmax, "canonical": _canonical, "composite": _composite}
