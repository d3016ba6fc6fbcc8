r"""The composite link in compiled code: log-probabilities of rows of predictors, and the backward pass.

A chain of ridge blocks :math:`x_{b+1} = \alpha_b x_b + \gamma_b A_b^\top d_b`, :math:`d_b = \nabla h(A_b x_b + \beta_b)`,
never leaves the span of its input and of the rows of all :math:`A_b`. With :math:`c_b = \prod_{i<b} \alpha_i` and
:math:`A` all of them, one below the other,

.. math::

    x_b = c_b z + \sum_{a<b} D^b_a A_a, \qquad D^b_a = \gamma_a d_a \prod_{a<i<b} \alpha_i, \qquad
    A_b x_b = c_b A_b z + \sum_{a<b} A_b A_a^\top D^b_a ,

so that all of the classes are seen in two products only, :math:`A z` and :math:`y = c_B z + D A`; what is between works on
the few units. It is the same backward, where cotangents are :math:`u_b = e_b\, dy + \sum_{a>b} E^b_a A_a`, with
:math:`e_b = \prod_{i>b} \alpha_i` and :math:`E^b_a = \tau_a \prod_{b<i<a} \alpha_i` for the cotangents :math:`\tau` of
:math:`A x + \beta`: with :math:`F_b = c_b \tau_b`,

.. math::

    dz = c_B\, dy + F A, \qquad
    dA = F^\top z + D^\top dy + S A, \qquad
    S_{ba} = \tau_b^\top D^b_a \ (a < b), \quad \gamma_b d_b^\top E^b_a \ (a > b).

Only ``z`` and the log-probabilities are needed from the forward pass. All is done for a few rows at a time, filled up to
whole vectors: rows of classes to ``size``, with zeros, and rows of a batch to ``width``.
"""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.cpu.addresses import array_at
from legendretron.accelerate.cpu.chain import SCALE_FLOOR
from legendretron.accelerate.cpu.compiling import cached, compiled
from legendretron.accelerate.cpu.entries import at, put
from legendretron.accelerate.cpu.inner_networks import inner_backward, inner_forward
from legendretron.accelerate.cpu.products import add_outer, add_product
from legendretron.accelerate.cpu.row_vectors import exp_row, lower_row, residual_row, set_multiple, top_row
from legendretron.accelerate.cpu.vectors import activate, combine, fill, multiply_by

__all__ = ["chain_backward", "chain_forward"]

_VECTOR = 16  # entries of a vector, at most


@compiled
def _mixed_unit(row, rows, mixed, hidden, rank):
    """The unit that a row of the mixing weights feeds."""
    return rank - 1 if row == rows - 1 else (row // mixed + 1) * hidden + row % mixed


@compiled
def _pack(where, like, sizes, a, bias, raw, raw_slope, moved, scales):
    """Write the ridge form of all blocks: ``A`` filled up, biases, and what is positive, with the slope of its softplus.

    CP-Flow's normalisation is folded in; of each row of the mixing weights ``scales`` keeps the factor, and its derivative
    in the logarithm.
    """
    n_blocks, n_out, size, hidden, depth, mixed, _, normalised = sizes
    kind = like.dtype.type
    rank, rows = hidden * depth + 1, (depth - 1) * mixed + 1
    n_raw, each = rows * hidden + 2, 8 if normalised else 5
    for b in range(n_blocks):
        first = b * each
        weight, own_bias = array_at(where[first], rank * n_out, like), array_at(where[first + 1], rank, like)
        mixing = array_at(where[first + 2], rows * hidden, like)
        for u in range(rank):
            for k in range(n_out):
                put(a, (b * rank + u) * size + k, at(weight, u * n_out + k))
            fill(a, (b * rank + u) * size + n_out, size - n_out, kind(0))
            put(bias, b * rank + u, at(own_bias, u))
        for i in range(rows * hidden):
            put(raw, b * n_raw + i, at(mixing, i))
        for i in range(2):
            put(raw, (b + 1) * n_raw - 2 + i, array_at(where[first + 3 + i], 1, like)[0])
        activate(raw, b * n_raw, raw, raw_slope, b * n_raw, n_raw)
        multiply_by(raw, b * n_raw, n_raw - 2, kind(1) / kind(hidden))
        multiply_by(raw_slope, b * n_raw, n_raw - 2, kind(1) / kind(hidden))
        if normalised:
            shift, log_scale = array_at(where[first + 5], rows - 1, like), array_at(where[first + 6], rows, like)
            mixing_bias = array_at(where[first + 7], rows - 1, like)
            for row in range(rows):
                u = b * rank + _mixed_unit(row, rows, mixed, hidden, rank)
                slope = kind(math.exp(at(log_scale, row)))
                scale = slope + kind(SCALE_FLOOR)
                put(scales, 2 * (b * rows + row), scale)
                put(scales, 2 * (b * rows + row) + 1, slope)
                if row < rows - 1:
                    put(bias, u, at(bias, u) + at(shift, row) + at(mixing_bias, row) / kind(hidden))
                put(moved, b * rows + row, at(bias, u))
                put(bias, u, at(bias, u) * scale)
                multiply_by(a, u * size, size, scale)
                multiply_by(raw, b * n_raw + row * hidden, hidden, scale)


@compiled
def _load(source, first, n, length, out, size, width):
    """Rows of an array, filled up with zeros."""
    zero = out.dtype.type(0)
    for j in range(n):
        for k in range(length):
            put(out, j * size + k, at(source, (first + j) * length + k))
        fill(out, j * size + length, size - length, zero)
    fill(out, n * size, (width - n) * size, zero)


@compiled
def _store(source, first, n, length, out, size):
    for j in range(n):
        for k in range(length):
            put(out, (first + j) * length + k, at(source, j * size + k))


@compiled
def _products_of_blocks(a, n_blocks, rank, size, gram):
    """``A_a A_b^T`` for all ``a < b``."""
    fill(gram, 0, gram.shape[0], gram.dtype.type(0))
    for b in range(n_blocks):
        for before in range(b):
            place = (before * n_blocks + b) * rank * rank
            add_outer(a, before * rank * size, rank, a, b * rank * size, rank, gram, place, size)


@compiled
def _through_blocks(sizes, bias, raw, gram, t, z, positive, slope, d, up, mixed_d, width):
    """From ``A z``, of all units, to ``d``, and to ``D`` in ``mixed_d``; returns the product of all ``alpha``."""
    n_blocks, _, _, hidden, depth, mixed, soft, _ = sizes
    kind = t.dtype.type
    rank = hidden * depth + 1
    n_raw = ((depth - 1) * mixed + 1) * hidden + 2
    units = rank * width
    c = kind(1)
    for b in range(n_blocks):
        alpha, gamma = raw[(b + 1) * n_raw - 2], raw[(b + 1) * n_raw - 1]
        for u in range(rank):
            fill(z, u * width, width, bias[b * rank + u])
        combine(c, t, b * units, kind(1), z, 0, units)
        for before in range(b):
            place = (before * n_blocks + b) * rank * rank
            add_product(gram, place, 1, rank, rank, rank, mixed_d, before * units, z, 0, width)
        final = 1 if soft else 0
        inner_forward(raw, b * n_raw, z, positive, slope, d, up, b * units, hidden, mixed, depth, final, width)
        multiply_by(mixed_d, 0, b * units, alpha)
        set_multiple(gamma, d, b * units, mixed_d, b * units, units)
        c *= alpha
    return c


@compiled
def _log_softmax(y, n, n_out, size, e, number, log_p, first):
    """Of rows ``y``, with a zero for the reference class; ``number`` is room for two."""
    kind = y.dtype.type
    for j in range(n):
        place, out = j * size, (first + j) * (n_out + 1)
        put(y, place + n_out, kind(0))
        fill(y, place + n_out + 1, size - n_out - 1, kind(-math.inf))
        number[0], number[1] = kind(0), kind(0)
        top_row(y, place, size, number, 0)
        exp_row(y, place, number[0], e, 0, size, number, 1)
        lower_row(y, place, number[0], kind(math.log(number[1])), log_p, out, n_out + 1)


@cached
def chain_forward(like, where, n, width, sizes, z, log_p, products):
    """Write log-probabilities ``(n, C)`` of predictors ``(n, K)``, and ``A z`` of all rows unless ``products`` is 0.

    Arguments are addresses; ``where`` holds those of all parameters. ``width`` rows, a multiple of 16, are computed at once.
    Sizes are the number of blocks, ``K``, ``C`` filled up to whole vectors, ``H``, ``M``, the units of a layer that see the
    one before, whether the network ends in a softplus, and whether it is CP-Flow's, with three parameters more.
    """
    n_blocks, n_out, size, hidden, depth, mixed, _, _ = sizes
    kind, dtype = like.dtype.type, like.dtype
    rank, rows = hidden * depth + 1, (depth - 1) * mixed + 1
    n_raw, n_units = rows * hidden + 2, n_blocks * rank
    a, bias = np.empty(n_units * size, dtype), np.empty(n_units, dtype)
    raw, raw_slope = np.empty(n_blocks * n_raw, dtype), np.empty(n_blocks * n_raw, dtype)
    moved, scales = np.empty(n_blocks * rows, dtype), np.empty(2 * n_blocks * rows, dtype)
    _pack(where, like, sizes, a, bias, raw, raw_slope, moved, scales)
    gram = np.empty(n_blocks * n_blocks * rank * rank, dtype)
    _products_of_blocks(a, n_blocks, rank, size, gram)
    z, log_p = array_at(z, n * n_out, like), array_at(log_p, n * (n_out + 1), like)
    products = array_at(products, -(-n // width) * n_units * width, like)
    points, e, number = np.empty(width * size, dtype), np.empty(size, dtype), np.empty(2, dtype)
    t, units, d = np.empty(n_units * width, dtype), np.empty(rank * width, dtype), np.empty(n_units * width, dtype)
    positive, slope, up = np.empty_like(d), np.empty_like(d), np.empty_like(d)
    mixed_d = np.empty_like(d)
    for first in range(0, n, width):
        count = min(width, n - first)
        _load(z, first, count, n_out, points, size, width)
        fill(t, 0, n_units * width, kind(0))
        add_outer(a, 0, n_units, points, 0, width, t, 0, size)
        if products.shape[0] > 0:
            set_multiple(kind(1), t, 0, products, first * n_units, n_units * width)
        c = _through_blocks(sizes, bias, raw, gram, t, units, positive, slope, d, up, mixed_d, width)
        multiply_by(points, 0, count * size, c)
        add_product(mixed_d, 0, 1, width, count, n_units, a, 0, points, 0, size)
        _log_softmax(points, count, n_out, size, e, number, log_p, first)


@compiled
def _back_through_blocks(
    sizes, raw, gram, t, q, d, positive, slope, up, mixed_d, cot_d, cot_w, cot_z, cot_t, cot_x, z_dy, small, partial, s, width
):  # fmt: skip
    """From ``A dy`` in ``q`` to ``F`` in ``cot_x``, adding to ``S`` and to the gradients of all but ``A``.

    ``small`` holds of each block the gradients of biases, mixing weights, ``alpha`` and ``gamma``; ``z_dy`` is the inner
    product of ``z`` and ``dy``. Room for ``E`` is in ``cot_t``, and for sums of vectors in ``partial``. ``mixed_d`` comes
    with ``D``.
    """
    n_blocks, _, _, hidden, depth, mixed, _, _ = sizes
    kind = t.dtype.type
    rank = hidden * depth + 1
    n_raw = ((depth - 1) * mixed + 1) * hidden + 2
    units, square, n_small = rank * width, rank * rank, rank + n_raw
    e = kind(1)
    for b in range(n_blocks - 1, -1, -1):
        alpha, gamma = raw[(b + 1) * n_raw - 2], raw[(b + 1) * n_raw - 1]
        p_small, pu = b * n_small, b * units
        p_alpha = p_small + n_small - 2
        # D of x_b, in which the block itself has no part; c is then the product of all alpha before
        c = kind(1)
        for before in range(b - 1, -1, -1):
            set_multiple(raw[(before + 1) * n_raw - 1] * c, d, before * units, mixed_d, before * units, units)
            c *= raw[(before + 1) * n_raw - 2]
        # A_b u_b
        set_multiple(e, q, pu, cot_d, 0, units)
        for after in range(b + 1, n_blocks):
            place = (b * n_blocks + after) * square
            add_product(gram, place, rank, 1, rank, rank, cot_t, after * units, cot_d, 0, width)
        # of alpha: the inner product of x_b and u_b
        small[p_alpha] += c * e * z_dy
        if b < n_blocks - 1:
            number = np.zeros(1, t.dtype)
            add_outer(cot_t, (b + 1) * units, 1, t, (b + 1) * units, 1, number, 0, (n_blocks - b - 1) * units)
            small[p_alpha] += c * number[0]
        if b > 0:
            number = np.zeros(1, t.dtype)
            add_outer(mixed_d, 0, 1, q, 0, 1, number, 0, b * units)
            small[p_alpha] += e * number[0]
        for before in range(b):
            for after in range(b + 1, n_blocks):
                place = (before * n_blocks + after) * square
                fill(cot_z, 0, units, kind(0))
                add_product(gram, place, rank, 1, rank, rank, cot_t, after * units, cot_z, 0, width)
                add_outer(mixed_d, before * units, 1, cot_z, 0, 1, small, p_alpha, units)
        add_outer(d, pu, 1, cot_d, 0, 1, small, p_alpha + 1, units)
        multiply_by(cot_d, 0, units, gamma)
        inner_backward(
            raw, b * n_raw, positive, slope, d, up, pu, cot_d, cot_w, cot_z, 0, partial, small, p_small, hidden, mixed, depth,
            width,
        )  # fmt: skip
        for before in range(b):
            add_outer(cot_z, 0, rank, mixed_d, before * units, rank, s, (b * n_blocks + before) * square, width)
        set_multiple(gamma, d, pu, mixed_d, pu, units)
        for after in range(b + 1, n_blocks):
            add_outer(mixed_d, pu, rank, cot_t, after * units, rank, s, (b * n_blocks + after) * square, width)
        multiply_by(cot_t, (b + 1) * units, (n_blocks - b - 1) * units, alpha)
        set_multiple(kind(1), cot_z, 0, cot_t, pu, units)
        set_multiple(c, cot_z, 0, cot_x, pu, units)
        e *= alpha


@cached
def chain_backward(like, where, n, width, sizes, z, log_p, g, products, dz, gradient):
    """Pull cotangents ``g`` of log-probabilities back to predictors, ``dz``, and all parameters, one after the other.

    Arguments are addresses, see :func:`chain_forward`; ``products`` is 0 if the forward pass has not kept them, and ``dz`` or
    ``gradient`` if they are not wanted.
    """
    n_blocks, n_out, size, hidden, depth, mixed, _, _ = sizes
    kind, dtype = like.dtype.type, like.dtype
    rank, rows = hidden * depth + 1, (depth - 1) * mixed + 1
    n_raw, n_units = rows * hidden + 2, n_blocks * rank
    n_small, n_classes = rank + n_raw, n_out + 1
    a, bias = np.empty(n_units * size, dtype), np.empty(n_units, dtype)
    raw, raw_slope = np.empty(n_blocks * n_raw, dtype), np.empty(n_blocks * n_raw, dtype)
    moved, scales = np.empty(n_blocks * rows, dtype), np.empty(2 * n_blocks * rows, dtype)
    _pack(where, like, sizes, a, bias, raw, raw_slope, moved, scales)
    gram = np.empty(n_blocks * n_blocks * rank * rank, dtype)
    _products_of_blocks(a, n_blocks, rank, size, gram)
    z, log_p, g = array_at(z, n * n_out, like), array_at(log_p, n * n_classes, like), array_at(g, n * n_classes, like)
    products = array_at(products, -(-n // width) * n_units * width, like)
    wanted = gradient != 0
    dz = array_at(dz, n * n_out, like)
    points, dy = np.empty(width * size, dtype), np.empty(width * size, dtype)
    row, of_row = np.zeros(size, dtype), np.zeros(size, dtype)
    t, q, units = np.empty(n_units * width, dtype), np.empty(n_units * width, dtype), np.empty(rank * width, dtype)
    d, positive, slope, up = np.empty_like(t), np.empty_like(t), np.empty_like(t), np.empty_like(t)
    mixed_d, d_all, cot_t, cot_x = np.empty_like(t), np.empty_like(t), np.empty_like(t), np.empty_like(t)
    cot_d, cot_w, cot_z = np.empty(rank * width, dtype), np.empty(rank * width, dtype), np.empty(rank * width, dtype)
    small, s = np.zeros(n_blocks * n_small, dtype), np.zeros(gram.shape[0], dtype)
    partial = np.empty(_VECTOR * n_small, dtype)
    of_a, number = np.zeros(n_units * size if wanted else 1, dtype), np.zeros(1, dtype)
    for first in range(0, n, width):
        count = min(width, n - first)
        for j in range(count):
            place = (first + j) * n_classes
            total = kind(0)
            for k in range(n_classes):
                put(row, k, at(log_p, place + k))
                put(of_row, k, at(g, place + k))
                total += at(g, place + k)
            residual_row(row, 0, of_row, 0, total, dy, j * size, size)
            fill(dy, j * size + n_out, size - n_out, kind(0))
        fill(dy, count * size, (width - count) * size, kind(0))
        if wanted or products.shape[0] == 0:
            _load(z, first, count, n_out, points, size, width)
        if products.shape[0] == 0:
            fill(t, 0, n_units * width, kind(0))
            add_outer(a, 0, n_units, points, 0, width, t, 0, size)
        else:
            set_multiple(kind(1), products, first * n_units, t, 0, n_units * width)
        c = _through_blocks(sizes, bias, raw, gram, t, units, positive, slope, d, up, mixed_d, width)
        set_multiple(kind(1), mixed_d, 0, d_all, 0, n_units * width)
        fill(q, 0, n_units * width, kind(0))
        add_outer(a, 0, n_units, dy, 0, width, q, 0, size)
        number[0] = kind(0)
        if wanted:
            add_outer(points, 0, 1, dy, 0, 1, number, 0, count * size)
        _back_through_blocks(
            sizes, raw, gram, t, q, d, positive, slope, up, mixed_d, cot_d, cot_w, cot_z, cot_t, cot_x, number[0], small,
            partial, s, width,
        )  # fmt: skip
        if wanted:
            add_product(cot_x, 0, width, 1, n_units, count, points, 0, of_a, 0, size)
            add_product(d_all, 0, width, 1, n_units, count, dy, 0, of_a, 0, size)
        if dz.shape[0] > 0:
            multiply_by(dy, 0, count * size, c)
            add_product(cot_x, 0, 1, width, count, n_units, a, 0, dy, 0, size)
            _store(dy, first, count, n_out, dz, size)
    if wanted:
        _add_mixed_products(s, a, n_blocks, rank, size, of_a)
        gradient = array_at(gradient, n_blocks * (rank * n_out + n_small + 3 * rows), like)
        _unpack(where, like, sizes, raw, raw_slope, moved, scales, of_a, small, gradient)


@compiled
def _add_mixed_products(s, a, n_blocks, rank, size, of_a):
    """``dA += S A``."""
    for b in range(n_blocks):
        for other in range(n_blocks):
            if other != b:
                place = (b * n_blocks + other) * rank * rank
                add_product(s, place, rank, 1, rank, rank, a, other * rank * size, of_a, b * rank * size, size)


@compiled
def _unpack(where, like, sizes, raw, raw_slope, moved, scales, of_a, small, gradient):
    """Gradients of the parameters from those of the ridge form, in the order of the parameters."""
    n_blocks, n_out, size, hidden, depth, mixed, _, normalised = sizes
    kind = like.dtype.type
    rank, rows = hidden * depth + 1, (depth - 1) * mixed + 1
    n_raw, each = rows * hidden + 2, 8 if normalised else 5
    n_small = rank + n_raw
    p = 0
    for b in range(n_blocks):
        p_small, p_raw = b * n_small, b * n_raw
        p_mixing = p + rank * n_out + rank
        p_more = p + rank * n_out + n_small
        if normalised:
            weight = array_at(where[b * each], rank * n_out, like)
            for row in range(rows):
                u = _mixed_unit(row, rows, mixed, hidden, rank)
                scale, slope = scales[2 * (b * rows + row)], scales[2 * (b * rows + row) + 1]
                of_scale = small[p_small + u] * moved[b * rows + row]
                for k in range(n_out):
                    of_scale += at(of_a, (b * rank + u) * size + k) * at(weight, u * n_out + k)
                for j in range(hidden):
                    place = p_small + rank + row * hidden + j
                    # raw has been multiplied by the scale
                    of_scale += small[place] * raw[p_raw + row * hidden + j] / scale
                    small[place] *= scale
                multiply_by(of_a, (b * rank + u) * size, size, scale)
                small[p_small + u] *= scale
                gradient[p_more + rows - 1 + row] = of_scale * slope
                if row < rows - 1:
                    gradient[p_more + row] = small[p_small + u]
                    gradient[p_more + 2 * rows - 1 + row] = small[p_small + u] / kind(hidden)
        for u in range(rank):
            for k in range(n_out):
                put(gradient, p + u * n_out + k, at(of_a, (b * rank + u) * size + k))
            put(gradient, p + rank * n_out + u, small[p_small + u])
        for i in range(n_raw):
            put(gradient, p_mixing + i, small[p_small + rank + i] * raw_slope[p_raw + i])
        p = p_more + (3 * rows - 2 if normalised else 0)
