"""After fitting: wrong labels, how many there are and which."""

from __future__ import annotations

import copy
from abc import abstractmethod
from numbers import Real
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted, column_or_1d

from legendretron._internal.labels import check_labels
from legendretron.estimators.classes import swap_classes
from legendretron.estimators.label_noise import FittedNoise
from legendretron.estimators.label_posterior import label_posterior
from legendretron.estimators.prediction import LinkPredictor
from legendretron.estimators.prediction_sets import SetPredictor
from legendretron.links import NoisyLink, SymmetricNoise, clean_link

__all__ = ["LabelQuality"]


class LabelQuality(LinkPredictor, SetPredictor):
    """Base of the classifiers that know of wrong labels: what they say about them."""

    _noise: FittedNoise | None

    @property
    def noise_rate_(self) -> float:
        """Share of the training labels that are wrong: as given, or as estimated; 0 if no noise was found."""
        return self._fitted_noise().rate

    @property
    def noise_rate_interval_(self) -> tuple[float, float]:
        """Interval of ``noise_rate_``: from what training rows say to what held-out rows say, with 2.5 standard errors."""
        return self._fitted_noise().interval

    @property
    def noise_matrix_(self) -> np.ndarray:
        """Probabilities of observed labels (columns) for each true class (rows), in the order of ``classes_``."""
        return self._fitted_noise().matrix_by_classes()

    def _fitted_noise(self) -> FittedNoise:
        noise: FittedNoise | None = getattr(self, "_noise", None)
        if noise is None:
            raise AttributeError(
                f"this {type(self).__name__} knows nothing of wrong labels: it is not fitted, or label_noise is None, or "
                "it is 'auto' but the strengths were given, so nothing was tried on held-out rows, or class_weight was "
                "given, which hides how many are wrong. Give label_noise='symmetric'."
            )
        return noise

    def predict_proba_observed(self, X: Any) -> np.ndarray:
        r"""Probabilities of the labels as they would be observed, some of them wrong: :math:`q = T^\top p`.

        ``predict_proba`` gives those of the true classes, ``p``; without noise in the labels both are the same. Where the
        noise was estimated, ``p`` has a floor that makes up for what is uncertain about it, and so has ``q``.
        """
        noise: FittedNoise | None = getattr(self, "_noise", None)
        if noise is None or np.array_equal(noise.matrix_by_classes(), np.eye(len(self.classes_))):
            same: np.ndarray = self.predict_proba(X)
            return same
        log_p = self.predict_log_proba(X)
        ordered = torch.as_tensor(swap_classes(log_p).copy())
        return np.exp(swap_classes(noise.make_noise().log_observed(ordered).numpy()).astype(log_p.dtype))

    def label_quality(self, X: Any, y: Any, cv: Any = 5, groups: Any = None) -> np.ndarray:
        r"""For each row, the probability that its label is right.

        .. math:: P(\text{true} = y \mid x, y) = p_y T_{yy} / \sum_k p_k T_{ky}

        with the transition matrix ``noise_matrix_``, and with probabilities ``p`` that are calibrated first, on the labels of
        these rows: see :mod:`legendretron.estimators.label_posterior`. So it depends a little on the rows judged together.
        If no noise was found, one of these labels is taken to be wrong, so that rows can still be ranked; probabilities of
        being right are then too high where more of them are wrong.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            Features.
        y : array of shape (n_samples,)
            Labels as they are, of the classes of the fit.
        cv : int, splitter, iterable or None, default=5
            Each row is judged by a model that has not seen it: the same model, with the strengths and the noise of this one,
            fitted again to the other rows of each fold. Every row must be held out once. None: by this model itself, for rows
            that it was not fitted to.
        groups : array of shape (n_samples,), default=None
            For a splitter that keeps rows together, such as ``GroupKFold``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        posterior = self.label_posterior(X, y, cv, groups)
        places = np.searchsorted(self.classes_, column_or_1d(y))
        quality: np.ndarray = posterior[np.arange(len(places)), places]
        return quality

    def label_posterior(self, X: Any, y: Any, cv: Any = 5, groups: Any = None) -> np.ndarray:
        r"""Probabilities of the true classes of rows whose labels are known too, as far as labels can be trusted.

        .. math:: P(\text{true} = i \mid x, y) = p_i T_{iy} / \sum_k p_k T_{ky}

        with calibrated probabilities ``p``, as in :meth:`label_quality`.

        Parameters
        ----------
        X, y, cv, groups
            As in :meth:`label_quality`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return self._posterior(self._check_features(X), y, cv, groups)

    def _posterior(self, checked: Any, y: Any, cv: Any, groups: Any) -> np.ndarray:
        """See :meth:`label_posterior`, for checked features."""
        check_labels(y)
        y = column_or_1d(y)
        if y.shape != (checked.shape[0],):
            raise ValueError(f"y must have one label per row of X, {checked.shape[0]}, got shape {y.shape}.")
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds labels that are not in classes_: {unknown}; classes are {self.classes_}.")
        labels = np.searchsorted(self.classes_, y)
        log_p = self._log_proba_to_judge(checked) if cv is None else self._out_of_fold(checked, y, cv, groups)
        return self._posterior_of(log_p, labels)

    def _posterior_of(self, log_p: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """See :meth:`label_posterior`, for log-probabilities without a floor, and classes from 0."""
        noise: FittedNoise | None = getattr(self, "_noise", None)
        if noise is not None and noise.rates.rate > 0.0:
            return label_posterior(log_p, labels, noise.matrix_by_classes())
        one = SymmetricNoise(len(self.classes_), 1.0 / max(len(labels), 2), learned=False, dtype=torch.float64)
        return label_posterior(log_p, labels, one.matrix().numpy(), doubts=False)

    def _log_proba_to_judge(self, X: Any) -> np.ndarray:
        """Log-probabilities without the floor of doubtful predictions, below which rows could not be told apart."""
        bare = copy.copy(self)
        bare.link_ = clean_link(self.link_)
        return bare._log_proba(X)

    # --- prediction sets ---

    def _held_out_proba(self, X: Any, y: np.ndarray, cv: Any, groups: Any) -> np.ndarray:
        """See :meth:`SetPredictor._held_out_proba`."""
        if cv is None:
            return self.predict_proba(X)
        X = self._check_features(X)
        if X.shape[0] != len(y):
            raise ValueError(f"y must have one label per row of X, {X.shape[0]}, got {len(y)}.")
        return self._proba_as_predicted(self._out_of_fold(X, y, cv, groups))

    def _proba_as_predicted(self, log_p: np.ndarray) -> np.ndarray:
        """Probabilities with the floor of doubtful predictions, which ``predict_proba`` has too."""
        floored = torch.as_tensor(log_p)
        if isinstance(self.link_, NoisyLink):
            floored = self.link_.noise.log_observed(floored)
        return np.exp(floored.numpy())

    def _noise_matrices(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """See :meth:`SetPredictor._noise_matrices`."""
        noise: FittedNoise | None = getattr(self, "_noise", None)
        if noise is None or noise.rates.rate == 0.0:
            return None, None
        return noise.matrix_by_classes(), noise.least_matrix_by_classes()

    def find_label_issues(self, X: Any, y: Any, cv: Any = 5, threshold: float = 0.5, groups: Any = None) -> np.ndarray:
        """Rows whose label is probably wrong, the most suspicious one first.

        Parameters
        ----------
        X, y, cv
            As in :meth:`label_quality`; by default each row is judged by a model that has not seen it.
        threshold : float, default=0.5
            Rows with a smaller probability of being right are returned.
        groups : array of shape (n_samples,), default=None
            As in :meth:`label_quality`.

        Returns
        -------
        ndarray of int
            Row numbers.
        """
        if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0.0 <= float(threshold) <= 1.0:
            raise ValueError(f"threshold must be a probability, from 0 to 1, got {threshold!r}.")
        quality = self.label_quality(X, y, cv, groups)
        order = np.argsort(quality, kind="stable")
        issues: np.ndarray = order[quality[order] < threshold]
        return issues

    def _out_of_fold(self, X: Any, y: np.ndarray, cv: Any, groups: Any) -> np.ndarray:
        """Log-probabilities of each row by a model that has not seen it."""
        check_is_fitted(self)
        folds = list(check_cv(cv, y, classifier=True).split(X, y, groups))
        times = np.bincount(np.concatenate([test for _, test in folds]), minlength=len(y))
        if (times != 1).any():
            row = int(np.argmax(times != 1))
            raise ValueError(f"cv={cv!r} must hold out every row once, but row {row} is held out {times[row]} times.")
        log_p = np.empty((X.shape[0], len(self.classes_)))
        for train, test in folds:
            if len(seen := np.intersect1d(train, test)):
                raise ValueError(f"cv={cv!r} must not train on the rows that it holds out, but does on row {seen[0]}.")
            model = self._refit(X[train], y[train])
            columns = np.searchsorted(self.classes_, model.classes_)
            # a class that the fold does not have may still occur: by the rule of succession
            log_p[test] = -np.log(len(train) + 1.0)
            log_p[np.ix_(test, columns)] = model._log_proba_to_judge(X[test])
        return log_p

    @abstractmethod
    def _refit(self, X: Any, y: np.ndarray) -> LabelQuality:
        """A copy with the same strengths and noise, fitted to other rows."""
