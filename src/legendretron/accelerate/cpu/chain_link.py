"""The composite link in compiled code: probabilities of rows of predictors, and the backward pass.

Arguments are addresses: Numba takes longer to look at arrays than small work takes. ``where`` holds those of all parameters.
``width`` rows, a multiple of 16, are computed at once. The backward pass needs predictors and log-probabilities alone.
"""

from __future__ import annotations

import math

import numpy as np

from legendretron.accelerate.cpu.chain import block_backward, block_output, block_units, new_units
from legendretron.accelerate.cpu.compiling import cached
from legendretron.accelerate.cpu.entries import array_at, at, put
from legendretron.accelerate.cpu.ridge_parameters import fold, gather_parameters, new_ridges, pull_back
from legendretron.accelerate.cpu.softmax import exponentials, load_rows, store_rows
from legendretron.accelerate.cpu.vectors import exp_differences, extremes, fill

__all__ = ["chain_backward", "chain_probabilities"]


@cached
def chain_probabilities(like, where, first, last, width, sizes, z, intercept, log, swap, out):
    """Write log-probabilities, or probabilities, ``(n, C)`` of rows of predictors ``(n, K)``.

    Intercepts ``(K,)`` are added to predictors unless their address is 0; ``swap`` reverses the order of the classes.
    Returns the first row whose log-probabilities may not all be finite, or -1.
    """
    n_out, n_classes, kind = sizes.n_out, sizes.n_out + 1, like.dtype.type
    largest = np.finfo(like.dtype).max
    ridges, units = new_ridges(sizes, like), new_units(sizes, 0, width, like)
    fold(gather_parameters(where, sizes, like), 0, sizes, ridges)
    z, intercept = array_at(z, last * n_out, like), array_at(intercept, n_out, like)
    out = array_at(out, last * n_classes, like)
    points, spare = np.empty(n_classes * width, like.dtype), np.empty(width, like.dtype)
    top, best, total = np.empty(width, like.dtype), np.empty(width, like.dtype), np.empty(width, like.dtype)
    least = np.empty(width, like.dtype)
    bad = -1
    for begin in range(first, last, width):
        rows = min(width, last - begin)
        load_rows(z, intercept, begin, rows, n_out, points, 0, width)
        for b in range(sizes.n_blocks):
            block_units(b, sizes, ridges, units, 0, points, 0, width)
            block_output(b, sizes, ridges, units, 0, points, 0, 0, width)
        fill(points, n_out * width, width, kind(0))
        fill(least, 0, width, kind(0))
        for k in range(n_out):
            extremes(points, k * width, spare, least, width)
        if log:
            exponentials(points, 0, n_classes, top, best, spare, 0, 0, total, width)
        else:
            exponentials(points, 0, n_classes, top, best, points, 0, width, total, width)
        for j in range(rows):
            finite = at(total, j) <= largest and at(least, j) - at(top, j) >= -largest  # false for NaN
            if bad < 0 and not finite:
                bad = begin + j
        for j in range(width):
            put(total, j, kind(math.log(at(total, j)) if log else 1.0 / at(total, j)))
        for k in range(n_classes):
            for j in range(width):
                value = at(points, k * width + j)
                put(points, k * width + j, (value - at(top, j)) - at(total, j) if log else value * at(total, j))
        store_rows(points, 0, begin, rows, n_classes, swap, out, width)
    return bad


@cached
def chain_backward(like, where, first, last, width, sizes, z, log_p, g, dz, gradient):
    """Pull cotangents ``g`` of log-probabilities back to predictors, ``dz``, and all parameters, one after the other.

    ``dz`` or ``gradient`` is 0 if it is not wanted.
    """
    n_blocks, n_out, n_classes, kind = sizes.n_blocks, sizes.n_out, sizes.n_out + 1, like.dtype.type
    theta = gather_parameters(where, sizes, like)
    ridges, units = new_ridges(sizes, like), new_units(sizes, n_blocks, width, like)
    fold(theta, 0, sizes, ridges)
    z, dz = array_at(z, last * n_out, like), array_at(dz, last * n_out, like)
    log_p, g = array_at(log_p, last * n_classes, like), array_at(g, last * n_classes, like)
    wanted = gradient != 0
    grad = array_at(gradient, theta.shape[0], like) if wanted else np.empty(theta.shape[0], like.dtype)
    fill(grad, 0, theta.shape[0], kind(0))
    none = np.empty(0, like.dtype)
    p_dy = n_blocks * n_out * width
    points, p = np.empty(p_dy + n_classes * width, like.dtype), np.empty(n_classes * width, like.dtype)
    zeros = np.zeros(width, like.dtype)
    total, unused = np.empty(width, like.dtype), np.empty(width, like.dtype)
    for begin in range(first, last, width):
        rows = min(width, last - begin)
        load_rows(z, none, begin, rows, n_out, points, 0, width)
        for b in range(n_blocks):
            block_units(b, sizes, ridges, units, b, points, b * n_out * width, width)
            if b < n_blocks - 1:
                block_output(b, sizes, ridges, units, b, points, b * n_out * width, (b + 1) * n_out * width, width)
        # dy = g - (sum of g) p
        load_rows(g, none, begin, rows, n_classes, points, p_dy, width)
        load_rows(log_p, none, begin, rows, n_classes, p, 0, width)
        fill(total, 0, width, kind(0))
        for k in range(n_classes):
            exp_differences(p, k * width, zeros, p, k * width, unused, width)
            for j in range(width):
                put(total, j, at(total, j) + at(points, p_dy + k * width + j))
        for k in range(n_out):
            for j in range(width):
                place = p_dy + k * width + j
                put(points, place, at(points, place) - at(total, j) * at(p, k * width + j))
        for b in range(n_blocks - 1, -1, -1):
            block_backward(b, 0, sizes, ridges, units, points, b * n_out * width, p_dy, grad, wanted, width)
        if dz.shape[0] > 0:
            store_rows(points, p_dy, begin, rows, n_out, False, dz, width)
    if wanted:
        pull_back(theta, 0, sizes, ridges, grad)
