r"""Newton's method for the inverse of a ridge block's gradient, compiled; see :mod:`legendretron.accelerate.inverse`.

Arrays are *units times rows*, see :mod:`legendretron.accelerate.cpu.vectors`; matrices of each row have their entries as
units.
"""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.cpu.compiling import at, cached, compiled, put
from legendretron.accelerate.cpu.inner_networks import inner_forward
from legendretron.accelerate.cpu.products import add_product
from legendretron.accelerate.cpu.vectors import activate, add_multiple, fill, multiply, scale

__all__ = ["ridge_duals"]

_WIDTH = 16
_MAX_STEPS, _MAX_HALVINGS, _STALLED = 300, 60, 5
_SUFFICIENT_DECREASE = 1e-4


@compiled
def _evaluate(
    s, ay, gram, numbers, hidden, depth, final_softplus, z, positive, slope, up, rho, g_s, g_rho, value, size
):
    """Of duals ``s``: the network's layers, ``rho = gamma d - s``, the objective, and the norm of ``A^T rho``."""
    width, rank, layer = _WIDTH, hidden * depth + 1, hidden * _WIDTH
    units, last = rank * width, depth * layer
    p_mixing = rank
    p_alpha = p_mixing + (depth - 1) * hidden * hidden + hidden
    alpha, gamma = numbers[p_alpha], numbers[p_alpha + 1]
    fill(g_s, 0, units, 0.0)
    add_product(gram, 0, rank, 1, rank, rank, s, 0, g_s, 0, width)
    for u in range(rank):
        for j in range(width):
            place = u * width + j
            put(z, place, (at(ay, place) - at(g_s, place)) / alpha + numbers[u])
    inner_forward(numbers, p_mixing, z, positive, slope, rho, up, 0, hidden, hidden, depth, int(final_softplus), width)
    if final_softplus:
        activate(z, last, positive, slope, last, width)
    scale(rho, 0, gamma, rho, 0, units)
    for j in range(units):
        put(rho, j, at(rho, j) - at(s, j))
    fill(g_rho, 0, units, 0.0)
    add_product(gram, 0, rank, 1, rank, rank, rho, 0, g_rho, 0, width)
    for j in range(width):
        put(value, j, gamma * (at(positive, last + j) if final_softplus else at(z, last + j)))
        put(size, j, 0.0)
    for u in range(rank):
        for j in range(width):
            place = u * width + j
            put(value, j, at(value, j) + at(s, place) * at(g_s, place) / (2.0 * alpha))
            put(size, j, at(size, j) + at(rho, place) * at(g_rho, place))
    for j in range(width):
        put(size, j, math.sqrt(max(at(size, j), 0.0)))


@compiled
def _factor(slope, up, gram, numbers, hidden, depth, final_softplus, e, e_gram, lower, minus, root):
    r"""``E`` with ``H = E^T E``, the Hessian of ``h``, then ``E G`` and Cholesky's factor of ``alpha I + gamma E G E^T``.

    ``E = D^{1/2} J``: in the row of a unit, only columns of its own layer and those before it are not zero.
    """
    width, rank = _WIDTH, hidden * depth + 1
    p_mixing = rank
    p_alpha = p_mixing + (depth - 1) * hidden * hidden + hidden
    alpha, gamma = numbers[p_alpha], numbers[p_alpha + 1]
    row = rank * width
    for u in range(rank):
        k = u // hidden
        size = min((k + 1) * hidden, rank)
        fill(e, u * row, size * width, 0.0)
        fill(e, u * row + u * width, width, 1.0)
        if k > 0:
            mixing = p_mixing + (k - 1) * hidden * hidden + (u - k * hidden) * hidden
            for i in range(hidden):
                below = (k - 1) * hidden + i
                for j in range(width):
                    put(root, j, numbers[mixing + i] * at(slope, below * width + j))
                for v in range(k * hidden):
                    add_multiple(root, 0, e, below * row + v * width, e, u * row + v * width, width)
    for u in range(rank):
        size = min((u // hidden + 1) * hidden, rank)
        for j in range(width):
            place = u * width + j
            bend = at(slope, place) * (1.0 - at(slope, place))
            if u == rank - 1 and not final_softplus:
                bend = 0.0
            put(root, j, math.sqrt(at(up, place) * bend))
        for v in range(size):
            multiply(root, 0, e, u * row + v * width, e, u * row + v * width, width)
        fill(e_gram, u * row, row, 0.0)
        add_product(gram, 0, rank, 1, rank, size, e, u * row, e_gram, u * row, width)
    for u in range(rank):
        for v in range(u + 1):
            place = u * row + v * width
            fill(lower, place, width, 0.0)
            for c in range(min((v // hidden + 1) * hidden, rank)):
                add_multiple(e_gram, u * row + c * width, e, v * row + c * width, lower, place, width)
            scale(lower, place, gamma, lower, place, width)
            if u == v:
                for j in range(width):
                    put(lower, place + j, at(lower, place + j) + alpha)
            for c in range(v):
                add_multiple(minus, u * row + c * width, lower, v * row + c * width, lower, place, width)
            for j in range(width):
                if u == v:
                    put(lower, place + j, math.sqrt(at(lower, place + j)))
                else:
                    put(lower, place + j, at(lower, place + j) / at(lower, v * row + v * width + j))
                put(minus, place + j, -at(lower, place + j))


@compiled
def _solve(rho, numbers, hidden, depth, e, e_gram, lower, minus, v, step):
    """``step = (alpha I + gamma H G)^{-1} rho``, which is ``(rho - gamma E^T v) / alpha``.

    Here ``(alpha I + gamma E G E^T) v = E G rho``, a system that is symmetric and positive definite.
    """
    width, rank = _WIDTH, hidden * depth + 1
    p_alpha = rank + (depth - 1) * hidden * hidden + hidden
    alpha, gamma = numbers[p_alpha], numbers[p_alpha + 1]
    row = rank * width
    for u in range(rank):
        place = u * width
        fill(v, place, width, 0.0)
        for c in range(rank):
            add_multiple(e_gram, u * row + c * width, rho, c * width, v, place, width)
        for c in range(u):
            add_multiple(minus, u * row + c * width, v, c * width, v, place, width)
        for j in range(width):
            put(v, place + j, at(v, place + j) / at(lower, u * row + place + j))
    for u in range(rank - 1, -1, -1):
        place = u * width
        for c in range(u + 1, rank):
            add_multiple(minus, c * row + place, v, c * width, v, place, width)
        for j in range(width):
            put(v, place + j, at(v, place + j) / at(lower, u * row + place + j))
    fill(step, 0, row, 0.0)
    for u in range(rank):
        for c in range(min((u // hidden + 1) * hidden, rank)):
            add_multiple(e, u * row + c * width, v, u * width, step, c * width, width)
    for j in range(row):
        put(step, j, (at(rho, j) - gamma * at(step, j)) / alpha)


@cached
def ridge_duals(ay, scales, gram, numbers, n, hidden, depth, final_softplus, tolerance, out):
    """Write the duals ``s`` (n, r) of rows with products ``A y`` (n, r) and norms ``|y|`` (n,); NaN where none were found.

    ``gram`` is ``A A^T`` (r, r); ``numbers`` holds ``b``, the mixing weights, ``alpha`` and ``gamma``.
    """
    width, rank = _WIDTH, hidden * depth + 1
    units, matrix = rank * width, rank * rank * width
    alpha = numbers[rank + (depth - 1) * hidden * hidden + hidden]
    eps = np.finfo(np.float64).eps
    s, products, step, trial, best, v = (
        np.empty(units),
        np.empty(units),
        np.empty(units),
        np.empty(units),
        np.empty(units),
        np.empty(units),
    )
    z, positive, slope, up = np.empty(units), np.empty(units), np.empty(units), np.empty(units)
    rho, g_s, g_rho, new = np.empty(units), np.empty(units), np.empty(units), np.empty(units)
    e, e_gram, lower, minus = np.empty(matrix), np.empty(matrix), np.empty(matrix), np.empty(matrix)
    value, size, root, least = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    trial_value, trial_size, decrease, factor = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    stalled, active, pending = np.zeros(width, np.int64), np.zeros(width, np.bool_), np.zeros(width, np.bool_)
    for begin in range(0, n, width):
        rows = min(width, n - begin)
        fill(s, 0, units, 0.0)
        fill(best, 0, units, 0.0)
        fill(products, 0, units, 0.0)
        for j in range(rows):
            for u in range(rank):
                put(products, u * width + j, at(ay, (begin + j) * rank + u))
        for j in range(width):
            least[j], stalled[j], active[j] = math.inf, 0, j < rows
        for _ in range(_MAX_STEPS):
            _evaluate(
                s, products, gram, numbers, hidden, depth, final_softplus, z, positive, slope, up, rho, g_s, g_rho,
                value, size,
            )  # fmt: skip
            left = False
            for j in range(rows):
                if not active[j]:
                    continue
                stalled[j] += 1
                if size[j] < least[j]:
                    if size[j] < 0.5 * least[j]:
                        stalled[j] = 0
                    least[j] = size[j]
                    for u in range(rank):
                        put(best, u * width + j, at(s, u * width + j))
                # false for NaN, so that a bad row does not hold up the others
                enough = size[j] > 4.0 * eps * (1.0 + at(scales, begin + j))
                active[j] = enough and stalled[j] < _STALLED
                left = left or active[j]
            if not left:
                break
            _factor(slope, up, gram, numbers, hidden, depth, final_softplus, e, e_gram, lower, minus, root)
            _solve(rho, numbers, hidden, depth, e, e_gram, lower, minus, v, step)
            scale(step, 0, alpha, step, 0, units)
            for j in range(width):
                put(decrease, j, 0.0)
                put(factor, j, 1.0)
                pending[j] = active[j]
            for u in range(rank):
                for j in range(width):
                    place = u * width + j
                    put(decrease, j, at(decrease, j) + at(g_rho, place) * at(step, place) / alpha)
            for j in range(units):
                put(new, j, at(s, j))
            for _ in range(_MAX_HALVINGS):
                for u in range(rank):
                    for j in range(width):
                        place = u * width + j
                        put(trial, place, at(s, place) + at(factor, j) * at(step, place))
                _evaluate(
                    trial, products, gram, numbers, hidden, depth, final_softplus, z, positive, slope, up, rho, g_s, g_rho,
                    trial_value, trial_size,
                )  # fmt: skip
                left = False
                for j in range(rows):
                    if not pending[j]:
                        continue
                    slack = 8.0 * eps * (1.0 + abs(value[j]))
                    if trial_value[j] <= value[j] - _SUFFICIENT_DECREASE * factor[j] * decrease[j] + slack:
                        pending[j] = False
                        for u in range(rank):
                            put(new, u * width + j, at(trial, u * width + j))
                    else:
                        factor[j] *= 0.5
                        left = True
                if not left:
                    break
            for j in range(rows):
                active[j] = active[j] and not pending[j]
            for j in range(units):
                put(s, j, at(new, j))
        for j in range(rows):
            is_root = least[j] <= tolerance * (1.0 + at(scales, begin + j))
            for u in range(rank):
                put(out, (begin + j) * rank + u, at(best, u * width + j) if is_root else math.nan)
