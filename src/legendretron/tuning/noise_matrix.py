r"""The transition matrix of wrong labels, from predictions for rows that a model has not seen, and for those it has.

With the true probabilities :math:`p` of the rows, the likeliest matrix is found by expectation-maximisation:

.. math:: T_{ij} \propto \sum_{n:\, y_n = j} \frac{p_{ni} T_{ij}}{\sum_k p_{nk} T_{kj}}

As for a rate, see :mod:`~legendretron.tuning.noise_rates`, that of held-out rows has too much noise and that of training rows
too little, so their mean is taken.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from legendretron.links import SymmetricNoise, TransitionNoise
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.noise_rates import INTERVAL_ERRORS, LabelledRows
from legendretron.tuning.noise_search import search_noise
from legendretron.tuning.table import FoundNoise

__all__ = ["describe_matrix", "estimate_matrix", "find_matrix", "mean_matrix", "share_of_wrong_labels"]

_ITERATIONS, _TOLERANCE = 500, 1e-6
#: Pseudo-count of the start for each true class, for classes of few rows.
_PSEUDO_COUNT = 1.0


def estimate_matrix(rows: LabelledRows, start: Tensor) -> Tensor:
    """The likeliest matrix of shape (C, C), rows true classes, beginning at another one."""
    p = torch.exp(rows.log_p)
    n_classes = p.shape[1]
    weight = rows.weight * (len(rows.weight) / rows.weight.sum())
    one_hot = torch.nn.functional.one_hot(rows.labels, n_classes).to(p) * weight.unsqueeze(1)
    matrix = start
    for _ in range(_ITERATIONS):
        joint = p * matrix.mT[rows.labels]
        of_true = joint / joint.sum(1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
        counts = of_true.mT @ one_hot + _PSEUDO_COUNT * start
        new = counts / counts.sum(1, keepdim=True)
        change = float((new - matrix).abs().max())
        matrix = new
        if change < _TOLERANCE:
            break
    return matrix


def find_matrix(path: LogisticPath, plain: PathPoint, *, fixed: bool) -> tuple[Tensor, FoundNoise]:
    """The matrix that logistic regression finds, and how many labels are wrong by it.

    First with predictions of a model of symmetric noise, then with those of a model that knows the first matrix.

    Parameters
    ----------
    path, plain, fixed
        As in :func:`~legendretron.tuning.noise_search.search_noise`.
    """
    problem, n_classes = path.problem, path.problem.n_classes
    points, _ = search_noise(path, plain, always=True, fixed=fixed)
    estimate = points[0].noise
    start = SymmetricNoise(n_classes, max(estimate.rate, 0.01), learned=False, dtype=torch.float64).matrix()
    start = start.to(problem.device)
    first = mean_matrix(*path.labelled(points[0].fitted), start, estimate.temperature)
    with_first = LogisticPath(
        replace(problem, known_noise=TransitionNoise(first), find_noise="never"),
        problem.n_path_folds,
    )
    best = with_first.fit(plain.alpha) if fixed else with_first.search()
    return describe_matrix(*with_first.labelled(best.fitted), start)


def mean_matrix(held_out: LabelledRows, training: LabelledRows, start: Tensor, temperature: float = 1.0) -> Tensor:
    """The mean of the likeliest matrices of held-out and of training rows, with probabilities to a power."""
    tempered = [rows._replace(log_p=torch.log_softmax(rows.log_p * temperature, -1)) for rows in (held_out, training)]
    return _mean(*(estimate_matrix(rows, start) for rows in tempered))


def describe_matrix(held_out: LabelledRows, training: LabelledRows, start: Tensor) -> tuple[Tensor, FoundNoise]:
    """The matrix by predictions of a model that was trained with one, and how many labels are wrong by it."""
    n_classes = len(start)
    matrices = [estimate_matrix(rows, start) for rows in (held_out, training)]
    matrix = _mean(*matrices)
    wrong = sorted(_wrong(one, held_out.labels) for one in matrices)
    middle = _wrong(matrix, held_out.labels)
    error = math.sqrt(max(middle * (1.0 - middle), 0.0) / len(held_out.labels))
    away = INTERVAL_ERRORS * error
    low, high = max(0.0, wrong[0] - away), min(1.0, wrong[1] + away)
    scale = n_classes / (n_classes - 1)
    # wrong labels that held-out rows have more than the mean are predictions that fail, as for a rate
    doubt = min(max(0.0, (wrong[1] - middle) / (1.0 - middle)) * scale, 0.5)
    rate, low, high = (min(share * scale, 1.0 - 1e-9) for share in (middle, low, high))
    return matrix, FoundNoise(rate, 1.0, doubt, rate, low, high)


def _mean(held_out: Tensor, training: Tensor) -> Tensor:
    matrix = 0.5 * (held_out + training)
    return matrix / matrix.sum(1, keepdim=True)


def _wrong(matrix: Tensor, labels: Tensor) -> float:
    counts = np.bincount(labels.cpu().numpy(), minlength=len(matrix))
    return share_of_wrong_labels(matrix.cpu().numpy(), counts / len(labels))


def share_of_wrong_labels(matrix: np.ndarray, observed: np.ndarray) -> float:
    """From a transition matrix, and the shares of the observed labels.

    Examples
    --------
    >>> round(share_of_wrong_labels(np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.6, 0.4])), 6)
    0.2
    """
    true = np.clip(np.linalg.lstsq(matrix.T, observed, rcond=None)[0], 1e-12, None)
    return float(1.0 - (true / true.sum()) @ np.diag(matrix))
