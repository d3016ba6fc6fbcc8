"""Steps of training of a network in one compiled function, see :class:`legendretron.networks.model.NetworkModel`.

Arrays are as in :mod:`legendretron.accelerate.cpu.training`: units times rows. A run goes through all steps at once, so that
its parameters stay in the cache. A row of parameters holds the weights of the layers, inputs times outputs; scales of
the inputs; biases of the layers; shares of the activation in the hidden ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendretron.accelerate.cpu.compiling import at, cached, compiled, put
from legendretron.accelerate.cpu.links import rows_at_once
from legendretron.accelerate.cpu.products import add_dot, add_outer, add_product, product
from legendretron.accelerate.cpu.softmax import exponentials, log_loss
from legendretron.accelerate.cpu.vectors import bend, drop, fill, moments_step, multiply, scale, transpose
from legendretron.accelerate.support import VECTOR

__all__ = ["CompiledNetworks"]

Array = NDArray[Any]

#: Rows that go through a network together, at most.
_WIDTH = 64


@compiled
def _fade(share):
    """As :func:`legendretron.networks.model.fade`."""
    return 0.5 * (1.0 + math.cos(math.pi * max(0.0, 2.0 * share - 1.0)))


@compiled
def _loss(y, n_classes, labels, weights, place, n, smoothing, matrix, dp, q, rows, width):
    """Sums of log-losses and hits of ``n`` rows; gradients replace the logits. Without noise, ``matrix`` is empty."""
    kind = y.dtype.type
    top, best, total, own = rows[0], rows[1], rows[2], rows[3]
    if matrix.shape[0] == 0:
        loss, hits, _ = log_loss(y, 0, n_classes, 0.0, labels, weights, place, n, top, total, best, own, width)
        for c in range(n_classes if smoothing > 0.0 else 0):
            for j in range(n):
                spread = kind(smoothing) * (kind(c == at(labels, place + j)) - kind(1.0 / n_classes))
                put(y, c * width + j, at(y, c * width + j) + at(weights, place + j) * spread)
        return loss, hits
    exponentials(y, 0, n_classes, top, best, y, 0, width, total, width)
    for j in range(width):
        put(total, j, kind(1) / at(total, j))
    for c in range(n_classes):
        multiply(y, c * width, total, 0, y, c * width, width)
    product(matrix, 0, n_classes, n_classes, n_classes, y, 0, q, 0, width)
    low, high = kind(smoothing / n_classes), kind(1.0 - smoothing * (1.0 - 1.0 / n_classes))
    least = kind(np.finfo(y.dtype).tiny)
    loss = hits = 0.0
    for c in range(n_classes):
        for j in range(n):
            label, weight = at(labels, place + j), at(weights, place + j)
            observed = max(at(q, c * width + j), least)
            if c == label:
                loss -= float(weight) * math.log(float(observed))
                hits += weight * (at(best, j) == label)
            put(q, c * width + j, -weight * (high if c == label else low) / observed)
        fill(q, c * width + n, width - n, kind(0))
    fill(dp, 0, n_classes * width, kind(0))
    add_product(matrix, 0, n_classes, 1, n_classes, n_classes, q, 0, dp, 0, width)
    for j in range(width):
        mean = kind(0)
        for c in range(n_classes):
            mean += at(y, c * width + j) * at(dp, c * width + j)
        for c in range(n_classes):
            put(y, c * width + j, at(y, c * width + j) * (at(dp, c * width + j) - mean))
    return loss, hits


@cached
def _train_network(x, batches, parameters, totals, widths, units, matrix, pool, numbers, factors, progress, run, width):
    """Take all steps of a run; see :class:`CompiledNetworks`."""
    rows, labels, weights, rates = batches
    flat, first, second, count = parameters
    beta1, beta2, eps, smoothing, dropout, decay = numbers
    scale_factor, bias_factor, mix_factor, stride = factors
    done, n_total = progress
    n_steps, n_runs, n_rows = rows.shape
    kind, n_layers, d, n_classes = flat.dtype.type, len(widths) - 1, widths[0], widths[-1]
    widest = 0
    # places of the layers' weights with biases, of their inputs, and, among the parameters, of biases and shares
    p_layer, p_input = np.zeros(n_layers + 1, np.int64), np.zeros(n_layers + 1, np.int64)
    p_bias, p_mix = np.zeros(n_layers, np.int64), np.zeros(n_layers, np.int64)
    n_weights = 0
    for k in range(n_layers):
        inputs, outputs = widths[k], widths[k + 1]
        p_layer[k + 1] = p_layer[k] + (inputs + 1) * outputs
        p_input[k + 1] = p_input[k] + (inputs + 1) * width
        n_weights += inputs * outputs
        widest = max(widest, inputs, outputs)
    p = n_weights + d
    for k in range(n_layers):
        p_bias[k] = p
        p += widths[k + 1]
    for k in range(n_layers - 1):
        p_mix[k] = p
        p += widths[k + 1]
    layer, grad_layer = np.zeros(p_layer[n_layers], flat.dtype), np.zeros(p_layer[n_layers], flat.dtype)
    h, away, slope = (
        np.zeros(p_input[n_layers], flat.dtype), np.zeros(p_input[n_layers], flat.dtype),
        np.zeros(p_input[n_layers], flat.dtype),
    )  # fmt: skip
    z, dz, turned = (
        np.zeros(widest * width, flat.dtype), np.zeros(widest * width, flat.dtype), np.zeros(widest * width, flat.dtype),
    )  # fmt: skip
    dp, q = np.zeros(n_classes * width, flat.dtype), np.zeros(n_classes * width, flat.dtype)
    row_sums, grad = np.zeros((4, width), flat.dtype), np.zeros(flat.shape[1], flat.dtype)
    r, theta, unit = run, flat[run], units[run]
    used = 0  # inputs up to the last one that the run sees
    for f in range(d):
        if unit[f] != 0.0:
            used = f + 1
    for k in range(n_layers):
        fill(h, p_input[k] + (used if k == 0 else widths[k]) * width, width, kind(1))
    for s in range(n_steps):
        faded = _fade((done + s) / n_total) * dropout
        strength = kind(math.sqrt(faded / (1.0 - faded) * (1.0 - dropout) / dropout)) if dropout > 0.0 else kind(0)
        # weights as they are multiplied, with the biases as those of one more input
        p = 0
        for k in range(n_layers):
            inputs, outputs = used if k == 0 else widths[k], widths[k + 1]
            if k == 0:
                for f in range(inputs):
                    factor = kind((1.0 + scale_factor * float(theta[n_weights + f])) * unit[f])
                    scale(theta, f * outputs, factor, layer, f * outputs, outputs)
            else:
                scale(theta, p, kind(1.0 / math.sqrt(inputs)), layer, p_layer[k], inputs * outputs)
            scale(theta, p_bias[k], kind(bias_factor), layer, p_layer[k] + inputs * outputs, outputs)
            p += widths[k] * outputs
        loss = hits = 0.0
        for begin in range(0, n_rows, width):
            n = min(width, n_rows - begin)
            place = (s * n_runs + r) * n_rows + begin
            for j in range(n):
                row = at(rows, place + j) * d
                for f in range(used):
                    put(h, f * width + j, at(x, row + f))
            for f in range(used if n < width else 0):
                fill(h, f * width + n, width - n, kind(0))
            for k in range(n_layers):
                inputs, outputs = used if k == 0 else widths[k], widths[k + 1]
                logits = dz if k == n_layers - 1 else z
                product(layer, p_layer[k], outputs, outputs, inputs + 1, h, p_input[k], logits, 0, width)
                if k == n_layers - 1:
                    break
                p_next = p_input[k + 1]
                size = n_runs * outputs * n_rows
                p_mask = ((done + s) * n_layers + k) * stride % (len(pool) - size) if dropout > 0.0 else 0
                for u in range(outputs):
                    to, share = p_next + u * width, kind(1.0 + mix_factor * float(theta[p_mix[k] + u]))
                    bend(z, u * width, share, h, to, away, slope, to, width)
                    if dropout > 0.0:
                        drop(h, to, pool, p_mask + (r * outputs + u) * n_rows + begin, strength, n)
            more = _loss(dz, n_classes, labels, weights, place, n, smoothing, matrix, dp, q, row_sums, width)
            loss += more[0]
            hits += more[1]
            for k in range(n_layers - 1, -1, -1):
                inputs, outputs = used if k == 0 else widths[k], widths[k + 1]
                if outputs % VECTOR == 0:  # rows as units: sums over rows need not be added up across a vector
                    transpose(dz, 0, width, turned, 0, outputs, outputs, width)
                    add_product(
                        h, p_input[k], width, 1, inputs + 1, width, turned, 0, grad_layer, p_layer[k], outputs
                    )  # fmt: skip
                else:
                    add_outer(h, p_input[k], inputs + 1, dz, 0, outputs, grad_layer, p_layer[k], width)
                if k == 0:
                    break
                fill(z, 0, inputs * width, kind(0))
                add_product(layer, p_layer[k], outputs, 1, inputs, outputs, dz, 0, z, 0, width)
                size = n_runs * inputs * n_rows
                p_mask = ((done + s) * n_layers + k - 1) * stride % (len(pool) - size) if dropout > 0.0 else 0
                for u in range(inputs):
                    here = p_input[k] + u * width
                    if dropout > 0.0:
                        drop(z, u * width, pool, p_mask + (r * inputs + u) * n_rows + begin, strength, n)
                    add_dot(z, u * width, away, here, grad, p_mix[k - 1] + u, width)
                    multiply(z, u * width, slope, here, dz, u * width, width)
        # from the layers to the parameters
        p = 0
        for k in range(n_layers):
            inputs, outputs = used if k == 0 else widths[k], widths[k + 1]
            if k == 0:
                for f in range(inputs):
                    total = kind(0)
                    for u in range(outputs):
                        total += at(grad_layer, f * outputs + u) * at(theta, f * outputs + u)
                    grad[n_weights + f] = kind(scale_factor * unit[f]) * total
                    factor = kind((1.0 + scale_factor * float(theta[n_weights + f])) * unit[f])
                    scale(grad_layer, f * outputs, factor, grad, f * outputs, outputs)
            else:
                scale(grad_layer, p_layer[k], kind(1.0 / math.sqrt(inputs)), grad, p, inputs * outputs)
                scale(grad, p_mix[k - 1], kind(mix_factor), grad, p_mix[k - 1], inputs)
            scale(grad_layer, p_layer[k] + inputs * outputs, kind(bias_factor), grad, p_bias[k], outputs)
            p += widths[k] * outputs
        fill(grad_layer, 0, len(grad_layer), kind(0))
        rate = float(rates[s, r])
        scale(theta, 0, kind(1.0 - rate * decay * _fade((done + s + 1) / n_total)), theta, 0, n_weights)
        t = count[0] + s + 1
        correction = math.sqrt(1.0 - beta2**t)
        moments_step(
            theta, first[r], second[r], grad, 0, len(grad), kind(0), kind(1.0 - beta1), kind(beta2), kind(1.0 - beta2),
            kind(eps * correction), kind(rate * (-correction / (1.0 - beta1**t))),
        )  # fmt: skip
        totals[0, r] += kind(loss * n_rows)
        totals[1, r] += kind(hits * n_rows)


class CompiledNetworks:
    """Steps of Adam for networks, on the memory of their parameters; runs are divided over threads.

    Parameters
    ----------
    features : array of shape (N, d)
        The inputs.
    parameters : tuple of arrays
        Parameters and Adam's two moments, ``(R, P)``, and the number of steps so far, ``(1,)``; changed in place.
    totals : array of shape (2, R)
        Weighted sums of losses and hits, added to.
    widths : sequence of int
        Inputs, units of the hidden layers, classes.
    units : array of shape (R, d)
        Factor of each input in each run; 0 for those that it does not see.
    matrix : array of shape (C, C), optional
        Of the noise in the labels.
    pool : array
        What masks of dropout are made of.
    numbers : tuple of float
        The two betas of Adam and its epsilon; label smoothing, rate of dropout and weight decay.
    factors : tuple
        Of scales, biases and shares, and the stride through the pool.
    progress : callable
        Steps so far, and all there will be.
    n_rows, n_threads : int
        Rows of a batch, and threads to use.
    """

    def __init__(
        self,
        features: Array,
        parameters: tuple[Array, ...],
        totals: Array,
        widths: Sequence[int],
        units: Array,
        matrix: Array | None,
        pool: Array,
        numbers: tuple[float, ...],
        factors: tuple[float, float, float, int],
        progress: Callable[[], tuple[int, int]],
        n_rows: int,
        n_threads: int,
    ) -> None:
        dtype = parameters[0].dtype
        self._features, self._parameters, self._totals = features.reshape(-1), parameters, totals
        self._widths, self._units = np.asarray(widths, dtype=np.int64), np.ascontiguousarray(units, dtype=np.float64)
        self._matrix = np.ascontiguousarray(np.zeros(0) if matrix is None else matrix.reshape(-1), dtype)
        self._pool, self._numbers, self._factors, self._progress = pool, numbers, factors, progress
        self._width = rows_at_once(n_rows, _WIDTH)
        self._n_threads = n_threads

    def __call__(self, rows: Array, labels: Array, weights: Array, rates: Array) -> None:
        """Take ``S`` steps on rows with labels and weights of shape (S, R, n_rows), at rates of shape (S, R)."""
        batches, progress = (rows, labels, weights, rates), self._progress()
        network = self._widths, self._units, self._matrix, self._pool, self._numbers, self._factors, progress

        def train(run: int) -> None:
            _train_network(self._features, batches, self._parameters, self._totals, *network, run, self._width)

        active = np.flatnonzero(rates.any(axis=0))  # runs that have stopped stay as they are
        if self._n_threads == 1 or len(active) < 2:
            for run in active:
                train(int(run))
        else:
            with ThreadPoolExecutor(min(self._n_threads, len(active))) as pool:
                list(pool.map(train, map(int, active)))
        self._parameters[3][0] += len(rows)
