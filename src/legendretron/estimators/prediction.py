"""Predictions of a fitted predictor with a link on it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.sklearn_compat import Classifier
from legendretron.estimators.classes import swap_classes
from legendretron.links import Link
from legendretron.losses import CanonicalLoss, CompositeLoss

__all__ = ["LinkPredictor"]


class LinkPredictor(Classifier, BaseEstimator):  # type: ignore[misc]
    """Base of the classifiers that put a link on a predictor: their methods after fitting."""

    classes_: np.ndarray
    link_: Link

    @abstractmethod
    def _check_features(self, X: Any) -> Any:
        """Features as they are predicted from."""

    @abstractmethod
    def _predict_parts(self, X: Any, *, log: bool, out: np.ndarray | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """Probabilities of checked features, or their logarithms, in chunks of rows; written to ``out`` if that is given."""

    @abstractmethod
    def _precision(self) -> np.dtype[Any]:
        """Of the probabilities, and of the features."""

    def _log_proba_in_parts(self, X: Any) -> Iterator[tuple[slice, np.ndarray]]:
        """Log-probabilities in chunks of rows, so that the memory for intermediate results does not grow with the data."""
        return self._predict_parts(X, log=True)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of shape (n_samples, n_classes), in the order of ``classes_``.

        As in all predictions, values that are not finite raise a ``ValueError``.
        """
        return self._log_proba(self._check_features(X))

    def _log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of checked features."""
        return self._predict_all(X, log=True)

    def _predict_all(self, X: Any, *, log: bool) -> np.ndarray:
        out = np.empty((X.shape[0], len(self.classes_)), dtype=self._precision())
        for _ in self._predict_parts(X, log=log, out=out):
            pass
        return out

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of shape (n_samples, n_classes), in the order of ``classes_``."""
        return self._predict_all(self._check_features(X), log=False)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of each sample."""
        X = self._check_features(X)
        indices = np.empty(X.shape[0], dtype=np.intp)
        for rows, part in self._log_proba_in_parts(X):
            indices[rows] = part.argmax(axis=1)
        labels: np.ndarray = self.classes_[indices]
        return labels

    def decision_function(self, X: Any) -> np.ndarray:
        """Confidence in each class: log-probabilities (n_samples, n_classes), or log-odds (n_samples,) for two classes."""
        log_p = self.predict_log_proba(X)
        return log_p if log_p.shape[1] > 2 else log_p[:, 1] - log_p[:, 0]

    @property
    def link_classes_(self) -> np.ndarray:
        """Classes in the order of ``link_`` and ``loss_``: that of ``classes_``, but for two classes the second first."""
        check_is_fitted(self)
        classes: np.ndarray = swap_classes(self.classes_)
        return classes

    @property
    def loss_(self) -> CanonicalLoss | CompositeLoss:
        """The learned loss, with the classes in the order of ``link_classes_``.

        The canonical loss of the learned link if it has one, as every link of two classes; else its strictly proper composite
        loss, the log-loss through the link, which need not be convex.
        """
        check_is_fitted(self)
        return CanonicalLoss(self.link_) if self.link_.is_canonical else CompositeLoss(self.link_)
