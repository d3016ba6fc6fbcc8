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
def _last_not_above(place, number, n, w, t, sign):
    """Last of the first ``n - 1`` vertices whose derivative, times ``sign``, is not above zero; -1 if none.

    Vertices are tried at distances 1, 2, 4, ... from the end, as the root seldom moves far, then by bisection.
    """
    step, above, below = 1, n - 1, n - 2
    while below >= 0 and sign * (number[below] + w * place[below] - t) > 0.0:
        above = below
        below -= step
        step *= 2
    below = max(below, -1)
    while above - below > 1:
        middle = (above + below) // 2
        if sign * (number[middle] + w * place[middle] - t) > 0.0:
            above = middle
        else:
            below = middle
    return below


@compiled
def _between(p0, v0, p1, v1):
    """Root of the line through two vertices with values of different sign; ``v0`` may be infinite at a wall."""
    if p0 == p1 or v0 == -math.inf or v0 == v1:
        return p0
    m = p0 + (p1 - p0) * (v0 / (v0 - v1))
    return min(max(m, min(p0, p1)), max(p0, p1))


@compiled
def _move(place, number, first, n, to_place, to_number, n_to, by_place, by_number):
    """Move the vertices from ``n`` down to ``first`` to the other side; return how many there are then."""
    for j in range(n - 1, first - 1, -1):
        to_place[n_to], to_number[n_to] = place[j] + by_place, number[j] + by_number
        n_to += 1
    return n_to


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
            k = _last_not_above(left, left_number, nl, sum_w, sum_t, 1.0)
            p1, g1 = left[k + 1], left_number[k + 1]
            over = right_w * shift - sum_t + right_t
            nr = _move(left, left_number, k + 1, nl, right, right_number, nr, -shift, over)
            nl = k + 1
            v1 = g1 + sum_w * p1 - sum_t
            if k < 0:
                m = min(p1 - v1 / sum_w, p1)
            else:
                m = _between(left[k], left_number[k] + sum_w * left[k] - sum_t, p1, v1)
        elif nr and t > m + gap:
            k = _last_not_above(right, right_number, nr, right_w, right_t, -1.0)
            q1, g1 = right[k + 1], right_number[k + 1]
            over = sum_t - right_w * shift - right_t
            nl = _move(right, right_number, k + 1, nr, left, left_number, nl, shift, over)
            nr = k + 1
            v1 = g1 + right_w * q1 - right_t
            if k < 0:
                m = max(q1 - v1 / right_w, q1) + shift
            else:
                m = _between(right[k], right_number[k] + right_w * right[k] - right_t, q1, v1) + shift
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
        above = roots[i] <= value - slack[i] + tie
        below = not above and roots[i] >= value - tie
        if above:
            value -= slack[i]
        elif not below:
            value = roots[i]
        held[i], values[i] = above or below, value
    return values, held
