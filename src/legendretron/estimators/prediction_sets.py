"""Prediction sets of the classifiers; the arithmetic is in :mod:`legendretron.calibration.prediction_sets`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from legendretron._internal.labels import check_labels
from legendretron._internal.sklearn_compat import check_sample_weight
from legendretron.calibration.prediction_sets import SetCalibration

__all__ = ["SetPredictor"]

#: Matrices whose condition is worse are not inverted: labels say so little then that a small error of the estimate is large.
_WORST_CONDITION = 6.0


class SetPredictor:
    """Base of the classifiers that predict sets of classes."""

    classes_: np.ndarray
    _sets: SetCalibration | None

    @abstractmethod
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the true classes."""

    @abstractmethod
    def _held_out_proba(self, X: Any, y: np.ndarray, cv: Any, groups: Any) -> np.ndarray:
        """Probabilities of rows by models that have not seen them; with ``cv``, by copies of this one."""

    @abstractmethod
    def _noise_matrices(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Transition matrices of the labels: as estimated, and with as few wrong labels as may be."""

    @property
    def set_calibration_(self) -> SetCalibration:
        """What prediction sets are calibrated on; ``print`` it to see how many rows, and what is guaranteed."""
        check_is_fitted(self)
        sets: SetCalibration | None = getattr(self, "_sets", None)
        if sets is None:
            raise AttributeError(
                f"this {type(self).__name__} has predicted no rows that it has not seen: nothing was left to be chosen by "
                "cross-validation, or training went on since. Call calibrate_sets(X, y) with rows that were held out from "
                "the fit."
            )
        return sets

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        score: str = "cumulated",
        randomized: bool = False,
        by_class: bool = False,
        cautious: bool = False,
        random_state: Any = None,
    ) -> np.ndarray:
        """Classes among which the true one is, with the probability that is asked for.

        Sets are calibrated on rows that the model had not seen: by ``fit`` on those that were held out while strengths were
        chosen, or on the folds; or by :meth:`calibrate_sets`. **Guaranteed** is the coverage of rows that are drawn as those
        of ``calibrate_sets`` were, if these were held out from the fit and their labels are right: at least ``coverage``, on
        average over rows, not for every kind of row. After ``fit`` alone it is **measured**, not guaranteed: rows were
        predicted by models of the folds, whose strengths were chosen on the same rows. Where labels are wrong, coverage is
        that of the true class, as far as ``noise_matrix_`` is right: a share of wrong labels that is estimated too high
        takes some coverage, see ``cautious``. Where so many are wrong that labels keep less than a
        sixth of what they say, the lower end of the interval is taken, or no correction is made, and sets are large.
        ``print(set_calibration_)`` tells which it is.

        Parameters
        ----------
        X
            As in ``predict_proba``.
        coverage : float, default=0.9
            Wanted probability, between 0 and 1.
        score : {"cumulated", "probability"}, default="cumulated"
            ``"cumulated"``: classes in the order of their probabilities, until these sum to enough: adaptive sets, which are
            larger for rows that are hard. ``"probability"``: all classes of enough probability: the smallest sets on
            average, of which some may be empty.
        randomized : bool, default=False
            Whether the last class of an adaptive set is left out at random, so that coverage is no higher than asked for;
            sets may be empty then. If not, the most probable class is always in, and coverage is at least the accuracy.
        by_class : bool, default=False
            Whether the rows of every class are covered as often as asked for, by a threshold for each.
        cautious : bool, default=False
            Where labels are wrong: whether to take the lowest share of ``noise_rate_interval_``, which makes larger sets,
            in the place of the estimate.
        random_state : int, RandomState or None, default=None
            Of randomised sets.

        Returns
        -------
        ndarray of bool of shape (n_samples, n_classes)
            Columns are in the order of ``classes_``.

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
        calibration = self.set_calibration_
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1)) if randomized else None
        kinds: dict[str, Any] = {"score": score, "randomized": randomized, "by_class": by_class, "cautious": cautious}
        calibration.thresholds(coverage, **kinds)  # arguments are checked before anything is predicted
        return calibration.predict(self.predict_proba(X), coverage, **kinds, rng=rng)

    def calibrate_sets(
        self, X: Any, y: Any, sample_weight: Any = None, *, cv: Any = None, groups: Any = None, clean: bool = False
    ) -> Self:
        """Calibrate prediction sets on other rows than ``fit`` did.

        Parameters
        ----------
        X, y
            Rows that the model was not fitted to, and their labels; with ``cv``, those that it was fitted to.
        sample_weight : array of shape (n_samples,), optional
            What the rows count.
        cv : int, splitter or iterable, default=None
            Folds: the same model, with its strengths, is fitted again to the other rows of each.
        groups : array of shape (n_samples,), default=None
            For a splitter that keeps rows together.
        clean : bool, default=False
            Whether these labels are known to be right, though some of the fit were not.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        check_labels(y)
        y = column_or_1d(y)
        if len(unknown := np.setdiff1d(y, self.classes_)):
            raise ValueError(f"y holds labels that are not in classes_: {unknown}; classes are {self.classes_}.")
        p = self._held_out_proba(X, y, cv, groups)
        if len(p) != len(y):
            raise ValueError(f"y must have one label per row of X, {len(p)}, got {len(y)}.")
        weight = check_sample_weight(sample_weight, p)
        self._calibrate(p, np.searchsorted(self.classes_, y), weight, out_of_fold=cv is not None, clean=clean)
        return self

    def _calibrate(
        self, p: np.ndarray, labels: np.ndarray, weight: np.ndarray, *, out_of_fold: bool, clean: bool = False
    ) -> None:
        """Calibrate on probabilities of rows and classes from 0, both in the order of ``classes_``."""
        noise, least = (None, None) if clean else self._noise_matrices()
        if noise is not None and np.linalg.cond(noise) > _WORST_CONDITION:
            noise = least  # fewer wrong labels make larger sets, and none the largest
            if least is not None and np.linalg.cond(least) > _WORST_CONDITION:
                noise = least = None
        seen = weight > 0
        known: dict[str, Any] = {"out_of_fold": out_of_fold, "noise": noise, "least_noise": least}
        self._sets = SetCalibration.of(p[seen], labels[seen], weight[seen], **known) if seen.any() else None
