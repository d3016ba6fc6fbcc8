"""The features of a linear predictor, in the units it is trained in."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.utils.extmath import safe_sparse_dot

from legendretron.estimators.standardization import Standardizer

_LARGEST = 1e150


class Design:
    """Features ``(n, d)``, standardised or not, with a column of ones for the intercept.

    Products are taken in the precision of the features; everything else is float64.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Unscaled features.
    weight : ndarray of shape (n,)
        Weights that sum to one.
    """

    def __init__(self, X: Any, weight: np.ndarray, standardize: bool) -> None:
        self.units = Standardizer.fit(X, weight, standardize)
        self.standardize = standardize
        self.X = self.transform(X)

    def transform(self, X: Any) -> Any:
        """Return other features in the same units."""
        return self.units.transform(X) if self.standardize else X

    def predictor(self, w: np.ndarray, X: Any = None) -> np.ndarray:
        """Linear predictors ``(n,)`` of weights ``(d + 1,)``, the intercept last."""
        X = self.X if X is None else X
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks the result
            z: np.ndarray = safe_sparse_dot(X, w[:-1].astype(X.dtype)).astype(np.float64) + w[-1]
        return z

    def pull(self, r: np.ndarray) -> np.ndarray:
        """Transposed product: residuals ``(n,)`` to ``(d + 1,)``."""
        with np.errstate(over="ignore", invalid="ignore"):
            product = safe_sparse_dot(self.X.T, r.astype(self.X.dtype)).astype(np.float64)
            return np.append(product, r.sum())

    def largest_eigenvalue(self, weight: np.ndarray) -> float:
        """Of the second moments of the features and the one, by Lanczos iteration from a fixed random vector."""
        size = self.X.shape[1] + 1

        def product(v: np.ndarray) -> np.ndarray:
            v = self.pull(weight * self.predictor(v.ravel()))
            # beyond the square root the iteration's own inner products overflow
            if not np.abs(v).max() < _LARGEST:
                raise ValueError("X has features too large to multiply; scale X first, or set standardize=True.")
            return v

        moments = LinearOperator((size, size), matvec=product, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(size)
        return float(eigsh(moments, k=1, v0=start, tol=1e-4, return_eigenvectors=False)[0])
