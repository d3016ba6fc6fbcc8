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
from legendretron.links.noise_models import mix_with_uniform
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.noise_rates import INTERVAL_ERRORS, LabelledRows
from legendretron.tuning.problem import TuningProblem
from legendretron.tuning.table import FoundNoise

__all__ = ["estimate_matrix", "find_matrix", "has_pattern", "share_of_wrong_labels"]

_ITERATIONS, _TOLERANCE = 500, 1e-6
#: Pseudo-count of the start for each true class, for classes of few rows.
_PSEUDO_COUNT = 1.0
#: Standard errors by which a matrix must explain held-out labels better than symmetric noise.
_MUST_GAIN = 2.0


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


def has_pattern(path: LogisticPath, noisy: PathPoint) -> bool:
    """Whether held-out labels speak for a transition matrix rather than symmetric noise.

    The matrix is estimated on one half of the held-out rows and judged on the other, so one with too many entries for the
    rows loses.
    """
    rows, start = _tempered(path, noisy)[0], _symmetric(path.problem, noisy)
    log_q = mix_with_uniform(rows.log_p, rows.log_p.new_tensor(noisy.noise.held_out))
    half = torch.arange(len(rows.labels), device=rows.labels.device) % 2 == 0
    gain = torch.empty_like(rows.weight)
    for one in (half, ~half):
        matrix = estimate_matrix(LabelledRows(*(part[one] for part in rows)), start)
        q = torch.exp(rows.log_p[~one]) @ matrix
        labels = rows.labels[~one].unsqueeze(1)
        gain[~one] = (torch.log(q.gather(1, labels)) - log_q[~one].gather(1, labels)).squeeze(1)
    error = float(gain.std()) / math.sqrt(len(gain))
    return float(gain.mean()) > _MUST_GAIN * error


def _symmetric(problem: TuningProblem, noisy: PathPoint) -> Tensor:
    """The matrix of symmetric noise, at which a search begins and to which rows of few labels are shrunk."""
    rate = max(noisy.noise.rate, 0.01)
    return SymmetricNoise(problem.n_classes, rate, learned=False, dtype=torch.float64).matrix().to(problem.device)


def _tempered(path: LogisticPath, noisy: PathPoint) -> list[LabelledRows]:
    """Held-out rows and training rows, with probabilities of true classes."""
    power = noisy.noise.temperature
    parts = path.labelled(noisy.fitted)
    return [rows._replace(log_p=torch.log_softmax(rows.log_p * power, dim=-1)) for rows in parts]


def find_matrix(path: LogisticPath, plain: PathPoint, noisy: PathPoint, *, fixed: bool) -> tuple[Tensor, FoundNoise]:
    """The matrix that logistic regression finds, and how many labels are wrong by it.

    First with predictions of a model of symmetric noise, then with those of a model that knows the first matrix.

    Parameters
    ----------
    path : LogisticPath
        Of logistic regression without noise.
    plain, noisy : PathPoint
        Its best points without noise, and with symmetric noise.
    fixed : bool
        Whether the strength of ``plain`` is the only one.
    """
    problem, n_classes = path.problem, path.problem.n_classes
    start = _symmetric(problem, noisy)
    first = _mean(*(estimate_matrix(rows, start) for rows in _tempered(path, noisy)))
    with_first = LogisticPath(
        replace(problem, known_noise=TransitionNoise(first), find_noise="never"),
        problem.n_path_folds,
    )
    best = with_first.fit(plain.alpha) if fixed else with_first.search()
    held_out, training = with_first.labelled(best.fitted)
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
