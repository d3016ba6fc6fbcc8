r"""The canonical link in compiled code: log-probabilities of rows, and the backward pass.

With :math:`l_{mk} = \mu_m (x_k - \max x) + c_{mk}`, :math:`s_m = \mathrm{softmax}(l_m)`, the gates
:math:`\pi = \mathrm{softmax}(\tfrac{\beta}{\mu} \mathrm{lse}(l) + b)` and :math:`p = \sum_m \pi_m s_m`, cotangents :math:`g`
of :math:`\log p` are pulled back by the shares :math:`r_{mk} = g_k\, \pi_m s_{mk} / p_k`, whose sums are :math:`R_m`:

.. math::

    \bar a_m = R_m - \pi_m \textstyle\sum_k g_k \ \text{(of the gates)}, \qquad
    \bar l_{mk} = r_{mk} + s_{mk} \bigl(\tfrac{\beta}{\mu_m} \bar a_m - R_m\bigr), \qquad
    \bar x_k = \textstyle\sum_m \mu_m \bar l_{mk}.

Exponentials are computed again rather than kept. Where a probability is so small that its parts may have underflown, it is
taken from logarithms instead.
"""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.cpu.addresses import array_at
from legendretron.accelerate.cpu.compiling import cached, compiled, exact
from legendretron.accelerate.cpu.entries import at, put
from legendretron.accelerate.cpu.products import add_outer, add_product
from legendretron.accelerate.cpu.row_vectors import (
    exp_row,
    exp_scaled_row,
    log_row,
    nest_cotangents,
    scale_row,
    top_row,
)
from legendretron.accelerate.cpu.vectors import fill

__all__ = ["nests_backward", "nests_forward"]


@compiled
def _pack(where, like, sizes, numbers, offsets):
    """``mu``, gate biases and largest offsets of all nests, ``beta``, and all offsets, filled up with zeros."""
    n_nests, n_classes, size, _ = sizes
    kind = like.dtype.type
    log_mu, log_beta = array_at(where[0], n_nests, like), array_at(where[1], 1, like)
    own, reference = array_at(where[2], n_nests * (n_classes - 1), like), array_at(where[3], n_nests, like)
    gate_bias = array_at(where[4], n_nests, like)
    for m in range(n_nests):
        put(numbers, m, kind(math.exp(at(log_mu, m))))
        put(numbers, n_nests + m, at(gate_bias, m))
        most = at(reference, m)
        put(offsets, m * size + n_classes - 1, most)
        for k in range(n_classes - 1):
            offset = at(own, m * (n_classes - 1) + k)
            put(offsets, m * size + k, offset)
            most = max(most, offset)
        put(numbers, 2 * n_nests + 1 + m, most)
        fill(offsets, m * size + n_classes, size - n_classes, kind(0))
    put(numbers, 2 * n_nests, kind(math.exp(at(log_beta, 0))))


@exact
def _normalise(log_pi, n_nests):
    """Log-softmax of the gates."""
    highest = log_pi[0]
    for m in range(1, n_nests):
        highest = max(highest, log_pi[m])
    total = 0.0
    for m in range(n_nests):
        log_pi[m] -= highest
        total += math.exp(log_pi[m])
    for m in range(n_nests):
        log_pi[m] -= log_pi.dtype.type(math.log(total))


@compiled
def _nests_of_row(sizes, x, row, mask, small, numbers, offsets, d, e, most, total, lse, log_pi, weights, p):
    """All that the formulas need at a row: differences ``d`` to the largest, exponentials, their sums, gates, and ``p``.

    Exponentials ``e`` are over that of a number; ``weights`` are what they are multiplied by in ``p``.
    """
    n_nests, n_classes, size, all_classes = sizes
    kind = d.dtype.type
    given = n_classes if all_classes else n_classes - 1
    for k in range(given):
        put(d, k, at(x, row * given + k))
    if not all_classes:
        put(d, n_classes - 1, kind(0))
    fill(d, n_classes, size - n_classes, kind(-math.inf))
    most[0] = kind(-math.inf)
    top_row(d, 0, size, most, 0)
    top = most[0]
    for k in range(n_classes):
        below = at(d, k) - top
        put(d, k, kind(-math.inf) if below < mask else below)
    beta = numbers[2 * n_nests]
    for m in range(n_nests):
        # no logit is above the largest offset; only if they are far below is it worth another pass to find the largest
        most[m] = numbers[2 * n_nests + 1 + m]
        exp_scaled_row(d, 0, offsets, m * size, numbers[m], most[m], e, m * size, size, total, m)
        if total[m] < small:
            scale_row(d, 0, offsets, m * size, numbers[m], e, m * size, size, most, m)
            total[m] = kind(0)
            exp_row(e, m * size, most[m], e, m * size, size, total, m)
        lse[m] = most[m] + kind(math.log(total[m]))
        log_pi[m] = beta / numbers[m] * lse[m] + numbers[n_nests + m]
    _normalise(log_pi, n_nests)
    fill(p, 0, size, kind(0))
    for m in range(n_nests):
        weights[m] = kind(math.exp(log_pi[m])) / total[m]
    add_product(weights, 0, 1, 1, 1, n_nests, e, 0, p, 0, size)


@exact
def _log_of_small(n_nests, k, size, numbers, offsets, d, lse, log_pi, joint):
    """Logarithm of a probability that is too small for a number, or of 0; ``joint`` becomes ``log(pi_m s_mk)``."""
    top = -math.inf
    for m in range(n_nests):
        joint[m] = log_pi[m] + (numbers[m] * at(d, k) + offsets[m * size + k] - lse[m])
        top = max(top, joint[m])
    if top == -math.inf:
        return top
    total = 0.0
    for m in range(n_nests):
        total += math.exp(joint[m] - top)
    return top + math.log(total)


@cached
def nests_forward(like, where, first, last, sizes, mask, small, x, log_p):
    """Write log-probabilities of the rows from ``first`` to ``last`` of ``x``.

    Arguments are addresses; ``where`` holds those of all parameters. Sizes are the number of nests, ``C``, the same filled up
    to whole vectors, and whether ``x`` has an entry for each class, or none for the last, whose logit is 0. Differences below
    ``mask`` count as minus infinity. Probabilities below ``small`` are computed from logarithms.
    """
    n_nests, n_classes, size, all_classes = sizes
    kind, dtype = like.dtype.type, like.dtype
    numbers, offsets = np.empty(3 * n_nests + 1, dtype), np.empty(n_nests * size, dtype)
    _pack(where, like, sizes, numbers, offsets)
    x = array_at(x, last * (n_classes if all_classes else n_classes - 1), like)
    log_p = array_at(log_p, last * n_classes, like)
    d, p, logs, e = np.empty(size, dtype), np.empty(size, dtype), np.empty(size, dtype), np.empty(n_nests * size, dtype)
    most, total = np.empty(n_nests, dtype), np.empty(n_nests, dtype)
    lse, log_pi = np.empty(n_nests, dtype), np.empty(n_nests, dtype)
    weights, joint = np.empty(n_nests, dtype), np.empty(n_nests)
    for row in range(first, last):
        _nests_of_row(sizes, x, row, mask, small, numbers, offsets, d, e, most, total, lse, log_pi, weights, p)
        log_row(p, 0, logs, 0, size)
        for k in range(n_classes):
            value = at(logs, k)
            if not at(p, k) >= small:
                nothing = at(p, k) != at(p, k)
                value = kind(
                    math.nan if nothing else _log_of_small(n_nests, k, size, numbers, offsets, d, lse, log_pi, joint)
                )
            put(log_p, row * n_classes + k, value)


@cached
def nests_backward(like, where, first, last, sizes, mask, small, x, g, dx, gradient):
    """Pull cotangents ``g`` back to ``x``, and write the gradients of all parameters, one after the other.

    Arguments are those of :func:`nests_forward`; ``dx`` is 0 if it is not wanted.
    """
    n_nests, n_classes, size, all_classes = sizes
    kind, dtype = like.dtype.type, like.dtype
    given = n_classes if all_classes else n_classes - 1
    numbers, offsets = np.empty(3 * n_nests + 1, dtype), np.empty(n_nests * size, dtype)
    _pack(where, like, sizes, numbers, offsets)
    x, g = array_at(x, last * given, like), array_at(g, last * n_classes, like)
    dx = array_at(dx, last * given, like)
    d, p, ratio, of_x = np.empty(size, dtype), np.empty(size, dtype), np.empty(size, dtype), np.empty(size, dtype)
    e, weights, joint = np.empty(n_nests * size, dtype), np.empty(n_nests, dtype), np.empty(n_nests)
    most, total = np.empty(n_nests, dtype), np.empty(n_nests, dtype)
    lse, log_pi = np.empty(n_nests, dtype), np.empty(n_nests, dtype)
    sums, of_mu, of_bias = np.empty(n_nests, dtype), np.zeros(n_nests, dtype), np.zeros(n_nests, dtype)
    of_offsets = np.zeros(n_nests * size, dtype)
    beta, of_beta = numbers[2 * n_nests], 0.0
    for row in range(first, last):
        _nests_of_row(sizes, x, row, mask, small, numbers, offsets, d, e, most, total, lse, log_pi, weights, p)
        fill(of_x, 0, size, kind(0))
        fill(ratio, n_classes, size - n_classes, kind(0))
        fill(d, n_classes, size - n_classes, kind(0))
        for m in range(n_nests):
            sums[m] = kind(0)
        tiny = 0
        for k in range(n_classes):
            if at(p, k) < small:
                tiny += 1
                put(ratio, k, kind(0))
            else:
                put(ratio, k, at(g, row * n_classes + k) / at(p, k))
        add_outer(e, 0, n_nests, ratio, 0, 1, sums, 0, size)
        for m in range(n_nests):
            sums[m] *= weights[m]
        if tiny > 0:
            for k in range(n_classes):
                if not at(p, k) < small:
                    continue
                own = _log_of_small(n_nests, k, size, numbers, offsets, d, lse, log_pi, joint)
                if own > -math.inf:
                    of_row = at(g, row * n_classes + k)
                    for m in range(n_nests):
                        share = of_row * kind(math.exp(min(joint[m] - own, 0.0)))
                        sums[m] += share
                        of_offsets[m * size + k] += share
                        of_mu[m] += share * at(d, k)
                        put(of_x, k, at(of_x, k) + numbers[m] * share)
        for k in range(n_classes):
            if at(d, k) == -math.inf:
                put(d, k, kind(0))  # of a masked class, whose logit has no part in anything
        all_g = kind(0)
        for m in range(n_nests):
            all_g += sums[m]
        for m in range(n_nests):
            pi, slope = kind(math.exp(log_pi[m])), beta / numbers[m]
            of_gate = sums[m] - pi * all_g
            of_bias[m] += of_gate
            of_beta += of_gate * slope * lse[m]
            more = (slope * of_gate - sums[m]) / total[m]
            nest_cotangents(
                e, m * size, ratio, d, more, weights[m], numbers[m], of_x, of_offsets, m * size, of_mu, m, size
            )
            of_mu[m] -= of_gate * slope * lse[m] / numbers[m]
        if dx.shape[0] > 0:
            for k in range(given):
                put(dx, row * given + k, at(of_x, k))
    gradient = array_at(gradient, n_nests * (n_classes + 2) + 1, like)
    p_offset = n_nests + 1
    p_reference = p_offset + n_nests * (n_classes - 1)
    gradient[n_nests] = kind(of_beta)
    for m in range(n_nests):
        gradient[m] = of_mu[m] * numbers[m]
        for k in range(n_classes - 1):
            put(gradient, p_offset + m * (n_classes - 1) + k, of_offsets[m * size + k])
        gradient[p_reference + m] = of_offsets[m * size + n_classes - 1]
        gradient[p_reference + n_nests + m] = of_bias[m]
