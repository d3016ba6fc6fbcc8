"""Probabilities of many rows in one compiled function, without anything that training would need later.

Both functions read predictors without their intercepts, ``(n, K)``, as one-dimensional arrays, and write probabilities of
all ``C = K + 1`` classes, ``(n, C)``, or their logarithms, from row ``first`` to ``last``. ``swap`` reverses the order of the
classes. Inside, arrays are *units times rows*, see :mod:`legendretron.accelerate.cpu.vectors`: a block of ``width``
rows goes through the whole link while it is in the cache.

They return the first row whose log-probabilities may not all be finite, or -1. What is written from there on is of no use.
"""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.cpu.compiling import cached, compiled
from legendretron.accelerate.cpu.entries import at, put
from legendretron.accelerate.cpu.products import add_product
from legendretron.accelerate.cpu.vectors import (
    activate,
    add_multiple,
    exp_differences,
    exp_scaled_differences,
    extremes,
    fill,
    highest,
    multiply,
    multiply_by,
)

__all__ = ["chain_probabilities", "nested_probabilities"]

_TILE = 16  # classes that are transposed at once, for the lines of the cache that they share with other rows


@compiled
def _gather(z, bias, first, rows, n_out, units, width):
    """Put rows of predictors, with their intercepts, into a block; rows that fill it up are zero."""
    zero = z.dtype.type(0)
    for begin in range(0, n_out, _TILE):
        end = min(n_out, begin + _TILE)
        for j in range(rows):
            place = (first + j) * n_out
            for k in range(begin, end):
                put(units, k * width + j, at(z, place + k) + at(bias, k))
        for k in range(begin, end):
            for j in range(rows, width):
                put(units, k * width + j, zero)


@compiled
def _scatter(units, factor, summand, first, rows, n_classes, swap, out, width):
    """Write ``units * factor + summand``, with one factor and summand for each row."""
    for begin in range(0, n_classes, _TILE):
        end = min(n_classes, begin + _TILE)
        for j in range(rows):
            place, step = (first + j) * n_classes, 1
            if swap:
                place, step = place + n_classes - 1, -1
            times, plus = at(factor, j), at(summand, j)
            for k in range(begin, end):
                put(out, place + step * k, at(units, k * width + j) * times + plus)


@compiled
def _ridge_block(numbers, p, n_out, hidden, depth, final_softplus, x, z, positive, d, up, width):
    """``x <- alpha x + gamma A^T d``, see :mod:`legendretron.potentials.ridge`.

    ``numbers`` holds from ``p`` on ``A`` (r, K), ``b``, the mixing weights (H, H) of each layer and those of the last (H,),
    ``alpha`` and ``gamma``.
    """
    zero, one = x.dtype.type(0), x.dtype.type(1)
    rank, layer = hidden * depth + 1, hidden * width
    p_bias = p + rank * n_out
    p_mixing = p_bias + rank
    p_alpha = p_mixing + (depth - 1) * hidden * hidden + hidden
    last = depth * layer
    for u in range(rank):
        fill(z, u * width, width, numbers[p_bias + u])
    add_product(numbers, p, n_out, 1, rank, n_out, x, 0, z, 0, width)
    for k in range(depth):
        feeds = hidden if k < depth - 1 else 1
        activate(z, k * layer, positive, d, k * layer, layer)
        mixing = p_mixing + k * hidden * hidden
        add_product(numbers, mixing, hidden, 1, feeds, hidden, positive, k * layer, z, (k + 1) * layer, width)
    if final_softplus:
        activate(z, last, positive, d, last, width)
    else:
        fill(d, last, width, one)
    for k in range(depth - 1, -1, -1):
        feeds = hidden if k < depth - 1 else 1
        fill(up, 0, layer, zero)
        add_product(numbers, p_mixing + k * hidden * hidden, 1, hidden, hidden, feeds, d, (k + 1) * layer, up, 0, width)
        multiply(d, k * layer, up, 0, d, k * layer, layer)
    multiply_by(x, 0, n_out * width, numbers[p_alpha])
    multiply_by(d, 0, rank * width, numbers[p_alpha + 1])
    add_product(numbers, p, 1, n_out, n_out, rank, d, 0, x, 0, width)


@cached
def chain_probabilities(
    z, bias, first, last, n_out, numbers, n_blocks, hidden, depth, final_softplus, log, swap, out, width
):
    """Of softmax+ after a chain of ridge blocks, which may be empty."""
    kind = z.dtype.type
    zero, one, largest = kind(0), kind(1), np.finfo(z.dtype).max
    n_classes, rank = n_out + 1, hidden * depth + 1
    n_block = rank * (n_out + 1) + (depth - 1) * hidden * hidden + hidden + 2
    size = rank * width if n_blocks > 0 else 0
    x, e, zeros = np.empty(n_classes * width, z.dtype), np.empty(width, z.dtype), np.zeros(width, z.dtype)
    units, positive, d = np.empty(size, z.dtype), np.empty(size, z.dtype), np.empty(size, z.dtype)
    up = np.empty(hidden * width, z.dtype)
    top, least, total = np.empty(width, z.dtype), np.empty(width, z.dtype), np.empty(width, z.dtype)
    for begin in range(first, last, width):
        rows = min(width, last - begin)
        _gather(z, bias, begin, rows, n_out, x, width)
        for b in range(n_blocks):
            _ridge_block(numbers, b * n_block, n_out, hidden, depth, final_softplus, x, units, positive, d, up, width)
        fill(x, n_out * width, width, zero)  # the log-odds of the reference class
        fill(top, 0, width, zero)
        fill(least, 0, width, zero)
        fill(total, 0, width, zero)
        for k in range(n_out):
            extremes(x, k * width, top, least, width)
        for k in range(n_classes):
            if log:  # differences first: beside large log-odds, the logarithm of the sum would be rounded away
                for j in range(width):
                    put(x, k * width + j, at(x, k * width + j) - at(top, j))
                exp_differences(x, k * width, zeros, e, 0, total, width)
            else:
                exp_differences(x, k * width, top, x, k * width, total, width)
        for j in range(rows):
            if not (at(total, j) <= largest and at(least, j) - at(top, j) >= -largest):  # false for NaN
                return begin + j
        for j in range(width):
            if log:
                put(total, j, -math.log(at(total, j)))
                put(top, j, one)
            else:
                put(top, j, one / at(total, j))
                put(total, j, zero)
        _scatter(x, top, total, begin, rows, n_classes, swap, out, width)
    return -1


@compiled
def _small_log(below, log_weights, numbers, n_nests, n_classes, k, j, width):
    """``log p_k`` of row ``j`` where ``p_k`` underflows, by a sum over nests of which the largest term is 1.

    Each term is computed once: a second time it may be rounded otherwise, which matters where it is very large.
    """
    p_offset = 1 + 2 * n_nests
    most, total = -math.inf, 0.0
    for m in range(n_nests):
        term = at(log_weights, m * width + j) + numbers[1 + m] * below + numbers[p_offset + m * n_classes + k]
        if term > most:
            total = total * math.exp(most - term) + 1.0
            most = term
        else:
            total += math.exp(term - most)
    return most + math.log(total)


@cached
def nested_probabilities(z, bias, first, last, n_out, numbers, n_nests, smallest, log, swap, out, width):
    """Of the gradient of a nested log-sum-exp, see :class:`legendretron.potentials.NestedLogSumExp`.

    ``numbers`` holds beta, then mu, the gate biases and the offsets (M, C) of the nests, of which none may be positive: what
    is subtracted from all offsets of a nest belongs into its gate bias. Logarithms of probabilities below ``smallest`` are
    computed again, without exponentials that underflow.
    """
    kind = z.dtype.type
    zero, one, largest = kind(0), kind(1), np.finfo(z.dtype).max
    n_classes = n_out + 1
    units = n_classes * width
    p_bias, p_offset = 1 + n_nests, 1 + 2 * n_nests
    x, p, e = np.empty(units, z.dtype), np.empty(units, z.dtype), np.empty(n_nests * units, z.dtype)
    weights, gates = np.empty(n_nests * width, z.dtype), np.empty(n_nests * width, z.dtype)
    log_weights = np.empty(n_nests * width, z.dtype)
    top, least, total = np.empty(width, z.dtype), np.empty(width, z.dtype), np.empty(width, z.dtype)
    most, best, ones = np.empty(width, z.dtype), np.empty(width, z.dtype), np.empty(width, z.dtype)
    fill(ones, 0, width, one)
    steepest = zero
    for m in range(n_nests):
        steepest = max(steepest, numbers[1 + m])
    for begin in range(first, last, width):
        rows = min(width, last - begin)
        _gather(z, bias, begin, rows, n_out, x, width)
        fill(x, n_out * width, width, zero)
        fill(top, 0, width, zero)
        fill(least, 0, width, zero)
        for k in range(n_out):
            extremes(x, k * width, top, least, width)
        for m in range(n_nests):
            fill(total, 0, width, zero)
            for k in range(n_classes):
                place, offset = m * units + k * width, numbers[p_offset + m * n_classes + k]
                exp_scaled_differences(x, k * width, top, offset, numbers[1 + m], e, place, total, width)
            slope, gate_bias = numbers[0] / numbers[1 + m], numbers[p_bias + m]
            for j in range(width):
                put(weights, m * width + j, at(total, j))
                log_sum = math.log(at(total, j))
                put(gates, m * width + j, slope * log_sum + gate_bias)
                put(log_weights, m * width + j, at(gates, m * width + j) - log_sum)
        for j in range(width):
            put(most, j, at(gates, j))
        for m in range(1, n_nests):
            highest(gates, m * width, zero, most, best, width)
        fill(total, 0, width, zero)
        for m in range(n_nests):
            exp_differences(gates, m * width, most, gates, m * width, total, width)
        for j in range(rows):
            finite = at(total, j) <= largest and steepest * (at(least, j) - at(top, j)) >= -largest  # false for NaN
            for m in range(n_nests):
                finite = finite and at(weights, m * width + j) <= largest
            if not finite:
                return begin + j
        fill(p, 0, units, zero)
        for m in range(n_nests):
            for j in range(width):
                put(weights, m * width + j, at(gates, m * width + j) / (at(total, j) * at(weights, m * width + j)))
            for k in range(n_classes):
                add_multiple(weights, m * width, e, m * units + k * width, p, k * width, width)
        if log:
            for m in range(n_nests):
                for j in range(width):
                    place = m * width + j
                    put(log_weights, place, at(log_weights, place) - at(most, j) - math.log(at(total, j)))
            for k in range(n_classes):
                for j in range(width):
                    value = at(p, k * width + j)
                    if value < smallest:
                        below = at(x, k * width + j) - at(top, j)
                        value = kind(_small_log(below, log_weights, numbers, n_nests, n_classes, k, j, width))
                    else:
                        value = min(zero, math.log(value))
                    put(p, k * width + j, value)
        fill(total, 0, width, zero)
        _scatter(p, ones, total, begin, rows, n_classes, swap, out, width)
    return -1
