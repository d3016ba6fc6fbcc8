"""Canonical losses of rows with their gradients, by Triton kernels.

Both kernels write to ``out``, ``(2, n)``, the weighted losses of all rows and their weights, and to ``gradient``, ``(n, C)``,
``w_y (p - e_y)``. A label ``ignore`` does not count; one that is no class gives NaN, since no GPU waits for an error. The
numbers of a link are those of :mod:`legendretron.accelerate.cpu.losses`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from legendretron.accelerate.cuda.launching import on_device_of

__all__ = ["weighted_losses"]

_TILE = 2048  # entries that a kernel holds at once, at least a row


@triton.jit
def _weights_of(weights, y, good, WEIGHTED: tl.constexpr, like):
    weight = tl.full(y.shape, 1.0, like.dtype)
    if WEIGHTED:
        weight = tl.load(weights + tl.where(good, y, 0), good, 1.0)
    return weight


@triton.jit
def _nested_kernel(
    x, labels, weights, out, gradient, numbers, n, n_classes, ignore,
    M: tl.constexpr, WEIGHTED: tl.constexpr, WANT: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Nested log-sum-exps of a few rows; the gate of nests is normalized while it is computed, as softmax can be."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = tl.arange(0, BLOCK_C)
    real, inside = rows < n, cols < n_classes
    place, both = rows[:, None] * n_classes + cols[None, :], real[:, None] & inside[None, :]
    value = tl.where(inside[None, :], tl.load(x + place, both, 0.0), float("-inf"))
    d = value - tl.max(value, 1)[:, None]
    link = numbers + 1 + 2 * n_classes
    keep, beta = tl.load(numbers), tl.load(link)
    offsets = link + 1 + 2 * M
    fixed = tl.load(numbers + 1 + cols, inside, 0.0)
    least = tl.load(numbers + 1 + n_classes + cols, inside, 0.0)
    p = tl.zeros_like(d)
    total = tl.sum(p, 1)
    high = total + float("-inf")
    for m in tl.static_range(M):
        mu, bias = tl.load(link + 1 + m), tl.load(link + 1 + M + m)
        a = mu * d + tl.load(offsets + m * n_classes + cols, inside, 0.0)[None, :]
        most = tl.max(a, 1)
        e = tl.exp(a - most[:, None])
        s = tl.sum(e, 1)
        gate = beta / mu * (most + tl.log(s)) + bias
        new = tl.maximum(high, gate)
        before, share = tl.exp(high - new), tl.exp(gate - new)
        p = p * before[:, None] + (share / s)[:, None] * e
        total = total * before + share
        high = new
    y = tl.load(labels + rows, real, 0)
    counted, good = y != ignore, (y >= 0) & (y < n_classes)
    own = cols[None, :] == y[:, None]
    loss = keep * (high + tl.log(total)) / beta
    loss -= tl.sum(tl.where(own, d, 0.0), 1) + tl.sum(tl.where(own, least[None, :], 0.0), 1)
    if keep != 1.0:
        loss += tl.sum(fixed[None, :] * tl.where(inside[None, :], d, 0.0), 1)
    weight = _weights_of(weights, y, good, WEIGHTED, total)
    weight = tl.where(good, weight, float("nan"))
    tl.store(out + rows, tl.where(counted, weight * loss, 0.0), real)
    tl.store(out + n + rows, tl.where(counted, weight, 0.0), real)
    if WANT:
        slope = keep * p / total[:, None] + fixed[None, :] - tl.where(own, 1.0, 0.0)
        tl.store(gradient + place, tl.where(counted[:, None], weight[:, None] * slope, 0.0), both)


@triton.jit
def _table_kernel(
    x, labels, weights, out, gradient, numbers, n, n_pieces, ignore,
    SIZE: tl.constexpr, STEPS: tl.constexpr, WEIGHTED: tl.constexpr, WANT: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Two-class links by polynomials."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    real = rows < n
    z = tl.load(x + 2 * rows, real, 0.0) - tl.load(x + 2 * rows + 1, real, 0.0)
    edges = numbers + 6
    pieces = edges + n_pieces + 1
    low, high = tl.load(edges), tl.load(edges + n_pieces)
    inside = tl.where(z < low, low, tl.where(z > high, high, z))
    piece = tl.zeros_like(rows)
    end = piece + n_pieces
    for _ in range(STEPS):  # edges[piece] <= inside < edges[end]
        middle = (piece + end) // 2
        further = inside >= tl.load(edges + middle)
        piece, end = tl.where(further, middle, piece), tl.where(further, end, middle)
    place = pieces + piece * SIZE
    scale, above = tl.load(place + 1), tl.load(place + 2) > 0.0
    t = (inside - tl.load(place)) * scale
    value, slope = tl.load(place + SIZE - 1), t * 0.0
    for i in tl.static_range(SIZE - 4):
        slope = slope * t + value
        value = value * t + tl.load(place + SIZE - 2 - i)
    small = tl.abs(slope * scale)
    small = tl.where(small > 1.0, 1.0, small)  # rounding in a piece as narrow as rounding
    y = tl.load(labels + rows, real, 0)
    counted, good, first = y != ignore, (y >= 0) & (y < 2), y == 0
    value = tl.where(above, value + tl.load(numbers + 5), value)
    loss = tl.where(first, tl.where(above, value, value - z), tl.where(above, value + z, value))
    keep, fixed_first, fixed_second = tl.load(numbers), tl.load(numbers + 1), tl.load(numbers + 2)
    if keep != 1.0:
        loss = keep * loss + tl.where(first, -fixed_second * z, fixed_first * z)
    loss -= tl.where(first, tl.load(numbers + 3), tl.load(numbers + 4))
    weight = _weights_of(weights, y, good, WEIGHTED, t)
    weight = tl.where(good, weight, float("nan"))
    tl.store(out + rows, tl.where(counted, weight * loss, 0.0), real)
    tl.store(out + n + rows, tl.where(counted, weight, 0.0), real)
    if WANT:
        p, q = tl.where(above, 1.0 - small, small), tl.where(above, small, 1.0 - small)
        p, q = keep * p + fixed_first - tl.where(first, 1.0, 0.0), keep * q + fixed_second - tl.where(first, 0.0, 1.0)
        tl.store(gradient + 2 * rows, tl.where(counted, weight * p, 0.0), real)
        tl.store(gradient + 2 * rows + 1, tl.where(counted, weight * q, 0.0), real)


def weighted_losses(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    numbers: Tensor,
    sizes: tuple[int, int],
    is_table: bool,
    ignore: int,
    want: bool,
) -> tuple[Tensor, Tensor | None]:
    """Weighted losses and weights ``(2, n)``, and gradients ``(n, C)`` if wanted."""
    n, c = logits.shape
    out, gradient = logits.new_empty(2, n), torch.empty_like(logits) if want else None
    tensors = (
        logits,
        labels,
        logits if weight is None else weight,
        out,
        logits if gradient is None else gradient,
        numbers,
    )
    flags = {"WEIGHTED": weight is not None, "WANT": want}
    with on_device_of(logits):
        if is_table:
            n_pieces, size = sizes
            _table_kernel[(triton.cdiv(n, 256),)](
                *tensors, n, n_pieces, ignore, SIZE=size, STEPS=n_pieces.bit_length(), BLOCK_N=256, num_warps=4, **flags
            )
        else:
            block_c = triton.next_power_of_2(c)
            block_n = max(1, _TILE // block_c)
            _nested_kernel[(triton.cdiv(n, block_n),)](
                *tensors, n, c, ignore, M=sizes[0], BLOCK_N=block_n, BLOCK_C=block_c,
                num_warps=4 if block_c <= 4096 else 16, **flags,
            )  # fmt: skip
    return out, gradient
