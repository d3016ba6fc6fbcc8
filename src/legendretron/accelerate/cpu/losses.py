"""Canonical losses of a batch with their gradients, each in one compiled function.

Both functions take the addresses of contiguous arrays, in the precision of ``like``: logits, ``(n, C)``, labels ``(n,)`` of
64 bits, and of each class a weight, or 0 for no weights. (Numba takes longer to look at arrays than many of the losses take
to compute.) They write to ``out`` the losses of all rows, ``how = 0``, their mean over weights, ``how = 1``, or their sum,
``how = 2``. Gradients ``w_y (p - e_y)``, with the factor of the mean, are written to ``gradient`` unless that is 0. A label
``ignore`` does not count. They return the number of the first row with any other label that is no class, and -1 if there is
none. All this of rows from ``first`` to ``last``, so that several threads can share the work; a mean is over all ``n``, and
those of the parts add up.

Symmetric noise is part of the formulas: ``kept`` and ``fixed`` are such that observed probabilities are ``kept p + fixed``.
``least`` holds what is subtracted from the loss of each label.
"""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.cpu.addresses import array_at
from legendretron.accelerate.cpu.compiling import cached, compiled
from legendretron.accelerate.cpu.entries import at, put
from legendretron.accelerate.cpu.vectors import add_multiple, exp_differences, fill, highest, scaled_differences

__all__ = ["nested_losses", "table_losses"]

#: Rows that are computed together: many, as long as all of their exponentials stay in the cache.
_WIDTH, _NARROW = 64, 16
_MOST_UNITS = 512


_LABELS = np.empty(0, np.int64)


@compiled
def _total_weight(labels, weights, n_classes, ignore):
    """Number of the first row with a wrong label, or -1, and the sum of all rows' weights."""
    total = 0.0
    for i in range(labels.shape[0]):
        label = at(labels, i)
        if label == ignore:
            continue
        if label < 0 or label >= n_classes:
            return i, total
        total += at(weights, label) if weights.shape[0] > 0 else 1.0
    return -1, total


@cached
def nested_losses(like, n, first, last, n_nests, n_classes, out, x, labels, weights, gradient, numbers, ignore, how):
    """Of nested log-sum-exps.

    ``numbers`` holds beta, kept, the ``M`` nests' mu and gate biases, their offsets (M, C), then ``fixed`` and ``least``. See
    :class:`legendretron.potentials.NestedLogSumExp` for the formulas.
    """
    size = n * n_classes
    x, labels, weights = array_at(x, size, like), array_at(labels, n, _LABELS), array_at(weights, n_classes, like)
    out, gradient = array_at(out, n if how == 0 else 1, like), array_at(gradient, size, like)
    numbers = array_at(numbers, 2 + n_nests * (2 + n_classes) + 2 * n_classes, like)
    bad, total_weight = _total_weight(labels, weights, n_classes, ignore)
    if bad >= 0:
        return bad
    kind = x.dtype.type
    zero = kind(0)
    factor = kind(1.0 / total_weight) if how == 1 else kind(1)
    beta, kept = numbers[0], numbers[1]
    p_bias, p_offset = 2 + n_nests, 2 + 2 * n_nests
    p_fixed = p_offset + n_nests * n_classes
    p_least = p_fixed + n_classes
    width = _WIDTH if n_nests * n_classes <= _MOST_UNITS else _NARROW
    units, gate_units = n_classes * width, n_nests * width
    logits, p, e = np.empty(units, x.dtype), np.empty(units, x.dtype), np.empty(n_nests * units, x.dtype)
    totals, gates = np.empty(gate_units, x.dtype), np.empty(gate_units, x.dtype)
    top, best = np.empty(width, x.dtype), np.empty(width, x.dtype)
    most, total = np.empty(width, x.dtype), np.empty(width, x.dtype)
    summed = 0.0
    for begin in range(first, last, width):
        rows = min(width, last - begin)
        if rows < width:
            fill(logits, 0, units, zero)
        for j in range(rows):
            place = (begin + j) * n_classes
            for k in range(n_classes):
                put(logits, k * width + j, at(x, place + k))
        for j in range(width):
            put(top, j, at(logits, j))
        for k in range(1, n_classes):
            highest(logits, k * width, zero, top, best, width)
        for m in range(n_nests):
            fill(most, 0, width, kind(-math.inf))
            fill(total, 0, width, zero)
            for k in range(n_classes):
                place, offset = m * units + k * width, numbers[p_offset + m * n_classes + k]
                scaled_differences(logits, k * width, top, offset, numbers[2 + m], e, place, most, width)
            for k in range(n_classes):
                place = m * units + k * width
                exp_differences(e, place, most, e, place, total, width)
            slope, bias = beta / numbers[2 + m], numbers[p_bias + m]
            for j in range(width):
                put(totals, m * width + j, at(total, j))
                put(gates, m * width + j, slope * (at(most, j) + math.log(at(total, j))) + bias)
        # most and total once more, now over nests
        for j in range(width):
            put(most, j, at(gates, j))
        for m in range(1, n_nests):
            highest(gates, m * width, zero, most, best, width)
        fill(total, 0, width, zero)
        for m in range(n_nests):
            exp_differences(gates, m * width, most, gates, m * width, total, width)
        for j in range(rows):
            label = at(labels, begin + j)
            loss = zero
            if label != ignore:
                loss = kept * (at(most, j) + math.log(at(total, j))) / beta
                loss -= at(logits, label * width + j) - at(top, j)
                if kept != 1:
                    for k in range(n_classes):
                        loss += numbers[p_fixed + k] * (at(logits, k * width + j) - at(top, j))
                loss -= numbers[p_least + label]
                if weights.shape[0] > 0:
                    loss *= at(weights, label)
            if how == 0:
                put(out, begin + j, loss)
            summed += loss
        if gradient.shape[0] == 0:
            continue
        fill(p, 0, units, zero)
        for m in range(n_nests):
            for j in range(width):
                put(totals, m * width + j, at(gates, m * width + j) / (at(total, j) * at(totals, m * width + j)))
            for k in range(n_classes):
                add_multiple(totals, m * width, e, m * units + k * width, p, k * width, width)
        for j in range(rows):
            label, place = at(labels, begin + j), (begin + j) * n_classes
            if label == ignore:
                for k in range(n_classes):
                    put(gradient, place + k, zero)
                continue
            weight = factor * at(weights, label) if weights.shape[0] > 0 else factor
            for k in range(n_classes):
                value = kept * at(p, k * width + j) + numbers[p_fixed + k]
                put(gradient, place + k, weight * (value - kind(k == label)))
    if how > 0:
        out[0] = summed / total_weight if how == 1 else summed
    return -1


@cached
def table_losses(
    like, n, first, last, n_pieces, size, out, x, labels, weights, gradient, numbers, edges, pieces, ignore, how
):
    """Of two-class links whose potential is a table of polynomials, see :class:`legendretron.links.potential_table`.

    ``pieces`` holds ``size`` numbers of each piece: its middle, one over half its width, whether it lies above even odds, and
    the coefficients; ``numbers`` the constant above even odds, kept, ``fixed`` and ``least``.
    """
    x, labels, weights = array_at(x, 2 * n, like), array_at(labels, n, _LABELS), array_at(weights, 2, like)
    out, gradient = array_at(out, n if how == 0 else 1, like), array_at(gradient, 2 * n, like)
    numbers = array_at(numbers, 6, like)
    edges, pieces = array_at(edges, n_pieces + 1, like), array_at(pieces, n_pieces * size, like)
    bad, total_weight = _total_weight(labels, weights, 2, ignore)
    if bad >= 0:
        return bad
    kind = x.dtype.type
    one = kind(1)
    factor = kind(1.0 / total_weight) if how == 1 else one
    constant, kept = numbers[0], numbers[1]
    low, high = edges[0], edges[n_pieces]
    summed = 0.0
    for i in range(first, last):
        label = at(labels, i)
        if label == ignore:
            if how == 0:
                put(out, i, kind(0))
            if gradient.shape[0] > 0:
                put(gradient, 2 * i, kind(0))
                put(gradient, 2 * i + 1, kind(0))
            continue
        z = at(x, 2 * i) - at(x, 2 * i + 1)
        inside = low if z < low else high if z > high else z
        piece, end = 0, n_pieces
        while end - piece > 1:  # edges[piece] <= inside < edges[end]
            middle = (piece + end) // 2
            if inside < at(edges, middle):
                end = middle
            else:
                piece = middle
        place = piece * size
        scale, above = at(pieces, place + 1), at(pieces, place + 2) > 0
        t = (inside - at(pieces, place)) * scale
        value, slope = at(pieces, place + size - 1), kind(0)
        for d in range(size - 2, 2, -1):
            slope = slope * t + value
            value = value * t + at(pieces, place + d)
        small = min(abs(slope * scale), one)  # rounding in a piece as narrow as rounding
        if above:
            value += constant
            loss = value if label == 0 else value + z
        else:
            loss = value - z if label == 0 else value
        if kept != 1:
            loss = kept * loss + (-numbers[3] * z if label == 0 else numbers[2] * z)
        loss -= numbers[4 + label]
        weight = at(weights, label) if weights.shape[0] > 0 else one
        loss *= weight
        if how == 0:
            put(out, i, loss)
        summed += loss
        if gradient.shape[0] > 0:
            p, q = (one - small, small) if above else (small, one - small)
            p, q = kept * p + numbers[2], kept * q + numbers[3]
            weight *= factor
            put(gradient, 2 * i, weight * (p - kind(label == 0)))
            put(gradient, 2 * i + 1, weight * (q - kind(label == 1)))
    if how > 0:
        out[0] = summed / total_weight if how == 1 else summed
    return -1
