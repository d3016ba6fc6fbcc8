r"""Bregman projection onto increasing functions with bounded slopes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import logit, xlogy
from sklearn.exceptions import ConvergenceWarning

from legendretron.links import Link
from legendretron.trons.lipschitz_isotonic import SlopePoints, solve_steps

_MAX_NEWTON = 200
_MAX_SECANTS = 8
#: A step this small is taken whole: the objective is too coarse to judge it.
_TRUSTED = 1e-6
#: A step this small is the last: Newton's method leaves an error of about its square.
_LAST = 1e-10


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
    for name, bound in (("y_min", y_min), ("y_max", y_max)):
        inside = isinstance(bound, Real) and (np.isinf(bound) or generator.domain[0] <= bound <= generator.domain[1])
        if bound is not None and not inside:
            raise ValueError(f"{name} must lie in the generator's domain, {generator.domain}, got {bound!r}.")
    # not at the ends of the domain, from where the derivative pushes away without bound
    low, high = generator.domain[0] + _EDGE, generator.domain[1] - _EDGE
    low, high = low if y_min is None else max(y_min, low), high if y_max is None else min(y_max, high)
    if low > high:
        raise ValueError(
            f"y_min={y_min!r} and y_max={y_max!r} leave no values inside the generator's domain, {generator.domain}."
        )
    points = SlopePoints(x, v, sample_weight, lower, upper, low, high)
    dual = generator.slope(points.y)
    if not np.isfinite(dual).all():
        raise ValueError(
            "v must lie where the generator's derivative is finite, got "
            f"{points.y[~np.isfinite(dual)][0]!r}; clip v first, for example to [1e-6, 1 - 1e-6]."
        )
    return points.spread(
        _minimize(generator, points, points.mean(dual))
    )  # of tied points only the mean of phi'(v) matters


def _minimize(generator: BregmanGenerator, points: SlopePoints, pull: np.ndarray) -> np.ndarray:
    r"""Minimize :math:`\sum_i w_i (\varphi(s_i + r_i) - a_i s_i)`: the projection less the rise ``r`` of the points.

    The quadratic model of the objective, under the same constraints, is a problem for
    :func:`~legendretron.trons.lipschitz_isotonic.solve_steps`; Newton's method with a line search solves one after another.
    """
    weight, rise = points.weight, points.rise

    def solve(target: np.ndarray, mass: np.ndarray) -> np.ndarray:
        return solve_steps(target, mass, points.slack, points.low, points.top)

    def objective(s: np.ndarray) -> float:
        return float((weight * (generator.value(s + rise) - pull * s)).sum())

    def descends(s: np.ndarray, step: np.ndarray, derivative: np.ndarray) -> bool:
        """Whether a step lowers the objective by some of what it promises; never where the objective is NaN."""
        return objective(s + step) <= objective(s) + 1e-4 * float(derivative @ step)

    s = solve(points.target, weight)
    for _ in range(_MAX_NEWTON):
        slope, curvature = generator.slope(s + rise), generator.curvature(s + rise)
        derivative = weight * (slope - pull)
        for _ in range(_MAX_SECANTS):
            mass = weight * curvature
            new = solve(s - derivative / mass, mass / mass.max())
            step = new - s
            largest = float(np.abs(step).max())
            if largest <= _TRUSTED or descends(s, step, derivative):
                break
            # the derivative bends upwards along the step, as at a kink: take its mean slope up to there instead
            moved = np.abs(step) > 1e-14
            bend = generator.slope(new + rise) - slope
            curvature = np.fmax(curvature, np.where(moved, bend / np.where(moved, step, 1.0), 0.0))
        else:
            size = 1.0
            while size > 1e-10 and not descends(s, size * step, derivative):
                size /= 2.0
            new = s + size * step
        s = new
        if largest <= _LAST:
            return s
    warnings.warn(f"bregman_projection has not converged in {_MAX_NEWTON} steps.", ConvergenceWarning, stacklevel=3)
    return s


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
    points = SlopePoints(x, v, None, lower, upper, y_min, y_max)
    target = np.clip(points.target, points.low, points.top)
    up = _one_way(target, points.slack)
    down = -_one_way(-target[::-1], points.slack[::-1])[::-1]
    return points.spread((up + down) / 2)


def _one_way(target: np.ndarray, slack: np.ndarray) -> np.ndarray:
    value = float(target[0])
    values = [value]
    for wanted, gap in zip(target[1:].tolist(), slack.tolist(), strict=True):
        value = min(max(wanted, value), value + gap)
        values.append(value)
    return np.array(values)
