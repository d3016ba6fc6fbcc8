r"""Prediction sets: sets of classes that contain the label of a row with a given probability.

A set contains the classes whose score is at most a threshold. The threshold is a quantile of the scores of the labels of
other rows, by a model that was not fitted to these rows (split conformal prediction). The score of a class :math:`k` is the
log-odds :math:`\log((1 - m_k) / m_k)` of a probability :math:`m_k`:

- ``"cumulative"``: that of all classes that are not more probable, :math:`m_k = \sum_{j: p_j \le p_k} p_j`, as in adaptive
  prediction sets (Romano, Sesia and Candès, 2020). It is 1 for the most probable class, so no set is empty. With a uniform
  draw :math:`u` for each row, classes as probable as :math:`k` count :math:`1 - u` times: then coverage is exact, and sets
  may be empty.
- ``"probability"``: :math:`m_k = p_k`, which gives the smallest sets on average; some of them may be empty.

**Ties.** Rows with the same predictions, as those of a tree or of categories have, must have the same scores when sets are
calibrated and when they are predicted. The last digits of a prediction depend on how many rows are predicted at once. So
scores within :math:`10^{-4}` count as equal. Log-odds are as exact near 0 as near 1: a probability of :math:`1 - 10^{-9}` is
told from :math:`1 - 10^{-8}`, but not from one that differs by rounding errors.

**Wrong labels.** Sets that are calibrated on wrong labels must contain these, too. If they are to contain the true class,
they are too large. With the
transition matrix :math:`T` of the labels (rows are true classes), a row with the label :math:`y` counts with the mass
:math:`(T^{-1})_{yk}` for each class :math:`k`. These masses, of which some are negative, have the expectation
:math:`P(\text{true} = k \mid x)`, so that the share of the mass at scores up to :math:`t` is, on average, the share of true
labels there (Sesia, Wang and Tong, 2025).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from legendretron._internal.fields import BOOLEAN, array, check_fields, optional
from legendretron._internal.parameters import check_choice, check_open_unit

__all__ = ["SCORES", "SetCalibration", "check_score", "set_scores", "some_rows"]

SCORES = ("cumulative", "probability")
#: Rows, and numbers (rows x classes), that are kept at most.
_MOST_ROWS, _MOST_NUMBERS = 20_000, 2**20
#: Rounding errors of a cumulative mass.
_ROUNDING = 1e-9
#: Differences of log-odds that rounding errors may make, also those of networks in single precision.
_TIED = 1e-4
#: Seed of the order of the draws for the rows of the calibration: an unusual one, as it must not be that of other draws.
_SEED = 5_917_203


def some_rows(n: int, n_classes: int) -> slice:
    """Rows that are enough to calibrate on, spread evenly; all if they are not very many."""
    return slice(None, None, max(1, -(-n // min(_MOST_ROWS, max(1, _MOST_NUMBERS // n_classes)))))


def check_score(score: str) -> str:
    """Return a kind of score by its present name, or raise a ``ValueError`` if there is none."""
    if score == "cumulated":
        warnings.warn(
            "score='cumulated' was renamed in 0.3 and will be an error from 0.5 on; use score='cumulative'.",
            FutureWarning,
            stacklevel=3,
        )
        return "cumulative"
    return check_choice("score", score, SCORES)


def set_scores(p: np.ndarray, score: str, draws: np.ndarray | None = None) -> np.ndarray:
    """Scores of all classes, ``(n, C)``, from probabilities, and for randomized sets from uniform draws ``(n,)``.

    Examples
    --------
    >>> p = np.array([[0.25, 0.5, 0.25], [0.125, 0.125, 0.75]])
    >>> mass = 1.0 / (1.0 + np.exp(set_scores(p, "cumulative")))
    >>> mass.round(6).tolist()
    [[0.5, 1.0, 0.5], [0.25, 0.25, 1.0]]
    """
    p = p.astype(np.float32).astype(np.float64)  # as it is saved
    if score == "probability":
        return _log_odds(_sums_before(p) + _sums_before(p[:, ::-1])[:, ::-1], p)
    n, n_classes = p.shape
    order = np.argsort(p, axis=1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=1)
    # the first and the last class of those that are tied with each
    rises = ordered[:, 1:] > ordered[:, :-1] * (1.0 + _TIED)
    ends, place = np.ones((n, 1), dtype=bool), np.arange(n_classes)
    first = np.maximum.accumulate(np.where(np.hstack([ends, rises]), place, 0), axis=1)
    last = np.minimum.accumulate(np.where(np.hstack([rises, ends]), place, n_classes)[:, ::-1], axis=1)[:, ::-1]
    # small numbers are added first, so that sums are as exact, relative to their size, as what is added
    up_to = np.cumsum(ordered, axis=1)
    mass = np.take_along_axis(up_to, last, axis=1)
    above = np.take_along_axis(_sums_before(ordered[:, ::-1])[:, ::-1], last, axis=1)
    if draws is not None:
        below = np.take_along_axis(_sums_before(ordered), first, axis=1)
        tied = draws[:, None] * (mass - below)
        mass, above = below + (1.0 - draws[:, None]) * (mass - below), above + tied
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, _log_odds(above, mass), axis=1)
    return scores


def _sums_before(p: np.ndarray) -> np.ndarray:
    """Sums of the entries before each one, in every row."""
    sums = np.zeros_like(p)
    np.cumsum(p[:, :-1], axis=1, out=sums[:, 1:])
    return sums


def _log_odds(others: np.ndarray, own: np.ndarray) -> np.ndarray:
    """``log(others / own)``; infinite if one of them is 0."""
    with np.errstate(divide="ignore"):
        odds: np.ndarray = np.log(others) - np.log(own)
    return odds


@dataclass(frozen=True, eq=False)
class SetCalibration:
    """Calibration of prediction sets: held-out labels and the probabilities predicted for them.

    Estimators have it as ``set_calibration_``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1, 1], 2000)
    >>> y = (p.cumsum(1) < rng.random((2000, 1))).sum(1)
    >>> calibration = SetCalibration.of(p[:1000], y[:1000])
    >>> sets = calibration.predict(p[1000:], 0.9)
    >>> sets.shape, bool(0.87 < sets[np.arange(1000), y[1000:]].mean() < 0.93)
    ((1000, 4), True)
    >>> calibration.n_rows, calibration.guarantee
    (1000, 'On average over such rows, sets hold the label with at least the probability asked for.')
    """

    proba: np.ndarray  #: predicted probabilities in single precision, shape (n, C)
    labels: np.ndarray  #: classes from 0, as they were observed, shape (n,)
    weight: np.ndarray  #: of the rows, shape (n,)
    out_of_fold: bool = (
        False  #: whether rows are those of the fit, predicted by models of other folds, or were held out
    )
    #: probabilities of observed labels (columns) for each true class (rows), if some are wrong
    noise: np.ndarray | None = None
    least_noise: np.ndarray | None = None  #: the same at the lower end of the interval of the share of wrong labels

    @classmethod
    def of(
        cls,
        proba: np.ndarray,
        labels: np.ndarray,
        weight: np.ndarray | None = None,
        *,
        out_of_fold: bool = False,
        noise: np.ndarray | None = None,
        least_noise: np.ndarray | None = None,
    ) -> Self:
        """Calibrate on these rows, or on some of them if there are very many; they count alike if no weight is given."""
        some = some_rows(*proba.shape)
        weight = np.ones(len(proba)) if weight is None else np.asarray(weight, dtype=np.float64)
        # copies: a file refuses arrays that share memory
        rows = proba[some].astype(np.float32), labels[some].astype(np.int64), weight[some].copy()
        return cls(*rows, out_of_fold, noise, least_noise)

    @property
    def n_rows(self) -> int:
        """Rows that sets are calibrated on."""
        return len(self.labels)

    def predict(
        self,
        p: np.ndarray,
        coverage: float,
        *,
        score: str = "cumulative",
        randomized: bool = False,
        by_class: bool = False,
        cautious: bool = False,
        rng: np.random.Generator | None = None,
    ) -> np.ndarray:
        """Sets of rows with probabilities ``(m, C)``, as booleans of this shape; see ``predict_set`` of the estimators."""
        score = check_score(score)
        thresholds = self.thresholds(coverage, score=score, randomized=randomized, by_class=by_class, cautious=cautious)
        draws = (rng or np.random.default_rng()).random(len(p)) if randomized else None
        sets: np.ndarray = set_scores(p, score, draws) <= thresholds + _TIED
        return sets

    def thresholds(
        self,
        coverage: float,
        *,
        score: str = "cumulative",
        randomized: bool = False,
        by_class: bool = False,
        cautious: bool = False,
    ) -> np.ndarray:
        """Highest scores of classes in a set, ``(C,)``; infinite where there are too few rows to leave anything out."""
        check_open_unit("coverage", coverage)
        score = check_score(score)
        if randomized and score != "cumulative":
            raise ValueError(f"randomized=True needs score='cumulative', got {score!r}; leave one of them out.")
        draws = None
        if randomized:  # spread evenly, in random order: thresholds vary less than with independent draws
            draws = (np.random.default_rng(_SEED).permutation(self.n_rows) + 0.5) / self.n_rows
        scores, mass = set_scores(self.proba, score, draws), self._mass(cautious)
        n_classes = scores.shape[1]
        if by_class:
            return np.array([_quantile(scores[:, [k]], mass[:, [k]], coverage) for k in range(n_classes)])
        return np.full(n_classes, _quantile(scores, mass, coverage))

    def _mass(self, cautious: bool) -> np.ndarray:
        """What each row counts for each class, ``(n, C)``; negative in part where labels are wrong."""
        matrix = self.least_noise if cautious and self.least_noise is not None else self.noise
        rows = np.eye(self.proba.shape[1]) if matrix is None else np.linalg.inv(matrix)
        return self.weight[:, None] * rows[self.labels]

    @property
    def guarantee(self) -> str:
        """What is guaranteed, in a sentence."""
        if self.noise is not None:
            return (
                "Sets are corrected for wrong labels: they hold the true class about as often as asked for, if as many "
                "labels are wrong as was estimated; with cautious=True, if that share is in its interval."
            )
        if self.out_of_fold:
            return (
                "Sets hold the label about as often as asked for, as a rule a little more often: models of the folds "
                "have seen fewer rows than this one."
            )
        return "On average over such rows, sets hold the label with at least the probability asked for."

    def __str__(self) -> str:
        rows = "of the fit, predicted out of fold" if self.out_of_fold else "that were held out from the fit"
        return f"Calibrated on {self.n_rows:,} rows {rows}. {self.guarantee}"

    def to_state(self) -> dict[str, Any]:
        """Return all that it holds."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, state: dict[str, Any], n_classes: int) -> Self:
        """Rebuild from :meth:`to_state`; anything else raises a ``ValueError``."""
        n = len(state["labels"]) if hasattr(state.get("labels"), "__len__") else 0
        matrix = optional(array(n_classes, n_classes))
        fields = {"labels": array(n, dtype="int64"), "weight": array(n), "out_of_fold": BOOLEAN, "noise": matrix}
        proba = {"proba": array(n, n_classes, dtype="float32"), "least_noise": matrix}
        check_fields("prediction sets", state, {**fields, **proba})
        found: dict[str, Any] = {
            name: np.asarray(value) if hasattr(value, "shape") else value for name, value in state.items()
        }
        if n == 0 or found["labels"].min() < 0 or found["labels"].max() >= n_classes:
            raise ValueError(f"labels of prediction sets must be classes from 0 to {n_classes - 1}, and not empty.")
        if (found["weight"] < 0.0).any() or not found["weight"].any() or (found["proba"] < 0.0).any():
            raise ValueError("weight and proba of prediction sets must not be negative, nor all weights zero.")
        for name in ("noise", "least_noise"):
            if found[name] is not None and abs(np.linalg.det(found[name])) < np.finfo(float).tiny:
                raise ValueError(f"{name} of prediction sets must be a matrix that has an inverse.")
        return cls(**found)


def _quantile(scores: np.ndarray, mass: np.ndarray, coverage: float) -> float:
    """Least score up to which there is a share of the mass, as large as the coverage and one more row ask for.

    ``scores`` and ``mass`` have the shape (n, k). With ``n`` equal masses it is the score of rank
    ``ceil((n + 1) * coverage)``. Where masses are negative, the cumulative mass can fall; it is then replaced by the mean of
    its highest value before and its least value after.
    """
    total, squares = float(mass.sum()), float((mass.sum(1) ** 2).sum())
    if total <= 0.0 or squares == 0.0:
        return math.inf
    level = coverage * (1.0 + squares / total**2)
    values, place = np.unique(scores, return_inverse=True)
    cumulative = np.cumsum(np.bincount(place.ravel(), mass.ravel())) / total
    if (mass < 0.0).any():
        highest, least = np.maximum.accumulate(cumulative), np.minimum.accumulate(cumulative[::-1])[::-1]
        cumulative = 0.5 * (highest + least)
    reached = np.flatnonzero(cumulative >= level - _ROUNDING)
    return float(values[reached[0]]) if len(reached) else math.inf
