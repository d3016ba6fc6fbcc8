"""Search for strength and rate of noise of logistic regression where some labels are wrong.

The rate assumed in training need not be the rate that is estimated: a higher one gives a loss that is more robust to rows
that do not fit. With less weight on such rows weaker penalties do well, so each path goes from the strength without noise to
weaker ones.
"""

from __future__ import annotations

import math

from legendretron.tuning.logistic_path import LogisticPath, PathPoint
from legendretron.tuning.noise_checks import is_believable

__all__ = ["search_noise"]

#: Rates assumed in training; the highest is tried only if the one before is better than the first.
_RATES = (0.3, 0.7, 0.9)
#: A path ends when the loss is so much above the least, or after so many factors of ten.
_SHARE, _DECADES = 0.02, 4


def search_noise(path: LogisticPath, base: PathPoint, *, always: bool, fixed: bool) -> tuple[list[PathPoint], bool]:
    """Ask whether labels are wrong, and if so try rates and strengths.

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
        Whether noise is believed: by predictions without noise, by those of the best point, and as it lowers the loss.
    """
    asked = path.ask_for_noise(base)
    if not always and not is_believable(asked.noise, path.problem):
        return [asked], False
    low, high, highest = _RATES
    points = _walk(path, base, low, fixed) + _walk(path, base, high, fixed)
    if min(points, key=path.loss).rate == high:
        points += _walk(path, base, highest, fixed)
    best = min(points, key=path.loss)
    for side in () if fixed else (0.5, -0.5):
        points.append(path.fit_with_noise(best.alpha * 10.0**side, best.rate, best.fitted))
    first, *others = sorted(points, key=path.loss)
    first = path.check_estimate(first)
    believed = path.gain(first, base).mean > 0.0 and is_believable(first.noise, path.problem)
    return [first, *others], always or believed


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
