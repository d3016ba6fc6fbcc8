"""What a pass over the data of logistic regression consists of, each part in one compiled function.

Matrices are contiguous, by rows, and passed as arrays of one dimension; indices have 64 bits.
"""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.cpu.compiling import at, cached, put
from legendretron.accelerate.cpu.softmax import observe
from legendretron.accelerate.cpu.vector_code import vector_function
from legendretron.accelerate.cpu.vectors import exp_differences, fill

__all__ = ["log_loss_residuals", "sparse_product"]

#: Entries of a row of the result whose sums stay in registers: many at first, then what is left.
_TILES = (16, 4, 1)
#: Rows whose probabilities are computed at once: enough to fill vectors, few enough to stay in the cache.
_ROWS = 128


@vector_function
def _sums_of_rows(code, weight, values, columns, first, last, out, po, m):
    """``out = sum_e values[e] weight[columns[e]]`` over entries ``first <= e < last``, rows of ``m`` numbers."""
    begun = code.index(0)
    for lanes in _TILES:
        with code.pieces(m - begun, lanes) as piece:
            start, total = begun + piece, code.total(lanes=lanes)
            with code.loop(last, start=first) as e:
                total.add(weight.load(start + columns.load_index(e) * m, lanes) * values.load(e, 1))
            out.store(po + start, total.get())
        begun = m // lanes * lanes


@cached
def sparse_product(starts, columns, values, weight, out, first, last, m):
    """``out = X weight`` for rows ``first`` to ``last`` of a matrix in compressed sparse rows; ``m`` columns."""
    for i in range(first, last):
        _sums_of_rows(weight, values, columns, at(starts, i), at(starts, i + 1), out, i * m, m)


@cached
def log_loss_residuals(z, labels, shares, bias, rates, runs, m, with_reference, totals, bias_sums):
    r"""Log-losses of rows, and what the gradients of ``W`` and ``b`` are sums of.

    Parameters
    ----------
    z : array of n * runs * m
        Log-odds without the bias; becomes the shares times the residuals :math:`p - e_y`.
    labels : array of n, int64
        Classes.
    shares : array of n * runs
        Weights of the rows.
    bias : array of runs * m
        Added to the log-odds.
    rates : array of runs
        Of symmetric noise: with :math:`q = (1 - \epsilon) p + \epsilon / C`, residuals are times
        :math:`(1 - \epsilon) p_y / q_y`.
    with_reference : bool
        Whether there is one more class, the last, whose log-odds are 0.
    totals : array of 2 * runs, float64
        Sums of the losses, and of the slopes in the logit of the rate; added to.
    bias_sums : array of runs * m, float64
        Sums of the residuals; added to.
    """
    n, kind = labels.shape[0], z.dtype.type
    zero, n_classes = kind(0), kind(m + 1 if with_reference else m)
    # some rows at once, turned so that those of a class are next to each other
    turned, zeros = np.empty(m * _ROWS, z.dtype), np.zeros(_ROWS, z.dtype)
    top, total, own, unused = (
        np.empty(_ROWS, z.dtype),
        np.empty(_ROWS, z.dtype),
        np.empty(_ROWS, z.dtype),
        zeros.copy(),
    )
    for first in range(0, n, _ROWS):
        rows = min(_ROWS, n - first)
        for r in range(runs):
            start, rate = (first * runs + r) * m, at(rates, r)
            fill(top, 0, rows, zero if with_reference else -kind(np.inf))
            fill(total, 0, rows, zero)
            for k in range(m):
                for j in range(rows):
                    value = at(z, start + j * runs * m + k) + at(bias, r * m + k)
                    put(turned, k * _ROWS + j, value)
                    put(top, j, max(at(top, j), value))
            for j in range(rows):
                label = at(labels, first + j)
                put(own, j, (at(turned, label * _ROWS + j) if label < m else zero) - at(top, j))
            if with_reference:
                exp_differences(zeros, 0, top, unused, 0, total, rows)
            for k in range(m):
                exp_differences(turned, k * _ROWS, top, turned, k * _ROWS, total, rows)
            rate_sum = loss_sum = 0.0
            for j in range(rows):
                share = at(shares, (first + j) * runs + r)
                loss, factor = math.log(at(total, j)) - at(own, j), share
                if rate > zero:
                    loss, kept, slope = observe(loss, rate, n_classes)
                    factor = kind(share * kept)
                    rate_sum += share * slope
                loss_sum += loss * share
                put(total, j, factor / at(total, j))
                put(own, j, factor)
            totals[r] += loss_sum
            totals[runs + r] += rate_sum
            for k in range(m):
                for j in range(rows):
                    put(turned, k * _ROWS + j, at(turned, k * _ROWS + j) * at(total, j))
            for j in range(rows):
                label = at(labels, first + j)
                if label < m:
                    put(turned, label * _ROWS + j, at(turned, label * _ROWS + j) - at(own, j))
            for k in range(m):
                residual = 0.0
                for j in range(rows):
                    residual += at(turned, k * _ROWS + j)
                    put(z, start + j * runs * m + k, at(turned, k * _ROWS + j))
                bias_sums[r * m + k] += residual
