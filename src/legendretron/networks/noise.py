"""Wrong labels, by what networks predict for rows that they have not seen, and for rows that they have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from legendretron.links import LabelNoise, SymmetricNoise, TransitionNoise
from legendretron.tuning.noise_matrix import describe_matrices, estimate_matrices, mean_matrix
from legendretron.tuning.problem import LabelledRows, TuningProblem
from legendretron.tuning.wrong_labels import FoundNoise, RateEstimate, check_estimate, estimate_rates, is_believable

#: Rate that networks expect whose predictions a first matrix is estimated from.
_ROBUST = 0.5

#: Predictions for held-out rows, for rows that were trained on, and the numbers of the former.
LabelledPair = tuple[LabelledRows, LabelledRows, np.ndarray]


def find_noise(
    problem: TuningProblem, plain: LabelledPair, train_with: Callable[[LabelNoise], LabelledPair], how: str
) -> tuple[FoundNoise, np.ndarray | None]:
    """Look for wrong labels, and train networks again if there are some.

    Parameters
    ----------
    problem : TuningProblem
        The table.
    plain : LabelledPair
        Predictions of networks that know of no noise.
    train_with : callable
        Trains others that do, and returns their predictions.
    how : {"if it helps", "always", "matrix"}
        As in :class:`~legendretron.tuning.problem.TuningProblem`.

    Returns
    -------
    FoundNoise
        Rates; with a rate of 0, networks that know of no noise are to be used.
    ndarray of shape (C, C), optional
        The transition matrix, if that was asked for.
    """
    n_classes, auto = problem.n_classes, how == "if it helps"
    estimate = _estimate(problem, plain)
    if auto and not is_believable(estimate, problem):
        return FoundNoise.none(estimate), None
    rate = min(max(estimate.rate, 0.01), 0.95)
    symmetric = SymmetricNoise(n_classes, rate, learned=False, dtype=torch.float64)
    if how == "matrix":
        # networks that expect more noise than there is are sure of true classes, which is what a matrix is estimated from
        start = symmetric.matrix().to(plain[0].log_p)
        robust = SymmetricNoise(n_classes, max(rate, _ROBUST), learned=False, dtype=torch.float64)
        first = mean_matrix(*estimate_matrices(*train_with(robust)[:2], start))
        held_out, training, _ = train_with(TransitionNoise(first))
        matrix, found = describe_matrices(estimate_matrices(held_out, training, start), held_out.labels)
        return found._replace(doubt=0.0), matrix.cpu().numpy()
    better = _estimate(problem, train_with(symmetric))
    if auto and not is_believable(better, problem):
        return FoundNoise.none(better), None
    # what is uncertain about predictions is left to the link, which is learned on the same held-out rows
    return FoundNoise(rate, 1.0, 0.0, better.rate, *better.interval), None


def _estimate(problem: TuningProblem, pair: LabelledPair) -> RateEstimate:
    """The rate that predictions speak for, checked by other rows."""
    held_out, training, rows = pair
    estimate, observed = estimate_rates(held_out, training)
    return check_estimate(estimate, problem, rows, observed)
