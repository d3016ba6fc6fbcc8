r"""The transition matrix of wrong labels, from predictions for rows that a model has not seen, and for those it has.

With the true probabilities :math:`p` of the rows, the likeliest matrix is found by expectation-maximization:

.. math:: T_{ij} \propto \sum_{n:\, y_n = j} \frac{p_{ni} T_{ij}}{\sum_k p_{nk} T_{kj}}

As for a rate, see :mod:`~legendretron.tuning.wrong_labels`, that of held-out rows has too much noise and that of training
rows too little, so their mean is taken. A matrix must explain held-out labels better than symmetric noise, and than no noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from legendretron.diagnostics.softmax_test import ROWS_PER_PARAMETER
from legendretron.links import SymmetricNoise, TransitionNoise
from legendretron.links.noise_models import count_wrong_labels, replaced_share
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.problem import LabeledRows, TuningProblem
from legendretron.tuning.scores import SURE_ERRORS
from legendretron.tuning.wrong_labels import LEAST_SHARE, SLACK, TEMPERATURES, FoundNoise, bound_share, estimate_rates

#: Powers of probabilities to choose from, up to 3: wrong labels make a model unsure, and each takes a search.
_POWERS = TEMPERATURES[6:13:2]
#: Rounds of fitting a model and its matrix in turns; further ones hardly change it.
_ROUNDS = 3


class MatrixEstimate(NamedTuple):
    """The likeliest matrices of shape (C, C), rows true classes."""

    held_out: Tensor  #: of held-out rows
    training: Tensor  #: of rows that were trained on
    likelihood: float  #: weighted sum over held-out rows of the log-probabilities of labels

    @property
    def mean(self) -> Tensor:
        """The mean of the two, with rows that sum to one."""
        matrix = 0.5 * (self.held_out + self.training)
        return matrix / matrix.sum(1, keepdim=True)

    def describe(self, labels: Tensor) -> FoundNoise:
        """How many of these labels are wrong, by the mean and by both."""
        least, most = sorted(count_wrong_labels(one, labels) for one in (self.held_out, self.training))
        middle = count_wrong_labels(self.mean, labels)
        error = SURE_ERRORS * math.sqrt(max(middle * (1.0 - middle), 0.0) / len(labels))
        # as for a rate: wrong labels that held-out rows have more than the mean are predictions that fail
        doubted = math.hypot(max(0.0, most - middle), error) / (1.0 - middle)
        shares = (middle, max(0.0, least - error), min(1.0, most + error), doubted)
        rate, low, high, doubt = (min(replaced_share(share, len(self.mean)), 1.0 - 1e-9) for share in shares)
        return FoundNoise(rate, 1.0, min(doubt, 0.5), rate, low, high)


def estimate_matrices(held_out: LabeledRows, training: LabeledRows, start: Tensor) -> MatrixEstimate:
    """The likeliest matrices, with the power of the probabilities that explains held-out labels best."""
    sharp = held_out.to_power(torch.tensor(_POWERS).to(held_out.log_p)[:, None, None])
    matrices = estimate_matrix(sharp, start)
    likelihoods = _observe(sharp, matrices) @ held_out.weight
    best = int(likelihoods.argmax())
    seen = estimate_matrix(training.to_power(_POWERS[best]), start)
    return MatrixEstimate(matrices[best], seen, float(likelihoods[best]))


def estimate_matrix(rows: LabeledRows, start: Tensor) -> Tensor:
    """The likeliest matrix, beginning at another one, which counts as one further row of each true class.

    Of log-probabilities (P, n, C), one for each of the P.
    """
    p, matrix = torch.exp(rows.log_p), start
    weight = rows.weight * (len(rows.weight) / rows.weight.sum())
    one_hot = torch.nn.functional.one_hot(rows.labels, p.shape[-1]).to(p) * weight.unsqueeze(1)
    for _ in range(500):
        joint = p * matrix.mT[..., rows.labels, :]
        of_true = joint / joint.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
        counts = of_true.mT @ one_hot + start
        matrix, before = counts / counts.sum(-1, keepdim=True), matrix
        if float((matrix - before).abs().max()) < 1e-4:
            break
    return matrix


def has_pattern(path: LogisticPath, plain: PathPoint, *, symmetric: bool) -> bool:
    """Whether held-out labels may have a transition matrix, by a fit without noise; ``symmetric`` if they have a rate.

    They may if labels are surely wrong where trees are sure, and no rate explains it. Else a matrix is estimated on one half
    of the held-out rows and judged on the other, so one with too many entries for the rows loses.
    """
    problem = path.problem
    # of two classes, a matrix cannot be told from symmetric noise and a bias
    if problem.n_classes == 2 or problem.features.n_rows < ROWS_PER_PARAMETER * problem.n_classes**2:
        return False
    if not symmetric and bound_share(problem.trees)[0] >= LEAST_SHARE:
        return True
    held_out, seen = path.predict(plain.fitted)
    estimate, by_rate = estimate_rates(held_out, seen, _POWERS)
    start = _symmetric(problem, estimate.rate)
    half = torch.arange(len(held_out.labels), device=held_out.labels.device) % 2 == 0
    for power in _POWERS:  # a fit to wrong labels is not sure enough to see a matrix
        rows, gain = held_out.to_power(power), -by_rate.label_log_p
        for one in (half, ~half):
            gain[~one] += _observe(rows.select(~one), estimate_matrix(rows.select(one), start))
        is_better = float(gain.mean()) > SURE_ERRORS * float(gain.std()) / math.sqrt(len(gain))
        # classes that a model confuses look like a matrix, too; but then labels are right where trees are sure
        if is_better and _is_possible(estimate_matrix(rows, start), problem):
            return True
    return False


def find_matrix(
    path: LogisticPath, plain: PathPoint, noisy: list[PathPoint], *, symmetric: bool
) -> tuple[Tensor, FoundNoise] | None:
    """The matrix that logistic regression finds, and how many labels are wrong by it; None if labels do not speak for it.

    A model and its matrix are estimated in turns, beginning with that model of symmetric noise, of those in ``noisy``, which
    explains labels best by a matrix; ``symmetric`` if such noise is believed. ``plain`` is the best model without noise.
    """
    problem, asked = path.problem, path.problem.find_noise == "matrix"
    if not asked and not (problem.find_noise == "if it helps" and has_pattern(path, plain, symmetric=symmetric)):
        return None
    if noisy[0].rate == 0.0:  # symmetric noise was not believed, and not tried
        noisy, _ = path.search_noise(plain, always=True)
    start = _symmetric(problem, noisy[0].noise.rate)
    tried = [estimate_matrices(*path.predict(point.fitted), start) for point in noisy]
    estimate, best = max(tried, key=lambda one: one.likelihood), plain
    for number in range(_ROUNDS):
        known = replace(problem, known_noise=TransitionNoise(estimate.mean), find_noise="never")
        with_matrix = LogisticPath(known, path.alpha, path.n_noise_folds)
        # not from the fit before: with noise nothing is convex, and a fit to another matrix may lead astray
        best = with_matrix.search() if number == 0 else with_matrix.fit(best.alpha)
        held_out, training = with_matrix.predict(best.fitted)
        estimate = estimate_matrices(held_out, training, start)
    away = path.held_out.difference(plain.losses, best._replace(doubt=plain.doubt).losses)
    # on the rows that it was estimated from, each free entry of a matrix gains half a unit of log-likelihood by chance
    by_chance = 0.5 * problem.n_classes * (problem.n_classes - 1) / path.held_out.n_rows
    helps = _is_possible(estimate.mean, problem) and away.mean - by_chance > SURE_ERRORS * away.error
    return (estimate.mean, estimate.describe(held_out.labels)) if helps or asked else None


def _observe(rows: LabeledRows, matrix: Tensor) -> Tensor:
    """Log-probabilities of observed labels."""
    return rows._replace(log_p=torch.log(torch.exp(rows.log_p) @ matrix)).label_log_p


def _symmetric(problem: TuningProblem, rate: float) -> Tensor:
    """The matrix of symmetric noise, at which a search begins and to which rows of few labels are shrunk."""
    noise = SymmetricNoise(problem.n_classes, max(rate, LEAST_SHARE), learned=False, dtype=torch.float64)
    return noise.matrix().to(problem.device)


def _is_possible(matrix: Tensor, problem: TuningProblem) -> bool:
    """Whether enough labels are wrong by a matrix to matter, and clear rows allow as many."""
    return LEAST_SHARE <= count_wrong_labels(matrix, problem.labels) <= SLACK * bound_share(problem.trees)[1]
