"""Canonical losses of a batch with their gradients, each in one compiled function.

Both functions take the addresses of contiguous arrays, in the precision of ``like``: logits, ``(n, C)``, labels ``(n,)`` of
64 bits, and of each class a weight, or 0 for no weights; see :func:`legendretron.accelerate.cpu.compiling.array_at`. They
write to ``out`` the losses of all rows, ``how = 0``, their mean over weights, ``how = 1``, or their sum,
``how = 2``. Gradients ``w_y (p - e_y)``, with the factor of the mean, are written to ``gradient`` unless that is 0. A label
``ignore`` does not count. They return the number of a row with any other label that is no class, or, with noise, with a
masked class; -1 if there is none. All this of rows from ``first`` to ``last``, so that several threads can share the work; a
mean is over all ``n``, and those of the parts add up.

``numbers`` begins with ``keep``, ``fixed`` (C,) and ``least`` (C,). With noise of labels, observed probabilities are
``keep p + fixed``; ``least`` is subtracted from the loss of each label. Then follow the numbers of the link.
"""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.cpu.compiling import array_at, at, cached, compiled, put
from legendretron.accelerate.cpu.nests import Nests, evaluate_nests, mix, new_rows
from legendretron.accelerate.cpu.softmax import load_rows

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


@compiled
def _nests_of(link, n_nests, n_classes):
    """The nests with these numbers."""
    p_offset = 1 + 2 * n_nests
    p_largest = p_offset + n_nests * n_classes
    return Nests(
        link[1 : 1 + n_nests], link[0], link[1 + n_nests : p_offset], link[p_offset:p_largest],
        link[p_largest : p_largest + n_nests], link[p_largest + n_nests :],
    )  # fmt: skip


@cached
def nested_losses(like, n, first, last, n_nests, n_classes, out, x, labels, weights, gradient, numbers, ignore, how):
    """Of nested log-sum-exps, see :class:`legendretron.potentials.NestedLogSumExp`.

    The numbers of the link are beta, the ``M`` nests' mu, gate biases and offsets (M, C), and the largest and the smallest
    offset of each nest.
    """
    size = n * n_classes
    x, labels, weights = array_at(x, size, like), array_at(labels, n, _LABELS), array_at(weights, n_classes, like)
    out, gradient = array_at(out, n if how == 0 else 1, like), array_at(gradient, size, like)
    numbers = array_at(numbers, 2 + n_nests * (4 + n_classes) + 2 * n_classes, like)
    p_fixed, p_least, p_link = 1, 1 + n_classes, 1 + 2 * n_classes
    bad, total_weight = _total_weight(labels, weights, n_classes, ignore)
    if bad >= 0:
        return bad
    kind = x.dtype.type
    zero = kind(0)
    factor = kind(1.0 / total_weight) if how == 1 else kind(1)
    nests, keep = _nests_of(numbers[p_link:], n_nests, n_classes), numbers[0]
    width = _WIDTH if n_nests * n_classes <= _MOST_UNITS else _NARROW
    state = new_rows(n_nests, n_classes, width, x)
    logits, p = np.empty(n_classes * width, x.dtype), np.empty(n_classes * width, x.dtype)
    summed = 0.0
    for begin in range(first, last, width):
        rows = min(width, last - begin)
        load_rows(x, begin, rows, n_classes, logits, 0, width)
        evaluate_nests(nests, n_nests, n_classes, logits, 0, width, -math.inf, state, width)
        for j in range(rows):
            label = at(labels, begin + j)
            loss = zero
            if label != ignore:
                loss = keep * (at(state.most, j) + math.log(at(state.total, j))) / nests.beta
                loss -= at(logits, label * width + j) - at(state.top, j)
                if keep != 1:
                    for k in range(n_classes):
                        loss += numbers[p_fixed + k] * (at(logits, k * width + j) - at(state.top, j))
                    if not abs(loss) < math.inf:
                        return begin + j
                loss -= numbers[p_least + label]
                if weights.shape[0] > 0:
                    loss *= at(weights, label)
            if how == 0:
                put(out, begin + j, loss)
            summed += loss
        if gradient.shape[0] == 0:
            continue
        mix(state, n_nests, n_classes, p, width)
        for j in range(rows):
            label, place = at(labels, begin + j), (begin + j) * n_classes
            if label == ignore:
                for k in range(n_classes):
                    put(gradient, place + k, zero)
                continue
            weight = factor * at(weights, label) if weights.shape[0] > 0 else factor
            for k in range(n_classes):
                value = keep * at(p, k * width + j) + numbers[p_fixed + k]
                put(gradient, place + k, weight * (value - kind(k == label)))
    if how > 0:
        out[0] = summed / total_weight if how == 1 else summed
    return -1


@cached
def table_losses(like, n, first, last, n_pieces, size, out, x, labels, weights, gradient, numbers, ignore, how):
    """Of two-class links by a table of polynomials, see :class:`legendretron.links.binary_potential.PotentialTable`.

    The numbers of the link are the constant above even odds, the edges of the pieces, and ``size`` numbers of each piece: its
    middle, one over half its width, whether it lies above even odds, and the coefficients.
    """
    x, labels, weights = array_at(x, 2 * n, like), array_at(labels, n, _LABELS), array_at(weights, 2, like)
    out, gradient = array_at(out, n if how == 0 else 1, like), array_at(gradient, 2 * n, like)
    numbers = array_at(numbers, 7 + n_pieces * (1 + size), like)
    edges, pieces = numbers[6 : 7 + n_pieces], numbers[7 + n_pieces :]
    bad, total_weight = _total_weight(labels, weights, 2, ignore)
    if bad >= 0:
        return bad
    kind = x.dtype.type
    one = kind(1)
    factor = kind(1.0 / total_weight) if how == 1 else one
    keep, fixed_first, fixed_second, constant = numbers[0], numbers[1], numbers[2], numbers[5]
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
        steepness, above = at(pieces, place + 1), at(pieces, place + 2) > 0
        t = (inside - at(pieces, place)) * steepness
        value, slope = at(pieces, place + size - 1), kind(0)
        for d in range(size - 2, 2, -1):
            slope = slope * t + value
            value = value * t + at(pieces, place + d)
        small = min(abs(slope * steepness), one)  # rounding in a piece as narrow as rounding
        if above:
            value += constant
            loss = value if label == 0 else value + z
        else:
            loss = value - z if label == 0 else value
        if keep != 1:
            loss = keep * loss + (-fixed_second * z if label == 0 else fixed_first * z)
            if not abs(loss) < math.inf:
                return i
        loss -= numbers[3 + label]
        weight = at(weights, label) if weights.shape[0] > 0 else one
        loss *= weight
        if how == 0:
            put(out, i, loss)
        summed += loss
        if gradient.shape[0] > 0:
            p, q = (one - small, small) if above else (small, one - small)
            p, q = keep * p + fixed_first, keep * q + fixed_second
            weight *= factor
            put(gradient, 2 * i, weight * (p - kind(label == 0)))
            put(gradient, 2 * i + 1, weight * (q - kind(label == 1)))
    if how > 0:
        out[0] = summed / total_weight if how == 1 else summed
    return -1
