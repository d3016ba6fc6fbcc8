"""Logistic regression, or a fixed canonical link, along a path of strengths, on several folds at once.

Strengths are those of a fit to all rows. The best strength falls as one over the number of rows, so folds, which have fewer
rows, get a penalty that is stronger by that ratio.
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
from legendretron.links import SymmetricNoise
from legendretron.training.features import Features, SparseFeatures
from legendretron.training.logistic import Logistic, fit_logistic, logistic_log_proba
from legendretron.tuning.noise_checks import check_estimate
from legendretron.tuning.noise_rates import ENOUGH, LabelledRows, RateEstimate, estimate_rates, some_training_rows
from legendretron.tuning.problem import TuningProblem
from legendretron.tuning.scores import Difference, doubted_rows, held_out_loss

__all__ = ["LogisticPath", "PathPoint"]

#: Exponents of the path: it begins with a strong penalty, where the solution is easy to find, and goes on by factors of ten.
#: It ends where the loss exceeds the least one by so many standard errors and by such a share, not where the loss is flat:
#: a signal in directions of small variance appears only at weak penalties.
_FIRST, _STRONGEST, _WEAKEST = 0.0, 3.0, -8.0
_CLEARLY, _SHARE = 3.0, 0.05
#: Penalty at which held-out margins are measured.
_MARGINS_AT = -2.0
_TOLERANCE, _ITERATIONS = 1e-4, 100


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
    """Fits of the first folds, each strength beginning at the solution of the nearest one before.

    Parameters
    ----------
    problem : TuningProblem
        The data.
    n_folds : int, optional
        How many of the folds; all if not given.
    """

    def __init__(self, problem: TuningProblem, n_folds: int | None = None) -> None:
        self.problem = problem
        n_folds = len(problem.folds) if n_folds is None else n_folds
        self.held_out = problem.held_out.first(n_folds)
        self.points: dict[float, PathPoint] = {}
        #: share of held-out labels that is doubted; lowered once margins are measured
        self.doubt = problem.doubt
        weights = np.zeros((len(problem.weight), len(problem.folds)))
        share = np.ones(len(problem.folds))
        for number, (train, _) in enumerate(problem.folds):
            total = problem.weight[train].sum()
            weights[train, number] = problem.weight[train] / total
            share[number] = total / problem.weight.sum()
        #: Sparse features in single precision, which is enough to compare strengths; a dense table would be held twice.
        self._features = problem.single_precision if isinstance(problem.features, SparseFeatures) else problem.features
        dtype = _dtype_of(self._features)
        self._weights = torch.as_tensor(weights, dtype=dtype, device=problem.device)
        self._share = torch.as_tensor(share, dtype=dtype, device=problem.device)
        self._first, self._others = slice(0, n_folds), slice(n_folds, len(problem.folds))
        # repeated folds are left out: fits with noise take many times longer
        self._noise_folds = slice(0, min(n_folds, problem.n_link_folds))

    @property
    def n_noise_folds(self) -> int:
        """How many of the folds noise is looked for on."""
        return self._noise_folds.stop

    def at(self, exponent: float) -> PathPoint:
        """The fits at a strength of ten to this power."""
        if exponent not in self.points:
            self.points[exponent] = self.fit(10.0**exponent, self._nearest(exponent))
        return self.points[exponent]

    def _nearest(self, exponent: float) -> Logistic | None:
        if not self.points:
            return None
        return self.points[min(self.points, key=lambda known: abs(known - exponent))].fitted

    def fit(self, alpha: float, start: Logistic | None = None) -> PathPoint:
        """The fits at any strength."""
        return self._fit(self._first, alpha, start)

    def _fit(self, which: slice, alpha: float, start: Logistic | None) -> PathPoint:
        known = self.problem.known_noise
        if known is None:
            fitted = self._solve(which, alpha, start)
        elif isinstance(known, SymmetricNoise):
            fitted = self._solve(which, alpha, start, rate=float(known.rate()))
        else:
            fitted = self._solve(which, alpha, start, transition=known.matrix().to(self._weights))
        rows, runs = self._held(which)
        losses = np.empty((2, len(rows)))
        for here, log_p in self._log_proba(fitted, rows, runs):
            if known is not None:
                log_p = known.log_observed(log_p)
            losses[:, here] = self._losses(log_p, rows[here])
        return PathPoint(alpha, losses[0], losses[1], fitted, self.doubt)

    def fit_with_noise(self, alpha: float, rate: float, start: Logistic) -> PathPoint:
        """The fits at a strength and a rate of symmetric noise, beginning at others."""
        which = self._noise_folds
        fitted = self._solve(which, alpha, start.first(which.stop), rate=rate)
        return self._with_estimate(alpha, fitted, rate)

    def ask_for_noise(self, base: PathPoint) -> PathPoint:
        """What noise would explain of the predictions of a fit without it; the estimate is checked."""
        fitted = base.fitted.first(self._noise_folds.stop)
        return self.check_estimate(self._with_estimate(base.alpha, fitted, 0.0))

    def _with_estimate(self, alpha: float, fitted: Logistic, rate: float) -> PathPoint:
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

    def labelled(self, fitted: Logistic) -> tuple[LabelledRows, LabelledRows]:
        """Predictions for the held-out rows of folds with noise, and for some of the rows they are trained on."""
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

    def _solve(
        self,
        which: slice,
        alpha: float,
        start: Logistic | None,
        rate: float | None = None,
        transition: Tensor | None = None,
    ) -> Logistic:
        problem, weights = self.problem, self._weights[:, which]
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
            transition=transition,
            link=problem.fixed_link,
            tol=_TOLERANCE,
            max_iter=_ITERATIONS,
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
        parts = list(self._log_proba(fitted, rows, runs))
        order = np.concatenate([here for here, _ in parts])
        log_p = torch.empty(len(rows), self.problem.n_classes, dtype=torch.float64, device=self.problem.device)
        log_p[torch.as_tensor(order, device=log_p.device)] = torch.cat([part for _, part in parts]).double()
        weight = torch.as_tensor(self.problem.weight[rows], dtype=torch.float64, device=log_p.device)
        return LabelledRows(log_p, self.problem.labels[torch.as_tensor(rows, device=log_p.device)], weight)

    def _losses(self, log_p: Tensor, rows: np.ndarray) -> np.ndarray:
        """Log-losses of rows, and their mean over what the label might have been: (2, n)."""
        labels = self.problem.labels[torch.as_tensor(rows, device=log_p.device)]
        return np.stack([held_out_loss(log_p, labels, doubt).double().cpu().numpy() for doubt in (0.0, 1.0)])

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
                first = point.fitted
                repeat = self._others.stop - self._others.start
                weight, bias = (t[:1].repeat(repeat, *[1] * (t.dim() - 1)) for t in (first.weight, first.bias))
                start = first._replace(weight=weight, bias=bias)
            others = self._fit(self._others, point.alpha, start)
            start = others.fitted
            both = Logistic(*(torch.cat(pair) for pair in zip(point.fitted, others.fitted, strict=True)))
            log_losses = np.concatenate([point.log_losses, others.log_losses])
            of_any_class = np.concatenate([point.of_any_class, others.of_any_class])
            complete.append(PathPoint(point.alpha, log_losses, of_any_class, both, self.doubt))
        return sorted(complete, key=lambda point: self.problem.held_out.mean(point.losses).mean)

    def search(self) -> PathPoint:
        """The point with the least loss."""
        for exponent in (_FIRST, -1.0, _MARGINS_AT):
            self.doubt_as_at(self.at(exponent))
        best = self._walk(_FIRST, -1.0, _WEAKEST)
        if best == _FIRST:
            best = self._walk(_FIRST, 1.0, _STRONGEST)
        # a fit to large data takes long, and there the loss is flat around the least
        for step in (0.5, 0.25) if len(self.problem.folds) == self._first.stop else (0.5,):
            for side in (step, -step):
                self.at(best + side)
            best = min(self.points, key=lambda exponent: self.loss(self.points[exponent]))
        return self.points[best]

    def doubt_as_at(self, point: PathPoint) -> None:
        """Set the doubt by the held-out margins of a fit."""
        self.doubt = doubted_rows(point.log_losses, self.held_out.n_rows) / self.held_out.n_rows
        self.points = {exponent: known._replace(doubt=self.doubt) for exponent, known in self.points.items()}

    def _walk(self, exponent: float, side: float, end: float) -> float:
        """Follow the path until the loss is clearly above the least; return the exponent of the least."""
        best = exponent
        while (exponent := exponent + side) * side <= end * side:
            point, least = self.at(exponent), self.at(best)
            if self.loss(point) < self.loss(least):
                best = exponent
                continue
            away = self.held_out.difference(point.losses, least.losses)
            if not away.mean <= max(_CLEARLY * away.error, _SHARE * self.loss(least)):
                break
        return best

    def test_links(self, base: PathPoint, *, robust: bool) -> LinkTest:
        """Test softmax against learned links on held-out rows."""
        rows, runs = self._held(self._noise_folds)
        some = slice(None, None, -(-len(rows) // ENOUGH))
        held_out = self._labelled(base.fitted.first(self._noise_folds.stop), rows[some], runs[some])
        log_p, labels, weight = (part.cpu().numpy() for part in held_out)
        return score_test(log_p, labels, sample_weight=weight, robust=robust)

    def gain(self, point: PathPoint, base: PathPoint) -> Difference:
        """Mean loss of a point without noise minus that of one with noise, and its standard error."""
        held_out = self.held_out.first(self._noise_folds.stop)
        return held_out.difference(base.losses[: len(point.losses)], point.losses)

    def loss(self, point: PathPoint) -> float:
        """Mean log-loss on held-out rows."""
        held_out = self.held_out if point.estimate is None else self.held_out.first(self._noise_folds.stop)
        mean = held_out.mean(point.losses).mean
        return mean if math.isfinite(mean) else math.inf


def _dtype_of(features: Features) -> torch.dtype:
    tensor: Tensor = features.x if hasattr(features, "x") else features.values  # type: ignore[attr-defined]
    return tensor.dtype
