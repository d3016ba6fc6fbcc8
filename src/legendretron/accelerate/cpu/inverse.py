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
from legendretron.accelerate.cpu.vector_code import vector_function
from legendretron.accelerate.cpu.vectors import activate, fill, scale

__all__ = ["invert_ridge"]

_WIDTH = 16  # rows that are solved together
_MAX_STEPS, _STALLED = 300, 5
_SUFFICIENT_DECREASE = 1e-4


@vector_function
def _subtract_dot(code, x, px, step_x, y, py, step_y, n, out, po, width):
    """``out -= sum_i x_i y_i`` in each row; entries are ``step_x`` and ``step_y`` apart."""
    with code.pieces(width) as j:
        total = code.total()
        with code.loop(n) as i:
            total.add(x.load(px + j + i * step_x) * y.load(py + j + i * step_y))
        out.store(po + j, out.load(po + j) - total.get())


@compiled
def _hessian_factor(weight, mixing, alpha, gamma, slope, up, dim, hidden, mixed, depth, jacobian, factors, lower):
    """Cholesky's factor of ``alpha I + gamma W^T H W``, where ``H = J^T D J`` is the Hessian of ``h``."""
    width, rank, line = _WIDTH, hidden * depth + 1, dim * _WIDTH
    for u in range(rank):  # J W: the derivative of each unit's input
        k = u // hidden
        for v in range(dim):
            fill(jacobian, u * line + v * width, width, weight[u * dim + v])
        if k == 0 or (k < depth and u % hidden >= mixed):
            continue
        below, row = (k - 1) * hidden, (k - 1) * mixed + u % hidden
        for i in range(hidden):
            scale(slope, (below + i) * width, -mixing[row * hidden + i], factors, i * width, width)
        for v in range(dim):
            p_v = v * width
            _subtract_dot(
                factors, 0, width, jacobian, below * line + p_v, line, hidden, jacobian, u * line + p_v, width
            )
    for u in range(rank):
        for j in range(width):
            s = at(slope, u * width + j)
            put(factors, j, math.sqrt(gamma * at(up, u * width + j) * s * (1.0 - s)))
        for v in range(dim):
            for j in range(width):
                place = u * line + v * width + j
                put(jacobian, place, at(jacobian, place) * at(factors, j))
    for u in range(dim):
        for v in range(u + 1):
            place = u * line + v * width
            fill(lower, place, width, -alpha if u == v else 0.0)
            _subtract_dot(jacobian, u * width, line, jacobian, v * width, line, rank, lower, place, width)
            scale(lower, place, -1.0, lower, place, width)
            _subtract_dot(lower, u * line, width, lower, v * line, width, v, lower, place, width)
            for j in range(width):
                pivot = at(lower, v * line + v * width + j)
                put(lower, place + j, math.sqrt(pivot) if u == v else at(lower, place + j) / pivot)


@compiled
def _solve(lower, x, dim):
    """Replace ``x`` by the solution of a system whose matrix has this factor."""
    width, line = _WIDTH, dim * _WIDTH
    for step in range(2 * dim):
        if step < dim:
            u = step
            _subtract_dot(lower, u * line, width, x, 0, width, u, x, u * width, width)
        else:
            u = 2 * dim - 1 - step
            p, n = (u + 1) * width, dim - 1 - u
            _subtract_dot(lower, (u + 1) * line + u * width, line, x, p, width, n, x, u * width, width)
        for j in range(width):
            put(x, u * width + j, at(x, u * width + j) / at(lower, u * line + u * width + j))


@cached
def invert_ridge(y, weight, bias, mixing, alpha, gamma, n, dim, hidden, mixed, depth, final, out):
    """Solve ``alpha x + gamma W^T grad h(W x + b) = y`` for rows ``y``, (n, dim), in double precision.

    Newton's method on a convex objective, with steps that are halved until it has fallen. Rows that fail are not marked.
    """
    width, rank = _WIDTH, hidden * depth + 1
    units, size, last = rank * width, dim * width, (rank - 1) * width
    eps = np.finfo(np.float64).eps
    z, positive, slope, d, up = np.empty(units), np.empty(units), np.empty(units), np.empty(units), np.empty(units)
    x, target, trial, gradient = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    step, newton = np.empty(size), np.empty(size)
    jacobian, factors, lower = np.empty(rank * size), np.empty(hidden * width), np.empty(dim * size)
    value, decrease, factor, least = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    norm, stalled = np.empty(width), np.zeros(width, np.int64)
    active, moved = np.zeros(width, np.bool_), np.zeros(width, np.bool_)
    for begin in range(0, n, width):
        rows = min(width, n - begin)
        for i in range(size):
            put(target, i, 0.0)
            put(trial, i, 0.0)
            put(x, i, 0.0)
        for j in range(width):
            value[j] = least[j] = math.inf
            decrease[j], factor[j], stalled[j], active[j], norm[j] = 0.0, 1.0, 0, j < rows, 0.0
            for k in range(dim if j < rows else 0):
                target[k * width + j] = y[(begin + j) * dim + k]
                norm[j] += target[k * width + j] ** 2
            norm[j] = math.sqrt(norm[j])
        for _ in range(_MAX_STEPS):
            # the gradient of the objective alpha |x|^2 / 2 + gamma h(W x + b) - <x, y> at the trial point
            for u in range(rank):
                fill(z, u * width, width, bias[u])
            add_product(weight, 0, dim, 1, rank, dim, trial, 0, z, 0, width)
            inner_forward(mixing, 0, z, positive, slope, d, up, 0, hidden, mixed, depth, final, width)
            if final:
                activate(z, last, z, slope, last, width)
            for i in range(size):
                put(gradient, i, alpha * at(trial, i) - at(target, i))
            scale(d, 0, gamma, d, 0, units)
            add_product(weight, 0, 1, dim, dim, rank, d, 0, gradient, 0, width)
            any_moved = any_active = False
            for j in range(width):
                moved[j] = False
                if not active[j]:
                    continue
                objective, length = gamma * z[last + j], 0.0
                for i in range(j, size, width):
                    objective += (0.5 * alpha * trial[i] - target[i]) * trial[i]
                    length += gradient[i] ** 2
                length, slack = math.sqrt(length), 8.0 * eps * (1.0 + abs(objective))
                # false for NaN, so that a bad row ends and does not hold up the others
                if not objective > value[j] - _SUFFICIENT_DECREASE * factor[j] * decrease[j] + slack:
                    moved[j], value[j], factor[j] = True, objective, 1.0
                    for i in range(j, size, width):
                        x[i] = trial[i]
                    stalled[j] += 1
                    if length < 0.5 * least[j]:
                        least[j], stalled[j] = length, 0
                    active[j] = length > 4.0 * eps * (1.0 + norm[j]) and stalled[j] < _STALLED
                else:
                    factor[j] *= 0.5
                    active[j] = factor[j] > eps
                any_moved = any_moved or (moved[j] and active[j])
                any_active = any_active or active[j]
            if not any_active:
                break
            if any_moved:
                _hessian_factor(
                    weight, mixing, alpha, gamma, slope, up, dim, hidden, mixed, depth, jacobian, factors, lower
                )  # fmt: skip
                scale(gradient, 0, 1.0, newton, 0, size)
                _solve(lower, newton, dim)
            for j in range(width):
                if moved[j]:
                    decrease[j] = 0.0
                    for i in range(j, size, width):
                        step[i] = newton[i]
                        decrease[j] += gradient[i] * newton[i]
                for i in range(j, size, width):
                    trial[i] = x[i] - factor[j] * step[i] if active[j] else x[i]
        for j in range(rows):
            for k in range(dim):
                out[(begin + j) * dim + k] = x[k * width + j]
