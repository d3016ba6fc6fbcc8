"""Predictions of a fitted linear predictor with a link on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
import torch
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.chunks import chunks, chunks_in_cache
from legendretron._internal.features import check_features
from legendretron._internal.parameters import spell
from legendretron.accelerate.predictions import RowProbabilities, row_probabilities
from legendretron.estimators.classes import swap_classes
from legendretron.estimators.label_quality import LabelQuality

__all__ = ["LinearPredictor"]

_PRECISIONS = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}


class LinearPredictor(LabelQuality):
    """Base of the classifiers that put a link on a linear predictor: how they predict."""

    coef_: np.ndarray
    intercept_: np.ndarray

    def linear_predictor(self, X: Any) -> np.ndarray:
        """Predictors ``z`` of shape (n_samples, n_classes - 1), which the link maps to probabilities.

        They belong to the first ``n_classes - 1`` classes against the last one; for two classes, to the second.
        """
        return self._predictor(self._check_features(X))

    def _check_features(self, X: Any) -> Any:
        check_is_fitted(self)
        return check_features(self, X, accept_sparse="csr", dtype=self.coef_.dtype, order="C", reset=False)

    def _predictor(self, X: Any) -> np.ndarray:
        z: np.ndarray = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return z

    def _precision(self) -> np.dtype[Any]:
        return self.coef_.dtype

    def _predict_parts(self, X: Any, *, log: bool, out: np.ndarray | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """Probabilities of checked features, or their logarithms, in chunks of rows; written to ``out`` if that is given."""
        sparse, n, n_classes = scipy.sparse.issparse(X), X.shape[0], len(self.classes_)
        compiled = self._compiled()
        # A parameter of the link that is infinite need not show in the probabilities, nor a coefficient in those of sparse
        # rows; all else that is not finite does.
        if compiled is None or sparse or not compiled.finite:
            self._check_weights(only_link=not sparse)
        if compiled is None:
            for rows in chunks(n, n_classes):
                yield rows, self._plain(X, rows, log, out)
            return
        weight, bias = self.coef_.T, np.array(self.intercept_)
        parts = chunks_in_cache(n, n_classes)
        room = np.empty((parts[0].stop if parts else 0, n_classes - 1), dtype=weight.dtype)
        for rows in parts:
            z = room[: rows.stop - rows.start]
            part = np.empty((len(z), n_classes), dtype=z.dtype) if out is None else out[rows]
            with np.errstate(over="ignore", invalid="ignore"):  # checked below
                if sparse:
                    z = np.ascontiguousarray(safe_sparse_dot(X[rows], weight, dense_output=True))
                else:
                    np.matmul(X[rows], weight, out=z)
            if not compiled(z, bias, log=log, swap=n_classes == 2, out=part):
                part = self._plain(X, rows, log, out)  # which raises, unless rounding differs
            yield rows, part

    def _compiled(self) -> RowProbabilities | None:
        """Return the link as a compiled function, or None if it has none."""
        if self.coef_.dtype != self.intercept_.dtype or self.coef_.dtype not in _PRECISIONS:
            return None
        return row_probabilities(self.link_, _PRECISIONS[self.coef_.dtype])

    def _plain(self, X: Any, rows: slice, log: bool, out: np.ndarray | None) -> np.ndarray:
        """What compiled functions compute, by operations of torch."""
        with torch.no_grad(), np.errstate(over="ignore", invalid="ignore"):  # checked below
            log_p: np.ndarray = self.link_(torch.as_tensor(self._predictor(X[rows]))).numpy()
        if not np.isfinite(log_p).all():
            self._check_weights()
            row = rows.start + int(np.flatnonzero(~np.isfinite(log_p).all(axis=1))[0])
            raise ValueError(
                f"row {row} of {spell('X')} has features so large that its probabilities are not finite in {log_p.dtype}; "
                f"scale them as in the fit, or fit again with a lower {spell('learning_rate')} if they were as large."
            )
        part: np.ndarray = swap_classes(log_p if log else np.exp(log_p))
        if out is not None:
            out[rows] = part
        return part

    def _check_weights(self, *, only_link: bool = False) -> None:
        of_link = [p.detach().reshape(-1) for p in self.link_.parameters()]
        weights = [torch.cat(of_link).numpy()] if of_link else []  # one check instead of many
        if not only_link:
            weights += [self.coef_, self.intercept_]
        if not all(np.isfinite(values).all() for values in weights):
            raise ValueError(
                "coef_, intercept_ or the parameters of link_ are not finite, so the fit has diverged; fit again with a "
                f"lower {spell('learning_rate')}, or with scaled features."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
