r"""How strongly a calibration map is penalized: candidates, held-out losses, and their average.

Candidates are temperature scaling, the same with the shape that all classes share, and all parts together at a few strengths
:math:`g = r\,(1000 / n)^{3/4} (C / 10)^{1/2}`. All candidates and folds are runs of one training. A few hundred rows can
hardly tell candidates apart, so their parameters are averaged, with weights
:math:`w_g \propto \pi_g \exp(-\tfrac13 \sum_i \ell_{ig})` from the held-out losses.

Folds are not stratified: with equal shares of a class in all folds, its bias would always seem to be right on held-out rows.
The prior :math:`\pi`, the strengths and the factor 1/3 were chosen on half of the classifiers of
``benchmarks/calibration.py``, and on made-up predictions for which temperature scaling is right.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from legendretron.calibration.map import CalibrationMap, with_floor
from legendretron.calibration.problem import CalibrationFit, CalibrationMetric, CalibrationRuns
from legendretron.links.noise_models import observed_loss

_STRENGTHS = (0.01, 0.04, 0.16, 0.64, 2.5, 10.0)
#: Prior weight of temperature scaling; the other candidates have equal shares of the rest.
_TEMPERATURE_SHARE = 2 / 3
#: Factor of the held-out losses in the weights of the candidates.
_TRUST = 1 / 3
#: Candidates of less weight are left out.
_LEAST_WEIGHT = 0.005
#: The floor, in rows: a share of this many rows is uniform.
_FLOOR_ROWS = 0.25
#: Most directions of the scores that all classes see.
_MOST_DIRECTIONS = 32
#: Pseudo-count of rows that are wrong by the median lead of the first class over the second: it keeps the temperature above 0
#: where all predictions are right, and does not depend on the scale of the scores.
_WRONG_ROWS = 0.5
#: Grid of shares of replaced labels from which the search starts.
_SHARES = (0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.98)
#: Least slope of an order-preserving function, relative to temperature scaling.
_LEAST_SLOPE = 0.01
#: Folds are fitted until this many rows are held out; fewer with many classes, where a fit takes long.
_HELD_OUT_ROWS, _HELD_OUT_ROWS_OF_MANY, _MANY_CLASSES = 3000, 2000, 40
_TOL_HELD_OUT, _TOL = 5e-3, 1e-3


def draw_folds(n: int, n_folds: int = 5) -> np.ndarray:
    """Number of the fold of each row; not stratified, see the module."""
    return np.random.RandomState(0).permutation(n) % min(n_folds, n)


class Calibration(NamedTuple):
    """A fitted map, and how it was chosen."""

    map: CalibrationMap
    strengths: np.ndarray  #: of the candidates; infinite for the first, or the first two
    shaped: np.ndarray  #: whether a candidate has the shared shape
    held_out: np.ndarray | None  #: mean held-out log-loss of the candidates; None if nothing was held out
    weights: np.ndarray  #: of the candidates in the average
    replaced: float  #: share of labels replaced at random
    fold: np.ndarray  #: number of the fold that each row is in, (n,)
    #: of the first folds or all: the average of the candidates, fitted to the other folds
    fold_maps: list[CalibrationMap]

    def cross_fit(self, scores: Tensor) -> Tensor:
        """Log-probabilities of scores ``(..., n, C)`` of the same rows, by maps that have not seen them; NaN without one."""
        log_p = torch.full_like(scores, torch.nan)
        for number, fitted in enumerate(self.fold_maps):
            held_out = torch.from_numpy(self.fold == number)
            log_p[..., held_out, :] = fitted(scores[..., held_out, :])
        return log_p


def _median(sizes: Tensor) -> float:
    """Median of the positive sizes."""
    positive = sizes[sizes > 0.0]
    return max(float(positive.median()), 1e-300) if len(positive) else 1.0


def _fit_temperature(
    scores: Tensor, labels: Tensor, weight: Tensor, floor: Tensor, replaced: float | None
) -> tuple[float, float]:
    """Inverse temperature, and the share of replaced labels, which is estimated with it if it is None."""
    rows, n_classes = float(weight.sum()), scores.shape[1]
    # scores are differences to the largest of a row; the bounds are wide, from uniform probabilities to certainty
    centre = -math.log(_median(-scores.amin(1)))
    lead = _median(-scores.topk(2, dim=1).values[:, 1])

    def objective(log_tau: float, share: float) -> float:
        tau = math.exp(log_tau)
        s = with_floor(scores, tau, floor)
        nll = -s.gather(1, labels.unsqueeze(1)).squeeze(1)
        if share > 0.0:
            nll = observed_loss(nll, share, n_classes)[0]
        return float((nll * weight).sum()) / rows + _WRONG_ROWS / rows * float(np.logaddexp(0.0, tau * lead))

    def best(share: float) -> tuple[float, float]:
        result = minimize_scalar(
            objective, args=(share,), bounds=(centre - 12.0, centre + 12.0), method="bounded", options={"xatol": 1e-4}
        )
        return float(result.fun), float(result.x)

    if replaced is None:
        # a high temperature and many wrong labels can both be local minima: start from the best share of a grid
        at = int(np.argmin([best(share)[0] for share in _SHARES]))
        between = _SHARES[max(at - 1, 0)], _SHARES[min(at + 1, len(_SHARES) - 1)]
        replaced = float(
            minimize_scalar(lambda share: best(share)[0], bounds=between, method="bounded", options={"xatol": 1e-3}).x
        )
    return math.exp(best(replaced)[1]), replaced


class _Candidates:
    """The candidates for the map of one table: the parts that they share, their training, and maps of what was trained."""

    def __init__(
        self,
        scores: Tensor,
        labels: Tensor,
        weight: Tensor,
        *,
        strength: float | None,
        ordered: bool,
        replaced: float | None,
    ) -> None:
        n_classes = scores.shape[1]
        rows = float(weight.sum())
        scores = (scores - scores.amax(1, keepdim=True)).clamp(
            min=torch.finfo(scores.dtype).min  # where a difference is too large for a float
        )
        self.labels, self.share_of_rows, self.ordered = labels, weight / rows, ordered
        self.seen = torch.zeros(n_classes, dtype=torch.bool, device=scores.device).index_fill(0, labels, True)
        self.floor = scores.new_tensor(_FLOOR_ROWS / (rows + 1.0))
        self.tau, self.replaced = _fit_temperature(scores, labels, weight, self.floor, replaced)
        self.scores = with_floor(scores, self.tau, self.floor)
        self.metric = CalibrationMetric(
            self.scores, self.share_of_rows, rows, 0 if ordered else min(n_classes, _MOST_DIRECTIONS)
        )
        unit = (1000.0 / rows) ** 0.75 * (n_classes / 10.0) ** 0.5
        if strength is None:
            self.strengths = np.array([math.inf, math.inf, *(() if ordered else (r * unit for r in _STRENGTHS))])
            self.shaped = np.arange(len(self.strengths)) > 0
        else:
            self.strengths, self.shaped = np.array([math.inf if ordered else strength * unit]), np.array([True])

    def make_runs(self, scores: Tensor, chosen: np.ndarray, weights: Tensor) -> CalibrationRuns:
        """Make a run of each chosen candidate for each column of weights ``(n, k)``."""
        g, with_shape = (
            torch.as_tensor(values[chosen], dtype=torch.float64, device=scores.device).repeat(weights.shape[1])
            for values in (self.strengths, self.shaped)
        )
        weights = weights.repeat_interleave(len(chosen), dim=1)
        return CalibrationRuns(
            scores, self.labels, weights, g, with_shape, self.metric, replaced=self.replaced, learned=self.seen
        )

    def fit_without(self, left_out: Tensor, chosen: np.ndarray, start: Tensor | None) -> tuple[CalibrationRuns, Tensor]:
        """Fit the chosen candidates without the rows that each column of ``left_out`` marks."""
        # in single precision: twice as fast, and far more exact than held-out losses are
        runs = self.make_runs(self.scores.float(), chosen, self.share_of_rows.unsqueeze(1) * ~left_out)
        return runs, runs.fit(start, tol=_TOL_HELD_OUT)

    def average(self, fitted: CalibrationFit, weights: np.ndarray) -> CalibrationMap:
        """Average the parameters of candidates."""
        mix = torch.from_numpy(weights).to(self.scores.device)
        shared, bias, slope, rise, mixing = (torch.tensordot(mix, part.double(), dims=1) for part in fitted)
        if self.ordered:
            shared = shared * _limit_slopes(float(shared[0]), float(shared[0] + shared[1]))
        n_classes, rank = self.metric.directions.shape[1:]
        result = CalibrationMap(n_classes, rank=rank, ordered=self.ordered).to(self.scores.device)
        result.inverse_temperature.fill_(self.tau)
        result.floor.copy_(self.floor)
        result.slope.copy_(1.0 + shared[0] + slope)
        result.rise.copy_(shared[1] + rise)
        result.bias.copy_(bias)
        result.directions.copy_(self.metric.directions)
        result.mixing.copy_(mixing)
        if not self.ordered and not bool(self.seen.all()):
            result.bias[~self.seen] = _keep_odds(
                result, self.scores.double(), self.seen, self.share_of_rows, 1.0 + float(shared[0]), float(shared[1])
            )
        return result.cpu().eval()

    def average_each(self, runs: CalibrationRuns, ends: Tensor, weights: np.ndarray) -> list[CalibrationMap]:
        """Average the candidates of each column that the runs were made for."""
        parts = [part.split(len(weights)) for part in runs.parameters(ends)]
        return [self.average(CalibrationFit(*column), weights) for column in zip(*parts, strict=True)]


def calibrate(
    scores: Tensor,
    labels: Tensor,
    weight: Tensor,
    *,
    strength: float | None = None,
    ordered: bool = False,
    n_folds: int = 5,
    fold: np.ndarray | None = None,
    every_fold: bool = False,
    replaced: float | None = 0.0,
) -> Calibration:
    """Fit a calibration map, on the device of the scores; the map is on the CPU.

    Parameters
    ----------
    scores : Tensor of shape (n, C)
        Logits or log-probabilities, finite.
    labels, weight : Tensor of shape (n,)
        Classes from 0, of which not all need occur; positive weights in the precision of the scores, whose sum counts as the
        number of rows.
    strength : float, optional
        ``r``; by cross-validation if not given.
    ordered : bool
        Whether all classes share one increasing function.
    n_folds : int
        At least 2.
    fold : ndarray of shape (n,), optional
        Number of the fold of each row, in the place of ``n_folds``; by default drawn.
    every_fold : bool
        Whether maps are fitted without each fold, not only without those that suffice to choose a strength.
    replaced : float, optional
        Share of labels replaced at random; estimated if None.
    """
    n, n_classes = scores.shape
    candidates = _Candidates(scores, labels, weight, strength=strength, ordered=ordered, replaced=replaced)
    if fold is None:
        fold = draw_folds(n, n_folds)
    n_folds = int(fold.max()) + 1
    in_fold = torch.from_numpy(fold[:, None] == np.arange(n_folds)).to(scores.device)

    held_out, start, averaged = None, None, np.ones(1)
    fold_maps: list[CalibrationMap] = []
    if strength is None:
        enough = _HELD_OUT_ROWS if n_classes <= _MANY_CLASSES else _HELD_OUT_ROWS_OF_MANY
        first = in_fold[:, : math.ceil(n_folds * enough / n)]
        n_candidates = len(candidates.strengths)
        runs, ends = candidates.fit_without(first, np.arange(n_candidates), None)
        losses = runs.losses(ends).double().view(n, first.shape[1], n_candidates)
        losses = (losses * first.unsqueeze(2)).sum(1)  # of every row by the runs that have not seen it
        tested = weight * first.any(1)
        summed = (losses * tested.unsqueeze(1)).sum(0).cpu().numpy()
        held_out = summed / float(tested.sum())
        averaged = _average_weights(summed)
        fold_maps = candidates.average_each(runs, ends, averaged)
        start = ends.to(scores).view(first.shape[1], n_candidates, -1).mean(0)[torch.from_numpy(averaged > 0.0)]

    chosen = np.flatnonzero(averaged)
    final = candidates.make_runs(candidates.scores, chosen, candidates.share_of_rows.unsqueeze(1))
    end = final.fit(start, tol=_TOL)
    if every_fold and (left := n_folds - len(fold_maps)):
        runs, ends = candidates.fit_without(in_fold[:, len(fold_maps) :], chosen, end.float().repeat(left, 1))
        fold_maps += candidates.average_each(runs, ends, averaged[chosen])
    return Calibration(
        candidates.average(final.parameters(end), averaged[chosen]),
        candidates.strengths,
        candidates.shaped,
        held_out,
        averaged,
        candidates.replaced,
        fold,
        fold_maps,
    )


def _average_weights(losses: np.ndarray) -> np.ndarray:
    """Weights of the candidates, temperature scaling first, from the sums of their held-out losses."""
    others = len(losses) - 1
    weights = np.array([_TEMPERATURE_SHARE, *[(1.0 - _TEMPERATURE_SHARE) / others] * others])
    weights *= np.exp(-_TRUST * (losses - losses.min()))
    weights[weights < _LEAST_WEIGHT * weights.sum()] = 0.0
    return weights / weights.sum()


def _keep_odds(learned: CalibrationMap, s: Tensor, seen: Tensor, weight: Tensor, scale: float, shape: float) -> float:
    """Bias of classes without rows, by which their mean odds against all others stay those of temperature and shape."""
    by_all = scale * s + shape * s.exp()
    before, after = (torch.logsumexp(of[:, seen], dim=1) for of in (by_all, learned.apply_to_floored(s)))
    return float(((after - before) * weight).sum())


def _limit_slopes(*changes: float) -> float:
    """Return the largest factor up to 1 that keeps all slopes ``1 + factor * change`` above the least one."""
    return min([1.0, *((1.0 - _LEAST_SLOPE) / -change for change in changes if change < _LEAST_SLOPE - 1.0)])
