"""What training does to all parameters of all runs, as Triton kernels: Adam with penalties, and sparse products.

These are bound by memory: as torch runs them, Adam and the penalties pass over the parameters some twenty times, and a
sparse gradient is formed in a buffer of its own. Here parameters, gradient and moments are read once and written
once, and sparse gradients are added up in place. Nothing is read by the host and no shape depends on the data, so that all
of it can be captured in a CUDA graph. Offsets are 64 bits wide, for matrices of more than 2^31 entries.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["adam_kernel", "scales_kernel", "sparse_gradient_kernel", "sparse_product_kernel"]


@triton.jit
def _root(x):
    # Triton's default square root in single precision is inexact, and flushes tiny numbers to zero
    if x.dtype == tl.float32:
        root = tl.sqrt_rn(x)
    else:
        root = tl.sqrt(x)
    return root


@triton.jit
def _quotient(x, y):
    # as for the root
    if x.dtype == tl.float32:
        quotient = tl.div_rn(x, y)
    else:
        quotient = x / y
    return quotient


@triton.jit
def scales_kernel(
    count_ptr, rates, scales, R, LOG_B1: tl.constexpr, LOG_B2: tl.constexpr, EPS: tl.constexpr, BLOCK: tl.constexpr
):
    """Count a step; compute each run's factor of its update, then what keeps denominators from zero. One program."""
    count = tl.load(count_ptr) + 1.0
    tl.debug_barrier()  # all threads have read the count before one of them writes it
    tl.store(count_ptr, count)
    correction = tl.sqrt(1.0 - tl.exp(count * LOG_B2))
    dtype = scales.dtype.element_ty
    tl.store(scales + R, (correction * EPS).to(dtype))
    factor = correction / (1.0 - tl.exp(count * LOG_B1))
    for start in range(0, R, BLOCK):
        runs = start + tl.arange(0, BLOCK)
        rate = tl.load(rates + runs, runs < R, 0.0).to(tl.float64)
        tl.store(scales + runs, (-rate * factor).to(dtype), runs < R)


@triton.jit
def adam_kernel(
    parameters, gradient, first, second, scales, strengths, shared, R, P, n_weights, n_linear, K, n_blocks,
    B1: tl.constexpr, B2: tl.constexpr, PENALTY: tl.constexpr, SHARED: tl.constexpr, CLEAR: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A stretch of one run's parameters: the penalty's gradient, the moments, the update."""
    program = tl.program_id(0)
    run = (program // n_blocks).to(tl.int64)
    start = (program % n_blocks).to(tl.int64) * BLOCK
    entries = tl.arange(0, BLOCK)
    cols = start + entries
    inside = cols < P
    at = run * P + cols
    p = tl.load(parameters + at, inside, 0.0)
    g = tl.load(gradient + at, inside, 0.0)
    m = tl.load(first + at, inside, 0.0)
    v = tl.load(second + at, inside, 0.0)
    if CLEAR:  # a sparse gradient is zero nearly everywhere, and there nothing needs to be written
        tl.store(gradient + at, tl.zeros_like(g), inside & (g != 0.0))
    if PENALTY:
        of_weights = tl.load(strengths + run * 3)
        of_bias = tl.load(strengths + run * 3 + 1)
        of_link = tl.load(strengths + run * 3 + 2)
        g += tl.where(cols < n_weights, of_weights, tl.where(cols < n_linear, of_bias, of_link)) * p
    if SHARED:
        # the feature of each column; only the first of them needs a division of 64 bits
        feature = start // K + ((start % K).to(tl.int32) + entries) // K
        g -= tl.load(shared + run * (n_weights // K) + feature, cols < n_weights, 0.0)
    m += (1.0 - B1) * (g - m)
    v = B2 * v + (1.0 - B2) * g * g
    p += _quotient(tl.load(scales + run) * m, _root(v) + tl.load(scales + R))
    tl.store(parameters + at, p, inside)
    tl.store(first + at, m, inside)
    tl.store(second + at, v, inside)


@triton.jit
def sparse_product_kernel(
    starts, columns, values, rows, weight, bias, z, n, K, weight_stride, bias_stride, n_tiles,
    BLOCK_E: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A row of features times a run's weights, for a tile of the outputs."""
    program = tl.program_id(0)
    item = (program // n_tiles).to(tl.int64)
    run = item // n
    k = (program % n_tiles) * BLOCK_K + tl.arange(0, BLOCK_K)
    row = tl.load(rows + item)
    start = tl.load(starts + row)
    length = (tl.load(starts + row + 1) - start).to(tl.int32)
    total = tl.zeros((BLOCK_E, BLOCK_K), z.dtype.element_ty)
    for done in range(0, length, BLOCK_E):
        entries = done + tl.arange(0, BLOCK_E)
        column = tl.load(columns + start + entries, entries < length, 0).to(tl.int64)
        value = tl.load(values + start + entries, entries < length, 0.0)
        tile = (entries < length)[:, None] & (k < K)[None, :]
        total += value[:, None] * tl.load(weight + run * weight_stride + column[:, None] * K + k[None, :], tile, 0.0)
    offset = tl.load(bias + run * bias_stride + k, k < K, 0.0)
    tl.store(z + item * K + k, tl.sum(total, axis=0) + offset, k < K)


@triton.jit
def sparse_gradient_kernel(
    starts, columns, values, rows, dz, gradient, n, K, gradient_stride, n_tiles,
    BLOCK_E: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Add what a row contributes to its run's gradient, for a tile of the outputs; other rows add to the same entries."""
    program = tl.program_id(0)
    item = (program // n_tiles).to(tl.int64)
    run = item // n
    k = (program % n_tiles) * BLOCK_K + tl.arange(0, BLOCK_K)
    row = tl.load(rows + item)
    start = tl.load(starts + row)
    length = (tl.load(starts + row + 1) - start).to(tl.int32)
    cotangent = tl.load(dz + item * K + k, k < K, 0.0)
    for done in range(0, length, BLOCK_E):
        entries = done + tl.arange(0, BLOCK_E)
        column = tl.load(columns + start + entries, entries < length, 0).to(tl.int64)
        value = tl.load(values + start + entries, entries < length, 0.0)
        tile = (entries < length)[:, None] & (k < K)[None, :]
        where = gradient + run * gradient_stride + column[:, None] * K + k[None, :]
        tl.atomic_add(where, value[:, None] * cotangent[None, :], tile, sem="relaxed")
