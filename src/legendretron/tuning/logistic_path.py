"""Logistic regression, or a fixed canonical link, along paths of strengths, on several folds at once.

Strengths are those of a fit to all rows. The best strength falls as one over the number of rows, so folds, which have fewer
rows, get a penalty that is stronger by that ratio.

Where some labels are wrong, strength and rate of noise are searched together. The rate assumed in training need not be the
rate that is estimated: a higher one gives a loss that is more robust to rows that do not fit. With less weight on such rows
weaker penalties do well, so these paths go from the best strength without noise to weaker ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.calibration.prediction_sets import some_rows
from legendretron.diagnostics.softmax_test import LinkTest, score_test
from legendretron.links import SymmetricNoise, TransitionNoise
from legendretron.links.noise_models import mix_with_uniform
from legendretron.training.features import DenseFeatures, Features
from legendretron.training.logistic import Logistic, fit_logistic, logistic_log_proba
from legendretron.tuning.problem import LabelledRows, TuningProblem, thin
from legendretron.tuning.scores import CLEARLY, doubted_rows, held_out_loss
from legendretron.tuning.wrong_labels import (
    RateEstimate,
    check_estimate,
    estimate_rates,
    is_believable,
    some_training_rows,
)

#: Exponent at which a path to stronger penalties ends: nothing but the biases is left.
_STRONGEST = 3.0
#: Exponent at which a path to weaker penalties ends: nothing of the penalty is left.
_WEAKEST = -8.0
#: Rise of the loss at which a path ends, if it is clear too: where it is flat, weaker penalties may find a signal in
#: directions of small variance.
_RISE = 0.05
#: Rates of noise assumed in training; the highest is tried only if the one before is better than the first.
_RATES = (0.3, 0.7, 0.9)
#: Factors of ten of a path with noise: with less weight on rows that do not fit, weaker penalties do well.
_NOISY_DECADES = 4


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
        """Log-losses with a little doubt, see :func:`~legendretron.tuning.scores.held_out_loss`."""
        return (1.0 - self.doubt) * self.log_losses + self.doubt * self.of_any_class

    @property
    def noise(self) -> RateEstimate:
        """The estimate of a point with noise."""
        assert self.estimate is not None
        return self.estimate


class LogisticPath:
    """Fits of the first ``n_folds`` folds, each strength beginning at the solution of the nearest one before."""

    def __init__(self, problem: TuningProblem, n_folds: int | None = None) -> None:
        self.problem = problem
        n_folds = len(problem.folds) if n_folds is None else n_folds
        self.held_out = problem.held_out.first(n_folds)
        self.points: dict[float, PathPoint] = {}
        #: share of held-out labels that is doubted; lowered once margins are measured
        self.doubt = problem.doubt
        # sparse features in single precision, which is enough to compare strengths; a dense table would be held twice
        self._features: Features = problem.single_precision
        dtype = torch.float32
        if isinstance(problem.features, DenseFeatures):
            self._features, dtype = problem.features, problem.features.x.dtype
        weights = np.zeros((len(problem.weight), len(problem.folds)))
        for number, (train, _) in enumerate(problem.folds):
            weights[train, number] = problem.weight[train]
        total = weights.sum(0)
        self._weights = torch.as_tensor(weights / total, dtype=dtype, device=problem.device)
        self._share = torch.as_tensor(total / problem.weight.sum(), dtype=dtype, device=problem.device)
        self._first, self._others = slice(0, n_folds), slice(n_folds, len(problem.folds))
        # repeated folds are left out: fits with noise take many times longer
        self._noise_folds = slice(0, min(n_folds, problem.n_link_folds))

    # --- without noise, or with noise that is known ---

    def search(self) -> PathPoint:
        """The point with the least loss."""
        for exponent in (0.0, -1.0, -2.0):  # solutions of strong penalties are easy to find, and to begin with
            point = self.at(exponent)
        self.doubt_as_at(point)
        best = self._walk(-1.0, _WEAKEST)
        if best == 0.0:
            best = self._walk(1.0, _STRONGEST)
        # a fit to large data takes long, and there the loss is flat around the least
        for step in (0.5, 0.25) if len(self.problem.folds) == self._first.stop else (0.5,):
            for side in (step, -step):
                self.at(best + side)
            best = min(self.points, key=lambda exponent: self.loss(self.points[exponent]))
        return self.points[best]

    def _walk(self, side: float, end: float) -> float:
        """Follow the path from 0 on until the loss is clearly above the least; return the exponent of the least."""
        exponent = best = 0.0
        while (exponent := exponent + side) * side <= end * side:
            point, least = self.at(exponent), self.at(best)
            if self.loss(point) < self.loss(least):
                best = exponent
                continue
            away = self.held_out.difference(point.losses, least.losses)
            if not away.mean <= max(CLEARLY * away.error, _RISE * self.loss(least)):
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
        return self._fit(self._first, alpha, start)

    def _fit(self, which: slice, alpha: float, start: Logistic | None) -> PathPoint:
        known = self.problem.known_noise
        rate = float(known.rate()) if isinstance(known, SymmetricNoise) else None
        fitted = self._solve(which, alpha, start, rate)
        rows, runs = self._held(which)
        losses = np.empty((2, len(rows)))
        for here, log_p in self._log_proba(fitted, rows, runs):
            observed = log_p if known is None else known.log_observed(log_p)
            losses[:, here] = self._losses(observed, rows[here])
        return PathPoint(alpha, losses[0], losses[1], fitted, self.doubt)

    def doubt_as_at(self, point: PathPoint) -> PathPoint:
        """Set the doubt of all points by the held-out margins of one, and return that."""
        self.doubt = doubted_rows(point.log_losses, self.held_out.n_rows) / self.held_out.n_rows
        self.points = {exponent: known._replace(doubt=self.doubt) for exponent, known in self.points.items()}
        return point._replace(doubt=self.doubt)

    def with_other_folds(self, best: PathPoint) -> list[PathPoint]:
        """The best point and its neighbours on all folds, the one with the least loss first.

        A path on one fold of large data is enough to compare with a learned link; where logistic regression itself is to be
        the model, its strength deserves all folds.
        """
        near = [point for point in self.points.values() if abs(math.log10(point.alpha / best.alpha)) < 0.6]
        complete = []
        # from the strongest on: solutions of stronger penalties are the easier ones to begin with
        start: Logistic | None = None
        for point in sorted(near or [best], key=lambda point: -point.alpha):
            if start is None:  # the solution of the first fold is a better start than zero
                repeat = self._others.stop - self._others.start
                start = Logistic(*(t[:1].repeat(repeat, *[1] * (t.dim() - 1)) for t in point.fitted))
            others = self._fit(self._others, point.alpha, start)
            start = others.fitted
            both = Logistic(*(torch.cat(pair) for pair in zip(point.fitted, others.fitted, strict=True)))
            log_losses = np.concatenate([point.log_losses, others.log_losses])
            of_any_class = np.concatenate([point.of_any_class, others.of_any_class])
            complete.append(PathPoint(point.alpha, log_losses, of_any_class, both, self.doubt))
        return sorted(complete, key=lambda point: self.problem.held_out.mean(point.losses).mean)

    # --- with noise that is looked for ---

    def search_noise(self, base: PathPoint, *, always: bool, fixed: bool) -> tuple[list[PathPoint], bool]:
        """Ask whether labels are wrong; if so, or ``always``, try rates and strengths; ``fixed``, only that of ``base``.

        Returns what was tried, the best first, and whether noise is believed: by predictions of ``base``, the best point
        without noise, by those of the best point with noise, and as it lowers the loss.
        """
        asked = self.check_estimate(self._estimate(base.alpha, base.fitted.first(self._noise_folds.stop), 0.0))
        if not always and not is_believable(asked.noise, self.problem):
            return [asked], False
        low, high, highest = _RATES
        points = self._walk_with_noise(base, low, fixed) + self._walk_with_noise(base, high, fixed)
        if min(points, key=self.loss).rate == high:
            points += self._walk_with_noise(base, highest, fixed)
        best = min(points, key=self.loss)
        for side in () if fixed else (0.5, -0.5):
            points.append(self._fit_with_noise(best.alpha * 10.0**side, best.rate, best.fitted))
        first, *others = sorted(points, key=self.loss)
        first = self.check_estimate(first)
        gain = self.held_out.difference(base.losses, first.losses).mean
        return [first, *others], always or (gain > 0.0 and is_believable(first.noise, self.problem))

    def _walk_with_noise(self, base: PathPoint, rate: float, fixed: bool) -> list[PathPoint]:
        """Points from the strength of ``base`` to weaker ones, until the loss rises."""
        points: list[PathPoint] = []
        start = base.fitted
        for decade in range(1 if fixed else 1 + _NOISY_DECADES):
            points.append(self._fit_with_noise(base.alpha / 10.0**decade, rate, start))
            start = points[-1].fitted
            if decade > 0 and self.loss(points[-1]) > self.loss(points[-2]):
                break
        return points

    def _fit_with_noise(self, alpha: float, rate: float, start: Logistic) -> PathPoint:
        which = self._noise_folds
        return self._estimate(alpha, self._solve(which, alpha, start.first(which.stop), rate), rate)

    def _estimate(self, alpha: float, fitted: Logistic, rate: float) -> PathPoint:
        """The point of a fit, with the noise that its predictions speak for."""
        estimate, log_q = estimate_rates(*self.labelled(fitted))
        log_losses, of_any_class = self._losses(log_q, self._held(self._noise_folds)[0])
        return PathPoint(alpha, log_losses, of_any_class, fitted, self.doubt, rate, estimate)

    def check_estimate(self, point: PathPoint) -> PathPoint:
        """The point, with its estimate checked by other rows."""
        held_out, training = self.labelled(point.fitted)
        estimate, log_q = estimate_rates(held_out, training, temperatures=(point.noise.temperature,))
        estimate = estimate._replace(evidence=point.noise.evidence)  # against all temperatures, not this one alone
        rows, _ = self._held(self._noise_folds)
        return point._replace(estimate=check_estimate(estimate, self.problem, rows, log_q, held_out.labels))

    # --- what fits predict ---

    def loss(self, point: PathPoint) -> float:
        """Mean log-loss on held-out rows."""
        return self.held_out.mean(point.losses).mean

    def labelled(self, fitted: Logistic) -> tuple[LabelledRows, LabelledRows]:
        """Predictions for the held-out rows of folds with noise, and for some of the rows they are trained on."""
        fitted = fitted.first(self._noise_folds.stop)
        parts = some_training_rows(self.problem.folds[self._noise_folds])
        runs = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        held_out = self._labelled(fitted, *self._held(self._noise_folds))
        return held_out, self._labelled(fitted, np.concatenate(parts), runs)

    def predict_held_out(self, fitted: Logistic) -> LabelledRows:
        """Predictions for rows by fits that have not seen them, each row once."""
        rows, runs = self._held(slice(0, len(fitted.weight)))
        first = np.unique(rows, return_index=True)[1]
        first = first[some_rows(len(first), self.problem.n_classes)]
        return self._labelled(fitted, rows[first], runs[first])

    def test_links(self, base: PathPoint) -> LinkTest:
        """Test softmax, with the noise of the point, against learned links on held-out rows."""
        rows, runs = self._held(self._noise_folds)
        some = thin(len(rows))
        held_out = self._labelled(base.fitted.first(self._noise_folds.stop), rows[some], runs[some])
        if base.estimate is not None:
            true = held_out.to_power(base.noise.temperature).log_p
            held_out = held_out._replace(log_p=mix_with_uniform(true, true.new_tensor(base.noise.held_out)))
        log_p, labels, weight = (part.cpu().numpy() for part in held_out)
        dense = isinstance(self.problem.features, DenseFeatures)
        features = self.problem.features.select_rows(rows[some]).astype(np.float64) if dense else None
        return score_test(log_p, labels, features=features, sample_weight=weight)

    def _solve(self, which: slice, alpha: float, start: Logistic | None, rate: float | None) -> Logistic:
        problem, weights, known = self.problem, self._weights[:, which], self.problem.known_noise
        return fit_logistic(
            self._features,
            problem.labels,
            problem.n_classes,
            weights,
            alpha / self._share[which],
            None if start is None else (start.weight, start.bias),
            symmetric=problem.symmetric_logistic,
            penalize_intercept=problem.penalize_intercept,
            rate=None if rate is None else weights.new_full((weights.shape[1],), rate),
            transition=known.matrix().to(weights) if isinstance(known, TransitionNoise) else None,
            link=problem.fixed_link,
        )

    def _held(self, which: slice) -> tuple[np.ndarray, np.ndarray]:
        """Held-out rows of some folds, and the number of the run in which each is."""
        held = self.problem.held_out
        inside = (held.fold >= which.start) & (held.fold < which.stop)
        return held.row[inside], held.fold[inside] - which.start

    def _log_proba(self, fitted: Logistic, rows: np.ndarray, runs: np.ndarray) -> Iterator[tuple[np.ndarray, Tensor]]:
        """Log-probabilities of rows, each under one of the runs: parts of them, with (n, C) each."""
        problem = self.problem
        of_all = logistic_log_proba(self._features, problem.n_classes, fitted.weight, fitted.bias, problem.fixed_link)
        for part, log_p in of_all:
            here = np.flatnonzero((rows >= part.start) & (rows < part.stop))
            where, run = (torch.as_tensor(index[here], device=log_p.device) for index in (rows, runs))
            yield here, log_p[where - part.start, run]

    def _labelled(self, fitted: Logistic, rows: np.ndarray, runs: np.ndarray) -> LabelledRows:
        log_p = torch.empty(len(rows), self.problem.n_classes, dtype=torch.float64, device=self.problem.device)
        for here, part in self._log_proba(fitted, rows, runs):
            log_p[torch.as_tensor(here, device=log_p.device)] = part.double()
        return self.problem.label(log_p, rows)

    def _losses(self, log_p: Tensor, rows: np.ndarray) -> np.ndarray:
        """Log-losses of rows, and their mean over what the label might have been: (2, n)."""
        labels = self.problem.labels[torch.as_tensor(rows, device=log_p.device)]
        return np.stack([held_out_loss(log_p, labels, doubt).double().cpu().numpy() for doubt in (0.0, 1.0)])
