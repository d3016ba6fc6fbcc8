"""Scores of predicted probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from legendretron._internal.chunks import chunks
from legendretron.diagnostics import CalibrationCurve

__all__ = ["Scores", "baseline_of", "scores_of"]


@dataclass(frozen=True)
class Scores:
    """Scores of predicted probabilities.

    Attributes
    ----------
    accuracy : float
        Share of rows whose most probable class is the true one.
    log_loss : float
        Mean of ``-log p(label)``.
    brier : float
        Mean squared distance between the probabilities and the label, from 0 to 2.
    calibration_error : float
        Mean gap between the probability of the predicted class and how often it was right.
    auc : float
        Area under the ROC curve; for more than two classes the mean over the classes, each against the rest. NaN if the
        labels are all the same.
    """

    accuracy: float
    log_loss: float
    brier: float
    calibration_error: float
    auc: float


def scores_of(y: np.ndarray, log_p: np.ndarray, *, ordered: bool = True) -> Scores:
    """Score log-probabilities (n, C) by the class indices (n,) of the labels.

    Without ``ordered``, the scores that take the order of all rows are left out, as NaN.

    Examples
    --------
    >>> round(scores_of(np.array([0, 1]), np.log([[0.75, 0.25], [0.25, 0.75]])).brier, 6)
    0.125
    """
    losses, squares, confidence = (np.empty(len(y)) for _ in range(3))
    predicted = log_p.argmax(1)
    for rows in chunks(len(y), log_p.shape[1]):
        part = log_p[rows].astype(np.float64)
        p, each = np.exp(part), np.arange(len(part))
        confidence[rows] = p[each, predicted[rows]]
        own = part[each, y[rows]]
        losses[rows] = -own
        p[each, y[rows]] = -np.expm1(own)  # from p to the distance |e_y - p|, without cancellation
        squares[rows] = np.einsum("ij,ij->i", p, p)
    right = predicted == y
    return Scores(
        accuracy=float(right.mean()),
        log_loss=float(losses.mean()),
        brier=float(squares.mean()),
        calibration_error=CalibrationCurve.of_outcomes(confidence, right).expected_calibration_error
        if ordered
        else math.nan,
        auc=_auc(y, log_p) if ordered else math.nan,
    )


def _auc(y: np.ndarray, log_p: np.ndarray) -> float:
    if log_p.shape[1] == 2:
        # log-odds: probabilities near 1 round to the same
        return _area(log_p[:, 1] - log_p[:, 0], y == 1)
    areas = []
    for columns in chunks(log_p.shape[1], len(y)):
        block = np.ascontiguousarray(log_p[:, columns].T)
        areas += [_area(scores, y == label) for label, scores in enumerate(block, start=columns.start)]
    known = [area for area in areas if not math.isnan(area)]
    return float(np.mean(known)) if known else float("nan")


def _area(scores: np.ndarray, own: np.ndarray) -> float:
    """Area under the ROC curve: the share of pairs of an own and another row in the right order, ties counting half."""
    others = np.sort(scores[~own])
    if own.all() or not own.any():
        return float("nan")
    below, up_to = (np.searchsorted(others, scores[own], side=side) for side in ("left", "right"))
    return float((below + up_to).mean() / 2 / len(others))


def baseline_of(counts: np.ndarray) -> Scores:
    """Score the same prediction for every row: the class frequencies, by the numbers of rows of each class."""
    share = counts / counts.sum()
    return Scores(
        accuracy=float(share.max()),
        log_loss=float(entr(share).sum()),
        brier=float(1.0 - share @ share),
        calibration_error=0.0,
        auc=0.5 if (share > 0).sum() > 1 else float("nan"),  # all pairs are ties
    )
