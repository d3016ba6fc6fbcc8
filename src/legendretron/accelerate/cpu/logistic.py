"""What a pass over the data of logistic regression consists of, each part in one compiled function.

Matrices are contiguous, by rows, and passed as arrays of one dimension; indices have 64 bits.
"""

from __future__ import annotations

import numpy as np

from legendretron.accelerate.cpu.compiling import at, cached, put
from legendretron.accelerate.cpu.softmax import log_loss, log_loss_with_matrix
from legendretron.accelerate.cpu.vector_code import vector_function
from legendretron.accelerate.cpu.vectors import fill

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
def log_loss_residuals(z, labels, shares, bias, rates, matrix, runs, m, with_reference, totals, bias_sums):
    """Log-losses of rows, and what the gradients of ``W`` and ``b`` are sums of.

    ``z`` (n, runs, m) holds log-odds without ``bias`` (runs, m), and becomes ``shares`` (n, runs) times the residuals of
    :func:`log_loss`. ``with_reference`` is for one more class, the last, whose log-odds are 0. Noise has the ``rates`` of the
    runs or, if it is not empty, a transition ``matrix`` (C, C), which needs the reference. Added to are, both in float64,
    ``totals`` (2, runs), sums of the losses and of the slopes in the logit of the rate, and ``bias_sums`` (runs, m), those of
    the residuals.
    """
    n, kind = labels.shape[0], z.dtype.type
    n_classes = m + 1 if with_reference else m
    # some rows at once, turned so that those of a class are next to each other
    turned, weights = np.zeros(n_classes * _ROWS, z.dtype), np.empty(_ROWS, z.dtype)
    top, total, best, own = (
        np.empty(_ROWS, z.dtype), np.empty(_ROWS, z.dtype), np.empty(_ROWS, z.dtype), np.empty(_ROWS, z.dtype),
    )  # fmt: skip
    exponentials = np.empty(turned.shape[0] if matrix.shape[0] else 0, z.dtype)
    for first in range(0, n, _ROWS):
        rows = min(_ROWS, n - first)
        for r in range(runs):
            start = (first * runs + r) * m
            for k in range(m):
                for j in range(rows):
                    put(turned, k * _ROWS + j, at(z, start + j * runs * m + k) + at(bias, r * m + k))
            if with_reference:
                fill(turned, m * _ROWS, _ROWS, kind(0))
            for j in range(rows):
                put(weights, j, at(shares, (first + j) * runs + r))
            if matrix.shape[0]:
                loss, _, grad_rate = log_loss_with_matrix(
                    turned, 0, m, matrix, labels[first:], weights, 0, rows, exponentials, top, total, best, _ROWS
                )
            else:
                loss, _, grad_rate = log_loss(
                    turned, 0, n_classes, at(rates, r), labels[first:], weights, 0, rows, top, total, best, own, _ROWS
                )
            totals[r] += loss
            totals[runs + r] += grad_rate
            for k in range(m):
                residual = 0.0
                for j in range(rows):
                    residual += at(turned, k * _ROWS + j)
                    put(z, start + j * runs * m + k, at(turned, k * _ROWS + j))
                bias_sums[r * m + k] += residual
