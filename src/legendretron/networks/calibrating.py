"""The link of networks: learned on logits of rows that they have not seen, with or without wrong labels among these."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from legendretron.calibration.fitting import Calibration, calibrate, usual_strength
from legendretron.calibration.map import CalibrationMap
from legendretron.links import LabelNoise, SymmetricNoise

__all__ = ["cross_fit", "learn_map"]


def learn_map(
    logits: np.ndarray,
    labels: np.ndarray,
    weight: np.ndarray,
    noise: LabelNoise | None = None,
    strength: float | None = None,
) -> Calibration:
    """The calibration map of held-out logits ``(n, C)``; rows count as many as there are, whatever their weights."""
    scores, observed, share = (torch.as_tensor(values) for values in (logits, labels, weight / weight.mean()))
    if noise is None or isinstance(noise, SymmetricNoise):
        replaced = 0.0 if noise is None else float(noise.rate())
        return calibrate(scores, observed, share, strength=strength, replaced=replaced)
    # a matrix: each row counts for every class that it may be of, by what networks and label say together
    joint = torch.softmax(scores, -1) * noise.matrix().double().mT[observed]
    n_classes = scores.shape[1]
    posterior = (share.unsqueeze(1) * joint / joint.sum(1, keepdim=True)).reshape(-1)
    kept = posterior > 1e-6
    every = torch.arange(n_classes).repeat(len(scores))
    repeated = scores.repeat_interleave(n_classes, 0)
    return calibrate(repeated[kept], every[kept], posterior[kept], strength=strength)


def cross_fit(
    logits: np.ndarray,
    labels: np.ndarray,
    weight: np.ndarray,
    fold: np.ndarray,
    noise: LabelNoise | None,
    found: Calibration,
    others: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of each row by a map that was learned on other folds, as strongly as one on all of them.

    The second are those of other logits ``(k, n, C)`` of the same rows, by the same maps.
    """
    best = float(found.strengths[int(np.argmax(found.weights))])
    rows = float(len(labels)) * (len(np.unique(fold)) - 1) / len(np.unique(fold))
    strength = math.inf if math.isinf(best) else best / usual_strength(rows, logits.shape[1])
    log_p, of_others = np.empty_like(logits), np.empty_like(others)
    for number in np.unique(fold):
        inside = fold == number
        if inside.all():
            return _apply(found.map, logits), _apply(found.map, others)
        learned = learn_map(logits[~inside], labels[~inside], weight[~inside], noise, strength)
        log_p[inside] = _apply(learned.map, logits[inside])
        of_others[:, inside] = _apply(learned.map, others[:, inside])
    return log_p, of_others


def _apply(fitted: CalibrationMap, logits: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        log_p: Tensor = fitted(torch.as_tensor(logits))
    out: np.ndarray = log_p.numpy()
    return out
