"""The canonical link in compiled code: probabilities of rows, and the backward pass.

Both are made of the functions of :mod:`legendretron.accelerate.cpu.nests`. Arguments are addresses, as in
:mod:`legendretron.accelerate.cpu.chain_link`. Sizes are the number of nests, ``C``, and whether rows have an entry for each
class, or none for the last, whose logit is 0. Logits lower than the largest by more than ``-mask`` count as masked.
"""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.cpu.compiling import cached, compiled
from legendretron.accelerate.cpu.entries import array_at, at, put
from legendretron.accelerate.cpu.nest_vectors import share_cotangents
from legendretron.accelerate.cpu.nests import (
    evaluate_nests,
    least_exact,
    log_of_small,
    mix,
    new_rows,
    prepare_nests,
    pull_back_nests,
)
from legendretron.accelerate.cpu.softmax import load_rows, store_rows
from legendretron.accelerate.cpu.vectors import extremes, fill, log_plus, scale

__all__ = ["nests_backward", "nests_probabilities"]


@compiled
def _gather_parameters(where, n_nests, n_out, like):
    """All parameters one after the other."""
    lengths = (n_nests, 1, n_nests * n_out, n_nests, n_nests)
    theta = np.empty(n_nests * (n_out + 3) + 1, like.dtype)
    p = 0
    for i in range(5):
        scale(array_at(where[i], lengths[i], like), 0, like.dtype.type(1), theta, p, lengths[i])
        p += lengths[i]
    return theta


@cached
def nests_probabilities(like, where, first, last, width, sizes, mask, x, intercept, log, swap, out):
    """Write log-probabilities, or probabilities, ``(n, C)`` of rows.

    Intercepts are added to rows unless their address is 0; ``swap`` reverses the order of the classes. Returns the first row
    whose log-probabilities may not all be finite, or -1.
    """
    n_nests, n_classes, all_classes = sizes
    n_out, given, kind = n_classes - 1, n_classes if all_classes else n_classes - 1, like.dtype.type
    largest, least_p = np.finfo(like.dtype).max, least_exact(like)
    numbers = prepare_nests(_gather_parameters(where, n_nests, n_out, like), 0, n_out, n_nests, like)
    x, intercept = array_at(x, last * given, like), array_at(intercept, given, like)
    out = array_at(out, last * n_classes, like)
    rows = new_rows(n_nests, n_classes, width, like)
    y, p = np.empty(n_classes * width, like.dtype), np.empty(n_classes * width, like.dtype)
    logs = np.empty(n_classes * width if log else 0, like.dtype)
    zeros = np.zeros(n_classes * width if log else 0, like.dtype)
    least, spare = np.empty(width, like.dtype), np.empty(width, like.dtype)
    steepest = kind(0)
    for m in range(n_nests):
        steepest = max(steepest, numbers[m])
    bad = -1
    for begin in range(first, last, width):
        count = min(width, last - begin)
        load_rows(x, intercept, begin, count, given, y, 0, width)
        if not all_classes:
            fill(y, n_out * width, width, kind(0))
        evaluate_nests(numbers, n_nests, n_classes, y, 0, width, mask, rows, width)
        mix(rows, n_nests, n_classes, p, width)
        fill(least, 0, width, kind(math.inf))
        for k in range(n_classes):
            extremes(y, k * width, spare, least, width)
        for j in range(count):
            finite = at(rows.total, j) <= largest and steepest * (at(least, j) - at(rows.top, j)) >= -largest
            if bad < 0 and not finite:  # also for NaN
                bad = begin + j
        if not log:
            store_rows(p, 0, begin, count, n_classes, swap, out, width)
            continue
        log_plus(p, 0, zeros, 0, logs, 0, n_classes * width)
        for k in range(n_classes):
            for j in range(count):
                place = k * width + j
                if at(p, place) < least_p:
                    under = at(y, place) - at(rows.top, j)
                    value = log_of_small(numbers, n_nests, n_classes, k, under, j, rows, width)
                    put(logs, place, kind(-math.inf if under < 0.99 * mask else value))
                elif at(p, place) >= kind(1):
                    put(logs, place, kind(0))
        store_rows(logs, 0, begin, count, n_classes, swap, out, width)
    return bad


@cached
def nests_backward(like, where, first, last, width, sizes, mask, x, log_p, g, dx, gradient):
    """Pull cotangents ``g`` of log-probabilities back to ``x`` and all parameters, one after the other.

    ``dx`` or ``gradient`` is 0 if it is not wanted. ``log_p`` is not used: it may have lost what is small.
    """
    n_nests, n_classes, all_classes = sizes
    n_out, given, kind = n_classes - 1, n_classes if all_classes else n_classes - 1, like.dtype.type
    least_p, p_c = least_exact(like), n_nests + 1
    theta = _gather_parameters(where, n_nests, n_out, like)
    numbers = prepare_nests(theta, 0, n_out, n_nests, like)
    x, dx, g = array_at(x, last * given, like), array_at(dx, last * given, like), array_at(g, last * n_classes, like)
    grad = array_at(gradient, theta.shape[0], like) if gradient != 0 else np.empty(theta.shape[0], like.dtype)
    fill(grad, 0, theta.shape[0], kind(0))
    rows, none = new_rows(n_nests, n_classes, width, like), np.empty(0, like.dtype)
    y, p = np.empty(n_classes * width, like.dtype), np.empty(n_classes * width, like.dtype)
    ratio, of_y = np.empty(n_classes * width, like.dtype), np.empty(n_classes * width, like.dtype)
    weighted = np.empty(width, like.dtype)
    for begin in range(first, last, width):
        count = min(width, last - begin)
        load_rows(x, none, begin, count, given, y, 0, width)
        if not all_classes:
            fill(y, n_out * width, width, kind(0))
        evaluate_nests(numbers, n_nests, n_classes, y, 0, width, mask, rows, width)
        mix(rows, n_nests, n_classes, p, width)
        load_rows(g, none, begin, count, n_classes, ratio, 0, width)
        fill(of_y, 0, n_classes * width, kind(0))
        fill(rows.own, 0, n_nests * width, kind(0))
        for k in range(n_classes):
            for j in range(width):
                place = k * width + j
                if not at(p, place) < least_p:
                    put(ratio, place, at(ratio, place) / at(p, place))
                    continue
                of_row, under = at(ratio, place), at(y, place) - at(rows.top, j)
                put(ratio, place, kind(0))
                if j >= count or under < 0.99 * mask:
                    continue
                log_small = log_of_small(numbers, n_nests, n_classes, k, under, j, rows, width)
                for m in range(n_nests):
                    share = of_row * kind(math.exp(min(at(rows.slope, m * width + j) - log_small, 0.0)))
                    put(rows.own, m * width + j, at(rows.own, m * width + j) + share)
                    grad[p_c + m * n_out + k if k < n_out else p_c + n_nests * n_out + m] += share
                    grad[m] += numbers[m] * share * under
                    put(of_y, place, at(of_y, place) + numbers[m] * share)
        for m in range(n_nests):
            fill(weighted, 0, width, kind(0))
            p_e, p_sum = m * n_classes * width, m * width
            share_cotangents(
                rows.e, p_e, ratio, y, 0, rows.top, rows.share, p_sum, numbers[m], n_out, of_y, grad, p_c + m * n_out,
                rows.own, p_sum, weighted, width,
            )  # fmt: skip
            last_class = n_out * width
            share_cotangents(
                rows.e, p_e + last_class, ratio[last_class:], y, last_class, rows.top, rows.share, p_sum, numbers[m], 1,
                of_y[last_class:], grad, p_c + n_nests * n_out + m, rows.own, p_sum, weighted, width,
            )  # fmt: skip
            for j in range(width):
                grad[m] += numbers[m] * at(weighted, j)
        fill(rows.kept, 0, width, kind(0))
        fill(rows.factors, 0, width, kind(-1))
        fill(rows.below, 0, width, kind(0))
        for m in range(n_nests):
            for j in range(width):
                put(rows.kept, j, at(rows.kept, j) - at(rows.own, m * width + j))
        pull_back_nests(numbers, 0, n_out, n_nests, y, 0, width, grad, rows, width)
        if dx.shape[0] > 0:
            for i in range(n_classes * width):
                put(of_y, i, at(of_y, i) + at(y, i))
            store_rows(of_y, 0, begin, count, given, False, dx, width)
