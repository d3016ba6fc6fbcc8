"""Steps of training in one compiled function: gather, predict, differentiate, penalise, update by Adam.

The link is softmax+ after a chain of ridge blocks, see :mod:`legendretron.accelerate.cpu.chain`; without blocks it is
softmax+ itself, or a mixture of nests, see :mod:`legendretron.accelerate.cpu.nests`. Arrays of a batch are *units times rows*
in one dimension, see :mod:`legendretron.accelerate.cpu.vectors`: entry ``p + u * width + j`` belongs to row ``j`` of unit
``u``. Innermost loops run over rows, which are next to each other in memory. Runs share nothing, so each goes through all
steps before the next.
"""

from __future__ import annotations

import math

from legendretron.accelerate.cpu.chain import chain_backward, chain_forward, finish_chain, n_chain, prepare_chain
from legendretron.accelerate.cpu.compiling import cached, compiled
from legendretron.accelerate.cpu.entries import at, put
from legendretron.accelerate.cpu.nests import nested_loss, prepare_nests
from legendretron.accelerate.cpu.products import add_outer, product
from legendretron.accelerate.cpu.vectors import combine, exp_differences, fill, highest, moments_step, multiply

__all__ = ["train_steps"]


@compiled
def _log_loss(y, py, n_out, rate, labels, weights, first, n, top, total, best, own, width):
    """Weighted sums of log-losses and of hits, and the gradients in the log-odds and in the logit of the rate of noise.

    The gradients take the place of the log-odds. With symmetric noise, ``q = (1 - rate) p + rate / C``: a row's gradient in
    the log-odds is that without noise, times the probability that its label has not been replaced.
    """
    zero = y.dtype.type(0)
    n_classes = n_out + 1
    fill(y, py + n_out * width, width, zero)  # the last class has zeros for log-odds
    for j in range(n):
        put(own, j, at(y, py + at(labels, first + j) * width + j))
    # among equals the first class counts, and the last of two
    tied = n_classes == 2
    for j in range(width):
        put(top, j, at(y, py + j))
    fill(best, 0, width, zero)
    for k in range(1, n_classes):
        highest(y, py + k * width, y.dtype.type(k), top, best, width)
    if tied:
        for j in range(width):
            if at(y, py + j) == zero:
                put(best, j, y.dtype.type(1))
    fill(total, 0, width, zero)
    for k in range(n_classes):
        exp_differences(y, py + k * width, top, y, py + k * width, total, width)
    loss = hits = of_rate = 0.0
    for j in range(n):
        label, weight = at(labels, first + j), at(weights, first + j)
        kept = weight
        nll = at(top, j) - at(own, j) + math.log(at(total, j))
        if rate > 0.0:
            p = math.exp(-nll)
            q = (1.0 - rate) * p + rate / n_classes
            nll = -math.log(q)
            of_rate += weight * (p - 1.0 / n_classes) / q
            kept = y.dtype.type(weight * ((1.0 - rate) * p / q))
        loss += weight * nll
        if label == at(best, j):
            hits += weight
        put(total, j, kept / at(total, j))
        put(top, j, kept)
    fill(total, n, width - n, zero)  # what fills up the width does not count
    for k in range(n_out):
        multiply(total, 0, y, py + k * width, y, py + k * width, width)
    for j in range(n):
        place = py + at(labels, first + j) * width + j
        put(y, place, at(y, place) - at(top, j))
    return loss, hits, of_rate * rate * (1.0 - rate)


@compiled
def _log_loss_with_matrix(y, py, n_out, matrix, labels, weights, first, n, e, top, total, best, width):
    """As :func:`_log_loss`, with a transition matrix of noise: ``q = T' p``.

    The gradient in the log-odds is ``p`` minus the probabilities ``p_i T_iy / q_y`` of the true classes. ``e`` is for
    exponentials.
    """
    kind = y.dtype.type
    zero = kind(0)
    n_classes = n_out + 1
    least = 1e-20 if y.itemsize == 4 else 1e-150
    fill(y, py + n_out * width, width, zero)
    fill(total, 0, width, zero)
    for j in range(width):
        put(top, j, at(y, py + j))
    for k in range(1, n_classes):
        highest(y, py + k * width, kind(k), top, best, width)
    for k in range(n_classes):
        exp_differences(y, py + k * width, top, e, k * width, total, width)
    loss = hits = 0.0
    for j in range(n):
        label, weight = at(labels, first + j), at(weights, first + j)
        # hits are those of the observed labels, whose most probable class need not be that of the true ones
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
        # what has vanished is computed again from logarithms, which take the place of the log-odds
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
        fill(y, py + k * width + n, width - n, zero)  # what fills up the width does not count
    return loss, hits, 0.0


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
    combine(-strength, centre, 0, theta.dtype.type(1), grad, start, centre.shape[0])
    if shared != 0:
        for f in range(n_features):
            total = theta.dtype.type(0)
            for k in range(n_out):
                total += at(theta, f * n_out + k)
            total *= shared
            for k in range(n_out):
                put(grad, f * n_out + k, at(grad, f * n_out + k) - total)


@cached
def train_steps(
    features, batches, parameters, totals, penalty, numbers, sizes, nests, noise, chain, units, buffers, width
):
    """Take all steps of all runs; see :class:`legendretron.accelerate.cpu.training.CompiledTraining`."""
    sparse, x, starts, columns, values = features
    rows, labels, weights, rates = batches
    flat, first, second, count = parameters
    strengths, shared, centre = penalty
    beta1, beta2, eps = numbers
    n_out, n_blocks = sizes.n_out, sizes.n_blocks
    n_nests, part = nests
    learned_rate, rate, has_matrix, matrix = noise
    ones, batch, points, top, total, best, own, grad, of_nests, of_rows, e = buffers
    n_steps, n_runs, n_rows = rows.shape
    n_parameters = flat.shape[1]
    kind = flat.dtype.type
    n_link = n_nests * (n_out + 3) + 1 if n_nests else n_chain(sizes)
    start = n_parameters - n_link - int(learned_rate)
    n_features = start // n_out - 1
    n_weights = n_features * n_out
    py = n_blocks // sizes.group * n_out * width
    for r in range(n_runs):
        theta = flat[r]
        for s in range(n_steps):
            if n_blocks:
                prepare_chain(theta, start, sizes, chain)
            if n_nests:
                prepare_nests(theta, start, n_out, n_nests, of_nests)
            loss = hits = of_rate = 0.0
            if learned_rate:
                rate = 1.0 / (1.0 + math.exp(-theta[n_parameters - 1]))
            for begin in range(0, n_rows, width):
                n = min(width, n_rows - begin)
                place = (s * n_runs + r) * n_rows + begin
                _predict(
                    theta, n_features, n_out, sparse, x, starts, columns, values, rows, place, n, batch, points, width
                )
                for block in range(0, n_blocks, sizes.group):
                    chain_forward(block, sizes, chain, units, points, width)
                if n_nests:
                    more = nested_loss(
                        theta, start, n_out, n_nests, points, rate, labels, weights, place, n, of_nests, of_rows, e, top,
                        total, best, grad, width, part,
                    )  # fmt: skip
                elif has_matrix:
                    more = _log_loss_with_matrix(
                        points, py, n_out, matrix, labels, weights, place, n, e, top, total, best, width
                    )
                else:
                    more = _log_loss(points, py, n_out, rate, labels, weights, place, n, top, total, best, own, width)
                loss += more[0]
                hits += more[1]
                of_rate += more[2]
                for block in range(n_blocks - sizes.group, -1, -sizes.group):
                    chain_backward(block, start, sizes, chain, units, points, grad, width)
                _add_linear_gradient(
                    grad,
                    n_features,
                    n_out,
                    sparse,
                    starts,
                    columns,
                    values,
                    rows,
                    place,
                    n,
                    batch,
                    points,
                    py,
                    ones,
                    width,
                )
            if n_blocks:
                finish_chain(theta, start, sizes, chain, grad)
            _add_penalty(theta, start, n_features, n_out, strengths[r, 2], shared[r], centre, grad)
            if learned_rate:
                grad[n_parameters - 1] = kind(of_rate)
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
