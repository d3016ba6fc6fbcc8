r"""Lipschitz isotonic regression: least squares under lower and upper bounds on every slope.

The value function of a dynamic programme over the sorted points has a derivative that is piecewise linear and
increasing. Passing from one point to the next cuts it at its root and moves the right half away by the slack of the
constraint; adding an observation adds one straight line. Both halves therefore stay *fixed* up to an affine map that is
known in closed form, so that the next root is found by bisection and whole runs of vertices change sides in one
vectorised copy. (Kakade et al., 2011, use the same derivative with a balanced tree.)
"""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["lipschitz_isotonic"]

#: Up to so many vertices change sides one by one; more in one copy.
_FEW = 4
#: What counts as a tie, and the most that rounding may have moved a block, beside targets of order one.
_TIE = 1e-14
_ROUNDING = 1e-8


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
    isotonic regression. If ``lower=0`` and all ``y`` lie between the bounds, the bounds never bind: cutting any feasible
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
    distinct, place = np.unique(x, return_inverse=True)
    total = np.bincount(place, weight)
    mean = np.bincount(place, weight * y) / np.where(total > 0, total, 1.0)
    kept = total > 0
    at = distinct[kept]
    rise = float(lower) * (distinct[-1] - distinct[0])
    if rise > high - low:
        raise ValueError(
            f"lower={lower!r} asks for a rise of {rise:.6g} over the range of x, which does not fit between "
            f"y_min={y_min!r} and y_max={y_max!r}; take a smaller lower."
        )
    # points that weigh nothing still need room for the slope lower on their way to the bounds
    left = low + float(lower) * (at[0] - distinct[0])
    right = high - float(lower) * (distinct[-1] - at[-1])
    values = solve_sorted(at, mean[kept], total[kept], float(lower), float(upper), left, right)
    if not kept.all():
        values = np.interp(distinct, at, values) + float(lower) * (distinct - np.clip(distinct, at[0], at[-1]))
    return values[place]


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


def solve_sorted(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray, lower: float, upper: float, low: float, high: float
) -> np.ndarray:
    """Solve the problem for strictly increasing ``x`` and positive weights; ``low`` and ``high`` may be infinite."""
    run = np.diff(x)
    rise = np.concatenate([[0.0], np.cumsum(lower * run)])
    # in u - rise the constraints are 0 <= step <= slack, and the bounds on values concern the two ends only
    slack = np.maximum(upper * run - lower * run, 0.0)
    values, _, _ = solve_steps(y - rise, weight, slack, low, high - rise[-1])
    return values + rise


def solve_steps(
    target: np.ndarray, weight: np.ndarray, slack: np.ndarray, low: float, top: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Minimise :math:`\sum_i w_i (s_i - t_i)^2` with :math:`0 \le s_{i+1} - s_i \le h_i` and ``low <= s <= top``.

    Returns
    -------
    values : ndarray of shape (n,)
        The solution.
    held, up : ndarray of shape (n - 1,)
        Whether each step is held by a bound, and whether the bound is the upper one.
    """
    if low >= top:  # rounding has left just one solution
        steps = np.ones(len(slack), dtype=bool)
        return np.full(len(target), low), steps, ~steps
    # sums of products must neither overflow nor vanish, whatever the unit
    unit = float(np.abs(target).max()) or 1.0
    target, slack, low, top = target / unit, slack / unit, low / unit, top / unit
    values, held, up = _backtrack(_roots(target, weight, slack, low), slack, top)
    return unit * _polish(values, held, target, weight, low, top), held, up


def _roots(target: np.ndarray, weight: np.ndarray, slack: np.ndarray, low: float) -> list[float]:
    """Where each point's value function is least, given only the points before it.

    A vertex on the left has a position ``p`` and a number ``g``; the derivative there is ``g + W p - T`` with the sums
    ``W`` of weights and ``T`` of weighted targets so far. On the right, where everything has been moved by ``shift``, it is
    ``g + WR q - TR`` with ``q = p - shift`` and sums ``WR``, ``TR`` of their own. A vertex is kept as the complex number
    ``p + i g``, so that one addition takes it to the other side. The last vertex of either side is the nearest to the
    root; beyond the first, the number is zero.
    """
    left, right = (np.empty(2 * len(target) + 4, dtype=complex) for _ in range(2))
    nl = nr = 0
    sum_w = sum_t = right_w = right_t = shift = m = 0.0
    roots: list[float] = []
    if low > -np.inf:  # a wall: the derivative comes from -inf
        left[:2], nl, m = (complex(low, -np.inf), complex(low, 0.0)), 2, low
    isotonic = bool(np.isinf(slack).any())
    gaps = [0.0, *slack.tolist()]
    for i, (t, w, gap) in enumerate(zip(target.tolist(), weight.tolist(), gaps, strict=True)):
        if i:  # cut at the root, and a flat piece from m to m + gap
            left[nl] = complex(m, sum_t - sum_w * m)
            nl += 1
            if isotonic:
                nr, right_w, right_t, shift = 0, 0.0, 0.0, 0.0
            else:
                q = m - shift
                right[nr] = complex(q, right_t - right_w * q)
                nr += 1
                shift += gap
        sum_w += w
        sum_t += w * t
        right_w += w
        right_t += w * (t - shift)
        if nl and t < m:
            k = _last_not_above(left, nl, sum_w, sum_t, 1.0)
            if not isotonic:
                over = complex(-shift, right_w * shift - sum_t + right_t)
                if nl - k <= _FEW:
                    for j in range(nl - 1, k, -1):
                        right[nr] = left.item(j) + over
                        nr += 1
                else:
                    right[nr : nr + nl - 1 - k] = left[k + 1 : nl][::-1] + over
                    nr += nl - 1 - k
            nl = k + 1
            vertex = left.item(k + 1)
            p1 = vertex.real
            v1 = vertex.imag + sum_w * p1 - sum_t
            if k < 0:
                m = min(p1 - v1 / sum_w, p1)
            else:
                vertex = left.item(k)
                m = _between(vertex.real, vertex.imag + sum_w * vertex.real - sum_t, p1, v1)
        elif nr and t > m + gap:
            k = _last_not_above(right, nr, right_w, right_t, -1.0)
            over = complex(shift, sum_t - right_w * shift - right_t)
            if nr - k <= _FEW:
                for j in range(nr - 1, k, -1):
                    left[nl] = right.item(j) + over
                    nl += 1
            else:
                left[nl : nl + nr - 1 - k] = right[k + 1 : nr][::-1] + over
                nl += nr - 1 - k
            nr = k + 1
            vertex = right.item(k + 1)
            q1 = vertex.real
            v1 = vertex.imag + right_w * q1 - right_t
            if k < 0:
                m = max(q1 - v1 / right_w, q1) + shift
            else:
                vertex = right.item(k)
                m = _between(vertex.real, vertex.imag + right_w * vertex.real - right_t, q1, v1) + shift
        else:
            m = t
        roots.append(m)
    return roots


def _last_not_above(vertices: np.ndarray, n: int, w: float, t: float, sign: float) -> int:
    """Last of the first ``n - 1`` vertices whose derivative, times ``sign``, is not above zero; -1 if none.

    Vertices are tried at distances 1, 2, 4, ... from the end, as the root seldom moves far, then by bisection.
    """
    item = vertices.item
    step, above, below = 1, n - 1, n - 2
    w, t = sign * w, sign * t
    while below >= 0:
        vertex = item(below)
        if sign * vertex.imag + w * vertex.real - t <= 0.0:
            break
        above = below
        below -= step
        step *= 2
    if below < -1:
        below = -1
    while above - below > 1:
        middle = (above + below) // 2
        vertex = item(middle)
        if sign * vertex.imag + w * vertex.real - t > 0.0:
            above = middle
        else:
            below = middle
    return below


def _between(p0: float, v0: float, p1: float, v1: float) -> float:
    """Root of the line through two vertices with values of different sign; ``v0`` may be infinite at a wall."""
    if p0 == p1 or v0 == -np.inf or v0 == v1:
        return p0
    m = p0 + (p1 - p0) * (v0 / (v0 - v1))
    return min(max(m, min(p0, p1)), max(p0, p1))


def _backtrack(roots: list[float], slack: np.ndarray, top: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values from the last point to the first, whether each step is held by one of its bounds, and by the upper one."""
    value = min(roots[-1], top)
    values, held, up = [value], [], []
    for root, gap in zip(reversed(roots[:-1]), reversed(slack.tolist()), strict=True):
        # a root that is a rounding away from a bound is at it: so blocks at a wall stay whole
        above = root <= value - gap + _TIE
        below = not above and root >= value - _TIE
        if above:
            value -= gap
        elif not below:
            value = root
        held.append(above or below)
        up.append(above)
        values.append(value)
    return np.array(values[::-1]), np.array(held[::-1], dtype=bool), np.array(up[::-1], dtype=bool)


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
