r"""The transition matrix of noise in the labels, from predictions for held-out and for training rows.

With the true probabilities :math:`p` of the rows, the likeliest matrix is found by expectation-maximization:

.. math:: T_{ij} \propto \sum_{n:\, y_n = j} \frac{p_{ni} T_{ij}}{\sum_k p_{nk} T_{kj}}

Like a rate, see :mod:`~legendretron.tuning.noise`, it is the mean of that of held-out rows and that of training rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from legendretron.diagnostics.softmax_test import ROWS_PER_PARAMETER
from legendretron.links import SymmetricNoise, TransitionNoise
from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.noise import TEMPERATURES, FoundNoise, estimate_rates
from legendretron.tuning.problem import LabeledRows, TuningProblem
from legendretron.tuning.scores import LEAST_GAIN

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


def is_worth_a_search(path: LogisticPath, point: PathPoint) -> bool:
    """Whether a matrix may predict labels better than a rate: estimated on half of the held-out rows, tried on the other."""
    problem = path.problem
    if problem.features.n_rows < ROWS_PER_PARAMETER * problem.n_classes**2:
        return False
    held_out, seen = path.predict(point.fitted)
    estimate, by_rate = estimate_rates(held_out, seen, _POWERS)
    start, known = _symmetric(problem, estimate.rate), -by_rate.label_log_p
    half = torch.arange(len(known), device=known.device) % 2 == 0
    for power in _POWERS:  # a fit to wrong labels is not sure enough to see a matrix
        rows, gain = held_out.to_power(power), known.clone()
        for one in (half, ~half):
            gain[~one] += _observe(rows.select(~one), estimate_matrix(rows.select(one), start))
        if float(gain.mean()) > max(float(gain.std()) / math.sqrt(len(gain)), LEAST_GAIN * float(known.mean())):
            return True
    return False


def find_matrix(path: LogisticPath, plain: PathPoint, floors: list[PathPoint]) -> tuple[FoundNoise, PathPoint]:
    """The matrix that logistic regression finds, and that model.

    A model and its matrix are estimated in turns, beginning with that model of ``floors`` which explains labels best by a
    matrix. ``plain`` is the best model without noise.
    """
    problem = path.problem
    start = _symmetric(problem, floors[0].noise.rate)
    tried = [estimate_matrices(*path.predict(point.fitted), start) for point in floors]
    estimate, best = max(tried, key=lambda one: one.likelihood), plain
    for number in range(_ROUNDS):
        noise = TransitionNoise(estimate.mean)
        with_matrix = LogisticPath(replace(problem, known_noise=noise, find_noise=None), path.alpha, path.n_noise_folds)
        # not from the fit before: with noise nothing is convex, and a fit to another matrix may lead astray
        best = with_matrix.search() if number == 0 else with_matrix.fit(best.alpha)
        held_out, training = with_matrix.predict(best.fitted)
        estimate = estimate_matrices(held_out, training, start)
    recorded = problem.find_noise == "auto"
    found = FoundNoise.of_matrices(estimate.held_out, estimate.training, held_out.labels, recorded=recorded)
    return found, best._replace(doubt=plain.doubt)


def _observe(rows: LabeledRows, matrix: Tensor) -> Tensor:
    """Log-probabilities of observed labels."""
    return rows._replace(log_p=torch.log(torch.exp(rows.log_p) @ matrix)).label_log_p


def _symmetric(problem: TuningProblem, rate: float) -> Tensor:
    """The matrix of symmetric noise, at which a search begins and to which rows of few labels are shrunk."""
    rate = max(rate, 1.0 / problem.features.n_rows)  # not 0, where a matrix would stay
    noise = SymmetricNoise(problem.n_classes, rate, learned=False, dtype=torch.float64)
    return noise.matrix().to(problem.device)
