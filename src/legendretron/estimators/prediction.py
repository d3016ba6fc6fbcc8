"""What classifiers with probabilities have in common after the fit: predictions, and prediction sets.

The arithmetic of sets is in :mod:`legendretron.calibration.prediction_sets`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from legendretron._internal.labels import check_labels
from legendretron._internal.sklearn_compat import Classifier, check_sample_weight
from legendretron.calibration.prediction_sets import SetCalibration, check_score

#: Matrices with a larger condition number are not inverted: small errors of the estimate would become large.
_WORST_CONDITION = 6.0


class ProbabilityClassifier(Classifier, BaseEstimator):  # type: ignore[misc]
    """Base of the classifiers that predict probabilities, and sets of classes."""

    classes_: np.ndarray
    _sets: SetCalibration | None = None

    # --- for subclasses ---

    @abstractmethod
    def _check_features(self, X: Any) -> Any:
        """Features in the form that predictions take."""

    @abstractmethod
    def _predict_parts(self, X: Any, *, log: bool, out: np.ndarray | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """Probabilities of checked features, or their logarithms, in chunks of rows; these may be views of ``out``."""

    @abstractmethod
    def _precision(self) -> np.dtype[Any]:
        """Of the probabilities."""

    @abstractmethod
    def _held_out_proba(self, X: Any, y: np.ndarray, weight: np.ndarray, cv: Any, groups: Any) -> np.ndarray:
        """Probabilities of rows by models that have not seen them; with ``cv``, by weighted fits of copies of this one."""

    @abstractmethod
    def _noise_matrices(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Transition matrices of the labels: as estimated, and with as few wrong labels as may be."""

    # --- predicting ---

    def _predict_all(self, X: Any, *, log: bool) -> np.ndarray:
        out = np.empty((X.shape[0], len(self.classes_)), dtype=self._precision())
        for rows, part in self._predict_parts(X, log=log, out=out):
            if part.base is not out:
                out[rows] = part
        return out

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of shape (n_samples, n_classes), in the order of ``classes_``.

        As in all predictions, non-finite values raise a ``ValueError``.
        """
        return self._predict_all(self._check_features(X), log=True)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of shape (n_samples, n_classes), in the order of ``classes_``.

        They are those of labels like the ones in ``y``, unless ``label_noise`` says that labels are wrong: then, those of
        true labels.
        """
        return self._predict_all(self._check_features(X), log=False)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of each sample."""
        X = self._check_features(X)
        indices = np.empty(X.shape[0], dtype=np.intp)
        for rows, part in self._predict_parts(X, log=True):
            indices[rows] = part.argmax(axis=1)
        labels: np.ndarray = self.classes_[indices]
        return labels

    def decision_function(self, X: Any) -> np.ndarray:
        """Confidence in each class: log-probabilities (n_samples, n_classes), or log-odds (n_samples,) for two classes."""
        log_p = self.predict_log_proba(X)
        return log_p if log_p.shape[1] > 2 else log_p[:, 1] - log_p[:, 0]

    # --- prediction sets ---

    @property
    def set_calibration_(self) -> SetCalibration:
        """What prediction sets are calibrated on; ``print`` it to see how many rows, and what is guaranteed."""
        check_is_fitted(self)
        if self._sets is None:
            raise AttributeError(
                f"this {type(self).__name__} has no held-out predictions to calibrate sets on: nothing was chosen by "
                "cross-validation, or training has continued since. Call calibrate_sets(X, y) with rows that were not used "
                "in the fit."
            )
        return self._sets

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        score: str = "cumulative",
        randomized: bool = False,
        by_class: bool = False,
        cautious: bool = False,
        random_state: Any = None,
    ) -> np.ndarray:
        """Predict sets of classes that contain the label of a row with a given probability.

        Sets are calibrated on rows that the model was not fitted to. After :meth:`calibrate_sets`, coverage is guaranteed on
        average over rows that are labeled in the same way. After ``fit``, sets are calibrated on its folds, without a
        guarantee. If ``label_noise`` says that labels are wrong, coverage refers to the true class, and depends on
        ``noise_matrix_``. ``print(set_calibration_)`` says which case applies.

        Parameters
        ----------
        X
            As in ``predict_proba``.
        coverage : float, default=0.9
            Required probability, between 0 and 1.
        score : {"cumulative", "probability"}, default="cumulative"
            ``"cumulative"``: the most probable classes until their sum is large enough, so that hard rows have larger sets.
            ``"probability"``: all classes above a threshold, which gives the smallest sets on average; some may be empty.
        randomized : bool, default=False
            Whether to drop the last class of a cumulative set at random, so that coverage is not exceeded; sets may be empty.
            Otherwise the most probable class is always included, and coverage is at least the accuracy.
        by_class : bool, default=False
            Whether the coverage must hold for the rows of every class, by a threshold for each.
        cautious : bool, default=False
            If sets are of true labels: whether to assume the lower end of ``noise_rate_interval_``, which makes them larger.
        random_state : int, RandomState or None, default=None
            Seed of randomized sets.

        Returns
        -------
        ndarray of bool of shape (n_samples, n_classes)
            Columns are in the order of ``classes_``.

        Notes
        -----
        .. deprecated:: 0.3
            ``score="cumulated"``, the earlier name of ``"cumulative"``, will be an error from 0.5 on.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from legendretron import MultinomialLogisticClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = MultinomialLogisticClassifier(random_state=0).fit(X, y)
        >>> clf.predict_set(X[[0, 50]], coverage=0.95).tolist()
        [[True, False, False], [False, True, False]]
        >>> clf.set_calibration_.n_rows
        150
        """
        calibration, score = self.set_calibration_, check_score(score)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1)) if randomized else None
        kinds: dict[str, Any] = {"score": score, "randomized": randomized, "by_class": by_class, "cautious": cautious}
        calibration.thresholds(coverage, **kinds)  # arguments are checked before anything is predicted
        return calibration.predict(self.predict_proba(X), coverage, **kinds, rng=rng)

    def calibrate_sets(
        self, X: Any, y: Any, sample_weight: Any = None, *, cv: Any = None, groups: Any = None, clean: bool = False
    ) -> Self:
        """Calibrate prediction sets on rows other than those of ``fit``.

        Parameters
        ----------
        X, y
            Rows that the model was not fitted to, and their labels; with ``cv``, those that it was fitted to.
        sample_weight : array of shape (n_samples,), optional
            Weight of each row; with ``cv``, also in the fits.
        cv : int, splitter or iterable, default=None
            Folds: for each one, the model is fitted again to the other rows, with the same penalties.
        groups : array of shape (n_samples,), default=None
            Group of each row. Rows of a group are held out together, if ``cv`` is a number or a splitter that does so.
        clean : bool, default=False
            Whether these labels are known to be correct, even if some labels in ``fit`` were not.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        labels = self._find_places(y, X.shape[0] if hasattr(X, "shape") else len(X))
        weight = check_sample_weight(sample_weight, labels)
        p = self._held_out_proba(X, self.classes_[labels], weight, cv, groups)
        self._calibrate(p, labels, weight, out_of_fold=cv is not None, clean=clean)
        return self

    def _find_places(self, y: Any, n_rows: int) -> np.ndarray:
        """Indices of labels in ``classes_``; a ``ValueError`` for unknown ones, or if there are not ``n_rows``."""
        check_labels(y)
        y = column_or_1d(y)
        if y.shape != (n_rows,):
            raise ValueError(f"y must have one label per row of X, {n_rows}, got shape {y.shape}.")
        if len(unknown := np.setdiff1d(y, self.classes_)):
            raise ValueError(f"y holds labels that are not in classes_: {unknown}; classes are {self.classes_}.")
        places: np.ndarray = np.searchsorted(self.classes_, y)
        return places

    def _calibrate(
        self, p: np.ndarray, labels: np.ndarray, weight: np.ndarray, *, out_of_fold: bool, clean: bool = False
    ) -> None:
        """Calibrate on probabilities of rows and classes from 0, both in the order of ``classes_``."""
        noise, least = (None, None) if clean else self._noise_matrices()
        if noise is not None and np.linalg.cond(noise) > _WORST_CONDITION:
            # fewer wrong labels make larger sets, and none the largest; a copy, as saved tensors share no memory
            noise = None if least is None else least.copy()
            if least is not None and np.linalg.cond(least) > _WORST_CONDITION:
                noise = least = None
        seen = weight > 0
        known: dict[str, Any] = {"out_of_fold": out_of_fold, "noise": noise, "least_noise": least}
        self._sets = SetCalibration.of(p[seen], labels[seen], weight[seen], **known) if seen.any() else None
