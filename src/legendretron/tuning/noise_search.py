"""Search for strength and rate of noise of logistic regression where some labels are wrong.

The rate assumed in training need not be the rate that is estimated: a higher one gives a loss that is more robust to rows
that do not fit. With less weight on such rows weaker penalties do well, so each path goes from the strength without noise to
weaker ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.noise_rates import RateEstimate
from legendretron.tuning.problem import TuningProblem

__all__ = ["is_noise", "search_noise"]

#: Rates assumed in training; the highest is tried only if the one before is better than the first.
_RATES = (0.3, 0.7, 0.9)
#: A path ends when the loss is so much above the least, or after so many factors of ten.
_SHARE, _DECADES = 0.02, 4
#: Noise must be in this share of the labels, as training rows have it too, and gain so many standard errors.
_LEAST_SHARE, _MUST_GAIN = 0.05, 1.0
#: Standard errors by which noise must explain predictions of a model without it.
_SUSPECTED = 1.0


def is_noise(estimate: RateEstimate, problem: TuningProblem, least: float = _LEAST_SHARE) -> bool:
    """Whether enough labels are wrong to matter.

    Below a twentieth there is little to gain, and what looks like noise is often a model that does not quite fit. So even
    training rows must say so, unless there are so many features that a model can explain any labels of theirs.
    """
    rate = estimate.rate if problem.is_wide else estimate.lowest
    return rate * (problem.n_classes - 1) / problem.n_classes >= least


def search_noise(path: LogisticPath, base: PathPoint, *, always: bool, fixed: bool) -> tuple[list[PathPoint], bool]:
    """Try rates and strengths.

    Parameters
    ----------
    path : LogisticPath
        Of logistic regression without noise.
    base : PathPoint
        Its best point, where paths with noise begin.
    always : bool
        Whether to go on even if there seems to be no noise.
    fixed : bool
        Whether the strength of ``base`` is the only one.

    Returns
    -------
    list of PathPoint
        What was tried, the best first.
    bool
        Whether noise explains the labels better. It may still be that the model does not fit: the estimate of the best point
        says what other rows make of it.
    """
    asked, away = path.ask_for_noise(base)
    suspected = is_noise(asked.noise, path.problem) and away.mean < -_SUSPECTED * away.error
    if not suspected and not always:
        return [asked], False
    low, high, highest = _RATES
    points = _walk(path, base, low, fixed) + _walk(path, base, high, fixed)
    if _least(path, points).rate == high:
        points += _walk(path, base, highest, fixed)
    best = _least(path, points)
    for side in () if fixed else (0.5, -0.5):
        points.append(path.fit_with_noise(best.alpha * 10.0**side, best.rate, best.fitted))
    first, *others = _best_first(path, points)
    away = path.gain(first, base)
    accepted = is_noise(first.noise, path.problem) and away.mean < -_MUST_GAIN * away.error
    if accepted or always:
        first = path.check_estimate(first)
    return [first, *others], accepted


def _walk(path: LogisticPath, base: PathPoint, rate: float, fixed: bool) -> list[PathPoint]:
    points: list[PathPoint] = []
    start, least = base.fitted, math.inf
    for decade in range(1 if fixed else 1 + _DECADES):
        point = path.fit_with_noise(base.alpha / 10.0**decade, rate, start)
        points.append(point)
        start, loss = point.fitted, path.loss(point)
        least = min(least, loss)
        if loss > least * (1.0 + _SHARE):
            break
    return points


def _least(path: LogisticPath, points: Iterable[PathPoint]) -> PathPoint:
    return min(points, key=path.loss)


def _best_first(path: LogisticPath, points: list[PathPoint]) -> list[PathPoint]:
    return sorted(points, key=path.loss)
