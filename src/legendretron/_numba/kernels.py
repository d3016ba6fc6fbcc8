"""Steps of training in one compiled function: gather, predict, differentiate, penalise, update by Adam.

The link is softmax+ after a chain of ridge blocks, whose formulas are in :mod:`legendretron.potentials.ridge_form`; without
blocks it is softmax+ itself, or a mixture of nests, see :class:`legendretron.potentials.NestedLogSumExp`. Arrays of a batch
are *units times rows* in one dimension, see :mod:`legendretron._numba.vectors`: entry ``p + u * width + j`` belongs to row
``j`` of unit ``u``. Innermost loops run over rows, which are next to each other in memory. Runs share nothing, so each goes
through all steps before the next.
"""

from __future__ import annotations

import math

from legendretron._numba.compiling import cached, compiled
from legendretron._numba.vectors import (
    activate,
    add_dot,
    add_outer,
    add_outers,
    add_product,
    at,
    combine,
    exp_differences,
    fill,
    highest,
    highest_of_scaled,
    inner_backward,
    inner_forward,
    log_plus,
    mix_nests,
    moments_step,
    multiply,
    multiply_by,
    nest_exponentials,
    product,
    product_plus,
    put,
)

__all__ = ["train_steps"]


@compiled
def _chain_forward(theta, start, sizes, n_blocks, raw, points, z, positive, slope, d, up, width):
    """All blocks, one after the other: ``y = alpha x + gamma A^T d``, written after ``x`` in ``points``."""
    n_out, hidden, depth = sizes
    rank = hidden * depth + 1
    units, size = rank * width, n_out * width
    n_raw = ((depth - 1) * hidden + 1) * hidden + 2
    for b in range(n_blocks):
        p_a = start + b * (rank * (n_out + 1) + n_raw)
        p_x, p_raw, pu = b * size, b * n_raw, b * units
        for u in range(rank):
            fill(z, u * width, width, theta[p_a + rank * n_out + u])
        add_product(theta, p_a, n_out, 1, rank, n_out, points, p_x, z, 0, width)
        inner_forward(raw, p_raw, z, positive, slope, d, up, pu, hidden, hidden, depth, 1, width)
        alpha, gamma = raw[p_raw + n_raw - 2], raw[p_raw + n_raw - 1]
        product_plus(theta, p_a, n_out, n_out, rank, d, pu, gamma, points, p_x, alpha, points, p_x + size, width)


@compiled
def _chain_backward(
    theta, start, sizes, n_blocks, raw, points, p_dy, positive, slope, d, up, cot_d, cot_w, cot_z, ones, grad, width
):
    """Pull the cotangent of the last block's output back to the first one's input, and add up gradients.

    It is in ``points`` from ``p_dy`` on, where that of the first input is afterwards. Gradients of all but ``alpha`` and
    ``gamma`` are without their factor ``gamma``, and those of the raw parameters without the slope of their softplus: both
    are the same for all rows.
    """
    n_out, hidden, depth = sizes
    zero = theta.dtype.type(0)
    rank = hidden * depth + 1
    layer, units, size = hidden * width, rank * width, n_out * width
    n_raw = ((depth - 1) * hidden + 1) * hidden + 2
    for b in range(n_blocks - 1, -1, -1):
        p_a = start + b * (rank * (n_out + 1) + n_raw)
        p_x, p_raw, pu = b * size, b * n_raw, b * units
        p_bias = p_a + rank * n_out
        p_mixing, p_alpha = p_bias + rank, p_bias + rank + n_raw - 2
        fill(cot_d, 0, units, zero)
        add_product(theta, p_a, n_out, 1, rank, n_out, points, p_dy, cot_d, 0, width)
        add_dot(points, p_x, points, p_dy, grad, p_alpha, size)
        add_dot(d, pu, cot_d, 0, grad, p_alpha + 1, units)
        inner_backward(raw, p_raw, positive, slope, d, up, pu, cot_d, cot_w, cot_z, hidden, hidden, depth, width)
        for k in range(depth):
            p, feeds = k * layer, hidden if k < depth - 1 else 1
            add_outers(
                d, pu + p + layer, cot_z, p + layer, feeds, cot_w, p, positive, pu + p, hidden, grad,
                p_mixing + k * hidden * hidden, width,
            )  # fmt: skip
        add_outers(cot_z, 0, d, pu, rank, points, p_x, points, p_dy, n_out, grad, p_a, width)
        add_outer(cot_z, 0, rank, ones, 0, 1, grad, p_bias, width)
        alpha, gamma = raw[p_raw + n_raw - 2], raw[p_raw + n_raw - 1]
        product_plus(theta, p_a, n_out, n_out, rank, cot_z, 0, gamma, points, p_dy, alpha, points, p_dy, width)


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
def _log_loss_with_matrix(y, py, n_out, matrix, labels, weights, first, n, top, total, best, width):
    """As :func:`_log_loss`, with a transition matrix of noise: ``q = T' p``.

    The gradient in the log-odds is ``p`` minus the probabilities ``p_i T_iy / q_y`` of the true classes.
    """
    zero = y.dtype.type(0)
    n_classes = n_out + 1
    fill(y, py + n_out * width, width, zero)
    fill(total, 0, width, zero)
    for j in range(width):
        put(top, j, at(y, py + j))
    for k in range(1, n_classes):
        highest(y, py + k * width, y.dtype.type(k), top, best, width)
    for k in range(n_classes):
        exp_differences(y, py + k * width, top, y, py + k * width, total, width)
    loss = hits = 0.0
    for j in range(n):
        label, weight = at(labels, first + j), at(weights, first + j)
        # hits are those of the observed labels, whose most probable class need not be that of the true ones
        q = most = 0.0
        likeliest = 0
        for c in range(n_classes):
            share = 0.0
            for k in range(n_classes):
                share += at(y, py + k * width + j) * at(matrix, k * n_classes + c)
            if c == label:
                q = share
            if share > most or (n_classes == 2 and share == most):
                most, likeliest = share, c
        q = max(q / at(total, j), 1e-300)
        loss -= weight * math.log(q)
        if label == likeliest:
            hits += weight
        for k in range(n_out):
            place = py + k * width + j
            p = at(y, place) / at(total, j)
            put(y, place, y.dtype.type(weight * p * (1.0 - at(matrix, k * n_classes + label) / q)))
    for k in range(n_out):
        fill(y, py + k * width + n, width - n, zero)  # what fills up the width does not count
    return loss, hits, 0.0


@compiled
def _nested_loss(
    theta, start, n_out, n_nests, y, rate, labels, weights, first, n, numbers, rows, e, top, total, best, grad, width, part
):
    """As :func:`_log_loss`, of a mixture of nests, and its gradients in the nests' parameters added to ``grad``.

    With ``q_m`` the share of nest ``m`` in the probability of a row's label, the gradient of the loss in the exponents
    ``a_mk = mu_m z_k + c_mk`` is ``r_m s_mk - q_m [k = y]`` with ``r_m = q_m + (pi_m - q_m) beta / mu_m``, and in the gate it
    is ``pi_m - q_m``. ``part`` rows go through together, as many as have all of their exponentials in the cache. ``numbers``
    holds mu of each nest, its largest and smallest offset, and its offsets of all classes.
    """
    kind = y.dtype.type
    zero = kind(0)
    n_classes = n_out + 1
    beta = math.exp(theta[start + n_nests])
    p_c, p_bias = start + n_nests + 1, start + 2 * n_nests + 1 + n_nests * n_out
    p_offset = 3 * n_nests
    gates = n_nests * part
    # of each nest and row: sums of exponentials, weighted sums, log-sums, gates, shares, slopes in y and in the offsets
    p_weighted, p_log, p_gate, p_share, p_slope, p_own = gates, 2 * gates, 3 * gates, 4 * gates, 5 * gates, 6 * gates
    share, slope, own = rows[p_share:p_slope], rows[p_slope:p_own], rows[p_own : p_own + gates]
    most = rows[p_own + gates : p_own + gates + part]
    # where exponents are lowered by more than this, the largest might vanish
    widest, least = (20.0, 1e-20) if y.itemsize == 4 else (300.0, 1e-150)
    loss = hits = of_rate = 0.0
    for begin in range(0, width, part):
        if begin >= n:
            for k in range(n_out):
                fill(y, k * width + begin, width - begin, zero)
            break
        fill(top, 0, part, zero)
        fill(y, n_out * width + begin, part, zero)  # of the reference class
        for k in range(n_out):
            highest(y, k * width + begin, zero, top, best, part)
        for m in range(n_nests):
            c = p_offset + m * n_classes
            if numbers[n_nests + m] - numbers[2 * n_nests + m] <= widest:
                fill(most, 0, part, numbers[n_nests + m])
            else:
                highest_of_scaled(y, begin, width, top, numbers, c, n_classes, numbers[m], most, part)
            nest_exponentials(
                y, begin, width, top, numbers, c, n_classes, numbers[m], most, e, m * n_classes * part, rows, rows[gates:],
                m * part, part,
            )  # fmt: skip
            log_plus(rows, m * part, most, 0, rows, p_log + m * part, part)
            factor, bias = kind(beta / numbers[m]), theta[p_bias + m]
            for j in range(part):
                put(rows, p_gate + m * part + j, factor * at(rows, p_log + m * part + j) + bias)
        for j in range(part):
            put(most, j, at(rows, p_gate + j))
        for m in range(1, n_nests):
            highest(rows, p_gate + m * part, zero, most, best, part)
        fill(total, 0, part, zero)
        for m in range(n_nests):
            exp_differences(rows, p_gate + m * part, most, rows, p_gate + m * part, total, part)
        for m in range(n_nests):
            for j in range(part):
                put(rows, p_gate + m * part + j, at(rows, p_gate + m * part + j) / at(total, j))
        for j in range(part):
            if begin + j >= n:  # what fills up the width does not count
                for m in range(n_nests):
                    put(share, m * part + j, zero)
                    put(slope, m * part + j, zero)
                    put(own, m * part + j, zero)
                continue
            label, weight = at(labels, first + begin + j), at(weights, first + begin + j)
            p = 0.0
            for m in range(n_nests):
                place = m * part + j
                put(share, place, at(rows, p_gate + place) / at(rows, place))
                p += at(share, place) * at(e, (m * n_classes + label) * part + j)
            nll, highest_log = -math.log(p), 0.0
            direct = p > least
            if not direct and p == p:  # what has vanished is computed again from logarithms
                highest_log = -math.inf
                below = at(y, label * width + begin + j) - at(top, j)
                for m in range(n_nests):
                    place = m * part + j
                    log_s = numbers[m] * below + numbers[p_offset + m * n_classes + label] - at(rows, p_log + place)
                    log_joint = math.log(at(rows, p_gate + place)) + log_s
                    put(slope, place, kind(log_joint))
                    highest_log = max(highest_log, log_joint)
                p = 0.0
                for m in range(n_nests):
                    p += math.exp(at(slope, m * part + j) - highest_log)
                nll = -highest_log - math.log(p)
            kept = 1.0
            probability = math.exp(-nll)
            if rate > 0.0:
                observed = (1.0 - rate) * probability + rate / n_classes
                nll = -math.log(observed)
                of_rate += weight * (probability - 1.0 / n_classes) / observed
                kept = (1.0 - rate) * probability / observed
            loss += weight * nll
            kept *= weight
            moved = of_beta = 0.0
            for m in range(n_nests):
                place = m * part + j
                pi, mu, ratio = at(rows, p_gate + place), numbers[m], beta / numbers[m]
                if direct:
                    q = at(share, place) * at(e, (m * n_classes + label) * part + j) / p
                else:
                    q = math.exp(at(slope, place) - highest_log) / p
                of_gate = kept * (pi - q)
                r = kept * q + of_gate * ratio
                q *= kept
                moved += mu * q
                below = r * at(rows, p_weighted + place) / at(rows, place)
                below -= q * (at(y, label * width + begin + j) - at(top, j))
                of_log = of_gate * ratio * at(rows, p_log + place)
                of_beta += of_log
                grad[start + m] += kind(mu * below - of_log)
                grad[p_bias + m] += kind(of_gate)
                # the reference class has its offsets after all others
                p_own_offset = p_c + m * n_out + label if label < n_out else p_c + n_nests * n_out + m
                grad[p_own_offset] -= kind(q)
                put(own, place, kind(r / at(rows, place)))
                put(slope, place, kind(mu * r / at(rows, place)))
            grad[start + n_nests] += kind(of_beta)
            put(total, j, kind(moved))
        mix_nests(e, share, slope, n_nests, n_classes, y, begin, width, best, part)
        for j in range(min(part, n - begin)):
            label = at(labels, first + begin + j)
            place = label * width + begin + j
            put(y, place, at(y, place) - at(total, j))
            if label == at(best, j):
                hits += at(weights, first + begin + j)
        for m in range(n_nests):
            p_e = m * n_classes * part
            add_outer(own, m * part, 1, e, p_e, n_out, grad, p_c + m * n_out, part)
            add_outer(own, m * part, 1, e, p_e + n_out * part, 1, grad, p_c + n_nests * n_out + m, part)
    return loss, hits, of_rate * rate * (1.0 - rate)


@compiled
def _prepare_nests(theta, start, n_out, n_nests, numbers):
    """Write mu, the largest, the smallest and all offsets of each nest side by side."""
    kind = theta.dtype.type
    p_c = start + n_nests + 1
    for m in range(n_nests):
        numbers[m] = kind(math.exp(theta[start + m]))
        p = 3 * n_nests + m * (n_out + 1)
        smallest = largest = theta[p_c + n_nests * n_out + m]
        numbers[p + n_out] = largest
        for k in range(n_out):
            own = at(theta, p_c + m * n_out + k)
            put(numbers, p + k, own)
            smallest, largest = min(smallest, own), max(largest, own)
        numbers[n_nests + m], numbers[2 * n_nests + m] = largest, smallest


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
def _finish_gradient(theta, start, sizes, n_blocks, raw, raw_slope, n_features, strengths, shared, centre, grad):
    """Multiply the sums over rows by what is the same for all of them, and add the gradient of the penalty."""
    n_out, hidden, depth = sizes
    kind = theta.dtype.type
    rank = hidden * depth + 1
    n_raw = ((depth - 1) * hidden + 1) * hidden + 2
    for b in range(n_blocks):
        p_raw = start + b * (rank * (n_out + 1) + n_raw) + rank * (n_out + 1)
        gamma = raw[(b + 1) * n_raw - 1]
        multiply_by(grad, p_raw - rank * (n_out + 1), rank * (n_out + 1), gamma)
        multiply_by(grad, p_raw, n_raw - 2, gamma / kind(hidden))
        multiply(raw_slope, b * n_raw, grad, p_raw, grad, p_raw, n_raw)
    combine(strengths[0], theta, 0, kind(1), grad, 0, n_features * n_out)
    combine(strengths[1], theta, n_features * n_out, kind(1), grad, n_features * n_out, n_out)
    combine(strengths[2], theta, start, kind(1), grad, start, centre.shape[0])
    combine(-strengths[2], centre, 0, kind(1), grad, start, centre.shape[0])
    if shared != 0:
        for f in range(n_features):
            total = kind(0)
            for k in range(n_out):
                total += at(theta, f * n_out + k)
            total *= shared
            for k in range(n_out):
                put(grad, f * n_out + k, at(grad, f * n_out + k) - total)


@cached
def train_steps(features, batches, parameters, totals, penalty, numbers, sizes, nests, noise, n_blocks, buffers, width):
    """Take all steps of all runs; see :class:`legendretron._numba.training.CompiledTraining`."""
    sparse, x, starts, columns, values = features
    rows, labels, weights, rates = batches
    flat, first, second, count = parameters
    strengths, shared, centre = penalty
    beta1, beta2, eps = numbers
    n_out, hidden, depth = sizes
    n_nests, part = nests
    learned_rate, rate, has_matrix, matrix = noise
    batch, points, z, positive, slope, d, up, cot_d, cot_w, cot_z = buffers[:10]
    top, total, best, own, ones, raw, raw_slope, grad, of_nests, of_rows, e = buffers[10:]
    n_steps, n_runs, n_rows = rows.shape
    n_parameters = flat.shape[1]
    kind = flat.dtype.type
    rank = hidden * depth + 1
    n_raw = ((depth - 1) * hidden + 1) * hidden + 2
    n_block = rank * (n_out + 1) + n_raw
    n_link = n_nests * (n_out + 3) + 1 if n_nests else n_blocks * n_block
    start = n_parameters - n_link - int(learned_rate)
    n_features = start // n_out - 1
    for r in range(n_runs):
        theta = flat[r]
        for s in range(n_steps):
            fill(grad, 0, n_parameters, kind(0))
            for b in range(n_blocks):
                activate(theta, start + (b + 1) * n_block - n_raw, raw, raw_slope, b * n_raw, n_raw)
                multiply_by(raw, b * n_raw, n_raw - 2, kind(1) / kind(hidden))
            _prepare_nests(theta, start, n_out, n_nests, of_nests)
            loss = hits = of_rate = 0.0
            if learned_rate:
                rate = 1.0 / (1.0 + math.exp(-theta[n_parameters - 1]))
            for begin in range(0, n_rows, width):
                n = min(width, n_rows - begin)
                place = (s * n_runs + r) * n_rows + begin
                _predict(
                    theta, n_features, n_out, sparse, x, starts, columns, values, rows, place, n, batch, points, width
                )
                _chain_forward(theta, start, sizes, n_blocks, raw, points, z, positive, slope, d, up, width)
                py = n_blocks * n_out * width
                if n_nests:
                    more = _nested_loss(
                        theta, start, n_out, n_nests, points, rate, labels, weights, place, n, of_nests, of_rows, e, top,
                        total, best, grad, width, part,
                    )  # fmt: skip
                elif has_matrix:
                    more = _log_loss_with_matrix(
                        points, py, n_out, matrix, labels, weights, place, n, top, total, best, width
                    )
                else:
                    more = _log_loss(points, py, n_out, rate, labels, weights, place, n, top, total, best, own, width)
                loss += more[0]
                hits += more[1]
                of_rate += more[2]
                _chain_backward(
                    theta, start, sizes, n_blocks, raw, points, py, positive, slope, d, up, cot_d, cot_w, cot_z, ones,
                    grad, width,
                )  # fmt: skip
                _add_linear_gradient(
                    grad, n_features, n_out, sparse, starts, columns, values, rows, place, n, batch, points, py, ones, width
                )
            _finish_gradient(
                theta, start, sizes, n_blocks, raw, raw_slope, n_features, strengths[r], shared[r], centre, grad
            )
            if learned_rate:
                grad[n_parameters - 1] = kind(of_rate)
            # p -= rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps), with the corrections moved onto numbers
            t = count[0] + s + 1
            correction = math.sqrt(1.0 - beta2**t)
            moments_step(
                theta, first[r], second[r], grad, n_parameters, kind(1.0 - beta1), kind(beta2), kind(1.0 - beta2),
                kind(eps * correction), kind(rates[s, r] * (-correction / (1.0 - beta1**t))),
            )  # fmt: skip
            totals[0, r] += kind(loss * n_rows)
            totals[1, r] += kind(hits * n_rows)
    count[0] += n_steps
