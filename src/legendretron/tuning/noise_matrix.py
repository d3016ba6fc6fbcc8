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
from legendretron.tuning.noise_checks import is_possible_share
from legendretron.tuning.noise_rates import INTERVAL_ERRORS, LabelledRows, estimate_rates
from legendretron.tuning.problem import TuningProblem
from legendretron.tuning.table import FoundNoise

__all__ = [
    "describe_matrices",
    "estimate_matrices",
    "estimate_matrix",
    "find_matrix",
    "has_pattern",
    "mean_matrix",
    "share_of_wrong_labels",
]

_ITERATIONS, _TOLERANCE = 500, 1e-6
#: Pseudo-count of the start for each true class, for classes of few rows.
_PSEUDO_COUNT = 1.0
#: Standard errors by which a matrix must explain held-out labels better than symmetric noise, and than no noise.
_MUST_GAIN = 2.5
#: Power of probabilities that are predicted without noise: wrong labels make a model unsure.
_POWER = 2.0
#: Powers to choose from where a matrix is estimated.
_POWERS = (1.0, 1.5, 2.2, 3.3)
#: Rows for each entry of a matrix that is tried unasked.
_ROWS_FOR_AN_ENTRY = 10
#: Rounds of fitting a model and its matrix in turns.
_ROUNDS = 3


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


def has_pattern(path: LogisticPath, plain: PathPoint) -> bool:
    """Whether held-out labels speak for a transition matrix rather than symmetric noise, by a fit without noise.

    The matrix is estimated on one half of the held-out rows and judged on the other, so one with too many entries for the
    rows loses. Classes that a model confuses look like a matrix, too; but then labels are right where trees are sure.
    """
    problem = path.problem
    # of two classes, a matrix cannot be told from symmetric noise and a bias
    if problem.n_classes == 2 or problem.features.n_rows < _ROWS_FOR_AN_ENTRY * problem.n_classes**2:
        return False
    held_out, training = path.labelled(plain.fitted.first(path.n_noise_folds))
    rows, seen = (part._replace(log_p=torch.log_softmax(part.log_p * _POWER, dim=-1)) for part in (held_out, training))
    estimate, log_q = estimate_rates(rows, seen, temperatures=(1.0,))
    start = _symmetric(problem, max(estimate.rate, 0.1))
    half = torch.arange(len(rows.labels), device=rows.labels.device) % 2 == 0
    gain = torch.empty_like(rows.weight)
    for one in (half, ~half):
        matrix = estimate_matrix(LabelledRows(*(part[one] for part in rows)), start)
        labels = rows.labels[~one].unsqueeze(1)
        log_p = torch.log(torch.exp(rows.log_p[~one]) @ matrix)
        gain[~one] = (log_p.gather(1, labels) - log_q[~one].gather(1, labels)).squeeze(1)
    if float(gain.mean()) <= _MUST_GAIN * float(gain.std()) / math.sqrt(len(gain)):
        return False
    return is_possible_share(_wrong(estimate_matrix(rows, start), rows.labels), problem)


def _symmetric(problem: TuningProblem, rate: float) -> Tensor:
    """The matrix of symmetric noise, at which a search begins and to which rows of few labels are shrunk."""
    return SymmetricNoise(problem.n_classes, rate, learned=False, dtype=torch.float64).matrix().to(problem.device)


def find_matrix(
    path: LogisticPath, plain: PathPoint, noisy: PathPoint, *, fixed: bool
) -> tuple[Tensor, FoundNoise, bool]:
    """The matrix that logistic regression finds, how many labels are wrong by it, and whether held-out labels speak for it.

    A model and its matrix are estimated in turns, beginning with a model of symmetric noise.

    Parameters
    ----------
    path : LogisticPath
        Of logistic regression without noise.
    plain, noisy : PathPoint
        Its best points without noise, and with symmetric noise.
    fixed : bool
        Whether the strength of ``plain`` is the only one.
    """
    problem = path.problem
    start = _symmetric(problem, max(noisy.noise.rate, 0.01))
    matrices = estimate_matrices(*path.labelled(noisy.fitted), start)
    best = noisy
    for number in range(_ROUNDS):
        known = replace(problem, known_noise=TransitionNoise(mean_matrix(*matrices)), find_noise="never")
        with_matrix = LogisticPath(known, problem.n_path_folds)
        best = (
            with_matrix.search() if number == 0 and not fixed else with_matrix.fit(plain.alpha if fixed else best.alpha)
        )
        held_out, training = with_matrix.labelled(best.fitted)
        matrices = estimate_matrices(held_out, training, start)
    matrix, noise = describe_matrices(matrices, held_out.labels)
    away = problem.held_out.first(problem.n_path_folds).difference(
        plain.losses, best._replace(doubt=plain.doubt).losses
    )
    return matrix, noise, away.mean > _MUST_GAIN * away.error


def describe_matrices(matrices: list[Tensor], labels: Tensor) -> tuple[Tensor, FoundNoise]:
    """The mean of the matrices of held-out and of training rows, and how many labels are wrong by both."""
    n_classes, matrix = len(matrices[0]), mean_matrix(*matrices)
    wrong = sorted(_wrong(one, labels) for one in matrices)
    middle = _wrong(matrix, labels)
    error = math.sqrt(max(middle * (1.0 - middle), 0.0) / len(labels))
    low, high = max(0.0, wrong[0] - INTERVAL_ERRORS * error), min(1.0, wrong[1] + INTERVAL_ERRORS * error)
    scale = n_classes / (n_classes - 1)
    # as for a rate: wrong labels that held-out rows have more than the mean are predictions that fail
    away = math.hypot(max(0.0, wrong[1] - middle), INTERVAL_ERRORS * error)
    doubt = min(away / (1.0 - middle) * scale, 0.5)
    rate, low, high = (min(share * scale, 1.0 - 1e-9) for share in (middle, low, high))
    return matrix, FoundNoise(rate, 1.0, doubt, rate, low, high)


def estimate_matrices(held_out: LabelledRows, training: LabelledRows, start: Tensor) -> list[Tensor]:
    """The likeliest matrices of both, with the power of the probabilities that explains held-out labels best."""
    tried = []
    for power in _POWERS:
        rows = held_out._replace(log_p=torch.log_softmax(held_out.log_p * power, dim=-1))
        matrix = estimate_matrix(rows, start)
        q = (torch.exp(rows.log_p) @ matrix).gather(1, rows.labels.unsqueeze(1)).squeeze(1)
        tried.append((float(rows.weight @ torch.log(q)), power, matrix))
    _, power, matrix = max(tried, key=lambda one: one[0])
    return [matrix, estimate_matrix(training._replace(log_p=torch.log_softmax(training.log_p * power, dim=-1)), start)]


def mean_matrix(held_out: Tensor, training: Tensor) -> Tensor:
    """The mean of two matrices, with rows that sum to one."""
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
