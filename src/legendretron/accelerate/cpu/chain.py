r"""A chain of ridge blocks with its pullback: the one forward and the one backward pass of composite links on the CPU.

Block ``b`` maps ``x`` to ``y = alpha x + gamma A^T d`` with ``d`` a function of ``A x + bias``; see
:mod:`legendretron.potentials.ficnn`. Its pullback takes a cotangent ``dy`` to that of ``x``, ``alpha dy + A^T c`` with
``c`` the cotangents of ``A x + bias``, and adds ``c x^T + gamma d dy^T`` to the gradient of ``A``.

Training, heads and predictions all use these functions, with a block of rows at a time that stays in the cache. Arrays are
*units times rows*, see :mod:`legendretron.accelerate.cpu.vectors`.

For heads and predictions, :func:`chain_probabilities` and :func:`chain_backward` take addresses, see
:func:`legendretron.accelerate.cpu.compiling.array_at`; ``where`` holds those of all parameters. ``width`` rows, a multiple of
16, are computed at once. The backward pass needs predictors and log-probabilities alone.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendretron.accelerate.cpu.compiling import array_at, at, cached, compiled, put
from legendretron.accelerate.cpu.inner_networks import inner_backward, inner_forward
from legendretron.accelerate.cpu.products import add_dot, add_outers, add_product, product_plus
from legendretron.accelerate.cpu.ridge_parameters import block_lengths, fold, gather_parameters, new_ridges, pull_back
from legendretron.accelerate.cpu.softmax import load_rows, store_rows
from legendretron.accelerate.cpu.vectors import exp_differences, extremes, fill, lower, multiply, scale
from legendretron.accelerate.support import VECTOR

__all__ = [
    "Units",
    "block_backward",
    "block_output",
    "block_units",
    "chain_backward",
    "chain_probabilities",
    "new_units",
]

Array = NDArray[Any]


class Units(NamedTuple):
    """Values of ridge units, each with an entry for every row: those of several blocks first, then those of one."""

    positive: Array  #: softplus of the inputs
    slope: Array  #: its derivative
    d: Array  #: derivative of the network
    up: Array  #: derivative of the network in the softplus
    scaled: Array  #: ``gamma d``
    ridge: Array  #: inputs, of one block like all that follow
    cot_d: Array
    cot_w: Array
    cot_z: Array
    partial: Array  #: a vector for each ridge unit and mixing weight, to add up gradients in


@compiled
def new_units(sizes, n_blocks, width, like):
    """Memory for the units of ``n_blocks`` blocks; 0 is for one block, without a pullback."""
    rank, _, n_raw, _ = block_lengths(sizes)
    one, kind = rank * width, like.dtype
    size, more = max(1, n_blocks) * one, one if n_blocks > 0 else 0
    return Units(
        np.empty(size, kind), np.empty(size, kind), np.empty(size, kind), np.empty(size, kind), np.empty(size, kind),
        np.empty(one, kind), np.empty(more, kind), np.empty(more, kind), np.empty(more, kind),
        np.empty(VECTOR * (rank + n_raw) if n_blocks > 0 else 0, kind),
    )  # fmt: skip


@compiled
def block_units(b, sizes, ridges, units, slot, points, p_x, width):
    """From the input of block ``b`` in ``points`` to its units; ``slot`` is where they are kept."""
    rank, _, n_raw, _ = block_lengths(sizes)
    size = rank * width
    for u in range(rank):
        fill(units.ridge, u * width, width, ridges.bias[b * rank + u])
    p_a = b * rank * sizes.stride
    add_product(ridges.stack, p_a, sizes.stride, 1, rank, sizes.n_out, points, p_x, units.ridge, 0, width)
    inner_forward(
        ridges.mixing, b * n_raw, units.ridge, units.positive, units.slope, units.d, units.up, slot * size, sizes.hidden,
        sizes.mixed, sizes.depth, sizes.final, width,
    )  # fmt: skip
    scale(units.d, slot * size, ridges.mixing[(b + 1) * n_raw - 1], units.scaled, slot * size, size)


@compiled
def block_output(b, sizes, ridges, units, slot, points, p_x, p_y, width):
    """``alpha x + gamma A^T d``; it may take the place of ``x``."""
    rank, _, n_raw, _ = block_lengths(sizes)
    product_plus(
        ridges.stack, b * rank * sizes.stride, sizes.stride, sizes.n_out, rank, units.scaled, slot * rank * width,
        points, p_x, ridges.mixing[(b + 1) * n_raw - 2], points, p_y, width,
    )  # fmt: skip


@compiled
def block_backward(b, start, sizes, ridges, units, points, p_x, p_dy, grad, wanted, width):
    """Replace the cotangent of the output of block ``b`` by that of its input, and add gradients of its ridge form.

    See :func:`legendretron.accelerate.cpu.ridge_parameters.pull_back` for where they are. With ``wanted`` false, those of
    ``A`` and ``alpha`` are left out.
    """
    rank, _, n_raw, n_block = block_lengths(sizes)
    n_out, stride = sizes.n_out, sizes.stride
    size, p_a, p_bias = rank * width, b * rank * stride, start + b * n_block + rank * n_out
    alpha, gamma = ridges.mixing[(b + 1) * n_raw - 2], ridges.mixing[(b + 1) * n_raw - 1]
    fill(units.cot_d, 0, size, points.dtype.type(0))
    add_product(ridges.stack, p_a, stride, 1, rank, n_out, points, p_dy, units.cot_d, 0, width)
    add_dot(units.d, b * size, units.cot_d, 0, grad, p_bias + rank + n_raw - 1, size)
    inner_backward(
        ridges.mixing, b * n_raw, units.positive, units.slope, units.d, units.up, b * size, units.cot_d, units.cot_w,
        units.cot_z, 0, units.partial, grad, p_bias, sizes.hidden, sizes.mixed, sizes.depth, width,
    )  # fmt: skip
    scale(units.cot_z, 0, gamma, units.cot_z, 0, size)
    if wanted:
        add_dot(points, p_x, points, p_dy, grad, p_bias + rank + n_raw - 2, n_out * width)
        add_outers(
            units.cot_z, 0, units.scaled, b * size, rank, points, p_x, points, p_dy, n_out, ridges.stack_grad, p_a, stride,
            width,
        )  # fmt: skip
    product_plus(ridges.stack, p_a, stride, n_out, rank, units.cot_z, 0, points, p_dy, alpha, points, p_dy, width)


@cached
def chain_probabilities(like, where, first, last, width, sizes, z, log, out):
    """Write log-probabilities, or probabilities, ``(n, C)`` of rows of predictors ``(n, K)``.

    Returns whether all log-probabilities are finite.
    """
    n_out, n_classes, kind = sizes.n_out, sizes.n_out + 1, like.dtype.type
    largest = np.finfo(like.dtype).max
    ridges, units = new_ridges(sizes, like), new_units(sizes, 0, width, like)
    fold(gather_parameters(where, sizes, like), 0, sizes, ridges)
    z, out = array_at(z, last * n_out, like), array_at(out, last * n_classes, like)
    points, unused = np.empty(n_classes * width, like.dtype), np.empty(width, like.dtype)
    top, least, total = np.empty(width, like.dtype), np.empty(width, like.dtype), np.empty(width, like.dtype)
    all_finite = True
    for begin in range(first, last, width):
        rows = min(width, last - begin)
        load_rows(z, begin, rows, n_out, points, 0, width)
        for b in range(sizes.n_blocks):
            block_units(b, sizes, ridges, units, 0, points, 0, width)
            block_output(b, sizes, ridges, units, 0, points, 0, 0, width)
        fill(points, n_out * width, width, kind(0))
        fill(top, 0, width, kind(0))
        fill(least, 0, width, kind(0))
        fill(total, 0, width, kind(0))
        for k in range(n_out):
            extremes(points, k * width, top, least, width)
        for k in range(n_classes):
            if log:
                exp_differences(points, k * width, top, unused, 0, total, width)
            else:
                exp_differences(points, k * width, top, points, k * width, total, width)
        for j in range(rows):
            finite = at(total, j) <= largest and at(least, j) - at(top, j) >= -largest  # false for NaN
            all_finite = all_finite and finite
        for j in range(width):
            put(total, j, kind(math.log(at(total, j)) if log else 1.0 / at(total, j)))
        for k in range(n_classes):
            if log:
                lower(points, k * width, top, total, width)
            else:
                multiply(total, 0, points, k * width, points, k * width, width)
        store_rows(points, 0, begin, rows, n_classes, out, width)
    return all_finite


@cached
def chain_backward(like, where, first, last, width, sizes, z, log_p, g, dz, gradient):
    """Pull cotangents ``g`` of log-probabilities back to predictors, ``dz``, and all parameters, one after the other.

    ``dz`` or ``gradient`` is 0 if it is not wanted.
    """
    n_blocks, n_out, n_classes, kind = sizes.n_blocks, sizes.n_out, sizes.n_out + 1, like.dtype.type
    theta = gather_parameters(where, sizes, like)
    ridges, units = new_ridges(sizes, like), new_units(sizes, n_blocks, width, like)
    fold(theta, 0, sizes, ridges)
    z, dz = array_at(z, last * n_out, like), array_at(dz, last * n_out, like)
    log_p, g = array_at(log_p, last * n_classes, like), array_at(g, last * n_classes, like)
    wanted = gradient != 0
    grad = array_at(gradient, theta.shape[0], like) if wanted else np.empty(theta.shape[0], like.dtype)
    fill(grad, 0, theta.shape[0], kind(0))
    p_dy = n_blocks * n_out * width
    points, p = np.empty(p_dy + n_classes * width, like.dtype), np.empty(n_classes * width, like.dtype)
    zeros = np.zeros(width, like.dtype)
    total, unused = np.empty(width, like.dtype), np.empty(width, like.dtype)
    for begin in range(first, last, width):
        rows = min(width, last - begin)
        load_rows(z, begin, rows, n_out, points, 0, width)
        for b in range(n_blocks):
            block_units(b, sizes, ridges, units, b, points, b * n_out * width, width)
            if b < n_blocks - 1:
                block_output(b, sizes, ridges, units, b, points, b * n_out * width, (b + 1) * n_out * width, width)
        # dy = g - (sum of g) p
        load_rows(g, begin, rows, n_classes, points, p_dy, width)
        load_rows(log_p, begin, rows, n_classes, p, 0, width)
        fill(total, 0, width, kind(0))
        for k in range(n_classes):
            exp_differences(p, k * width, zeros, p, k * width, unused, width)
            for j in range(width):
                put(total, j, at(total, j) + at(points, p_dy + k * width + j))
        for k in range(n_out):
            for j in range(width):
                place = p_dy + k * width + j
                put(points, place, at(points, place) - at(total, j) * at(p, k * width + j))
        for b in range(n_blocks - 1, -1, -1):
            block_backward(b, 0, sizes, ridges, units, points, b * n_out * width, p_dy, grad, wanted, width)
        if dz.shape[0] > 0:
            store_rows(points, p_dy, begin, rows, n_out, dz, width)
    if wanted:
        pull_back(theta, 0, sizes, ridges, grad)
