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

#: Standard errors by which noise must explain held-out labels better.
_MUST_GAIN = 1.0

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
    estimate, accepted = _estimate(problem, plain, always=how != "if it helps")
    if not accepted:
        most = estimate.interval[1] if estimate.most == 1.0 else estimate.most
        return FoundNoise(0.0, 1.0, 0.0, 0.0, 0.0, most), None
    n_classes = problem.n_classes
    if how == "matrix":
        rate = max(estimate.rate, 0.01)
        start = SymmetricNoise(n_classes, rate, learned=False, dtype=torch.float64).matrix().to(problem.device)
        first = mean_matrix(*plain[:2], start, estimate.temperature)
        matrix, found = describe_matrix(*train_with(TransitionNoise(first))[:2], start)
        return found._replace(doubt=0.0), matrix.cpu().numpy()
    rate = min(max(estimate.rate, 1e-3), 0.95)
    known = train_with(SymmetricNoise(n_classes, rate, learned=False, dtype=torch.float64))
    better, _ = estimate_rates(*known[:2])
    better = better._replace(most=estimate.most)
    # what is uncertain about predictions is left to the link, which is learned on the same held-out rows
    return FoundNoise(rate, 1.0, 0.0, better.rate, *better.interval), None


def _estimate(problem: TuningProblem, pair: LabelledPair, *, always: bool) -> tuple[RateEstimate, bool]:
    """The rate, and whether to believe it: as for logistic regression, see :mod:`legendretron.tuning.noise_search`."""
    held_out, training, rows = pair
    estimate, log_q = estimate_rates(held_out, training)
    share = held_out.weight.cpu().numpy()
    held = HeldOut(np.zeros(len(rows), dtype=np.int64), rows, share / share.sum(), between_folds=False)
    with_noise = _losses(log_q, held_out.labels)
    tempered = (_losses(torch.log_softmax(held_out.log_p * power, -1), held_out.labels) for power in TEMPERATURES)
    gain = held.difference(with_noise, min(tempered, key=lambda losses: float(held.weight @ losses)))
    if not always and not (is_noise(estimate, problem) and gain.mean < -_MUST_GAIN * gain.error):
        return estimate, False
    estimate = check_with_other_rows(estimate, problem, rows, log_q, held_out.labels)
    return estimate, always or is_believable(estimate)


def _losses(log_p: Tensor, labels: Tensor) -> np.ndarray:
    losses: np.ndarray = -log_p.gather(-1, labels.unsqueeze(-1)).squeeze(-1).cpu().numpy()
    return losses
