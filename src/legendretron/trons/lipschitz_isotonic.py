r"""Lipschitz isotonic regression: least squares under lower and upper bounds on every slope."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.isotonic import isotonic_regression


def check_points(
    x: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points, values and weights as float64 arrays of one shape (n,), or raise."""
    points, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    weight = np.ones(points.shape) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if points.ndim != 1 or len(points) == 0:
        raise ValueError(f"x must have shape (n,) with n >= 1, got {points.shape}.")
    for name, array in (("y", values), ("sample_weight", weight)):
        if array.shape != points.shape:
            raise ValueError(f"{name} must have the shape of x, {points.shape}, got {array.shape}.")
    for name, array in (("x", points), ("y", values), ("sample_weight", weight)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got NaN or infinite entries.")
    if (weight < 0).any() or not weight.any():
        raise ValueError("sample_weight must not be negative, nor zero for all points.")
    return points, values, weight / weight.max()


def check_slopes(lower: object, upper: object, x: np.ndarray) -> None:
    """Raise unless ``0 <= lower <= upper``, ``0 < upper``, and the rises they allow over the range of ``x`` are numbers."""
    numbers = isinstance(lower, Real) and isinstance(upper, Real)
    if not numbers or not 0.0 <= lower <= upper or not upper > 0.0 or lower == np.inf:  # type: ignore[operator]
        raise ValueError(
            f"slopes must satisfy 0 <= lower <= upper and upper > 0, got lower={lower!r}, upper={upper!r}."
        )
    steepest = lower if upper == np.inf else upper
    with np.errstate(over="ignore"):
        width = x.max() - x.min()
        if not np.isfinite(width) or not np.isfinite(float(steepest) * width):  # type: ignore[arg-type]
            raise ValueError(
                f"x spans {width:.6g}, over which a slope of {steepest!r} overflows; take x in a larger unit."
            )


def check_value_bounds(y_min: object, y_max: object) -> tuple[float, float]:
    """Return the bounds, infinite where there is none, or raise unless ``y_min <= y_max``."""
    for name, bound in (("y_min", y_min), ("y_max", y_max)):
        if bound is not None and not isinstance(bound, Real):
            raise ValueError(f"{name} must be a number or None, got {bound!r}.")
    low = -np.inf if y_min is None else float(y_min)  # type: ignore[arg-type]
    high = np.inf if y_max is None else float(y_max)  # type: ignore[arg-type]
    if low == np.inf or high == -np.inf:
        raise ValueError(
            f"y_min and y_max must leave finite values between them, got y_min={y_min!r}, y_max={y_max!r}."
        )
    if not low <= high:
        raise ValueError(f"y_min must not exceed y_max, got y_min={y_min!r}, y_max={y_max!r}.")
    return low, high


def check_rise(lower: float, width: float, low: float, high: float) -> None:
    """Raise unless the least rise over the range of ``x`` fits between the bounds on values."""
    if lower * width > high - low:
        raise ValueError(
            f"lower={lower!r} asks for a rise of {lower * width:.6g} over the range of x, which does not fit between the "
            f"bounds on values, {low:.6g} and {high:.6g}; take a smaller lower."
        )


class SlopePoints:
    """Distinct points of positive weight, sorted, and what slopes between ``lower`` and ``upper`` allow there.

    They have a total ``weight`` (m,), the least ``rise`` (m,) since the first of them, the ``slack`` (m - 1,) that a step may
    rise beyond that, and bounds ``low`` on the first and ``high`` on the last value.
    """

    def __init__(self, x: np.ndarray, weight: np.ndarray, lower: float, upper: float, low: float, high: float) -> None:
        self._given, self._lower = weight, float(lower)
        self._points, self._inverse = np.unique(x, return_inverse=True)
        total = np.bincount(self._inverse, weight)
        self._kept = total > 0
        self._at, self.weight = self._points[self._kept], total[self._kept]
        first, last = self._points[0], self._points[-1]
        check_rise(lower, float(last - first), low, high)
        # points that weigh nothing still need room for the slope lower on their way to the bounds
        self.low = low + self._lower * (self._at[0] - first)
        self.high = high - self._lower * (last - self._at[-1])
        run = np.diff(self._at)
        self.rise = np.concatenate([[0.0], np.cumsum(self._lower * run)])
        self.slack = np.maximum(float(upper) * run - self._lower * run, 0.0)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Weighted means ``(m,)`` of values ``(n,)`` at tied points."""
        return np.bincount(self._inverse, self._given * values)[self._kept] / self.weight

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values ``(n,)`` for all points in their order: those of weight zero lie between their neighbors."""
        if not self._kept.all():
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
    halves therefore stay *fixed* up to an affine map that is known in closed form, so that the next root is found by
    bisection. (Kakade et al., 2011, use the same derivative with a
    balanced tree.)
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
    x, y, weight = check_points(x, y, sample_weight)
    check_slopes(lower, upper, x)
    low, high = check_value_bounds(y_min, y_max)
    points = SlopePoints(x, weight, lower, upper, low, high)
    # in u - rise the constraints are 0 <= step <= slack, and the bounds on values concern the two ends only
    target, high = points.mean(y) - points.rise, points.high - points.rise[-1]
    values = solve_steps(target, points.weight, points.slack, points.low, high)
    return points.spread(values + points.rise)
