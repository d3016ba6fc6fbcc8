"""Steps of training in one compiled function: gather, predict, differentiate, penalise, update by Adam.

The link is softmax+ after a chain of ridge blocks, whose formulas are in :mod:`legendretron.potentials.ridge_form`; without
blocks it is softmax+ itself. All arrays of a batch are kept as *units times rows*, one-dimensional, with the place of
their first entry: row ``j`` of unit ``u`` is entry ``start + u * width + j``. So the innermost loops run over rows, next to
each other in memory, and become vector instructions. Runs share nothing, so each goes through all steps before the next.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from legendretron._numba.vectors import BYTES, activate, add_dots, add_products, at, exp_differences, put

__all__ = ["train_steps"]

# sums may be reordered; NaN and infinity keep their meaning, as they tell that a run has diverged
_OPTIONS = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy", "nogil": True}
_compiled = njit(**_OPTIONS)

_products_1, _products_4 = add_products[1], add_products[4]
_dots_1_1, _dots_1_2, _dots_4_1, _dots_4_2 = (add_dots[n, k] for n in (1, 4) for k in (1, 2))


def _cached(function):
    """Compile, and keep the result on disk for later processes where there is a place for it."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # the library and the home directory can both be read-only
        return _compiled(function)


@_compiled
def _fill(out, start, n, value):
    for j in range(n):
        put(out, start + j, value)


@_compiled
def _add_product(a, pa, step_out, step_in, n_out, n_in, x, px, out, po, width):
    """``out += A x`` for the matrix with entry (u, k) at ``pa + u * step_out + k * step_in``, transposed or not."""
    for j in range(0, width, BYTES // x.itemsize):
        u = 0
        while u + 4 <= n_out:
            _products_4(a, pa + u * step_out, step_out, step_in, n_in, x, px + j, out, po + u * width + j, width)
            u += 4
        while u < n_out:
            _products_1(a, pa + u * step_out, step_out, step_in, n_in, x, px + j, out, po + u * width + j, width)
            u += 1


@_compiled
def _add_outer(c, pc, n_c, x, px, n_x, out, po, width):
    """``out += C X^T``, summed over rows: entry (i, k) is at ``po + i * n_x + k``."""
    i = 0
    while i + 4 <= n_c:
        k = 0
        while k + 2 <= n_x:
            _dots_4_2(c, pc + i * width, x, px + k * width, out, po + i * n_x + k, n_x, width)
            k += 2
        if k < n_x:
            _dots_4_1(c, pc + i * width, x, px + k * width, out, po + i * n_x + k, n_x, width)
        i += 4
    while i < n_c:
        k = 0
        while k + 2 <= n_x:
            _dots_1_2(c, pc + i * width, x, px + k * width, out, po + i * n_x + k, n_x, width)
            k += 2
        if k < n_x:
            _dots_1_1(c, pc + i * width, x, px + k * width, out, po + i * n_x + k, n_x, width)
        i += 1


@_compiled
def _dot(a, pa, b, pb, n):
    total = a.dtype.type(0)
    for j in range(n):
        total += at(a, pa + j) * at(b, pb + j)
    return total


@_compiled
def _add_sums(x, px, n, out, po, width):
    """Add the sum of each unit over the rows."""
    for u in range(n):
        total = x.dtype.type(0)
        for j in range(width):
            total += at(x, px + u * width + j)
        out[po + u] += total


@_compiled
def _combine(a, x, px, b, y, py, n):
    """``y = a x + b y``."""
    for j in range(n):
        put(y, py + j, a * at(x, px + j) + b * at(y, py + j))


@_compiled
def _forward(theta, start, sizes, raw, raw_start, points, p_in, z, positive, slope, d, up, pu, width):
    """One block: ``y = alpha x + gamma A^T d``, from the points at ``p_in`` to those that follow them."""
    n_out, hidden, depth = sizes
    rank = hidden * depth + 1
    layer = hidden * width
    p_out = p_in + n_out * width
    p_bias = start + rank * n_out
    for u in range(rank):
        _fill(z, u * width, width, theta[p_bias + u])
    _add_product(theta, start, n_out, 1, rank, n_out, points, p_in, z, 0, width)
    for k in range(depth):
        activate(z, k * layer, positive, slope, pu + k * layer, layer)
        feeds = hidden if k < depth - 1 else 1
        p_mix = raw_start + k * hidden * hidden
        _add_product(raw, p_mix, hidden, 1, feeds, hidden, positive, pu + k * layer, z, (k + 1) * layer, width)
    top = pu + depth * layer
    activate(z, depth * layer, positive, slope, top, width)
    for j in range(width):
        put(d, top + j, at(slope, top + j))
    for k in range(depth - 1, -1, -1):
        feeds = hidden if k < depth - 1 else 1
        p_mix, p = raw_start + k * hidden * hidden, pu + k * layer
        _fill(up, p, layer, theta.dtype.type(0))
        _add_product(raw, p_mix, 1, hidden, hidden, feeds, d, p + layer, up, p, width)
        for j in range(layer):
            put(d, p + j, at(slope, p + j) * at(up, p + j))
    _fill(points, p_out, n_out * width, theta.dtype.type(0))
    _add_product(theta, start, 1, n_out, n_out, rank, d, pu, points, p_out, width)
    p_alpha = raw_start + ((depth - 1) * hidden + 1) * hidden
    _combine(raw[p_alpha], points, p_in, raw[p_alpha + 1], points, p_out, n_out * width)


@_compiled
def _backward(
    theta, start, sizes, raw, raw_start, points, p_in, dy, dx, positive, slope, d, up, pu, cot_d, cot_w, cot_z, grad, width
):
    """Pull a cotangent ``dy`` of the block's output back to ``dx``, and add up the gradients of its parameters.

    Those of all but ``alpha`` and ``gamma`` are without their factor ``gamma``, and those of the raw parameters without the
    slope of their softplus: both are the same for all rows.
    """
    n_out, hidden, depth = sizes
    rank = hidden * depth + 1
    layer = hidden * width
    one = theta.dtype.type(1)
    p_bias = start + rank * n_out
    p_mixing = p_bias + rank
    p_alpha = p_mixing + ((depth - 1) * hidden + 1) * hidden
    _fill(cot_d, 0, rank * width, theta.dtype.type(0))
    _add_product(theta, start, n_out, 1, rank, n_out, dy, 0, cot_d, 0, width)
    grad[p_alpha] += _dot(points, p_in, dy, 0, n_out * width)
    grad[p_alpha + 1] += _dot(d, pu, cot_d, 0, rank * width)
    # up through d_k = s'(z_k) w_k and w_k = P_k^T d_{k+1}; the slope s of a softplus has the derivative s (1 - s)
    for k in range(depth):
        feeds = hidden if k < depth - 1 else 1
        offset, p = k * hidden * hidden, pu + k * layer
        for j in range(layer):
            c, s = at(cot_d, k * layer + j), at(slope, p + j)
            put(cot_w, j, c * s)
            put(cot_z, k * layer + j, c * at(up, p + j) * (s * (one - s)))
        _add_outer(d, p + layer, feeds, cot_w, 0, hidden, grad, p_mixing + offset, width)
        _add_product(raw, raw_start + offset, hidden, 1, feeds, hidden, cot_w, 0, cot_d, (k + 1) * layer, width)
    top = depth * layer
    for j in range(width):
        s = at(slope, pu + top + j)
        put(cot_z, top + j, at(cot_d, top + j) * (s * (one - s)))
    # down through z_{k+1} = t_{k+1} + P_k softplus(z_k)
    for k in range(depth - 1, -1, -1):
        feeds = hidden if k < depth - 1 else 1
        offset, p = k * hidden * hidden, pu + k * layer
        _add_outer(cot_z, (k + 1) * layer, feeds, positive, p, hidden, grad, p_mixing + offset, width)
        _fill(cot_w, 0, layer, theta.dtype.type(0))
        _add_product(raw, raw_start + offset, 1, hidden, hidden, feeds, cot_z, (k + 1) * layer, cot_w, 0, width)
        for j in range(layer):
            put(cot_z, k * layer + j, at(cot_z, k * layer + j) + at(cot_w, j) * at(slope, p + j))
    _add_outer(cot_z, 0, rank, points, p_in, n_out, grad, start, width)
    _add_outer(d, pu, rank, dy, 0, n_out, grad, start, width)
    _add_sums(cot_z, 0, rank, grad, p_bias, width)
    _fill(dx, 0, n_out * width, theta.dtype.type(0))
    _add_product(theta, start, 1, n_out, n_out, rank, cot_z, 0, dx, 0, width)
    p_alpha = raw_start + ((depth - 1) * hidden + 1) * hidden
    _combine(raw[p_alpha], dy, 0, raw[p_alpha + 1], dx, 0, n_out * width)


@_compiled
def _log_loss(y, py, n_out, labels, weights, first, n, top, total, best, dy, width):
    """Weighted sums of log-losses and of hits, and the gradient in the log-odds, as ``softmax_nll``."""
    zero = y.dtype.type(0)
    n_classes = n_out + 1  # the last has zeros for log-odds
    for j in range(width):
        put(top, j, at(y, py + j))
        put(best, j, 0)
    for k in range(1, n_classes):
        p = py + k * width
        for j in range(width):
            value, before = at(y, p + j), at(top, j)
            # among equals the first class counts, and the last of two
            better = value > before or (n_classes == 2 and value == before)
            put(top, j, value if better else before)
            put(best, j, k if better else at(best, j))
    _fill(total, 0, width, zero)
    for k in range(n_classes):
        exp_differences(y, py + k * width, top, dy, k * width, total, width)
    loss = hits = 0.0
    for j in range(n):
        label, weight = labels[first + j], weights[first + j]
        loss += weight * (top[j] - y[py + label * width + j] + math.log(total[j]))
        if label == best[j]:
            hits += weight
        total[j] = weight / total[j]
    _fill(total, n, width - n, zero)  # what fills up the width does not count
    for k in range(n_out):
        for j in range(width):
            put(dy, k * width + j, at(dy, k * width + j) * at(total, j))
    for j in range(n):
        dy[labels[first + j] * width + j] -= weights[first + j]
    return loss, hits


@_compiled
def _predict(theta, n_features, n_out, sparse, x, starts, columns, values, rows, first, n, batch, points, width):
    """``X W + b`` of the next ``n`` rows; the rows are kept, as units times rows, for the gradient."""
    p_bias = n_features * n_out
    for k in range(n_out):
        _fill(points, k * width, width, theta[p_bias + k])
    if not sparse:
        for j in range(n):
            row = x[rows[first + j]]
            for f in range(n_features):
                put(batch, f * width + j, at(row, f))
        for f in range(n_features):  # the last batch may have left rows there
            for j in range(n, width):
                put(batch, f * width + j, theta.dtype.type(0))
        _add_product(theta, 0, 1, n_out, n_out, n_features, batch, 0, points, 0, width)
        return
    for j in range(n):
        row = rows[first + j]
        sums = batch[:n_out]
        _fill(sums, 0, n_out, theta.dtype.type(0))
        for entry in range(starts[row], starts[row + 1]):
            value, p = values[entry], columns[entry] * n_out
            for k in range(n_out):
                put(sums, k, at(sums, k) + value * at(theta, p + k))
        for k in range(n_out):
            put(points, k * width + j, at(points, k * width + j) + at(sums, k))


@_compiled
def _add_linear_gradient(grad, n_features, n_out, sparse, starts, columns, values, rows, first, n, batch, dz, width):
    """Add ``X^T dz`` and the sums of ``dz``."""
    _add_sums(dz, 0, n_out, grad, n_features * n_out, width)
    if not sparse:
        _add_outer(batch, 0, n_features, dz, 0, n_out, grad, 0, width)
        return
    for j in range(n):
        row = rows[first + j]
        own = batch[:n_out]
        for k in range(n_out):
            put(own, k, at(dz, k * width + j))
        for entry in range(starts[row], starts[row + 1]):
            value, p = values[entry], columns[entry] * n_out
            for k in range(n_out):
                put(grad, p + k, at(grad, p + k) + value * at(own, k))


@_compiled
def _finish_block(start, sizes, raw, raw_slope, raw_start, grad):
    """Multiply the sums over rows by what is the same for all of them."""
    n_out, hidden, depth = sizes
    rank = hidden * depth + 1
    n_mixing = ((depth - 1) * hidden + 1) * hidden
    gamma = raw[raw_start + n_mixing + 1]
    p_raw = start + rank * (n_out + 1)
    for j in range(rank * (n_out + 1)):
        put(grad, start + j, gamma * at(grad, start + j))
    share = gamma / raw.dtype.type(hidden)
    for j in range(n_mixing):
        put(grad, p_raw + j, at(grad, p_raw + j) * (share * at(raw_slope, raw_start + j)))
    for j in range(n_mixing, n_mixing + 2):
        grad[p_raw + j] *= raw_slope[raw_start + j]


@_compiled
def _penalise(theta, grad, n_features, n_out, strengths, shared, centre):
    """Add the gradient of the penalty."""
    n_weights = n_features * n_out
    n_linear = n_weights + n_out
    on_weights, on_bias, on_link = strengths[0], strengths[1], strengths[2]
    for j in range(n_weights):
        put(grad, j, at(grad, j) + on_weights * at(theta, j))
    for j in range(n_weights, n_linear):
        grad[j] += on_bias * theta[j]
    for j in range(centre.shape[0]):
        put(grad, n_linear + j, at(grad, n_linear + j) + on_link * (at(theta, n_linear + j) - at(centre, j)))
    if shared != 0:
        for f in range(n_features):
            total = theta.dtype.type(0)
            for k in range(n_out):
                total += at(theta, f * n_out + k)
            total *= shared
            for k in range(n_out):
                put(grad, f * n_out + k, at(grad, f * n_out + k) - total)


@_compiled
def _adam(theta, first, second, grad, rate, beta1, beta2, eps, t):
    """One step, with the corrections moved onto numbers."""
    kind = theta.dtype.type
    correction = math.sqrt(1.0 - beta2**t)
    floor, factor = kind(eps * correction), kind(rate * (-correction / (1.0 - beta1**t)))
    new1, keep2, new2 = kind(1.0 - beta1), kind(beta2), kind(1.0 - beta2)
    for j in range(theta.shape[0]):
        g, before = at(grad, j), at(first, j)
        m = before + new1 * (g - before)
        v = keep2 * at(second, j) + new2 * (g * g)
        put(first, j, m)
        put(second, j, v)
        put(theta, j, at(theta, j) + factor * m / (np.sqrt(v) + floor))


@_cached
def train_steps(
    features, batches, parameters, totals, penalty, numbers, sizes, n_blocks, floats, integers, width
):
    """Take all steps of all runs; see :func:`legendretron._numba.training.train_steps`."""
    sparse, x, starts, columns, values = features
    rows, labels, weights, rates = batches
    flat, first, second, count = parameters
    strengths, shared, centre = penalty
    beta1, beta2, eps = numbers
    n_out, hidden, depth = sizes
    batch, points, z, positive, slope, d, up, cot_d, cot_w, cot_z, dy, dx, top, total, raw, raw_slope, grad = floats
    n_steps, n_runs, n_rows = rows.shape
    n_parameters = flat.shape[1]
    rank = hidden * depth + 1
    n_raw = ((depth - 1) * hidden + 1) * hidden + 2
    n_block = rank * (n_out + 1) + n_raw
    n_linear = n_parameters - n_blocks * n_block
    n_features = n_linear // n_out - 1
    share = flat.dtype.type(1) / flat.dtype.type(hidden)
    zero = flat.dtype.type(0)
    for r in range(n_runs):
        theta = flat[r]
        for s in range(n_steps):
            own_rows, own_labels, own_weights = rows[s, r], labels[s, r], weights[s, r]
            _fill(grad, 0, n_parameters, zero)
            for b in range(n_blocks):
                start = n_linear + b * n_block + rank * (n_out + 1)
                activate(theta, start, raw, raw_slope, b * n_raw, n_raw)
                for j in range(n_raw - 2):
                    put(raw, b * n_raw + j, share * at(raw, b * n_raw + j))
            loss = hits = 0.0
            for begin in range(0, n_rows, width):
                n = min(width, n_rows - begin)
                _predict(
                    theta, n_features, n_out, sparse, x, starts, columns, values, own_rows, begin, n, batch, points, width
                )
                for b in range(n_blocks):
                    _forward(
                        theta, n_linear + b * n_block, sizes, raw, b * n_raw, points, b * n_out * width, z, positive,
                        slope, d, up, b * rank * width, width,
                    )  # fmt: skip
                found = _log_loss(
                    points, n_blocks * n_out * width, n_out, own_labels, own_weights, begin, n, top, total, integers, dy,
                    width,
                )  # fmt: skip
                loss += found[0]
                hits += found[1]
                for b in range(n_blocks - 1, -1, -1):
                    _backward(
                        theta, n_linear + b * n_block, sizes, raw, b * n_raw, points, b * n_out * width, dy, dx, positive,
                        slope, d, up, b * rank * width, cot_d, cot_w, cot_z, grad, width,
                    )  # fmt: skip
                    dy, dx = dx, dy
                _add_linear_gradient(
                    grad, n_features, n_out, sparse, starts, columns, values, own_rows, begin, n, batch, dy, width
                )
            for b in range(n_blocks):
                _finish_block(n_linear + b * n_block, sizes, raw, raw_slope, b * n_raw, grad)
            _penalise(theta, grad, n_features, n_out, strengths[r], shared[r], centre)
            _adam(theta, first[r], second[r], grad, rates[s, r], beta1, beta2, eps, count[0] + s + 1)
            totals[0, r] += flat.dtype.type(loss * n_rows)
            totals[1, r] += flat.dtype.type(hits * n_rows)
    count[0] += n_steps
