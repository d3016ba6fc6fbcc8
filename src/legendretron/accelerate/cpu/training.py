"""Steps of training in one compiled function: gather, predict, differentiate, penalize, update by Adam.

The link is softmax+ after a chain of ridge blocks, see :mod:`legendretron.accelerate.cpu.chain`; without blocks it is
softmax+ itself, or a mixture of nests, see :mod:`legendretron.accelerate.cpu.nests`. Arrays of a batch are *units times rows*
in one dimension, see :mod:`legendretron.accelerate.cpu.vectors`: entry ``p + u * width + j`` belongs to row ``j`` of unit
``u``. Innermost loops run over rows, which are next to each other in memory. Runs share nothing, so each goes through all
steps before the next.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendretron.accelerate.cpu.chain import block_backward, block_output, block_units, new_units
from legendretron.accelerate.cpu.compiling import at, cached, compiled, put
from legendretron.accelerate.cpu.links import chain_sizes, rows_at_once
from legendretron.accelerate.cpu.nests import nested_loss, new_rows, prepare_nests
from legendretron.accelerate.cpu.products import add_outer, product
from legendretron.accelerate.cpu.ridge_parameters import block_lengths, fold, new_ridges, pull_back
from legendretron.accelerate.cpu.softmax import log_loss, log_loss_with_matrix
from legendretron.accelerate.cpu.vectors import add_scaled, fill, moments_step
from legendretron.accelerate.forms import LinkForm
from legendretron.accelerate.support import VECTOR

__all__ = ["CompiledTraining"]

Array = NDArray[Any]

#: Rows that go through the link together: enough to fill vectors, few enough for all of their units to stay in the cache.
_WIDTH = 64
#: Bytes of all exponentials of a mixture of nests for the rows that go through it together.
_MOST_BYTES = 1 << 19


@compiled
def _predict(theta, n_features, n_out, sparse, x, starts, columns, values, rows, first, n, batch, points, width):
    """``X W + b`` of the next ``n`` rows; the rows are kept, as units times rows, for the gradient."""
    zero = theta.dtype.type(0)
    if not sparse:
        if n < width:  # the last batch may have left rows there
            fill(batch, 0, n_features * width, zero)
        fill(batch, n_features * width, width, theta.dtype.type(1))  # b follows W, like the weights of one more feature
        for j in range(n):
            p = at(rows, first + j) * n_features
            for f in range(n_features):
                put(batch, f * width + j, at(x, p + f))
        product(theta, 0, n_out, n_out, n_features + 1, batch, 0, points, 0, width)
        return
    for k in range(n_out):
        fill(points, k * width, width, theta[n_features * n_out + k])
    for j in range(n):
        row = at(rows, first + j)
        fill(batch, 0, n_out, zero)
        for entry in range(at(starts, row), at(starts, row + 1)):
            value, p = at(values, entry), at(columns, entry) * n_out
            for k in range(n_out):
                put(batch, k, at(batch, k) + value * at(theta, p + k))
        for k in range(n_out):
            put(points, k * width + j, at(points, k * width + j) + at(batch, k))


@compiled
def _add_linear_gradient(
    grad, n_features, n_out, sparse, starts, columns, values, rows, first, n, batch, points, p_dz, ones, width
):
    """Add ``X^T dz`` and the sums of ``dz``, which is in ``points`` from ``p_dz`` on."""
    if not sparse:
        add_outer(batch, 0, n_features + 1, points, p_dz, n_out, grad, 0, width)
        return
    add_outer(points, p_dz, n_out, ones, 0, 1, grad, n_features * n_out, width)
    for j in range(n):
        row = at(rows, first + j)
        for k in range(n_out):
            put(batch, k, at(points, p_dz + k * width + j))
        for entry in range(at(starts, row), at(starts, row + 1)):
            value, p = at(values, entry), at(columns, entry) * n_out
            for k in range(n_out):
                put(grad, p + k, at(grad, p + k) + value * at(batch, k))


@compiled
def _add_penalty(theta, start, n_features, n_out, strength, shared, centre, grad):
    """Add what the penalties' gradients have beside multiples of the parameters."""
    add_scaled(-strength, centre, 0, grad, start, centre.shape[0])
    if shared != 0:
        for f in range(n_features):
            total = theta.dtype.type(0)
            for k in range(n_out):
                total += at(theta, f * n_out + k)
            total *= shared
            for k in range(n_out):
                put(grad, f * n_out + k, at(grad, f * n_out + k) - total)


@compiled
def _link_start(flat, sizes, n_nests, learned_rate):
    """Place of the link's first parameter, after ``W`` and ``b``."""
    n_link = n_nests * (sizes.n_out + 3) + 1 if n_nests else sizes.n_blocks * block_lengths(sizes)[3]
    return flat.shape[1] - n_link - int(learned_rate)


@cached
def _new_memory(flat, sparse, sizes, nests, noise, width):
    """What :func:`_train_steps` works in, kept from call to call: with many classes, new pages would take long."""
    dtype, n_out, n_blocks = flat.dtype, sizes.n_out, sizes.n_blocks
    n_linear = _link_start(flat, sizes, nests[0], noise[0]) // n_out
    return (
        new_ridges(sizes, flat),
        new_units(sizes, n_blocks, width, flat),
        new_rows(nests[0], n_out + 1, nests[1], flat),
        np.zeros((n_blocks + 1) * n_out * width + width, dtype),  # points; the last are of the reference class
        np.zeros(n_out if sparse else n_linear * width, dtype),  # features of a batch, and ones
        np.zeros(flat.shape[1], dtype),  # gradient
        np.empty((n_out + 1) * width if noise[2] else 0, dtype),  # exponentials
    )


@cached
def _train_steps(features, batches, parameters, totals, penalty, numbers, sizes, nests, noise, memory, width):
    """Take all steps of all runs; see :class:`CompiledTraining`."""
    sparse, x, starts, columns, values = features
    rows, labels, weights, rates = batches
    flat, first, second, count = parameters
    strengths, shared, centre = penalty
    beta1, beta2, eps = numbers
    n_out, n_blocks = sizes.n_out, sizes.n_blocks
    n_nests, part = nests
    learned_rate, rate, has_matrix, matrix = noise
    n_steps, n_runs, n_rows = rows.shape
    n_parameters = flat.shape[1]
    dtype, kind = flat.dtype, flat.dtype.type
    start = _link_start(flat, sizes, n_nests, learned_rate)
    n_features = start // n_out - 1
    n_weights = n_features * n_out
    ridges, units, nest_rows, points, batch, grad, e = memory
    py, ones = n_blocks * n_out * width, np.ones(width, dtype)
    top, total, best, own = (
        np.empty(width, dtype),
        np.empty(width, dtype),
        np.empty(width, dtype),
        np.empty(width, dtype),
    )
    for r in range(n_runs):
        theta = flat[r]
        for s in range(n_steps):
            if n_blocks:
                fold(theta, start, sizes, ridges)
            if n_nests:
                of_nests = prepare_nests(theta, start, n_out, n_nests, flat)
            loss = hits = grad_rate = 0.0
            if learned_rate:
                rate = 1.0 / (1.0 + math.exp(-theta[n_parameters - 1]))
            for begin in range(0, n_rows, width):
                n = min(width, n_rows - begin)
                place = (s * n_runs + r) * n_rows + begin
                _predict(
                    theta, n_features, n_out, sparse, x, starts, columns, values, rows, place, n, batch, points, width
                )
                for b in range(n_blocks):
                    p_x = b * n_out * width
                    block_units(b, sizes, ridges, units, b, points, p_x, width)
                    block_output(b, sizes, ridges, units, b, points, p_x, p_x + n_out * width, width)
                fill(points, py + n_out * width, width, kind(0))  # of the reference class
                if n_nests:
                    more = nested_loss(
                        of_nests, start, n_out, n_nests, points, rate, labels, weights, place, n, nest_rows, grad, width,
                        part,
                    )  # fmt: skip
                elif has_matrix:
                    more = log_loss_with_matrix(
                        points, py, n_out, matrix, labels, weights, place, n, e, top, total, best, width
                    )
                else:
                    more = log_loss(
                        points, py, n_out + 1, rate, labels, weights, place, n, top, total, best, own, width
                    )
                loss += more[0]
                hits += more[1]
                grad_rate += more[2]
                for b in range(n_blocks - 1, -1, -1):
                    block_backward(b, start, sizes, ridges, units, points, b * n_out * width, py, grad, True, width)
                _add_linear_gradient(
                    grad, n_features, n_out, sparse, starts, columns, values, rows, place, n, batch, points, py, ones, width
                )  # fmt: skip
            if n_blocks:
                pull_back(theta, start, sizes, ridges, grad)
            _add_penalty(theta, start, n_features, n_out, strengths[r, 2], shared[r], centre, grad)
            if learned_rate:
                grad[n_parameters - 1] = kind(grad_rate)
            # p -= rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps), with the corrections moved onto numbers
            t = count[0] + s + 1
            correction = math.sqrt(1.0 - beta2**t)
            factor = kind(rates[s, r] * (-correction / (1.0 - beta1**t)))
            bounds = (0, n_weights, start, n_parameters - int(learned_rate), n_parameters)
            for i in range(4):  # a rate of noise has no penalty
                moments_step(
                    theta, first[r], second[r], grad, bounds[i], bounds[i + 1] - bounds[i],
                    strengths[r, i] if i < 3 else kind(0), kind(1.0 - beta1), kind(beta2), kind(1.0 - beta2),
                    kind(eps * correction), factor,
                )  # fmt: skip
            totals[0, r] += kind(loss * n_rows)
            totals[1, r] += kind(hits * n_rows)
    count[0] += n_steps


class CompiledTraining:
    """Steps of Adam for linear models with a chain of ridge blocks or with nests, or with softmax+ if there are neither.

    Parameters
    ----------
    features : array of shape (N, d), or tuple of arrays
        The feature matrix; a tuple is one in compressed sparse rows: starts, columns, in 64 bits, and values.
    parameters : tuple of arrays
        Parameters and Adam's two moments, ``(R, P)``, and the number of steps so far, ``(1,)`` in float64; changed in place.
        A row of parameters holds ``W``, ``b``, the link's parameters in the order of ``link_tensors``, and the logit of a
        learned rate of noise.
    totals : array of shape (2, R)
        Weighted sums of losses and hits, added to.
    penalty : tuple of arrays
        Strengths on ``W``, ``b`` and the link, ``(R, 3)``; the factor of the sum of a feature's weights, ``(R,)``, see
        ``Penalty.shared``; and the center of the penalty on the link, empty if that is 0.
    form : LinkForm
        Form of the link.
    n_rows : int
        Rows of a batch.
    numbers : tuple of float
        The two betas of Adam, and its epsilon.
    """

    def __init__(
        self,
        features: Array | tuple[Array, ...],
        parameters: tuple[Array, ...],
        totals: Array,
        penalty: tuple[Array, ...],
        form: LinkForm,
        n_rows: int,
        numbers: tuple[float, float, float],
    ) -> None:
        flat = parameters[0]
        # one type for dense and sparse features, so that the code is compiled once
        no_values, no_index = np.zeros(1, flat.dtype), np.zeros(1, np.int64)
        if isinstance(features, tuple):
            self._features = (True, no_values, *features)
        else:
            self._features = (False, features.reshape(-1), no_index, no_index, no_values)
        self._parameters, self._totals, self._penalty, self._numbers = parameters, totals, penalty, numbers
        matrix = np.zeros(1) if form.known_matrix is None else form.known_matrix.detach().numpy()
        noise = np.ascontiguousarray(matrix.reshape(-1), flat.dtype)
        self._noise = (form.learned_rate, form.known_rate, form.known_matrix is not None, noise)
        self._width = width = rows_at_once(n_rows, _WIDTH)
        self._sizes = chain_sizes(form)
        size = width * form.n_nests * form.n_classes * flat.itemsize
        self._nests = (form.n_nests, width if size <= _MOST_BYTES else VECTOR)
        self._memory: tuple[Any, ...] | None = None

    def __call__(self, rows: Array, labels: Array, weights: Array, rates: Array) -> None:
        """Take ``S`` steps on rows with labels and weights of shape (S, R, n_rows), at rates of shape (S, R)."""
        link = self._sizes, self._nests, self._noise
        if self._memory is None:
            self._memory = _new_memory(self._parameters[0], self._features[0], *link, self._width)
        batches = rows, labels, weights, rates
        state = self._parameters, self._totals, self._penalty, self._numbers
        _train_steps(self._features, batches, *state, *link, self._memory, self._width)
