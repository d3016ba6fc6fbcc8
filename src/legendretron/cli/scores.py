"""How good probabilities are, in the numbers that people look for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import precision_recall_fscore_support, roc_auc_score

from legendretron.diagnostics import expected_calibration_error
from legendretron.losses import SquareLoss

__all__ = ["Scores", "baseline_scores", "class_scores", "scores_of"]


@dataclass(frozen=True)
class Scores:
    """Scores of predicted probabilities.

    Attributes
    ----------
    accuracy : float
        Share of rows whose likeliest class is the right one.
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


def scores_of(y: np.ndarray, log_p: np.ndarray) -> Scores:
    """Score log-probabilities (n, C) by the places of the labels (n,).

    Examples
    --------
    >>> round(scores_of(np.array([0, 1]), np.log([[0.75, 0.25], [0.25, 0.75]])).brier, 6)
    0.125
    """
    log_p = log_p.astype(np.float64)
    p = np.exp(log_p)
    return Scores(
        accuracy=float((log_p.argmax(1) == y).mean()),
        log_loss=float(-log_p[np.arange(len(y)), y].mean()),
        brier=float(SquareLoss(scale_by_half=False).mean_loss(torch.as_tensor(p), torch.as_tensor(y))),
        calibration_error=expected_calibration_error(y, p),
        auc=_auc(y, log_p),
    )


def _auc(y: np.ndarray, log_p: np.ndarray) -> float:
    if log_p.shape[1] == 2:
        contests = [(y == 1, log_p[:, 1] - log_p[:, 0])]  # log-odds: probabilities near 1 round to the same
    else:
        contests = [(y == place, log_p[:, place]) for place in range(log_p.shape[1])]
    areas = [roc_auc_score(own, np.nan_to_num(score)) for own, score in contests if 0 < own.sum() < len(y)]
    return float(np.mean(areas)) if areas else float("nan")


def baseline_scores(y: np.ndarray, n_classes: int) -> Scores:
    """Score the same answer for every row: how often each class occurs in these very labels."""
    with np.errstate(divide="ignore"):
        log_share = np.log(np.bincount(y, minlength=n_classes) / len(y))
    return scores_of(y, np.tile(log_share, (len(y), 1)))


def class_scores(y: np.ndarray, log_p: np.ndarray) -> list[dict[str, float]]:
    """Return rows, precision and recall of each class; NaN where there is nothing to count."""
    precision, recall, _, support = precision_recall_fscore_support(
        y, log_p.argmax(1), labels=np.arange(log_p.shape[1]), zero_division=np.nan
    )
    return [
        {"rows": int(n), "precision": float(p), "recall": float(r)}
        for n, p, r in zip(support, precision, recall, strict=True)
    ]
