r"""Least squares with bounded steps, exactly.

The value function of a dynamic programme over the sorted points has a derivative that is piecewise linear and
increasing. Passing from one point to the next cuts it at its root and moves the right half away by the slack of the
constraint; adding an observation adds one straight line. Both halves therefore stay *fixed* up to an affine map that is
known in closed form, so that the next root is found by bisection and whole runs of vertices change sides in one
vectorised copy. (Kakade et al., 2011, use the same derivative with a balanced tree.)
"""

from __future__ import annotations

import numpy as np

from legendretron.accelerate.cpu.support import has_numba

__all__ = ["solve_steps"]

#: Up to so many vertices change sides one by one; more in one copy.
_FEW = 4
#: What counts as a tie, and the most that rounding may have moved a block, beside targets of order one.
_TIE = 1e-14
_ROUNDING = 1e-8


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
    if has_numba():
        from legendretron.trons.compiled_bounded_steps import backtrack, roots

        values, held, up = backtrack(roots(target, weight, slack, float(low)), slack, float(top), _TIE)
    else:
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
