"""Logistic regression, or a fixed canonical link, along paths of strengths, on several folds at once.

Strengths are those of a fit to all rows. The best strength falls as one over the number of rows, so folds, which have fewer
rows, get a penalty that is stronger by that ratio.

Where some labels are wrong, strength and rate of noise are searched together. The rate assumed in training need not be the
rate that is estimated: a higher one gives a loss that is more robust to rows that do not fit. With less weight on such rows
weaker penalties do well, so these paths go from the best strength without noise to weaker ones.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from legendretron.calibration.prediction_sets import some_rows
from legendretron.diagnostics.softmax_test import LinkTest, score_test
from legendretron.links import SymmetricNoise, TransitionNoise
from legendretron.training.features import DenseFeatures, Features, SparseFeatures, variances
from legendretron.training.logistic import Logistic, fit_logistic, logistic_log_proba
from legendretron.tuning.noise import HIGHEST, RateEstimate, estimate_rates
from legendretron.tuning.problem import LabeledRows, TuningProblem, average_repeats
from legendretron.tuning.scores import LEAST_GAIN, SURE_ERRORS, doubted_rows

#: Exponents at which paths end: nothing of the penalty is left, or nothing but the biases.
_WEAKEST, _STRONGEST = -8.0, 3.0
#: Exponents between the strengths around the best one; of small data, half of that in the end.
_STEP = 0.5
#: Rates of noise assumed in training; each is tried only if the one before is the best so far.
_RATES = (0.3, 0.7, HIGHEST)


class PathPoint(NamedTuple):
    """Logistic regression of one strength, with or without a rate of symmetric noise."""

    alpha: float  #: for a fit to all rows
    log_losses: np.ndarray  #: of the observed label of each held-out row
    of_any_class: np.ndarray  #: mean over the classes of the log-losses that each row would have as a row of that class
    fitted: Logistic  #: one run per fold
    doubt: float  #: share of the labels that is doubted
    rate: float = 0.0  #: of noise that is assumed in training
    estimate: RateEstimate | None = None  #: of noise, if some is assumed; its temperature and rate are in the losses

    @property
    def losses(self) -> np.ndarray:
        """Log-losses with a little doubt, see :meth:`~legendretron.tuning.problem.LabeledRows.losses`."""
        return (1.0 - self.doubt) * self.log_losses + self.doubt * self.of_any_class

    @property
    def noise(self) -> RateEstimate:
        """The estimate of a point with noise."""
        assert self.estimate is not None
        return self.estimate


class LogisticPath:
    """Fits of some folds, the first ones, each strength beginning at the solution of the nearest one before.

    If ``alpha`` is given, it is the only strength.
    """

    def __init__(self, problem: TuningProblem, alpha: float | None = None, n_folds: int | None = None) -> None:
        self.problem, self.alpha = problem, alpha
        # where links have one fold, so has the path
        self.n_folds = n_folds or (1 if problem.link_folds == 1 else len(problem.folds))
        self.held_out = problem.held_out.first(self.n_folds)
        self.points: dict[float, PathPoint] = {}
        #: share of held-out labels that is doubted; lowered once margins are measured
        self.doubt = problem.doubt
        # sparse features in single precision, which is enough to compare strengths; a dense table would be held twice
        dense = problem.features if isinstance(problem.features, DenseFeatures) else None
        self._features: Features = dense or problem.single_precision
        dtype = dense.x.dtype if dense else torch.float32
        weights = np.zeros((len(problem.weight), self.n_folds))
        for number, (train, _) in enumerate(problem.folds[: self.n_folds]):
            weights[train, number] = problem.weight[train]
        total = weights.sum(0)
        self._weights = torch.as_tensor(weights / total, dtype=dtype, device=problem.device)
        # rare features of held-out rows are large in units of the others, as those of new rows will be
        own_units = problem.standardized and isinstance(self._features, SparseFeatures)
        self._variance = variances(self._features, self._weights) if own_units else None
        self._share = torch.as_tensor(total / problem.weight.sum(), dtype=dtype, device=problem.device)
        # repeated folds are left out: fits with noise take longer
        self.n_noise_folds = min(self.n_folds, problem.n_link_folds)

    def search(self) -> PathPoint:
        """The point with the least loss."""
        if self.alpha is not None:
            return self._doubt_as_at(self.fit(self.alpha))
        for exponent in (0.0, -1.0, -2.0):  # solutions of strong penalties are easy to find, and to begin with
            point = self.at(exponent)
        self._doubt_as_at(point)
        best = self._walk(-1.0, _WEAKEST)
        if best == 0.0:
            best = self._walk(1.0, _STRONGEST)
        # a fit to large data takes long, and there the loss is flat around the least
        for step in (_STEP, _STEP / 2) if self.n_folds == len(self.problem.folds) else (_STEP,):
            best = min((best, best + step, best - step), key=lambda exponent: self.loss(self.at(exponent)))
        return self.at(best)

    def _walk(self, side: float, end: float) -> float:
        """Follow the path from 0 on until the loss has risen, without noise clearly; return the exponent of the least."""
        exponent = best = 0.0
        while (exponent := exponent + side) * side <= end * side:
            point, least = self.at(exponent), self.at(best)
            if self.loss(point) < self.loss(least):
                best = exponent
                continue
            away = self.held_out.difference(point.losses, least.losses)
            # where the loss is flat, weaker penalties may find a signal in directions of small variance; with noise, they
            # explain wrong labels
            if self.problem.known_noise or away.mean > max(SURE_ERRORS * away.error, LEAST_GAIN * self.loss(least)):
                break
        return best

    def at(self, exponent: float) -> PathPoint:
        """The fits at a strength of ten to this power."""
        if exponent not in self.points:
            nearest = min(self.points, key=lambda known: abs(known - exponent), default=None)
            start = None if nearest is None else self.points[nearest].fitted
            self.points[exponent] = self.fit(10.0**exponent, start)
        return self.points[exponent]

    def fit(self, alpha: float, start: Logistic | None = None) -> PathPoint:
        """The fits at any strength."""
        known = self.problem.known_noise
        rate = float(known.rate()) if isinstance(known, SymmetricNoise) else None
        fitted = self._solve(self.n_folds, alpha, start, rate)
        rows = self._predict(fitted, self.held_out.row, self.held_out.fold)
        observed = rows if known is None else rows._replace(log_p=known.log_observed(rows.log_p))
        return self._point(alpha, fitted, observed)

    def _point(self, alpha: float, fitted: Logistic, observed: LabeledRows, **noise: Any) -> PathPoint:
        log_losses, of_any_class = -observed.label_log_p, -observed.log_p.mean(-1)
        return PathPoint(alpha, log_losses.cpu().numpy(), of_any_class.cpu().numpy(), fitted, self.doubt, **noise)

    def _doubt_as_at(self, point: PathPoint) -> PathPoint:
        """Set the doubt of all points by the held-out margins of one, and return that."""
        self.doubt = doubted_rows(point.log_losses, self.held_out.n_rows) / self.held_out.n_rows
        self.points = {exponent: known._replace(doubt=self.doubt) for exponent, known in self.points.items()}
        return point._replace(doubt=self.doubt)

    def with_all_folds(self, best: PathPoint) -> list[PathPoint]:
        """Points around the best one on all folds, the least loss first: one fold only tells links from softmax."""
        whole = LogisticPath(self.problem, n_folds=len(self.problem.folds))
        whole.doubt = self.doubt
        known, first = whole.points, math.log10(best.alpha)
        # not from the solution of the first fold, which has seen the rows that the others hold out
        for exponent in (first + _STEP, first, first - _STEP):
            whole.at(exponent)
        while _WEAKEST < (least := min(known, key=lambda exponent: whole.loss(known[exponent]))) < _STRONGEST:
            if min(known) < least < max(known):
                break
            whole.at(least + math.copysign(_STEP, least - first))
        return sorted(known.values(), key=whole.loss)

    def estimate(self, point: PathPoint) -> PathPoint:
        """A point without noise, with the noise that its predictions speak for."""
        return self._estimate(point.alpha, point.fitted, 0.0)

    def search_floors(self, base: PathPoint) -> list[PathPoint]:
        """Try rates of noise and strengths, beginning at the best point without noise; the least loss first."""
        points: list[PathPoint] = []
        for rate in _RATES:
            points += self._walk_with_noise(base, rate)
            best = min(points, key=self.loss)
            if best.rate < rate:
                break
        for side in (_STEP, -_STEP) if self.alpha is None else ():
            points.append(self._fit_with_noise(best.alpha * 10.0**side, best.rate, best.fitted))
        return sorted(points, key=self.loss)

    def _walk_with_noise(self, base: PathPoint, rate: float) -> list[PathPoint]:
        """Points from the strength of ``base`` to weaker ones, until the loss rises."""
        points = [self._fit_with_noise(base.alpha, rate, base.fitted)]
        while self.alpha is None and points[-1].alpha > 10.0**_WEAKEST:
            points.append(self._fit_with_noise(points[-1].alpha / 10.0, rate, points[-1].fitted))
            if self.loss(points[-1]) > self.loss(points[-2]):
                break
        return points

    def _fit_with_noise(self, alpha: float, rate: float, start: Logistic) -> PathPoint:
        return self._estimate(alpha, self._solve(self.n_noise_folds, alpha, start, rate), rate)

    def _estimate(self, alpha: float, fitted: Logistic, rate: float) -> PathPoint:
        """The point of a fit, with the noise that its predictions speak for."""
        held_out, seen = self._predict_folds(fitted)
        estimate, _ = estimate_rates(average_repeats(held_out, self._noise_rows), seen)
        observed = estimate.observe(held_out)
        return self._point(alpha, fitted.first(self.n_noise_folds), observed, rate=rate, estimate=estimate)

    def loss(self, point: PathPoint) -> float:
        """Mean log-loss on held-out rows."""
        return self.held_out.mean(point.losses).mean

    @property
    def _noise_rows(self) -> np.ndarray:
        """Numbers of the held-out rows of folds with noise."""
        return self.problem.held_out.first(self.n_noise_folds).row

    def predict(self, fitted: Logistic) -> tuple[LabeledRows, LabeledRows]:
        """Predictions for the held-out rows of folds with noise, each once, and for some of the rows they are trained on."""
        held_out, seen = self._predict_folds(fitted)
        return average_repeats(held_out, self._noise_rows), seen

    def _predict_folds(self, fitted: Logistic) -> tuple[LabeledRows, LabeledRows]:
        """The same, with held-out rows one fold after the other."""
        held, parts = self.problem.held_out.first(self.n_noise_folds), self.problem.seen_rows(slice(self.n_noise_folds))
        runs = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return self._predict(fitted, held.row, held.fold), self._predict(fitted, np.concatenate(parts), runs)

    def predict_held_out(self, fitted: Logistic) -> LabeledRows:
        """Predictions for rows by fits that have not seen them, each row once."""
        held = self.problem.held_out.first(len(fitted.weight))
        first = np.unique(held.row, return_index=True)[1]
        first = first[some_rows(len(first), self.problem.n_classes)]
        return self._predict(fitted, held.row[first], held.fold[first])

    def test_links(self, base: PathPoint) -> LinkTest:
        """Test softmax, with the noise of the point, against learned links on held-out rows, each of which counts once."""
        held = self.problem.held_out.first(self.n_noise_folds)
        rows, repeats = np.unique(held.row, return_counts=True)
        if repeats.max() == 1:
            rows = held.row
        rows = rows[some_rows(len(rows), self.problem.n_classes)]
        tested = np.isin(held.row, rows)
        held_out = self._predict(base.fitted, held.row[tested], held.fold[tested])
        held_out = average_repeats(held_out, held.row[tested])
        if base.estimate is not None:
            held_out = base.estimate.observe(held_out)
        log_p, labels, weight = (part.cpu().numpy() for part in held_out)
        dense = isinstance(self.problem.features, DenseFeatures)
        features = self.problem.features.select_rows(rows).astype(np.float64) if dense else None
        return score_test(log_p, labels, features=features, sample_weight=weight)

    def _solve(self, n_folds: int, alpha: float, start: Logistic | None, rate: float | None) -> Logistic:
        problem, weights, known = self.problem, self._weights[:, :n_folds], self.problem.known_noise
        return fit_logistic(
            self._features,
            problem.labels,
            problem.n_classes,
            weights,
            alpha / self._share[:n_folds],
            None if start is None else (start.weight[:n_folds], start.bias[:n_folds]),
            symmetric=problem.symmetric_logistic,
            penalize_intercept=problem.penalize_intercept,
            rate=None if rate is None else weights.new_full((n_folds,), rate),
            transition=known.matrix().to(weights) if isinstance(known, TransitionNoise) else None,
            link=problem.fixed_link,
            variance=None if self._variance is None else self._variance[:n_folds],
        )

    def _predict(self, fitted: Logistic, rows: np.ndarray, runs: np.ndarray) -> LabeledRows:
        """Log-probabilities of rows, each under one of the runs."""
        problem, fitted = self.problem, fitted.first(int(runs.max()) + 1)
        log_p = torch.empty(len(rows), problem.n_classes, dtype=torch.float64, device=problem.device)
        of_all = logistic_log_proba(self._features, problem.n_classes, fitted.weight, fitted.bias, problem.fixed_link)
        for part, of_part in of_all:
            here = np.flatnonzero((rows >= part.start) & (rows < part.stop))
            where, run, place = (torch.as_tensor(i, device=log_p.device) for i in (rows[here], runs[here], here))
            log_p[place] = of_part[where - part.start, run].double()
        return problem.label(log_p, rows)
