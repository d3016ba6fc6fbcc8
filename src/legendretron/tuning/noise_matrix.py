r"""The transition matrix of wrong labels, from predictions for rows that a model has not seen, and for those it has.

With the true probabilities :math:`p` of the rows, the likeliest matrix is found by expectation-maximization:

.. math:: T_{ij} \propto \sum_{n:\, y_n = j} \frac{p_{ni} T_{ij}}{\sum_k p_{nk} T_{kj}}

As for a rate, see :mod:`~legendretron.tuning.wrong_labels`, that of held-out rows has too much noise and that of training
rows too little, so their mean is taken. A matrix must explain held-out labels better than symmetric noise, and than no noise.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from legendretron.links import SymmetricNoise, TransitionNoise
from legendretron.links.noise_models import replaced_share
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.problem import LabeledRows, TuningProblem, count_wrong_labels
from legendretron.tuning.rules import REPEAT_BELOW
from legendretron.tuning.scores import SURE_ERRORS
from legendretron.tuning.wrong_labels import FoundNoise, estimate_rates, is_possible_share, least_bound

#: Powers of probabilities to choose from, as wrong labels make a model unsure: few, as each takes a search.
_POWERS = (1.0, 1.5, 2.2, 3.3)
#: Rows for each entry of a matrix that is tried unasked: with fewer, rows of the matrix are guesses.
_ROWS_FOR_AN_ENTRY = 10
#: Share of wrong labels among those that trees are surest of at which nothing is clear: right labels are, for some rows.
_MANY = 0.3
#: Rounds of fitting a model and its matrix in turns; further ones hardly change it.
_ROUNDS = 3


def estimate_matrix(rows: LabeledRows, start: Tensor) -> Tensor:
    """The likeliest matrix of shape (C, C), rows true classes, beginning at another one.

    The start counts as one further row of each true class, for classes of few rows.
    """
    p = torch.exp(rows.log_p)
    weight = rows.weight * (len(rows.weight) / rows.weight.sum())
    one_hot = torch.nn.functional.one_hot(rows.labels, p.shape[1]).to(p) * weight.unsqueeze(1)
    matrix = start
    for _ in range(500):
        joint = p * matrix.mT[rows.labels]
        of_true = joint / joint.sum(1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
        counts = of_true.mT @ one_hot + start
        matrix, before = counts / counts.sum(1, keepdim=True), matrix
        if float((matrix - before).abs().max()) < 1e-6:
            break
    return matrix


def has_pattern(path: LogisticPath, plain: PathPoint, *, symmetric: bool) -> bool:
    """Whether held-out labels may have a transition matrix, by a fit without noise; ``symmetric`` if they have a rate.

    The matrix is estimated on one half of the held-out rows and judged on the other, so one with too many entries for the
    rows loses. Classes that a model confuses look like a matrix, too; but then labels are right where trees are sure. Halves
    of few rows tell nothing: if even sure trees are often wrong there, and a rate does not explain it, a matrix is fitted.
    """
    problem = path.problem
    # of two classes, a matrix cannot be told from symmetric noise and a bias
    if problem.n_classes == 2 or problem.features.n_rows < _ROWS_FOR_AN_ENTRY * problem.n_classes**2:
        return False
    if not symmetric and problem.features.n_rows < REPEAT_BELOW and least_bound(problem.trees) >= _MANY:
        return True
    held_out, seen = path.predict(plain.fitted)
    estimate, by_rate = estimate_rates(held_out, seen, _POWERS)
    rows = held_out.to_power(estimate.temperature)
    start = _symmetric(problem, max(estimate.rate, 0.1))
    half = torch.arange(len(rows.labels), device=rows.labels.device) % 2 == 0
    gain = -by_rate.label_log_p
    for one in (half, ~half):
        gain[~one] += _observe(rows.select(~one), estimate_matrix(rows.select(one), start))
    if float(gain.mean()) <= SURE_ERRORS * float(gain.std()) / math.sqrt(len(gain)):
        return False
    return is_possible_share(count_wrong_labels(estimate_matrix(rows, start), rows.labels), problem)


def _observe(rows: LabeledRows, matrix: Tensor) -> Tensor:
    """Log-probabilities of observed labels."""
    return rows._replace(log_p=torch.log(torch.exp(rows.log_p) @ matrix)).label_log_p


def _symmetric(problem: TuningProblem, rate: float) -> Tensor:
    """The matrix of symmetric noise, at which a search begins and to which rows of few labels are shrunk."""
    return SymmetricNoise(problem.n_classes, rate, learned=False, dtype=torch.float64).matrix().to(problem.device)


def find_matrix(
    path: LogisticPath, plain: PathPoint, noisy: PathPoint, *, fixed: bool
) -> tuple[Tensor, FoundNoise, bool]:
    """The matrix that logistic regression finds, how many labels are wrong by it, and whether held-out labels speak for it.

    A model and its matrix are estimated in turns, beginning with ``noisy``, the best model of symmetric noise; ``plain`` is
    the best one without noise, and its strength the only one if ``fixed``.
    """
    problem = path.problem
    start = _symmetric(problem, max(noisy.noise.rate, 0.01))
    matrices = estimate_matrices(*path.predict(noisy.fitted), start)
    best = plain
    for number in range(_ROUNDS):
        known = replace(problem, known_noise=TransitionNoise(mean_matrix(*matrices)), find_noise="never")
        with_matrix = LogisticPath(known)
        best = with_matrix.search() if number == 0 and not fixed else with_matrix.fit(best.alpha)
        held_out, training = with_matrix.predict(best.fitted)
        matrices = estimate_matrices(held_out, training, start)
    matrix, noise = describe_matrices(matrices, held_out.labels)
    away = path.held_out.difference(plain.losses, best._replace(doubt=plain.doubt).losses)
    possible = is_possible_share(count_wrong_labels(matrix, problem.labels), problem)
    # on the rows that it was estimated from, each free entry of a matrix gains half a unit of log-likelihood by chance
    by_chance = 0.5 * problem.n_classes * (problem.n_classes - 1) / path.held_out.n_rows
    return matrix, noise, possible and away.mean - by_chance > SURE_ERRORS * away.error


def describe_matrices(matrices: list[Tensor], labels: Tensor) -> tuple[Tensor, FoundNoise]:
    """The mean of the matrices of held-out and of training rows, and how many labels are wrong by both."""
    n_classes, matrix = len(matrices[0]), mean_matrix(*matrices)
    least, most = sorted(count_wrong_labels(one, labels) for one in matrices)
    middle = count_wrong_labels(matrix, labels)
    error = SURE_ERRORS * math.sqrt(max(middle * (1.0 - middle), 0.0) / len(labels))
    shares = (middle, max(0.0, least - error), min(1.0, most + error))
    rate, low, high = (min(replaced_share(share, n_classes), 1.0 - 1e-9) for share in shares)
    # as for a rate: wrong labels that held-out rows have more than the mean are predictions that fail
    away = math.hypot(max(0.0, most - middle), error)
    doubt = min(replaced_share(away / (1.0 - middle), n_classes), 0.5)
    return matrix, FoundNoise(rate, 1.0, doubt, rate, low, high)


def estimate_matrices(held_out: LabeledRows, training: LabeledRows, start: Tensor) -> list[Tensor]:
    """The likeliest matrices of both, with the power of the probabilities that explains held-out labels best."""
    tried = []
    for power in _POWERS:
        rows = held_out.to_power(power)
        matrix = estimate_matrix(rows, start)
        tried.append((float(rows.weight @ _observe(rows, matrix)), power, matrix))
    _, power, matrix = max(tried, key=lambda one: one[0])
    return [matrix, estimate_matrix(training.to_power(power), start)]


def mean_matrix(held_out: Tensor, training: Tensor) -> Tensor:
    """The mean of two matrices, with rows that sum to one."""
    matrix = 0.5 * (held_out + training)
    return matrix / matrix.sum(1, keepdim=True)
