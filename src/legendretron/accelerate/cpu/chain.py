r"""A chain of ridge blocks with its pullback: the one forward and the one backward pass of composite links on the CPU.

Block ``b`` maps ``x`` to ``y = alpha x + gamma A^T d`` with ``d`` a function of ``A x + bias``; see
:mod:`legendretron.potentials.ficnn`. Its pullback takes a cotangent ``dy`` to that of ``x``, ``alpha dy + A^T c`` with
``c`` the cotangents of ``A x + bias``, and adds ``c x^T + gamma d dy^T`` to the gradient of ``A``.

Training, heads and predictions all use these functions, with a block of rows at a time that stays in the cache. Arrays are
*units times rows*, see :mod:`legendretron.accelerate.cpu.vectors`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendretron.accelerate.cpu.compiling import compiled
from legendretron.accelerate.cpu.inner_networks import inner_backward, inner_forward
from legendretron.accelerate.cpu.products import add_dot, add_outers, add_product, product_plus
from legendretron.accelerate.cpu.ridge_parameters import block_lengths
from legendretron.accelerate.cpu.vectors import fill, multiply_by, scale

__all__ = ["Units", "block_backward", "block_output", "block_units", "new_units"]

Array = NDArray[Any]
_VECTOR = 16  # entries of a vector, at most


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
    """Memory for the units of so many blocks; with 0 there is none for a pullback."""
    rank, _, n_raw, _ = block_lengths(sizes)
    one, kind = rank * width, like.dtype
    size, more = max(1, n_blocks) * one, one if n_blocks > 0 else 0
    return Units(
        np.empty(size, kind), np.empty(size, kind), np.empty(size, kind), np.empty(size, kind), np.empty(size, kind),
        np.empty(one, kind), np.empty(more, kind), np.empty(more, kind), np.empty(more, kind),
        np.empty(_VECTOR * (rank + n_raw) if n_blocks > 0 else 0, kind),
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
        points.dtype.type(1), points, p_x, ridges.mixing[(b + 1) * n_raw - 2], points, p_y, width,
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
    multiply_by(units.cot_z, 0, size, gamma)
    if wanted:
        add_dot(points, p_x, points, p_dy, grad, p_bias + rank + n_raw - 2, n_out * width)
        add_outers(
            units.cot_z, 0, units.scaled, b * size, rank, points, p_x, points, p_dy, n_out, ridges.stack_grad, p_a, stride,
            width,
        )  # fmt: skip
    product_plus(
        ridges.stack,
        p_a,
        stride,
        n_out,
        rank,
        units.cot_z,
        0,
        points.dtype.type(1),
        points,
        p_dy,
        alpha,
        points,
        p_dy,
        width,
    )
