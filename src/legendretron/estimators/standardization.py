"""Features in standard units, and a linear predictor trained in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
import torch
from sklearn.preprocessing import StandardScaler

from legendretron._internal.chunks import chunks
from legendretron._internal.columns import too_large
from legendretron._internal.parameters import spell
from legendretron.streaming.moments import SMALLEST_VARIANCE


@dataclass
class Standardizer:
    """Units of the features in training: features minus ``mean``, over ``scale``, both float64 of shape (d,).

    The scale is the standard deviation; of a feature that is constant up to rounding, its size, or 1 if it is 0.
    """

    mean: np.ndarray
    scale: np.ndarray

    @staticmethod
    def fit(X: Any, weight: np.ndarray, standardize: bool, names: Sequence[str] | None = None) -> Standardizer:
        """Return the weighted means and deviations of features, means of zero if they are sparse, or the identity.

        ``names`` are those of the features, for messages.
        """
        mean, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if standardize:
            sparse = scipy.sparse.issparse(X)
            with np.errstate(over="ignore", invalid="ignore"):
                scaler = StandardScaler(with_mean=not sparse)
                # sums of a large table are taken in parts, as scikit-learn copies what it is given
                for rows in [slice(None)] if sparse else chunks(*X.shape):
                    scaler.partial_fit(X[rows], sample_weight=weight[rows])
            mean = mean if sparse else scaler.mean_.astype(np.float64)
            scale = scaler.scale_.astype(np.float64)
            if not np.isfinite(scale).all():
                raise too_large(~np.isfinite(scale), names, "variance")
            # constants, up to rounding: their own size as the unit makes nothing of what rounding leaves of them
            constant = np.flatnonzero((scaler.scale_ != np.sqrt(scaler.var_)) & (scaler.mean_ != 0.0))
            if len(constant):
                values = X[:, constant]
                scale[constant] = _largest(values)
                if not sparse:
                    values = values[weight > 0.0]
                    mean[constant] = np.where((values == values[0]).all(axis=0), values[0], mean[constant])
            for column in _tiny_columns(X, np.flatnonzero(scaler.var_ < SMALLEST_VARIANCE)):
                values = X[:, [column]].astype(np.float64)
                unit = np.exp2(np.floor(np.log2(abs(values).max())))
                own = Standardizer.fit(values / unit, weight, standardize)
                mean[column], scale[column] = own.mean[0] * unit, own.scale[0] * unit
        return Standardizer(mean, scale)

    def transform(self, X: Any) -> Any:
        """Standardize features; sparse ones are only scaled, and need a mean of zero.

        Where there is nothing to scale, ``X`` itself is returned, not a copy.
        """
        if (self.scale == 1.0).all() and not self.mean.any():
            return X
        if scipy.sparse.issparse(X):
            return X @ scipy.sparse.diags_array(1.0 / self.scale, dtype=X.dtype)
        out = np.empty(X.shape, dtype=X.dtype)
        for rows in chunks(X.shape[0], X.shape[1]):  # of a large table there should be one copy, in its own precision
            centred = X[rows] - self.mean
            np.divide(centred, self.scale, out=centred)
            out[rows] = centred
        return out

    def fold(self, weight: np.ndarray, bias: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        """Turn weights ``(d, K)`` and bias ``(K,)`` into coefficients ``(K, d)`` and intercepts for unscaled features."""
        coef = (weight / self.scale[:, None]).T
        folded = coef.astype(dtype), (bias - coef @ self.mean).astype(dtype)
        if not all(np.isfinite(values).all() for values in folded):
            raise ValueError(
                f"{spell('X')} has features whose coefficients are out of range for {dtype}; scale them first."
            )
        return folded


def _tiny_columns(X: Any, columns: np.ndarray) -> list[int]:
    """Those of some columns that are not 0, but so small that their squares are."""
    if not len(columns):
        return []
    largest = _largest(X[:, columns])
    tiny = (largest > 0.0) & (largest.astype(np.float64) ** 2 < SMALLEST_VARIANCE)
    found: list[int] = columns[tiny].tolist()
    return found


def _largest(X: Any) -> np.ndarray:
    """The largest absolute value of each column."""
    largest = abs(X).max(axis=0)
    return largest.toarray().ravel() if scipy.sparse.issparse(largest) else largest


@dataclass
class Standardized(Standardizer):
    """The linear predictor in the units it was trained in, to resume training, optionally with the moments of Adam."""

    weight: torch.Tensor
    bias: torch.Tensor
    moments: tuple[torch.Tensor, ...] | None = None

    def move_center(self) -> Self:
        """The same model with the means moved into the bias, so that sparse features can stay sparse."""
        shift = torch.as_tensor(self.mean / self.scale, dtype=torch.float64) @ self.weight.double()
        return replace(self, mean=np.zeros_like(self.mean), bias=(self.bias.double() - shift).to(self.bias.dtype))

    def rescale(self, factor: float) -> Self:
        """The predictor times a number."""
        return replace(self, weight=self.weight * factor, bias=self.bias * factor)

    def fold_weights(self, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients ``(K, d)`` and intercepts ``(K,)`` for unscaled features."""
        return self.fold(self.weight.double().cpu().numpy(), self.bias.double().cpu().numpy(), dtype)
