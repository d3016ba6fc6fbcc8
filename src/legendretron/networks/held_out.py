"""What is learned from predictions of networks for rows that they have not seen: wrong labels, and the link."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from legendretron.calibration.fitting import Calibration, calibrate, draw_folds
from legendretron.links import LabelNoise, SymmetricNoise, TransitionNoise
from legendretron.tuning.noise_matrix import estimate_matrices
from legendretron.tuning.problem import LabeledRows, TuningProblem
from legendretron.tuning.wrong_labels import FoundNoise, RateEstimate, check_estimate, estimate_rates, is_believable

#: Rate that networks expect whose predictions a first matrix is estimated from.
_ROBUST = 0.5

#: Predictions for held-out rows, for rows that were trained on, and the numbers of the former.
LabeledPair = tuple[LabeledRows, LabeledRows, np.ndarray]


def find_noise(
    problem: TuningProblem, plain: LabeledPair, train_with: Callable[[LabelNoise], LabeledPair], how: str
) -> tuple[FoundNoise, np.ndarray | None]:
    """Look for wrong labels, and train networks again if there are some.

    ``plain`` are predictions of networks that know of no noise; ``train_with`` trains others that do. ``how`` is as in
    :class:`~legendretron.tuning.problem.TuningProblem`. Returns rates, of which one of 0 means that networks that know of no
    noise are to be used; and the transition matrix (C, C), if that was asked for.
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
        first = estimate_matrices(*train_with(robust)[:2], start).mean
        held_out, training, _ = train_with(TransitionNoise(first))
        found = estimate_matrices(held_out, training, start)
        return found.describe(held_out.labels)._replace(doubt=0.0), found.mean.cpu().numpy()
    better = _estimate(problem, train_with(symmetric))
    if auto and not is_believable(better, problem):
        return FoundNoise.none(better), None
    # what is uncertain about predictions is left to the link, which is learned on the same held-out rows
    return FoundNoise(rate, 1.0, 0.0, better.rate, *better.interval), None


def _estimate(problem: TuningProblem, pair: LabeledPair) -> RateEstimate:
    """The rate that predictions speak for, checked by other rows."""
    held_out, training, rows = pair
    estimate, observed = estimate_rates(held_out, training)
    return check_estimate(estimate, problem, rows, observed)


def learn_map(
    logits: np.ndarray,
    labels: np.ndarray,
    weight: np.ndarray,
    noise: LabelNoise | None = None,
    fold: np.ndarray | None = None,
    device: torch.device | str = "cpu",
) -> Calibration:
    """The calibration map of held-out logits ``(n, C)``, and maps without each fold.

    Rows count as many as there are, whatever their weights. Folds are drawn unless they are given, as those of rows that
    belong together.
    """
    scores, observed, share = (
        torch.as_tensor(values, device=device) for values in (logits, labels, weight / weight.mean())
    )
    if noise is None or isinstance(noise, SymmetricNoise):
        replaced = 0.0 if noise is None else float(noise.rate())
        return calibrate(scores, observed, share, fold=fold, every_fold=True, replaced=replaced)
    # a matrix: each row counts for every class that it may be of, by what networks and label say together
    n, n_classes = scores.shape
    if fold is None:
        fold = draw_folds(n)
    joint = torch.softmax(scores, -1) * noise.matrix().to(scores).mT[observed]
    posterior = (share.unsqueeze(1) * joint / joint.sum(1, keepdim=True)).reshape(-1)
    counts = posterior > 1e-6
    every = torch.arange(n_classes, device=device).repeat(n)
    repeated = scores.repeat_interleave(n_classes, 0)
    of_copies = np.repeat(fold, n_classes)[counts.cpu().numpy()]
    found = calibrate(repeated[counts], every[counts], posterior[counts], fold=of_copies, every_fold=True)
    return found._replace(fold=fold)
