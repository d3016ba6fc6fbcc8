"""The softmax and its log-loss, with noise of labels: the end of every pass over a batch.

Arrays are *units times rows*, see :mod:`legendretron.accelerate.cpu.vectors`: a unit for each class, of which the last, the
reference class, has log-odds of 0.
"""

from __future__ import annotations

import math

from legendretron.accelerate.cpu.compiling import at, compiled, put
from legendretron.accelerate.cpu.vectors import exp_differences, fill, highest, multiply, transpose

__all__ = ["exponentials", "load_rows", "log_loss", "log_loss_with_matrix", "observe", "store_rows"]


@compiled
def _whole_vectors(n, like):
    """The largest number up to ``n`` of entries that fill vectors, of 64 bytes."""
    lanes = 64 // like.itemsize
    return n // lanes * lanes


@compiled
def load_rows(x, first, rows, n, units, p, width):
    """Put rows of ``n`` entries into units; rows that fill up are 0."""
    zero, whole_rows, whole = x.dtype.type(0), _whole_vectors(rows, x), _whole_vectors(n, x)
    transpose(x, first * n, n, units, p, width, whole_rows, whole)
    for j in range(rows):
        for k in range(whole if j < whole_rows else 0, n):
            put(units, p + k * width + j, at(x, (first + j) * n + k))
    for k in range(n):
        for j in range(rows, width):
            put(units, p + k * width + j, zero)


@compiled
def store_rows(units, p, first, rows, n, out, width):
    """Write units as rows of ``n`` entries."""
    whole_rows, whole = _whole_vectors(rows, out), _whole_vectors(n, out)
    transpose(units, p, width, out, first * n, n, whole, whole_rows)
    for j in range(rows):
        for k in range(whole if j < whole_rows else 0, n):
            put(out, (first + j) * n + k, at(units, p + k * width + j))


@compiled
def exponentials(y, py, n_classes, top, best, e, pe, step, total, width):
    """``e = exp(y - top)`` with ``top`` the largest of a row, ``total`` their sum, and ``best`` the number of the largest.

    Exponentials of a class are ``step`` entries after those of the class before; they may take the place of ``y``.
    """
    kind = y.dtype.type
    for j in range(width):
        put(top, j, at(y, py + j))
    fill(best, 0, width, kind(0))
    for k in range(1, n_classes):
        highest(y, py + k * width, kind(k), top, best, width)
    if n_classes == 2:  # ties go to the first class, and to the last of two
        for j in range(width):
            if at(y, py + j) == at(y, py + width + j):
                put(best, j, kind(1))
    fill(total, 0, width, kind(0))
    for k in range(n_classes):
        exp_differences(y, py + k * width, top, e, pe + k * step, total, width)


@compiled
def observe(nll, rate, n_classes):
    """Symmetric noise, ``q = (1 - rate) p + rate / C``, from ``-log p`` of a label.

    Returns ``-log q``, the probability ``(1 - rate) p / q`` that the label has not been replaced, by which noise multiplies
    gradients, and the derivative of ``-log q`` in the logit of the rate.
    """
    p = math.exp(-nll)
    q = (1.0 - rate) * p + rate / n_classes
    return -math.log(q), (1.0 - rate) * p / q, (p - 1.0 / n_classes) / q * rate * (1.0 - rate)


@compiled
def log_loss(y, py, n_classes, rate, labels, weights, first, n, top, total, best, own, width):
    """Weighted sums of log-losses and of hits, and the gradient in the logit of the rate of noise.

    Gradients in the logits take their place. With noise, a row's is that without, times the probability that its label has
    not been replaced.
    """
    for j in range(n):
        put(own, j, at(y, py + at(labels, first + j) * width + j))
    exponentials(y, py, n_classes, top, best, y, py, width, total, width)
    loss = hits = grad_rate = 0.0
    for j in range(n):
        label, weight = at(labels, first + j), at(weights, first + j)
        kept = weight
        nll = at(top, j) - at(own, j) + math.log(at(total, j))
        if rate > 0.0:
            nll, share, slope = observe(nll, rate, n_classes)
            grad_rate += weight * slope
            kept = y.dtype.type(weight * share)
        loss += weight * nll
        if label == at(best, j):
            hits += weight
        put(total, j, kept / at(total, j))
        put(top, j, kept)
    fill(total, n, width - n, y.dtype.type(0))  # padding does not count
    for k in range(n_classes):
        multiply(total, 0, y, py + k * width, y, py + k * width, width)
    for j in range(n):
        place = py + at(labels, first + j) * width + j
        put(y, place, at(y, place) - at(top, j))
    return loss, hits, grad_rate


@compiled
def log_loss_with_matrix(y, py, n_out, matrix, labels, weights, first, n, e, top, total, best, width):
    """As :func:`log_loss`, with a transition matrix of noise: ``q = T' p``.

    The gradient in the log-odds is ``p`` minus the probabilities ``p_i T_iy / q_y`` of the true classes. ``e`` is for
    exponentials.
    """
    kind = y.dtype.type
    zero = kind(0)
    n_classes = n_out + 1
    least = 1e-20 if y.itemsize == 4 else 1e-150
    exponentials(y, py, n_classes, top, best, e, 0, width, total, width)
    loss = hits = 0.0
    for j in range(n):
        label, weight = at(labels, first + j), at(weights, first + j)
        # hits compare with the likeliest observed label, which need not be the likeliest true class
        q = most = 0.0
        likeliest = 0
        for c in range(n_classes):
            share = 0.0
            for k in range(n_classes):
                share += at(e, k * width + j) * at(matrix, k * n_classes + c)
            if c == label:
                q = share
            if share > most or (n_classes == 2 and share == most):
                most, likeliest = share, c
        if label == likeliest:
            hits += weight
        q /= at(total, j)
        if q > least or q != q:
            loss -= weight * math.log(q)
            for k in range(n_out):
                p = at(e, k * width + j) / at(total, j)
                put(y, py + k * width + j, kind(weight * p * (1.0 - at(matrix, k * n_classes + label) / q)))
            continue
        # underflow: computed again from logarithms, which overwrite the log-odds
        most_log = -math.inf
        for k in range(n_classes):
            place, chance = py + k * width + j, at(matrix, k * n_classes + label)
            put(y, place, kind(at(y, place) - at(top, j) + math.log(chance)) if chance > zero else kind(-math.inf))
            most_log = max(most_log, at(y, place))
        q = 0.0
        for k in range(n_classes):
            q += math.exp(at(y, py + k * width + j) - most_log)
        loss -= weight * (most_log + math.log(q / at(total, j)))
        for k in range(n_out):
            place = py + k * width + j
            true = math.exp(at(y, place) - most_log) / q
            put(y, place, kind(weight * (at(e, k * width + j) / at(total, j) - true)))
    for k in range(n_out):
        fill(y, py + k * width + n, width - n, zero)  # padding does not count
    return loss, hits, 0.0
