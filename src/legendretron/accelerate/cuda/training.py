"""Training by Triton kernels: the rows of a step, Adam with penalties, and sparse products, for all runs.

Adam and sparse products are bound by memory: as torch runs them, Adam and the penalties pass over the parameters some twenty
times, and a sparse gradient is formed in a buffer of its own. Here parameters, gradient and moments are read once and written
once, and sparse gradients are added up in place. Nothing is read by the host and no shape depends on the data, so that all
of it can be captured in a CUDA graph. Offsets are 64 bits wide, for matrices of more than 2^31 entries.

All functions work in place, and on the current stream.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

from legendretron.accelerate.cuda.chain import ChainOnCUDA, StepNoise
from legendretron.accelerate.cuda.launching import on_device_of
from legendretron.accelerate.cuda.nests import NestsOnCUDA
from legendretron.accelerate.forms import LinkForm

__all__ = ["LinkStep", "adam_step", "sparse_gradient", "sparse_product"]

_STRETCH = 512  # parameters an Adam program holds: few enough registers for many programs at once
_TILE = 1024  # weights a sparse program holds
_MOST_OUTPUTS = 256  # of them side by side


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
def _scales_kernel(
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
def _adam_kernel(
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
        weight_strength = tl.load(strengths + run * 3)
        bias_strength = tl.load(strengths + run * 3 + 1)
        link_strength = tl.load(strengths + run * 3 + 2)
        g += tl.where(cols < n_weights, weight_strength, tl.where(cols < n_linear, bias_strength, link_strength)) * p
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
def _sparse_product_kernel(
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
def _sparse_gradient_kernel(
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


def adam_step(
    parameters: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    count: Tensor,
    rate: Tensor,
    *,
    betas: tuple[float, float],
    eps: float,
    strengths: Tensor | None = None,
    shared: Tensor | None = None,
    bounds: tuple[int, int] = (0, 0),
    clear: bool = False,
) -> None:
    """One step of Adam, with the gradient of a penalty, in one pass over memory.

    Updates all but the gradient, also ``count``, the number of steps in float64; ``clear`` leaves zeros in the gradient.
    Weights, bias and the rest of a run's parameters, which end at ``bounds``, times ``strengths`` (R, 3) are added to the
    gradient; ``shared`` (R, d) is subtracted from those of all weights of a feature.
    """
    runs, size = parameters.shape
    n_weights, n_linear = bounds
    scales = parameters.new_empty(runs + 1)
    rates = rate.reshape(-1).expand(runs).contiguous()
    block = min(_STRETCH, triton.next_power_of_2(size))
    n_blocks = triton.cdiv(size, block)
    b1, b2 = betas
    with on_device_of(parameters):
        _scales_kernel[(1,)](
            count, rates, scales, runs, LOG_B1=_log(b1), LOG_B2=_log(b2), EPS=eps, BLOCK=64, num_warps=1
        )  # fmt: skip
        _adam_kernel[(runs * n_blocks,)](
            parameters, gradient, first, second, scales, scales if strengths is None else strengths,
            scales if shared is None else shared, runs, size, n_weights, n_linear,
            1 if shared is None else n_weights // shared.shape[1], n_blocks, B1=b1, B2=b2,
            PENALTY=strengths is not None, SHARED=shared is not None, CLEAR=clear, BLOCK=block,
        )  # fmt: skip


def _log(beta: float) -> float:
    return math.log(beta) if beta > 0.0 else -math.inf


def _tiles(k: int) -> dict[str, int]:
    """Entries of a row and outputs a sparse program holds, and the warps to hold them."""
    block_k = min(triton.next_power_of_2(k), _MOST_OUTPUTS)
    block_e = min(64, _TILE // block_k)
    return {"BLOCK_E": block_e, "BLOCK_K": block_k, "num_warps": max(1, block_e * block_k // 256)}


def _run_stride(tensor: Tensor) -> tuple[Tensor, int]:
    """The tensor and its stride from one run to the next; a copy only if a run's part is not contiguous."""
    if not tensor[0].is_contiguous():
        tensor = tensor.contiguous()
    return tensor, tensor.stride(0)


def sparse_product(
    starts: Tensor, columns: Tensor, values: Tensor, rows: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """Rows ``(R, n)`` of a matrix in compressed rows times weights ``(R, d, K)`` of runs, plus biases ``(R, 1, K)``.

    Weights and bias may be parts of a larger matrix; ``columns`` may have 32 or 64 bits.
    """
    runs, n = rows.shape
    k = weight.shape[-1]
    z = weight.new_empty(runs, n, k)
    weight, weight_stride = _run_stride(weight)
    bias, bias_stride = _run_stride(bias)
    tiles = _tiles(k)
    n_tiles = triton.cdiv(k, tiles["BLOCK_K"])
    with on_device_of(weight):
        _sparse_product_kernel[(runs * n * n_tiles,)](
            starts, columns, values, rows.contiguous(), weight, bias, z,
            n, k, weight_stride, bias_stride, n_tiles, **tiles,
        )  # fmt: skip
    return z


def sparse_gradient(starts: Tensor, columns: Tensor, values: Tensor, rows: Tensor, dz: Tensor, out: Tensor) -> None:
    """Add the cotangent of the weights, ``X[rows]^T dz``, to ``out`` (R, d, K), in no particular order.

    ``out`` may be a part of a larger matrix, with the parts of each run contiguous. See :func:`sparse_product`.
    """
    runs, n, k = dz.shape
    tiles = _tiles(k)
    n_tiles = triton.cdiv(k, tiles["BLOCK_K"])
    with on_device_of(out):
        _sparse_gradient_kernel[(runs * n * n_tiles,)](
            starts, columns, values, rows.contiguous(), dz.contiguous(), out, n, k, out.stride(0), n_tiles, **tiles
        )  # fmt: skip


class LinkStep:
    """Gradients of the weighted log-loss of a batch, for all runs: predictors in, gradients of all parameters but ``W`` out.

    ``flat``, (R, P), is read in each call: ``W`` with its ``n_weights`` entries, bias, parameters of the link.
    """

    def __init__(self, form: LinkForm, flat: Tensor, n_weights: int) -> None:
        self.flat, self.n_weights = flat, n_weights
        rate = flat.new_full((1,), form.known_rate)
        self.noise = StepNoise(form.learned_rate, rate, form.known_rate > 0.0)
        self.functions = NestsOnCUDA(form, False) if form.n_nests else ChainOnCUDA(form)

    def __call__(self, z: Tensor, labels: Tensor, weight: Tensor, gradient: Tensor, totals: Tensor) -> Tensor:
        """Write gradients, add to totals, and return the gradient in the predictors, of their shape."""
        z, labels, weight = z.contiguous(), labels.contiguous(), weight.contiguous()
        return self.functions.step(z, labels, weight, self.flat, self.n_weights, self.noise, gradient, totals)
