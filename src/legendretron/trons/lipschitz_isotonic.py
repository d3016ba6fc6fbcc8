r"""Lipschitz isotonic regression: least squares under lower and upper bounds on every slope."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from legendretron.trons.bounded_steps import solve_steps
from legendretron.trons.slope_points import SlopePoints, check_points, check_slopes, check_value_bounds


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
        ``u`` in the order of ``x``, in float64. Points of weight zero lie on the line between their neighbours, and on
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
    values, _, _ = solve_steps(target, points.weight, points.slack, points.low, high)
    return points.spread(values + points.rise)
