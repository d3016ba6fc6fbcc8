"""Means and variances of rows that come in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from legendretron._internal.chunks import chunks_in_cache

#: Below it, squares of deviations lose digits, or are rounded to 0.
SMALLEST_VARIANCE = 1e-300


class Moments:
    """Sum of weights, means and squared deviations in float64, merged by Chan's formula, which does not cancel.

    Examples
    --------
    >>> moments = Moments(1)
    >>> moments.add(np.array([[1e9], [1e9 + 1]]), np.ones(2))
    >>> moments.add(np.array([[1e9 + 2]]), np.ones(1))
    >>> (moments.mean - 1e9).tolist(), moments.variance.round(6).tolist()
    ([1.0], [0.666667])
    """

    def __init__(self, n_features: int) -> None:
        self.weight = 0.0
        self.mean = np.zeros(n_features)
        self.squares = np.zeros(n_features)

    def add(self, X: Any, weight: np.ndarray) -> None:
        """Take in rows (n, d) with weights (n,)."""
        parts = [slice(len(weight))] if scipy.sparse.issparse(X) else chunks_in_cache(*X.shape)
        for rows in parts:
            self._add_part(X[rows], weight[rows])

    def _add_part(self, X: Any, weight: np.ndarray) -> None:
        total = float(weight.sum())
        if total == 0.0:
            return
        with np.errstate(over="ignore", invalid="ignore"):  # whoever reads the variance checks it
            if scipy.sparse.issparse(X):
                X = X.astype(np.float64)
                mean = np.asarray(weight @ X) / total
                given = scipy.sparse.csr_array((np.ones(X.nnz), X.indices, X.indptr), shape=X.shape)
                away = scipy.sparse.csr_array(((X.data - mean[X.indices]) ** 2, X.indices, X.indptr), shape=X.shape)
                zeros = total - np.asarray(weight @ given)
                squares = np.asarray(weight @ away) + zeros * mean**2
            else:
                deviations = X.astype(np.float64)
                mean = (weight @ deviations) / total
                deviations -= mean
                np.square(deviations, out=deviations)
                squares = weight @ deviations
            self.merge(total, mean, squares)

    def merge(self, weight: float, mean: np.ndarray, squares: np.ndarray) -> None:
        """Take in the moments of other rows."""
        both = self.weight + weight
        step = mean - self.mean
        self.squares += squares + step**2 * (self.weight * weight / both)
        self.mean += step * (weight / both)
        self.weight = both

    @property
    def variance(self) -> np.ndarray:
        """Variances, shape (d,)."""
        variance: np.ndarray = self.squares / self.weight
        return variance
