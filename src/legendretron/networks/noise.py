"""Wrong labels, by what networks predict for rows that they have not seen, and for rows that they have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from legendretron.links import LabelNoise, SymmetricNoise, TransitionNoise
from legendretron.tuning.independence import check_with_other_rows, is_believable
from legendretron.tuning.noise_matrix import describe_matrix, mean_matrix
from legendretron.tuning.noise_rates import TEMPERATURES, LabelledRows, RateEstimate, estimate_rates
from legendretron.tuning.noise_search import is_noise
from legendretron.tuning.problem import TuningProblem
from legendretron.tuning.scores import HeldOut
from legendretron.tuning.table import FoundNoise

__all__ = ["LabelledPair", "find_noise"]

#: Standard errors by which noise must explain held-out labels better, of few rows and of more.
_MUST_GAIN, _FEW_ROWS = (2.0, 1.0), 1000

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
    held_out, training, rows = plain
    estimate, log_q = estimate_rates(held_out, training)
    n_classes, auto = problem.n_classes, how == "if it helps"
    if auto and not is_noise(estimate, problem):
        return _no_noise(estimate), None
    estimate = check_with_other_rows(estimate, problem, rows, log_q, held_out.labels)
    if auto and not is_believable(estimate):
        return _no_noise(estimate), None
    rate = min(max(estimate.rate, 0.01), 0.95)
    symmetric = SymmetricNoise(n_classes, rate, learned=False, dtype=torch.float64)
    if how == "matrix":
        # networks that expect more noise than there is are sure of true classes, which is what a matrix is estimated from
        start = symmetric.matrix().to(held_out.log_p)
        robust = SymmetricNoise(n_classes, max(rate, _ROBUST), learned=False, dtype=torch.float64)
        first = mean_matrix(*train_with(robust)[:2], start)
        matrix, found = describe_matrix(*train_with(TransitionNoise(first))[:2], start)
        return found._replace(doubt=0.0), matrix.cpu().numpy()
    known = train_with(symmetric)
    better, better_log_q = estimate_rates(*known[:2])
    # either at once, with the same networks, or by others that are trained with it
    if auto and not any(_gains(held_out, rows, found) for found in (log_q, better_log_q)):
        return _no_noise(estimate), None
    better = better._replace(most=estimate.most)
    # what is uncertain about predictions is left to the link, which is learned on the same held-out rows
    return FoundNoise(rate, 1.0, 0.0, better.rate, *better.interval), None


def _no_noise(estimate: RateEstimate) -> FoundNoise:
    """No noise; but there may be as much as would fit held-out rows, or as the clearest ones allow."""
    return FoundNoise(0.0, 1.0, 0.0, 0.0, 0.0, estimate.interval[1] if estimate.most == 1.0 else estimate.most)


def _gains(plain: LabelledRows, rows: np.ndarray, log_q: Tensor) -> bool:
    """Whether held-out labels are better explained with noise than by networks at their best temperature without."""
    share = plain.weight.cpu().numpy()
    held = HeldOut(np.zeros(len(rows), dtype=np.int64), rows, share / share.sum(), between_folds=False)
    tempered = (_losses(torch.log_softmax(plain.log_p * power, -1), plain.labels) for power in TEMPERATURES)
    gain = held.difference(_losses(log_q, plain.labels), min(tempered, key=lambda losses: float(held.weight @ losses)))
    return gain.mean < -_MUST_GAIN[len(rows) >= _FEW_ROWS] * gain.error


def _losses(log_p: Tensor, labels: Tensor) -> np.ndarray:
    losses: np.ndarray = -log_p.gather(-1, labels.unsqueeze(-1)).squeeze(-1).cpu().numpy()
    return losses
