"""The dynamic programme of :mod:`legendretron.trons.lipschitz_isotonic`, compiled where there is Numba."""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.support import has_numba

if has_numba():
    from legendretron.accelerate.cpu.compiling import cached, compiled
else:
    cached = compiled = lambda function: function


@compiled
def _move(place, number, n, to_place, to_number, n_to, by_place, by_number, w, t, sign):
    """Move the last vertices to the other side, up to the first whose derivative, times ``sign``, is not above zero.

    Returns how many vertices both sides then have, and the root, which is between the two.
    """
    while True:
        n -= 1
        p, v = place[n], number[n] + w * place[n] - t
        to_place[n_to], to_number[n_to] = p + by_place, number[n] + by_number
        n_to += 1
        if n == 0:
            return n, n_to, p - sign * max(sign * v / w, 0.0)
        p0 = place[n - 1]
        v0 = number[n - 1] + w * p0 - t
        if not sign * v0 > 0.0:
            break
    if p0 == p or v0 == -math.inf or v0 == v:  # -inf at a wall
        return n, n_to, p0
    root = p0 + (p - p0) * (v0 / (v0 - v))
    return n, n_to, min(max(root, min(p0, p)), max(p0, p))


@cached
def roots(target, weight, slack, low):
    """Where each point's value function is least, given only the points before it.

    A vertex on the left has a position ``p`` and a number ``g``; the derivative there is ``g + W p - T`` with the sums
    ``W`` of weights and ``T`` of weighted targets so far. On the right, where everything has been moved by ``shift``, it is
    ``g + WR q - TR`` with ``q = p - shift`` and sums ``WR``, ``TR`` of their own. The last vertex of either side is the
    nearest to the root; beyond the first, the number is zero.
    """
    n = target.shape[0]
    found = np.empty(n)
    size = 2 * n + 4
    left, left_number, right, right_number = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    nl = nr = 0
    sum_w = sum_t = right_w = right_t = shift = m = 0.0
    if low > -math.inf:  # a wall: the derivative comes from -inf
        left[:2], left_number[0], left_number[1], nl, m = low, -math.inf, 0.0, 2, low
    for i in range(n):
        t, w, gap = target[i], weight[i], slack[i - 1] if i else 0.0
        if i:  # cut at the root, and a flat piece from m to m + gap
            left[nl], left_number[nl] = m, sum_t - sum_w * m
            nl += 1
            q = m - shift
            right[nr], right_number[nr] = q, right_t - right_w * q
            nr += 1
            shift += gap
        sum_w += w
        sum_t += w * t
        right_w += w
        right_t += w * (t - shift)
        if nl and t < m:
            over = right_w * shift - sum_t + right_t
            nl, nr, m = _move(left, left_number, nl, right, right_number, nr, -shift, over, sum_w, sum_t, 1.0)
        elif nr and t > m + gap:
            over = sum_t - right_w * shift - right_t
            nr, nl, m = _move(right, right_number, nr, left, left_number, nl, shift, over, right_w, right_t, -1.0)
            m += shift
        else:
            m = t
        found[i] = m
    return found


@cached
def backtrack(roots, slack, top, tie):
    """Values from the last point to the first, and whether each step is held by one of its bounds."""
    n = roots.shape[0]
    values, held = np.empty(n), np.zeros(n - 1, np.bool_)
    value = min(roots[n - 1], top)
    values[n - 1] = value
    for i in range(n - 2, -1, -1):
        # a root that is a rounding away from a bound is at it: so blocks at a wall stay whole
        if roots[i] <= value - slack[i] + tie:
            held[i], value = True, value - slack[i]
        elif roots[i] >= value - tie:
            held[i] = True
        else:
            value = roots[i]
        values[i] = value
    return values, held
