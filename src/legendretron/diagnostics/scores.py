"""Scores of predicted probabilities, over all rows and row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from legendretron._internal.chunks import chunks, chunks_in_cache
from legendretron.diagnostics.binned_calibration import row_weights
from legendretron.diagnostics.smooth_calibration import smooth_error_of_outcomes


@dataclass(frozen=True)
class Scores:
    """Scores of predicted probabilities."""

    accuracy: float  #: share of rows whose most probable class is the true one
    log_loss: float  #: mean of ``-log p(label)``
    brier: float  #: mean squared distance between the probabilities and the label, from 0 to 2
    calibration_error: float  #: of the predicted class, see :func:`~legendretron.diagnostics.smooth_calibration_error`
    auc: float  #: area under the ROC curve, for more than two classes their mean; NaN if all labels are the same


class RowScores(NamedTuple):
    """What each row contributes to the scores, ``(n,)`` each."""

    log_loss: np.ndarray  #: ``-log p(label)``
    brier: np.ndarray  #: squared distance between the probabilities and the label
    right: np.ndarray  #: whether the most probable class is the true one
    confidence: np.ndarray  #: probability of the most probable class
    predicted: np.ndarray  #: the most probable class

    def calibration_error(self, sample_weight: np.ndarray | None = None) -> float:
        """Return the smooth calibration error of the predicted class, rows with weights (n,)."""
        return smooth_error_of_outcomes(self.confidence[:, None], self.right[:, None], sample_weight)


def row_scores(y: np.ndarray, log_p: np.ndarray) -> RowScores:
    """Score log-probabilities (n, C) row by row, by the class indices (n,) of the labels."""
    losses, squares, confidence = (np.empty(len(y)) for _ in range(3))
    predicted = log_p.argmax(1)
    for rows in chunks_in_cache(len(y), log_p.shape[1]):
        part = log_p[rows].astype(np.float64, copy=False)
        p, each = np.exp(part), np.arange(len(part))
        confidence[rows] = p[each, predicted[rows]]
        log_p_label = part[each, y[rows]]
        losses[rows] = -log_p_label
        p[each, y[rows]] = -np.expm1(log_p_label)  # from p to the distance |e_y - p|, without cancellation
        squares[rows] = np.einsum("ij,ij->i", p, p)
    return RowScores(losses, squares, predicted == y, confidence, predicted)


def scores_of(y: np.ndarray, log_p: np.ndarray, sample_weight: np.ndarray | None = None) -> Scores:
    """Score log-probabilities (n, C) by the class indices (n,) of the labels, rows with weights (n,).

    Examples
    --------
    >>> round(scores_of(np.array([0, 1]), np.log([[0.75, 0.25], [0.25, 0.75]])).brier, 6)
    0.125
    """
    rows, weight = row_scores(y, log_p), row_weights(sample_weight, len(y))
    accuracy, log_loss, brier = (float(np.average(part, weights=weight)) for part in (rows.right, *rows[:2]))
    return Scores(
        accuracy,
        log_loss,
        brier,
        calibration_error=rows.calibration_error(weight),
        auc=_auc(y, log_p, weight),
    )


def _auc(y: np.ndarray, log_p: np.ndarray, weight: np.ndarray) -> float:
    if log_p.shape[1] == 2:
        # log-odds: probabilities near 1 round to the same
        return area_under_curve(log_p[:, 1] - log_p[:, 0], y == 1, weight)[0]
    areas = []
    for columns in chunks(log_p.shape[1], len(y)):
        block = np.ascontiguousarray(log_p[:, columns].T)
        areas += [area_under_curve(s, y == label, weight)[0] for label, s in enumerate(block, start=columns.start)]
    known = [area for area in areas if not math.isnan(area)]
    return float(np.mean(known)) if known else float("nan")


def area_under_curve(
    scores: np.ndarray, positive: np.ndarray, sample_weight: np.ndarray | None = None, *, influence: bool = False
) -> tuple[float, np.ndarray | None]:
    """Area under the ROC curve: the share of pairs of a positive and a negative row in the right order, ties counting half.

    It is NaN if all rows are positive, or none; a pair has the product of the weights. With ``influence``, what each row adds
    to the area is returned, too. With ``a`` these values, the weighted mean of ``area + a`` over rows drawn with replacement
    is the area of these rows, up to terms of the order ``1 / n``; its variance is DeLong's.
    """
    weight = row_weights(sample_weight, len(scores))
    total_negative, total_positive = np.bincount(positive, weight, 2)
    if not (total_positive and total_negative):
        return float("nan"), np.full(len(scores), np.nan) if influence else None
    order = np.argsort(scores)
    ranked, is_positive, weight = scores[order], positive[order], weight[order]
    positives = np.cumsum(weight * is_positive)  # of the rows up to each one
    negatives = np.cumsum(weight) - positives
    different = np.append(ranked[1:] != ranked[:-1], True)
    if not different.all():  # rows with equal scores: half of them count as below
        ends = np.flatnonzero(different)
        positives, negatives = (
            np.repeat((np.append(0.0, sums[ends[:-1]]) + sums[ends]) / 2, np.diff(ends, prepend=-1))
            for sums in (positives, negatives)
        )
    area = float((weight * is_positive * negatives).sum() / (total_positive * total_negative))
    if not influence:
        return area, None
    adds = np.empty(len(scores))
    adds[order] = np.where(
        is_positive,
        (negatives / total_negative - area) * (1.0 + total_negative / total_positive),
        (1.0 - area - positives / total_positive) * (1.0 + total_positive / total_negative),
    )
    return area, adds


class RankingCurve(NamedTuple):
    """What is found among the rows of the highest scores, for each number of rows that have higher scores than all others."""

    roc: (
        np.ndarray
    )  #: (2, m), shares of the negative rows (false positives) and of the positive ones, where the curve bends
    recall: np.ndarray  #: share of the positive rows
    precision: np.ndarray  #: share of the rows that is positive; 1 if there is none

    @classmethod
    def of(cls, scores: np.ndarray, positive: np.ndarray, weight: np.ndarray) -> RankingCurve:
        """Return the curves of scores (n,), of rows with weights (n,), some of them positive and some not."""
        order = np.argsort(-scores)
        last = np.append(np.diff(scores[order]) != 0.0, True)
        sums = [np.cumsum((weight * kind)[order])[last] for kind in (~positive, positive)]
        counts = np.concatenate([np.zeros((2, 1)), sums], axis=1)
        taken, (_, recall) = counts.sum(0), (shares := counts / counts[:, -1:])
        precision = np.divide(counts[1], taken, out=np.ones_like(taken), where=taken > 0.0)
        bends = (np.diff(counts, 2) != 0.0).any(0)
        return cls(shares[:, np.concatenate([[True], bends, [True]])], recall, precision)

    @property
    def average_precision(self) -> float:
        """Mean precision over the positive rows."""
        return float(np.diff(self.recall) @ self.precision[1:])


def baseline_of(counts: np.ndarray) -> Scores:
    """Score the same prediction for every row: the class frequencies, by the numbers or weights of rows of each class."""
    share = counts / counts.sum()
    present = share[share > 0]
    return Scores(
        accuracy=float(share.max()),
        log_loss=float(-(present * np.log(present)).sum()),
        brier=float(1.0 - share @ share),
        calibration_error=0.0,
        auc=0.5 if len(present) > 1 else float("nan"),  # all pairs are ties
    )


def class_scores(
    y: np.ndarray, predicted: np.ndarray, n_classes: int, sample_weight: np.ndarray | None = None
) -> list[dict[str, float]]:
    """Return rows, precision and recall of each class; NaN where there is nothing to count."""
    # by hand, as evaluating a small table does without the import of scikit-learn
    weight = row_weights(sample_weight, len(y))
    predicted_weight, true_weight = np.bincount(predicted, weight, n_classes), np.bincount(y, weight, n_classes)
    right = np.bincount(y, weight * (predicted == y), n_classes)
    with np.errstate(invalid="ignore"):
        precision, recall = right / predicted_weight, right / true_weight
    count = np.bincount(y, minlength=n_classes)
    return [
        {"rows": int(n), "precision": float(p), "recall": float(r)}
        for n, p, r in zip(count, precision, recall, strict=True)
    ]
