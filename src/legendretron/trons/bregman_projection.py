r"""Bregman projection onto increasing functions with bounded slopes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import logit, xlogy
from sklearn.exceptions import ConvergenceWarning

from legendretron.links import Link
from legendretron.trons.lipschitz_isotonic import (
    SlopePoints,
    check_points,
    check_slopes,
    check_value_bounds,
    solve_steps,
)

_MAX_NEWTON = 200
_MAX_SECANTS = 8
#: A step this small is taken whole: the objective is too coarse to judge it.
_TRUSTED = 1e-6
#: A step this small is the last: Newton's method leaves an error of about its square.
_LAST = 1e-10


@dataclass(frozen=True)
class SlopeProblem:
    r"""Minimize :math:`\sum_i w_i (\varphi(s_i + r_i) - a_i s_i)` with :math:`0 \le s_{i+1} - s_i \le h_i`.

    Values also lie between ``low`` and ``top``. It is the Bregman projection less the rise ``r`` that every solution has.
    The quadratic model of the objective, under the same constraints, is a problem for
    :func:`~legendretron.trons.lipschitz_isotonic.solve_steps`; Newton's method with a line search solves one after another.
    """

    generator: BregmanGenerator
    rise: np.ndarray
    pull: np.ndarray
    weight: np.ndarray
    slack: np.ndarray
    low: float
    top: float

    def solve(self, s: np.ndarray) -> np.ndarray:
        """Solution ``s`` from any values."""
        s = solve_steps(s, self.weight, self.slack, self.low, self.top)
        for _ in range(_MAX_NEWTON):
            s, largest = self._step(s)
            if largest <= _LAST:
                return s
        warnings.warn(f"bregman_projection has not converged in {_MAX_NEWTON} steps.", ConvergenceWarning, stacklevel=4)
        return s

    def _step(self, s: np.ndarray) -> tuple[np.ndarray, float]:
        """One Newton step, and the largest entry of what was wanted."""
        slope, curvature = self.generator.slope(s + self.rise), self.generator.curvature(s + self.rise)
        derivative = self.weight * (slope - self.pull)
        for _ in range(_MAX_SECANTS):
            mass = self.weight * curvature
            new = solve_steps(s - derivative / mass, mass / mass.max(), self.slack, self.low, self.top)
            step = new - s
            largest = float(np.abs(step).max())
            if largest <= _TRUSTED or self._descends(s, step, derivative):
                return new, largest
            # the derivative bends upwards along the step, as at a kink: take its mean slope up to there instead
            moved = np.abs(step) > 1e-14
            rise = self.generator.slope(new + self.rise) - slope
            curvature = np.fmax(curvature, np.where(moved, rise / np.where(moved, step, 1.0), 0.0))
        size = 1.0
        while size > 1e-10 and not self._descends(s, size * step, derivative):
            size /= 2.0
        return s + size * step, largest

    def _descends(self, s: np.ndarray, step: np.ndarray, derivative: np.ndarray) -> bool:
        """Whether a step lowers the objective by some of what it promises; never where the objective is NaN."""
        return self._objective(s + step) <= self._objective(s) + 1e-4 * float(derivative @ step)

    def _objective(self, s: np.ndarray) -> float:
        return float((self.weight * (self.generator.value(s + self.rise) - self.pull * s)).sum())


#: Nearest to an end of the domain.
_EDGE = 1e-14


@dataclass(frozen=True)
class BregmanGenerator:
    r"""A strictly convex function :math:`\varphi` with its first two derivatives, all on arrays.

    Its divergence is :math:`D(u \,\|\, v) = \varphi(u) - \varphi(v) - \varphi'(v)(u - v)`.

    Examples
    --------
    >>> square = BregmanGenerator.square()
    >>> float(square.divergence(np.array(1.0), np.array(0.5)))
    0.25
    """

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    curvature: Callable[[np.ndarray], np.ndarray]
    #: the open interval where it is finite
    domain: tuple[float, float] = (-np.inf, np.inf)

    def divergence(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Divergence of ``u`` from ``v``, entry by entry."""
        return self.value(u) - self.value(v) - self.slope(v) * (u - v)

    @classmethod
    def square(cls) -> BregmanGenerator:
        r""":math:`\varphi(u) = u^2`: the divergence is the squared distance."""
        return cls(np.square, lambda u: 2.0 * u, lambda u: np.full(np.shape(u), 2.0))

    @classmethod
    def entropy(cls) -> BregmanGenerator:
        r""":math:`\varphi(u) = u \log u + (1 - u) \log(1 - u)`: the divergence is that of Kullback and Leibler."""
        return cls(lambda u: xlogy(u, u) + xlogy(1.0 - u, 1.0 - u), logit, lambda u: 1.0 / (u * (1.0 - u)), (0.0, 1.0))

    @classmethod
    def of_link(cls, link: Link) -> BregmanGenerator:
        r"""Negative Bayes risk of a two-class link's canonical loss: :math:`\varphi = F^*`, :math:`\varphi' = \psi`."""
        if link.n_classes != 2:
            raise ValueError(f"link must be of two classes, got n_classes={link.n_classes}.")

        def pairs(u: np.ndarray) -> torch.Tensor:
            return torch.as_tensor(np.stack([u, 1.0 - u], axis=-1))

        @torch.no_grad()
        def value(u: np.ndarray) -> np.ndarray:
            return link.conjugate(pairs(u)).numpy()

        @torch.no_grad()
        def slope(u: np.ndarray) -> np.ndarray:
            return link.link(pairs(u)).squeeze(-1).numpy()

        @torch.no_grad()
        def curvature(u: np.ndarray) -> np.ndarray:
            return 1.0 / link.jacobian(link.link(pairs(u))).squeeze(-1).squeeze(-1).numpy()

        return cls(value, slope, curvature, (0.0, 1.0))


def bregman_projection(
    x: ArrayLike,
    v: ArrayLike,
    generator: BregmanGenerator,
    sample_weight: ArrayLike | None = None,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
    y_min: float | None = None,
    y_max: float | None = None,
) -> np.ndarray:
    r"""Nearest increasing function with bounded slopes, in the sense of a Bregman divergence.

    .. math:: \min_u \sum_i w_i D(u_i \,\|\, v_i) \quad\text{with}\quad
              \mathrm{lower}\,(x_j - x_i) \le u_j - u_i \le \mathrm{upper}\,(x_j - x_i) \text{ for } x_i \le x_j,
              \quad y_{\min} \le u_i \le y_{\max} .

    The minimum is the exact one up to rounding, by Newton's method, whose steps are
    :func:`~legendretron.trons.lipschitz_isotonic` regressions.

    Parameters
    ----------
    x, v : array of shape (n,)
        Points in any order, and values to project, where the generator has a finite derivative. Equal points get the
        same value.
    generator : BregmanGenerator
        The convex function.
    sample_weight, lower, upper, y_min, y_max
        As in :func:`~legendretron.trons.lipschitz_isotonic`. The bounds on values must lie in the generator's domain.

    Returns
    -------
    ndarray of shape (n,)
        ``u`` in the order of ``x``.

    Examples
    --------
    >>> u = bregman_projection([0.0, 1.0, 2.0], [0.2, 0.9, 0.4], BregmanGenerator.entropy(), upper=0.3)
    >>> np.diff(u).round(6)
    array([0.3, 0. ])
    """
    x, v, weight = check_points(x, v, sample_weight)
    check_slopes(lower, upper, x)
    low, high = _within(generator.domain, y_min, y_max)
    dual = generator.slope(v)
    if not np.isfinite(dual).all():
        raise ValueError(
            "v must lie where the generator's derivative is finite, got "
            f"{v[~np.isfinite(dual)][0]!r}; clip v first, for example to [1e-6, 1 - 1e-6]."
        )
    points = SlopePoints(x, weight, lower, upper, low, high)
    problem = SlopeProblem(
        generator,
        points.rise,
        points.mean(dual),  # at tied points nothing else matters of phi'(v)
        points.weight,
        points.slack,
        points.low,
        max(points.high - points.rise[-1], points.low),
    )
    return points.spread(problem.solve(points.mean(v) - points.rise) + points.rise)


def _within(domain: tuple[float, float], y_min: float | None, y_max: float | None) -> tuple[float, float]:
    """Bounds on values inside the domain, but not at its ends, from where the derivative pushes away without bound."""
    low, high = check_value_bounds(y_min, y_max)
    for name, bound in (("y_min", low), ("y_max", high)):
        if np.isfinite(bound) and not domain[0] <= bound <= domain[1]:
            raise ValueError(f"{name} must lie in the generator's domain, {domain}, got {bound!r}.")
    low, high = max(low, domain[0] + _EDGE), min(high, domain[1] - _EDGE)
    if low > high:
        raise ValueError(
            f"y_min={y_min!r} and y_max={y_max!r} leave no values inside the generator's domain, {domain}."
        )
    return low, high


def clip_slopes(
    x: ArrayLike,
    v: ArrayLike,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
    y_min: float | None = 0.0,
    y_max: float | None = 1.0,
) -> np.ndarray:
    """Bend values into an increasing function with bounded slopes, cheaply and not optimally.

    One pass goes up the sorted points and keeps each value within reach of the one before; another goes down. Both
    results obey all bounds, and so does their mean, which is returned: it treats both ends alike.

    Parameters
    ----------
    x, v : array of shape (n,)
        Points in any order, and values. Equal points get the same value.
    lower, upper, y_min, y_max : float
        As in :func:`~legendretron.trons.lipschitz_isotonic`, but values lie between 0 and 1 by default; None: no bound.

    Returns
    -------
    ndarray of shape (n,)
        Values in the order of ``x``.

    Examples
    --------
    >>> clip_slopes([0.0, 1.0, 2.0], [0.5, 0.1, 0.9], upper=0.5)
    array([0.45, 0.45, 0.9 ])
    """
    x, v, _ = check_points(x, v, None)
    check_slopes(lower, upper, x)
    low, high = check_value_bounds(y_min, y_max)
    points = SlopePoints(x, np.ones(len(x)), lower, upper, low, high)
    # less the rise that every solution has, steps lie between 0 and slack, and the bounds are constants
    target = np.clip(points.mean(v) - points.rise, low, high - points.rise[-1])
    up = _one_way(target, points.slack)
    down = -_one_way(-target[::-1], points.slack[::-1])[::-1]
    return points.spread((up + down) / 2 + points.rise)


def _one_way(target: np.ndarray, slack: np.ndarray) -> np.ndarray:
    value = float(target[0])
    values = [value]
    for wanted, gap in zip(target[1:].tolist(), slack.tolist(), strict=True):
        value = min(max(wanted, value), value + gap)
        values.append(value)
    return np.array(values)
