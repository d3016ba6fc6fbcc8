"""After fitting: wrong labels, how many there are and which."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from legendretron._internal.sklearn_compat import check_sample_weight
from legendretron.estimators.baseline import Baseline
from legendretron.estimators.fit_data import swap_classes, swap_labels
from legendretron.estimators.label_noise import swap_matrix
from legendretron.estimators.label_posterior import label_posterior
from legendretron.estimators.onnx import predictor_model, write_model
from legendretron.estimators.prediction import ProbabilityClassifier
from legendretron.links import Link, SymmetricNoise
from legendretron.losses import CanonicalLoss, CompositeLoss
from legendretron.preprocessing.drift import UsualRanges
from legendretron.tuning.folds import given_splits, short_repr
from legendretron.tuning.noise import FoundNoise


class LabelQuality(ProbabilityClassifier):
    """Base of the classifiers with a link on a predictor: the loss it stands for, and what it says about wrong labels."""

    link_: Link
    n_features_in_: int
    _noise: FoundNoise | None = None
    _usual: UsualRanges | None = None  #: of the features
    _baseline: Baseline | None = None  #: None if the model is logistic regression itself, too

    @property
    def link_classes_(self) -> np.ndarray:
        """Classes in the order of ``link_`` and ``loss_``: as ``classes_``, but reversed if there are two."""
        check_is_fitted(self)
        classes: np.ndarray = swap_classes(self.classes_)
        return classes

    @property
    def loss_(self) -> CanonicalLoss | CompositeLoss:
        """The learned loss, with the classes in the order of ``link_classes_``.

        It is the canonical loss of the learned link if there is one, as for every link of two classes. Otherwise it is the
        strictly proper composite loss, the log-loss through the link, which may not be convex.
        """
        check_is_fitted(self)
        return CanonicalLoss(self.link_) if self.link_.is_canonical else CompositeLoss(self.link_)

    @property
    def noise_rate_(self) -> float:
        """Share of the training labels that a uniform part explains: wrong labels, or chance.

        It is 0 if a uniform part does not explain them better than a temperature alone, by more than a standard error.
        """
        return self._fitted_noise().wrong

    @property
    def noise_rate_interval_(self) -> tuple[float, float]:
        """Interval of ``noise_rate_``: covers the estimates of training and held-out rows, 2.5 standard errors each."""
        return self._fitted_noise().interval

    @property
    def noise_matrix_(self) -> np.ndarray:
        """Probabilities of observed labels (columns) for each true class (rows), in the order of ``classes_``."""
        return self._matrix_of(self._fitted_noise())

    @staticmethod
    def _matrix_of(noise: FoundNoise) -> np.ndarray:
        """The transition matrix, in the order of ``classes_``."""
        return swap_matrix(noise.make_noise().matrix().detach().double().numpy())

    @property
    def predicts_recorded_(self) -> bool:
        """Whether ``predict_proba`` is of the labels as they are recorded, like those in ``y``, or of the true ones."""
        check_is_fitted(self)
        return self._noise is None or self._noise.recorded or self._noise.rate == 0.0

    def _fitted_noise(self) -> FoundNoise:
        if self._noise is None:
            raise AttributeError(
                f"this {type(self).__name__} has no estimate of wrong labels: it is not fitted, or label_noise is None, or "
                "label_noise is 'auto' but it was not estimated, as penalties were given, or no row could be held out. Set "
                "label_noise='symmetric'."
            )
        return self._noise

    def predict_proba_observed(self, X: Any) -> np.ndarray:
        r"""Probabilities of the labels as they are recorded, some of which are wrong: :math:`q = T^\top p`.

        By default, this is what ``predict_proba`` returns. If ``label_noise`` says that labels are wrong, ``predict_proba``
        returns the probabilities ``p`` of the true classes. If the noise was estimated, they have a floor that accounts for
        the uncertainty of the estimate.
        """
        noise = self._noise
        if noise is None or self.predicts_recorded_:
            return self.predict_proba(X)
        log_p = self.predict_log_proba(X)
        ordered = torch.as_tensor(swap_classes(log_p).copy())
        return np.exp(swap_classes(noise.make_noise().log_observed(ordered).numpy()).astype(log_p.dtype))

    def label_quality(self, X: Any, y: Any, cv: Any = 5, groups: Any = None, sample_weight: Any = None) -> np.ndarray:
        r"""Probability, for each row, that its label is the true one, whether ``predict_proba`` is of true labels or not.

        .. math:: P(\text{true} = y \mid x, y) = p_y T_{yy} / \sum_k p_k T_{ky}

        Here, :math:`T` is the transition matrix ``noise_matrix_``, and the probabilities :math:`p` are calibrated on these
        labels first: see :mod:`legendretron.estimators.label_posterior`. If no noise was found, one of the labels is assumed
        to be wrong, so that rows can still be ranked.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            Features.
        y : array of shape (n_samples,)
            Observed labels, from the classes of the fit.
        cv : int, splitter, iterable or None, default=5
            Folds: each row is judged by a copy of this model, with the same penalties and noise, that is fitted to the other
            folds. None: use this model itself, for rows that it was not fitted to.
        groups : array of shape (n_samples,), default=None
            Group of each row. Rows of a group are held out together, if ``cv`` is a number or a splitter that does so, such
            as ``GroupKFold``.
        sample_weight : array of shape (n_samples,), default=None
            Weight of each row in the fits to the other folds; give those of ``fit``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        posterior = self.label_posterior(X, y, cv, groups, sample_weight)
        quality: np.ndarray = posterior[np.arange(len(posterior)), self._find_places(y, len(posterior))]
        return quality

    def label_posterior(self, X: Any, y: Any, cv: Any = 5, groups: Any = None, sample_weight: Any = None) -> np.ndarray:
        r"""Probabilities of the true classes, given the features and the observed labels.

        .. math:: P(\text{true} = i \mid x, y) = p_i T_{iy} / \sum_k p_k T_{ky}

        with calibrated probabilities ``p``, as in :meth:`label_quality`.

        Parameters
        ----------
        X, y, cv, groups, sample_weight
            As in :meth:`label_quality`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return self._posterior(self._check_features(X), y, cv, groups, sample_weight)

    def _posterior(self, checked: Any, y: Any, cv: Any, groups: Any, sample_weight: Any = None) -> np.ndarray:
        """See :meth:`label_posterior`, for checked features."""
        labels = self._find_places(y, checked.shape[0])
        if cv is None:
            log_p = self._log_proba_to_judge(checked)
        else:
            weight = check_sample_weight(sample_weight, labels)
            log_p = self._out_of_fold(checked, self.classes_[labels], weight, cv, groups)
        return self._compute_posterior(log_p, labels)

    def _compute_posterior(self, log_p: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """See :meth:`label_posterior`, for log-probabilities without a floor, and classes from 0."""
        if self._noise is not None and self._noise.rate > 0.0:
            return label_posterior(log_p, labels, self._matrix_of(self._noise))
        one = SymmetricNoise(len(self.classes_), 1.0 / max(len(labels), 2), learned=False, dtype=torch.float64)
        return label_posterior(log_p, labels, one.matrix().numpy(), doubts=False)

    @abstractmethod
    def _predict_by_link(
        self, X: Any, *, log: bool, out: np.ndarray | None = None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Predictions as by :meth:`_predict_parts`, without noise."""

    def _predict_parts(self, X: Any, *, log: bool, out: np.ndarray | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        for rows, part in self._predict_by_link(X, log=log, out=out):
            yield rows, self._add_noise(part, log=log)

    def _add_noise(self, values: np.ndarray, *, log: bool) -> np.ndarray:
        """From probabilities of the link to those of predictions, or from logarithms of both, in place."""
        noise = self._noise
        if noise is None:
            return values
        if noise.recorded and noise.matrix is not None:
            p = (np.exp(values) if log else values) @ self._matrix_of(noise).astype(values.dtype)
            values[...] = np.log(p) if log else p
        return _add_floor(values, noise.floor, log=log)

    def _log_proba_to_judge(self, X: Any) -> np.ndarray:
        """Log-probabilities without noise, with which rows could not be told apart."""
        return np.concatenate([part for _, part in self._predict_by_link(X, log=True)])

    # --- prediction sets ---

    def _held_out_proba(self, X: Any, y: np.ndarray, weight: np.ndarray, cv: Any, groups: Any) -> np.ndarray:
        """See :meth:`ProbabilityClassifier._held_out_proba`."""
        if cv is None:
            return self.predict_proba(X)
        log_p = self._out_of_fold(self._check_features(X), y, weight, cv, groups)
        return np.exp(self._add_noise(log_p, log=True))

    def _calibrate_folds(self, log_p: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> None:
        """Calibrate prediction sets on log-probabilities of held-out rows without noise, in the order of the link."""
        p = np.exp(self._add_noise(swap_classes(log_p).copy(), log=True))
        self._calibrate(p, swap_labels(labels, p.shape[1]), weight, out_of_fold=True)

    def _noise_matrices(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """See :meth:`ProbabilityClassifier._noise_matrices`."""
        noise = self._noise
        if noise is None or self.predicts_recorded_:
            return None, None
        matrix, eye = self._matrix_of(noise), np.eye(noise.n_classes)
        return matrix, eye + noise.low / noise.rate * (matrix - eye)  # as few wrong labels as may be

    def find_label_issues(
        self,
        X: Any,
        y: Any,
        cv: Any = 5,
        threshold: float = 0.5,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> np.ndarray:
        """Find rows whose label is probably wrong, the most suspicious one first.

        Parameters
        ----------
        X, y, cv, groups, sample_weight
            As in :meth:`label_quality`.
        threshold : float, default=0.5
            Rows are returned if the probability that their label is correct is below this.

        Returns
        -------
        ndarray of int
            Row numbers.
        """
        if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0.0 <= float(threshold) <= 1.0:
            raise ValueError(f"threshold must be a probability, from 0 to 1, got {threshold!r}.")
        quality = self.label_quality(X, y, cv, groups, sample_weight)
        order = np.argsort(quality, kind="stable")
        issues: np.ndarray = order[quality[order] < threshold]
        return issues

    def _out_of_fold(self, X: Any, y: np.ndarray, weight: np.ndarray, cv: Any, groups: Any) -> np.ndarray:
        """Log-probabilities of each row by a model that has not seen it, fitted with the weights of the others."""
        check_is_fitted(self)

        folds = given_splits(cv, X, y, groups)
        times = np.bincount(np.concatenate([test for _, test in folds]), minlength=len(y))
        if (times != 1).any():
            row = int(np.argmax(times != 1))
            raise ValueError(
                f"cv={short_repr(cv)} must hold out every row once, but row {row} is held out {times[row]} times."
            )
        log_p = np.empty((X.shape[0], len(self.classes_)))
        groups = None if groups is None else np.asarray(groups)
        for train, test in folds:
            if not len(test):  # of groups, a fold may have none
                continue
            if len(seen := np.intersect1d(train, test)):
                raise ValueError(
                    f"cv={short_repr(cv)} must not train on the rows that it holds out, but does on row {seen[0]}."
                )
            train = train[weight[train] > 0]
            n_classes, noise = len(np.unique(y[train])), self._noise
            if n_classes < 2:
                raise ValueError("cv leaves a fold with rows of one class only; give fewer folds, or cv=None.")
            if n_classes < len(self.classes_) and noise is not None and noise.matrix is not None:
                raise ValueError(
                    "cv leaves a fold without rows of a class, for which noise_matrix_ has a row; give fewer folds."
                )
            model = self._refit(X[train], y[train], weight[train], None if groups is None else groups[train])
            columns = np.searchsorted(self.classes_, model.classes_)
            # a class that the fold does not have may still occur: by the rule of succession
            log_p[test] = -np.log(len(train) + 1.0)
            log_p[np.ix_(test, columns)] = model._log_proba_to_judge(X[test])
        return log_p

    @abstractmethod
    def _refit(self, X: Any, y: np.ndarray, weight: np.ndarray, groups: np.ndarray | None) -> LabelQuality:
        """A copy with the same strengths and noise, fitted to other rows."""

    # --- exporting ---

    def to_onnx(self, path: Any) -> None:
        """Export the fitted estimator to an ONNX file, which can be served without torch or scikit-learn.

        The ONNX model takes ``"X"`` of shape (n, n_features), for any ``n >= 1``, in the dtype of ``predict_proba``. It
        returns ``"label"``, the most probable class of each row, and ``"probabilities"`` in the order of ``classes_``.
        Classes and feature names are also in the metadata. The file is written atomically. Needs the extra ``export``.
        """
        check_is_fitted(self)
        write_model(path, self._onnx_model(getattr(self, "feature_names_in_", None)))

    def _onnx_model(self, feature_names: np.ndarray | None) -> Any:
        """The ``onnx.ModelProto``, see :meth:`to_onnx`."""
        example = torch.zeros(2, self.n_features_in_, dtype=getattr(torch, self._precision().name))
        return predictor_model(self._to_module(), example, self.classes_, feature_names)

    @abstractmethod
    def _to_module(self) -> nn.Module:
        """From features to log-probabilities in the order of ``classes_``."""


def _add_floor(values: np.ndarray, share: float, *, log: bool) -> np.ndarray:
    r"""Mix probabilities, or their logarithms, with a share of the uniform distribution, in place.

    .. math:: p \leftarrow (1 - u)\, p + u / C

    Examples
    --------
    >>> _add_floor(np.array([[1.0, 0.0]]), 0.1, log=False)
    array([[0.95, 0.05]])
    """
    if share > 0.0:
        floor = share / values.shape[1]
        if log:
            np.logaddexp(values + math.log1p(-share), math.log(floor), out=values)
        else:
            values *= 1.0 - share
            values += floor
    return values
