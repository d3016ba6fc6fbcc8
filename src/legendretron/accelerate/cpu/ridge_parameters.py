"""From the parameters of networks to the ridge form that :mod:`legendretron.accelerate.cpu.chain` computes with, and back.

The only compiled code that knows raw parameters: softplus makes mixing weights, ``alpha`` and ``gamma`` positive, and
CP-Flow's scales and shifts are folded into ``A``, bias and mixing weights. See :mod:`legendretron.potentials.cpflow`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendretron.accelerate.cpu.compiling import at, compiled, gather, put
from legendretron.accelerate.cpu.vectors import activate, fill, multiply, scale
from legendretron.potentials.cpflow import SCALE_FLOOR

__all__ = ["Ridges", "Sizes", "block_lengths", "fold", "gather_parameters", "new_ridges", "pull_back"]

Array = NDArray[Any]


class Sizes(NamedTuple):
    """Of all blocks, which are alike."""

    n_blocks: int
    n_out: int  #: ``K``
    stride: int  #: the same, filled up to whole vectors
    hidden: int  #: units of a layer
    depth: int  #: layers
    mixed: int  #: units of a layer that see the one before
    final: int  #: whether networks end in a softplus
    normalized: int  #: whether units are normalized, as CP-Flow's: only this file asks


class Ridges(NamedTuple):
    """The ridge form of all blocks, and what the pullback to their parameters needs."""

    stack: Array  #: ``A`` of all blocks, one below the other, rows of ``stride`` entries
    stack_grad: Array
    bias: Array
    mixing: Array  #: of each block the mixing weights, ``alpha`` and ``gamma``
    raw: Array  #: the same before scales are folded in
    raw_slope: Array  #: derivatives of softplus
    unit_scale: Array  #: scale of each ridge unit


@compiled
def block_lengths(sizes):
    """Units of a block, rows of its mixing weights, raw parameters under a softplus, and all of its parameters."""
    rank, n_mixing = sizes.hidden * sizes.depth + 1, (sizes.depth - 1) * sizes.mixed + 1
    n_raw = n_mixing * sizes.hidden + 2
    return rank, n_mixing, n_raw, rank * (sizes.n_out + 1) + n_raw + (3 * n_mixing - 2 if sizes.normalized else 0)


@compiled
def new_ridges(sizes, like):
    """Memory for the ridge form."""
    rank, _, n_raw, _ = block_lengths(sizes)
    n_units, n_numbers = sizes.n_blocks * rank, sizes.n_blocks * n_raw
    kind = like.dtype
    return Ridges(
        np.zeros(n_units * sizes.stride, kind), np.zeros(n_units * sizes.stride, kind), np.empty(n_units, kind),
        np.empty(n_numbers, kind), np.empty(n_numbers, kind), np.empty(n_numbers, kind), np.empty(n_units, kind),
    )  # fmt: skip


@compiled
def gather_parameters(where, sizes, like):
    """All parameters one after the other, from the addresses of the tensors of each block."""
    rank, n_mixing, n_raw, _ = block_lengths(sizes)
    lengths = (rank * sizes.n_out, rank, n_raw - 2, 1, 1, n_mixing - 1, n_mixing, n_mixing - 1)
    return gather(where, lengths, 8 if sizes.normalized else 5, sizes.n_blocks, like)


@compiled
def _mixed_unit(row, sizes):
    """The ridge unit that a row of mixing weights feeds."""
    hidden, mixed, depth = sizes.hidden, sizes.mixed, sizes.depth
    return (row // mixed + 1) * hidden + row % mixed if row < (depth - 1) * mixed else hidden * depth


@compiled
def fold(theta, start, sizes, ridges):
    """Write the ridge form of the parameters from ``start`` on; the gradient of the stack is 0 afterwards."""
    n_out, hidden, stride = sizes.n_out, sizes.hidden, sizes.stride
    raw, mixing, unit_scale, bias = ridges.raw, ridges.mixing, ridges.unit_scale, ridges.bias
    rank, n_mixing, n_raw, n_block = block_lengths(sizes)
    kind = theta.dtype.type
    fill(ridges.stack_grad, 0, ridges.stack_grad.shape[0], kind(0))
    fill(unit_scale, 0, sizes.n_blocks * rank, kind(1))
    for b in range(sizes.n_blocks):
        p_a = start + b * n_block
        p_bias, p_raw, pr, pu = p_a + rank * n_out, p_a + rank * (n_out + 1), b * n_raw, b * rank
        activate(theta, p_raw, raw, ridges.raw_slope, pr, n_raw)
        scale(raw, pr, kind(1) / kind(hidden), raw, pr, n_raw - 2)
        scale(raw, pr, kind(1), mixing, pr, n_raw)
        scale(theta, p_bias, kind(1), bias, pu, rank)
        if sizes.normalized:
            p_shift = p_raw + n_raw
            p_log_scale, p_mixing_bias = p_shift + n_mixing - 1, p_shift + 2 * n_mixing - 1
            for row in range(n_mixing):
                u, factor = pu + _mixed_unit(row, sizes), kind(math.exp(theta[p_log_scale + row]) + SCALE_FLOOR)
                unit_scale[u] = factor
                if row < n_mixing - 1:
                    bias[u] += theta[p_shift + row] + theta[p_mixing_bias + row] / kind(hidden)
                bias[u] *= factor
                scale(mixing, pr + row * hidden, factor, mixing, pr + row * hidden, hidden)
        for u in range(rank):
            scale(theta, p_a + u * n_out, unit_scale[pu + u], ridges.stack, (pu + u) * stride, n_out)


@compiled
def pull_back(theta, start, sizes, ridges, grad):
    """Make gradients of the ridge form those of the parameters.

    Those of ``A`` are in ``stack_grad``. Those of bias, mixing weights, ``alpha`` and ``gamma`` are in ``grad``, at the
    places of these parameters; those of bias and mixing weights lack their factor ``gamma``.
    """
    n_out, hidden, stride = sizes.n_out, sizes.hidden, sizes.stride
    stack_grad, raw, unit_scale, bias = ridges.stack_grad, ridges.raw, ridges.unit_scale, ridges.bias
    rank, n_mixing, n_raw, n_block = block_lengths(sizes)
    kind = theta.dtype.type
    for b in range(sizes.n_blocks):
        p_a = start + b * n_block
        p_bias, p_raw, pr, pu = p_a + rank * n_out, p_a + rank * (n_out + 1), b * n_raw, b * rank
        scale(grad, p_bias, raw[pr + n_raw - 1], grad, p_bias, rank + n_raw - 2)
        for u in range(rank):
            scale(stack_grad, (pu + u) * stride, unit_scale[pu + u], grad, p_a + u * n_out, n_out)
        if sizes.normalized:
            p_shift = p_raw + n_raw
            p_log_scale, p_mixing_bias = p_shift + n_mixing - 1, p_shift + 2 * n_mixing - 1
            for row in range(n_mixing):
                u = _mixed_unit(row, sizes)
                factor = unit_scale[pu + u]
                # of the scale: by A, by the bias, which is scaled already, and by the mixing weights
                grad_scale = grad[p_bias + u] * bias[pu + u] / factor
                for k in range(n_out):
                    grad_scale += at(stack_grad, (pu + u) * stride + k) * at(theta, p_a + u * n_out + k)
                for i in range(row * hidden, (row + 1) * hidden):
                    grad_scale += grad[p_raw + i] * raw[pr + i]
                    put(grad, p_raw + i, at(grad, p_raw + i) * factor)
                grad[p_log_scale + row] = grad_scale * kind(math.exp(theta[p_log_scale + row]))
                grad[p_bias + u] *= factor
                if row < n_mixing - 1:
                    grad[p_shift + row] = grad[p_bias + u]
                    grad[p_mixing_bias + row] = grad[p_bias + u] / kind(hidden)
        scale(grad, p_raw, kind(1) / kind(hidden), grad, p_raw, n_raw - 2)
        multiply(ridges.raw_slope, pr, grad, p_raw, grad, p_raw, n_raw)
