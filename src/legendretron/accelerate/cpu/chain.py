r"""A chain of ridge blocks with its pullback, for the compiled steps.

Block ``b`` maps ``y_b`` to ``y_{b+1} = alpha_b y_b + gamma_b A_b^T d_b`` with ``d_b`` a function of ``A_b y_b + bias_b``; see
:mod:`legendretron.potentials.ridge_form`. Of all classes the chain needs only products with the matrices of all blocks, one
below the other (the *stack*): ``S = A z`` and, in the pullback, ``E = A dy``. The rest follows from the small matrices
``G_bi = A_b A_i^T``,

- ``A_b y_b = pi_b S_b + sum_{i<b} gamma_i alpha_(i,b) G_bi d_i``, with ``pi_b`` the product of ``alpha`` before ``b`` and
  ``alpha_(i,b)`` that between ``i`` and ``b``;
- ``A_b v_{b+1} = rho_b E_b + sum_{i>b} gamma_i alpha_(b,i) G_bi c_i``, with ``v_b`` the cotangent of ``y_b``, ``c_i`` that of
  block ``i``'s ridge units without the factor ``gamma_i``, and ``rho_b`` the product of ``alpha`` after ``b``.

So however many blocks there are, there is one pass over all classes for each of ``S``, the output, ``E``, the gradient of the
stack and the cotangent of the input, and the points between blocks are never written. With few classes these passes cost less
than the small matrices do: then the chain is cut into groups of one block, and all this is done group by group.

A network of CP-Flow has scales and shifts that are folded into ``A``, bias and mixing weights before, and pulled back after.
"""

from __future__ import annotations

import math

from legendretron.accelerate.cpu.compiling import compiled
from legendretron.accelerate.cpu.entries import at, put
from legendretron.accelerate.cpu.inner_networks import inner_backward, inner_forward
from legendretron.accelerate.cpu.products import add_dot, add_outer, add_outers, add_product, product_plus
from legendretron.accelerate.cpu.vectors import activate, combine, fill, multiply, multiply_by, scale, scale_rows

__all__ = ["SCALE_FLOOR", "chain_backward", "chain_forward", "finish_chain", "n_chain", "prepare_chain"]

SCALE_FLOOR = 1e-3  # of the normalisation, as in legendretron.potentials.cpflow


@compiled
def _lengths(sizes):
    """Units of a block, rows of its mixing weights, raw parameters under a softplus, and all of its parameters."""
    n_out, hidden, mixed, depth = sizes.n_out, sizes.hidden, sizes.mixed, sizes.depth
    rank, n_mixing = hidden * depth + 1, (depth - 1) * mixed + 1
    n_raw = n_mixing * hidden + 2
    return rank, n_mixing, n_raw, rank * (n_out + 1) + n_raw + (3 * n_mixing - 2 if sizes.normalised else 0)


@compiled
def n_chain(sizes):
    """Number of parameters of all blocks."""
    return sizes.n_blocks * _lengths(sizes)[3]


@compiled
def _alphas(raw, n_raw, first, last):
    """Product of ``alpha`` of the blocks from ``first`` on and before ``last``."""
    value = raw.dtype.type(1)
    for b in range(first, last):
        value *= raw[(b + 1) * n_raw - 2]
    return value


@compiled
def _unit_of(row, sizes):
    """The ridge unit that a row of mixing weights feeds."""
    hidden, mixed, depth = sizes.hidden, sizes.mixed, sizes.depth
    return (row // mixed + 1) * hidden + row % mixed if row < (depth - 1) * mixed else hidden * depth


@compiled
def prepare_chain(theta, start, sizes, chain):
    """What is the same for all rows: the stack, its bias, mixing weights, ``alpha``, ``gamma`` and the matrices ``G``."""
    stack, stack_grad, raw, raw_slope, mixing = chain.stack, chain.stack_grad, chain.raw, chain.raw_slope, chain.mixing
    unit_scale, bias, gram, cross, sums = chain.unit_scale, chain.bias, chain.gram, chain.cross, chain.sums
    n_out, hidden, normalised, stride, n_blocks = (
        sizes.n_out,
        sizes.hidden,
        sizes.normalised,
        sizes.stride,
        sizes.n_blocks,
    )
    rank, n_mixing, n_raw, n_block = _lengths(sizes)
    kind = theta.dtype.type
    fill(stack_grad, 0, n_blocks * rank * stride, kind(0))
    fill(gram, 0, n_blocks * n_blocks * rank * rank, kind(0))
    fill(cross, 0, n_blocks * n_blocks * rank * rank, kind(0))
    fill(sums, 0, 3 * n_blocks, kind(0))
    for b in range(n_blocks):
        p_a = start + b * n_block
        p_bias, p_raw, pr, pu = p_a + rank * n_out, p_a + rank * (n_out + 1), b * n_raw, b * rank
        activate(theta, p_raw, raw, raw_slope, pr, n_raw)
        multiply_by(raw, pr, n_raw - 2, kind(1) / kind(hidden))
        scale(raw, pr, kind(1), mixing, pr, n_raw - 2)
        for u in range(rank):
            unit_scale[pu + u] = kind(1)
            bias[pu + u] = theta[p_bias + u]
        if normalised:
            p_shift = p_raw + n_raw
            p_log_scale, p_mixing_bias = p_shift + n_mixing - 1, p_shift + 2 * n_mixing - 1
            for row in range(n_mixing):
                u, factor = pu + _unit_of(row, sizes), kind(math.exp(theta[p_log_scale + row]) + SCALE_FLOOR)
                unit_scale[u] = factor
                if row < n_mixing - 1:
                    bias[u] += theta[p_shift + row] + theta[p_mixing_bias + row] / kind(hidden)
                bias[u] *= factor
                multiply_by(mixing, pr + row * hidden, hidden, factor)
        scale_rows(theta, p_a, n_out, unit_scale, pu, stack, pu * stride, stride, rank, n_out)
        for i in range(b - b % sizes.group, b):
            add_outer(
                stack, pu * stride, rank, stack, i * rank * stride, rank, gram, (b * n_blocks + i) * rank * rank, stride
            )


@compiled
def chain_forward(begin, sizes, chain, units, points, width):
    """Of the group of blocks from ``begin`` on: from its input in ``points`` to its output, which follows."""
    stack, raw, mixing, bias, gram = chain.stack, chain.raw, chain.mixing, chain.bias, chain.gram
    seen, ridge, positive, slope, d = units.seen, units.ridge, units.positive, units.slope, units.d
    up, scaled = units.up, units.scaled
    n_out, hidden, mixed, depth, normalised = sizes.n_out, sizes.hidden, sizes.mixed, sizes.depth, sizes.normalised
    stride, n_blocks = sizes.stride, sizes.n_blocks
    rank, _, n_raw, _ = _lengths(sizes)
    kind = points.dtype.type
    size, end, number = rank * width, begin + sizes.group, sizes.group * rank
    p_stack, p_unit, p_x = begin * rank * stride, begin * size, begin // sizes.group * n_out * width
    fill(seen, p_unit, number * width, kind(0))
    add_product(stack, p_stack, stride, 1, number, n_out, points, p_x, seen, p_unit, width)
    for b in range(begin, end):
        for u in range(rank):
            fill(ridge, u * width, width, bias[b * rank + u])
        combine(_alphas(raw, n_raw, begin, b), seen, b * size, kind(1), ridge, 0, size)
        for i in range(begin, b):
            factor = raw[(i + 1) * n_raw - 1] * _alphas(raw, n_raw, i + 1, b)
            scale(d, i * size, factor, scaled, i * size, size)
            p = (b * n_blocks + i) * rank * rank
            add_product(gram, p, rank, 1, rank, rank, scaled, i * size, ridge, 0, width)
        final = 0 if normalised else 1
        inner_forward(mixing, b * n_raw, ridge, positive, slope, d, up, b * size, hidden, mixed, depth, final, width)
    for b in range(begin, end):
        factor = raw[(b + 1) * n_raw - 1] * _alphas(raw, n_raw, b + 1, end)
        scale(d, b * size, factor, scaled, b * size, size)
    product_plus(
        stack, p_stack, stride, n_out, number, scaled, p_unit, kind(1), points, p_x, _alphas(raw, n_raw, begin, end), points,
        p_x + n_out * width, width,
    )  # fmt: skip


@compiled
def chain_backward(begin, start, sizes, chain, units, points, grad, width):
    """Of the group of blocks from ``begin`` on: replace the output's cotangent by that of the input, and add up gradients.

    The cotangent is in ``points`` after the inputs of all groups. The gradient of the stack is added to ``stack_grad``, but
    for what comes by ``G``; those of the bias and of the mixing weights are without their factor ``gamma``, and what those of
    ``alpha`` consist of is added to ``sums`` and ``cross``.
    """
    stack, stack_grad, raw, mixing, gram = chain.stack, chain.stack_grad, chain.raw, chain.mixing, chain.gram
    cross, sums, partial = chain.cross, chain.sums, chain.partial
    seen, ridge, positive, slope, d = units.seen, units.ridge, units.positive, units.slope, units.d
    up, scaled, cot_d, cot_w, cot_z = units.up, units.scaled, units.cot_d, units.cot_w, units.cot_z
    n_out, hidden, mixed, depth, stride = sizes.n_out, sizes.hidden, sizes.mixed, sizes.depth, sizes.stride
    n_blocks = sizes.n_blocks
    rank, _, n_raw, n_block = _lengths(sizes)
    kind = points.dtype.type
    size, end, number = rank * width, begin + sizes.group, sizes.group * rank
    p_stack, p_unit, p_x = begin * rank * stride, begin * size, begin // sizes.group * n_out * width
    p_dy = n_blocks // sizes.group * n_out * width
    # E takes the place of the ridge units, of which nothing is needed any more
    fill(ridge, p_unit, number * width, kind(0))
    add_product(stack, p_stack, stride, 1, number, n_out, points, p_dy, ridge, p_unit, width)
    add_dot(points, p_x, points, p_dy, sums, begin, n_out * width)
    for b in range(begin, end - 1):
        add_dot(d, b * size, ridge, b * size, sums, n_blocks + b, size)
    for b in range(end - 1, begin - 1, -1):
        p_bias = start + b * n_block + rank * n_out
        scale(ridge, b * size, _alphas(raw, n_raw, b + 1, end), cot_d, 0, size)
        for i in range(b + 1, end):
            factor = raw[(i + 1) * n_raw - 1] * _alphas(raw, n_raw, b + 1, i)
            scale(cot_z, i * size, factor, cot_w, 0, size)
            p = (i * n_blocks + b) * rank * rank
            add_product(gram, p, 1, rank, rank, rank, cot_w, 0, cot_d, 0, width)
        add_dot(d, b * size, cot_d, 0, grad, p_bias + rank + n_raw - 1, size)
        inner_backward(
            mixing, b * n_raw, positive, slope, d, up, b * size, cot_d, cot_w, cot_z, b * size, partial, grad, p_bias, hidden,
            mixed, depth, width,
        )  # fmt: skip
        if b > begin:
            add_dot(cot_z, b * size, seen, b * size, sums, 2 * n_blocks + b, size)
        for i in range(begin, b):
            add_outer(cot_z, b * size, rank, d, i * size, rank, cross, (b * n_blocks + i) * rank * rank, width)
    for b in range(begin, end):
        multiply_by(cot_z, b * size, size, raw[(b + 1) * n_raw - 1] * _alphas(raw, n_raw, begin, b))
    add_outers(
        cot_z, p_unit, scaled, p_unit, number, points, p_x, points, p_dy, n_out, stack_grad, p_stack, stride, width
    )
    product_plus(
        stack, p_stack, stride, n_out, number, cot_z, p_unit, kind(1), points, p_dy, _alphas(raw, n_raw, begin, end), points,
        p_dy, width,
    )  # fmt: skip


@compiled
def _alpha_gradient(b, sizes, chain):
    """The sum of ``y_b . v_{b+1}`` over all rows, from sums of small products."""
    raw, gram, cross, sums = chain.raw, chain.gram, chain.cross, chain.sums
    n_blocks = sizes.n_blocks
    begin = b - b % sizes.group
    end = begin + sizes.group
    rank, _, n_raw, _ = _lengths(sizes)
    after = _alphas(raw, n_raw, b + 1, end)
    value = after * sums[begin]
    for k in range(b + 1, end):
        value += raw[(k + 1) * n_raw - 1] * _alphas(raw, n_raw, b + 1, k) * sums[2 * n_blocks + k]
    value *= _alphas(raw, n_raw, begin, b)
    for i in range(begin, b):
        part = after * sums[n_blocks + i]
        for k in range(b + 1, end):
            p, found = (k * n_blocks + i) * rank * rank, raw.dtype.type(0)
            for u in range(rank * rank):
                found += gram[p + u] * cross[p + u]
            part += raw[(k + 1) * n_raw - 1] * _alphas(raw, n_raw, b + 1, k) * found
        value += raw[(i + 1) * n_raw - 1] * _alphas(raw, n_raw, i + 1, b) * part
    return value


@compiled
def finish_chain(theta, start, sizes, chain, grad):
    """Add what comes by ``G``, and pull gradients of the stack and of the raw parameters back to all parameters."""
    stack, stack_grad, raw, raw_slope = chain.stack, chain.stack_grad, chain.raw, chain.raw_slope
    unit_scale, bias, cross = chain.unit_scale, chain.bias, chain.cross
    n_out, hidden, normalised, stride, n_blocks = (
        sizes.n_out,
        sizes.hidden,
        sizes.normalised,
        sizes.stride,
        sizes.n_blocks,
    )
    rank, n_mixing, n_raw, n_block = _lengths(sizes)
    kind = theta.dtype.type
    for b in range(n_blocks):
        grad[start + b * n_block + rank * (n_out + 1) + n_raw - 2] = _alpha_gradient(b, sizes, chain)
    for b in range(n_blocks):
        gamma = raw[(b + 1) * n_raw - 1]
        for i in range(b - b % sizes.group, b):
            p, below = (b * n_blocks + i) * rank * rank, i * rank * stride
            factor = gamma * raw[(i + 1) * n_raw - 1] * _alphas(raw, n_raw, i + 1, b)
            multiply_by(cross, p, rank * rank, factor)
            add_product(cross, p, rank, 1, rank, rank, stack, below, stack_grad, b * rank * stride, stride)
            add_product(cross, p, 1, rank, rank, rank, stack, b * rank * stride, stack_grad, below, stride)
    for b in range(n_blocks):
        p_a = start + b * n_block
        p_bias, p_raw, pr, pu = p_a + rank * n_out, p_a + rank * (n_out + 1), b * n_raw, b * rank
        gamma = raw[pr + n_raw - 1]
        multiply_by(grad, p_bias, rank + n_raw - 2, gamma)
        scale_rows(stack_grad, pu * stride, stride, unit_scale, pu, grad, p_a, n_out, rank, n_out)
        if normalised:
            p_shift = p_raw + n_raw
            p_log_scale, p_mixing_bias = p_shift + n_mixing - 1, p_shift + 2 * n_mixing - 1
            for row in range(n_mixing):
                u = _unit_of(row, sizes)
                factor = unit_scale[pu + u]
                # of the scale: by A, by the bias, which is scaled already, and by the mixing weights
                found = grad[p_bias + u] * bias[pu + u] / factor
                for k in range(n_out):
                    found += at(stack_grad, (pu + u) * stride + k) * at(theta, p_a + u * n_out + k)
                for i in range(row * hidden, (row + 1) * hidden):
                    found += grad[p_raw + i] * raw[pr + i]
                    put(grad, p_raw + i, at(grad, p_raw + i) * factor)
                grad[p_log_scale + row] = found * kind(math.exp(theta[p_log_scale + row]))
                grad[p_bias + u] *= factor
                if row < n_mixing - 1:
                    grad[p_shift + row] = grad[p_bias + u]
                    grad[p_mixing_bias + row] = grad[p_bias + u] / kind(hidden)
        multiply_by(grad, p_raw, n_raw - 2, kind(1) / kind(hidden))
        multiply(raw_slope, pr, grad, p_raw, grad, p_raw, n_raw)
