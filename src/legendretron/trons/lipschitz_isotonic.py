r"""Lipschitz isotonic regression: least squares under lower and upper bounds on every slope."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.isotonic import isotonic_regression


class SlopePoints:
    """Distinct points of positive weight, sorted, and what slopes between ``lower`` and ``upper`` allow there.

    They have a total ``weight`` (m,), the least ``rise`` (m,) since the first of them, and the ``slack`` (m - 1,) that a step
    may rise beyond that. Less the rise, values lie between the constants ``low`` and ``top``, and the means of ``y`` are
    ``target`` (m,). Arguments are those of :func:`lipschitz_isotonic`, which are checked.
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        lower: float,
        upper: float,
        y_min: float | None,
        y_max: float | None,
    ) -> None:
        x, self.y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        weight = np.ones(x.shape) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if x.ndim != 1 or not len(x) or not x.shape == self.y.shape == weight.shape:
            shapes = f"{x.shape}, {self.y.shape} and {weight.shape}"
            raise ValueError(f"x, y and sample_weight must have one shape (n,) with n >= 1, got {shapes}.")
        for name, array in (("x", x), ("y", self.y), ("sample_weight", weight)):
            if not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite, got NaN or infinite entries.")
        if (weight < 0).any() or not weight.any():
            raise ValueError("sample_weight must not be negative, nor zero for all points.")
        numbers = all(isinstance(slope, Real) for slope in (lower, upper))
        if not (numbers and 0.0 <= lower <= upper and upper > 0.0 and lower < np.inf):
            raise ValueError(
                f"slopes must satisfy 0 <= lower <= upper and upper > 0, got lower={lower!r}, upper={upper!r}."
            )
        for name, bound in (("y_min", y_min), ("y_max", y_max)):
            if bound is not None and not isinstance(bound, Real):
                raise ValueError(f"{name} must be a number or None, got {bound!r}.")
        low, high = -np.inf if y_min is None else float(y_min), np.inf if y_max is None else float(y_max)
        if not low <= high or low == np.inf or high == -np.inf:
            raise ValueError(
                f"y_min and y_max must leave finite values between them, got y_min={y_min!r}, y_max={y_max!r}."
            )
        self._lower = float(lower)
        self._points, self._inverse = np.unique(x, return_inverse=True)
        first, last = self._points[0], self._points[-1]
        steepest = lower if upper == np.inf else upper
        with np.errstate(over="ignore"):
            width = last - first
            if not np.isfinite(width) or not np.isfinite(steepest * width):
                raise ValueError(
                    f"x spans {width:.6g}, over which a slope of {steepest!r} overflows; take x in a larger unit."
                )
        if lower * width > high - low:
            raise ValueError(
                f"lower={lower!r} asks for a rise of {lower * width:.6g} over the range of x, which does not fit between the "
                f"bounds on values, {low:.6g} and {high:.6g}; take a smaller lower."
            )
        self._weight = weight / weight.max()
        total = np.bincount(self._inverse, self._weight)
        self._positive = total > 0
        self._at, self.weight = self._points[self._positive], total[self._positive]
        run = np.diff(self._at)
        self.rise = np.concatenate([[0.0], np.cumsum(self._lower * run)])
        self.slack = np.maximum(float(upper) * run - self._lower * run, 0.0)
        # points that weigh nothing still need room for the slope lower on their way to the bounds
        self.low = low + self._lower * (self._at[0] - first)
        self.top = max(high - self._lower * (last - self._at[-1]) - self.rise[-1], self.low)  # but for rounding
        self.target = self.mean(self.y) - self.rise

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Weighted means ``(m,)`` of values ``(n,)`` at tied points."""
        return np.bincount(self._inverse, self._weight * values)[self._positive] / self.weight

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values ``(m,)`` with the rise added, for all points ``(n,)``: those of weight zero lie between their neighbors."""
        values = values + self.rise
        if not self._positive.all():
            outside = self._points - np.clip(self._points, self._at[0], self._at[-1])
            values = np.interp(self._points, self._at, values) + self._lower * outside
        return values[self._inverse]


#: What counts as a tie, and the most that rounding may have moved a block, beside targets of order one.
_TIE = 1e-14
_ROUNDING = 1e-8


def solve_steps(target: np.ndarray, weight: np.ndarray, slack: np.ndarray, low: float, top: float) -> np.ndarray:
    r"""Minimize :math:`\sum_i w_i (s_i - t_i)^2` with :math:`0 \le s_{i+1} - s_i \le h_i` and ``low <= s <= top``.

    Without bounds on the steps this is isotonic regression. With them, the value function of a dynamic programme over the
    sorted points has a derivative that is piecewise linear and increasing. Passing from one point to the next cuts it at its
    root and moves the right half away by the slack of the constraint; adding an observation adds one straight line. Both
    halves therefore stay *fixed* up to an affine map that is known in closed form, and only the pieces between one root and
    the next are touched. (Kakade et al., 2011, use the same derivative with a balanced tree.)
    """
    if low >= top:  # rounding has left just one solution
        return np.full(len(target), low)
    if np.isinf(slack).all():
        increasing: np.ndarray = isotonic_regression(target, sample_weight=weight, y_min=low, y_max=top)
        return increasing
    # sums of products must neither overflow nor vanish, whatever the unit
    unit = float(np.abs(target).max()) or 1.0
    target, slack, low, top = target / unit, slack / unit, low / unit, top / unit
    from legendretron.trons.compiled_bounded_steps import backtrack, roots  # which imports Numba

    with np.errstate(all="ignore"):  # there is infinity at a wall
        values, held = backtrack(roots(target, weight, slack, float(low)), slack, float(top), _TIE)
    return unit * _polish(values, held, target, weight, low, top)


def _polish(
    values: np.ndarray, linked: np.ndarray, target: np.ndarray, weight: np.ndarray, low: float, top: float
) -> np.ndarray:
    """Put every block of linked points at its own weighted mean, free of the rounding that long sums have gathered.

    Blocks at a bound stay where they are, and so does a block whose mean is further away than rounding.
    """
    first = np.concatenate([[True], ~linked])
    starts, block = np.flatnonzero(first), np.cumsum(first) - 1
    shift = np.add.reduceat(weight * (target - values), starts) / np.add.reduceat(weight, starts)
    shift[np.abs(shift) > _ROUNDING] = 0.0
    if values[0] <= low + _TIE:
        shift[0] = 0.0
    if values[-1] >= top - _TIE:
        shift[-1] = 0.0
    better: np.ndarray = values + shift[block]
    if (np.diff(better)[~linked] < 0).any():
        return values
    return np.clip(better, low, top)


def lipschitz_isotonic(
    x: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
    y_min: float | None = None,
    y_max: float | None = None,
) -> np.ndarray:
    r"""Least-squares fit of an increasing function with bounded slopes, exactly.

    .. math:: \min_u \sum_i w_i (u_i - y_i)^2 \quad\text{with}\quad
              \mathrm{lower}\,(x_j - x_i) \le u_j - u_i \le \mathrm{upper}\,(x_j - x_i) \text{ for } x_i \le x_j,
              \quad y_{\min} \le u_i \le y_{\max} .

    The minimum is the exact one up to rounding, in nearly ``n log n`` operations. With ``upper=inf`` and ``lower=0`` it is
    isotonic regression. If ``lower=0`` and all ``y`` lie between the bounds, the bounds never bind: clipping any feasible
    ``u`` to them keeps its slopes and comes closer to every ``y``.

    Parameters
    ----------
    x : array of shape (n,)
        Points, in any order. Equal ones get the same value.
    y : array of shape (n,)
        Values to fit.
    sample_weight : array of shape (n,), optional
        Non-negative weights, not all zero.
    lower, upper : float, default=0, 1
        Bounds on the slopes, ``0 <= lower <= upper``; ``upper`` may be infinite.
    y_min, y_max : float, optional
        Bounds on the values.

    Returns
    -------
    ndarray of shape (n,)
        ``u`` in the order of ``x``, in float64. Points of weight zero lie on the line between their neighbors, and on
        the slope ``lower`` outside them.

    References
    ----------
    Kakade, Kalai, Kanade, Shamir (2011), Efficient learning of generalized linear and single index models with isotonic
    regression, NeurIPS.

    Examples
    --------
    >>> lipschitz_isotonic([0.0, 1.0, 2.0, 3.0], [0.0, 3.0, 0.0, 3.0], upper=1.0)
    array([0.5, 1.5, 1.5, 2.5])
    """
    points = SlopePoints(x, y, sample_weight, lower, upper, y_min, y_max)
    return points.spread(solve_steps(points.target, points.weight, points.slack, points.low, points.top))
