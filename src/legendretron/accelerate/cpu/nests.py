"""The log-loss of a mixture of nests with its gradients, for the compiled steps.

The formulas are those of :class:`legendretron.potentials.NestedLogSumExp`.
"""

from __future__ import annotations

import math

from legendretron.accelerate.cpu.compiling import compiled
from legendretron.accelerate.cpu.entries import at, put
from legendretron.accelerate.cpu.nest_vectors import highest_of_scaled, mix_nests, nest_exponentials
from legendretron.accelerate.cpu.products import add_outer
from legendretron.accelerate.cpu.vectors import exp_differences, fill, highest, log_plus

__all__ = ["nested_loss", "prepare_nests"]


@compiled
def nested_loss(
    theta,
    start,
    n_out,
    n_nests,
    y,
    rate,
    labels,
    weights,
    first,
    n,
    numbers,
    rows,
    e,
    top,
    total,
    best,
    grad,
    width,
    part,
):
    """Weighted sums of log-losses and of hits, and the gradient in the logit of the rate of noise.

    The gradient in ``y`` takes its place, and those in the nests' parameters are added to ``grad``. With ``q_m`` the share of
    nest ``m`` in the probability of a row's label, the gradient of the loss in the exponents ``a_mk = mu_m z_k + c_mk`` is
    ``r_m s_mk - q_m [k = y]`` with ``r_m = q_m + (pi_m - q_m) beta / mu_m``, and in the gate it is ``pi_m - q_m``. ``part``
    rows go through together, as many as have all of their exponentials in the cache. ``numbers`` holds mu of each nest, its
    largest and smallest offset, and its offsets of all classes.
    """
    kind = y.dtype.type
    zero, one = kind(0), kind(1)
    n_classes = n_out + 1
    beta = math.exp(theta[start + n_nests])
    p_c, p_bias = start + n_nests + 1, start + 2 * n_nests + 1 + n_nests * n_out
    p_offset = 3 * n_nests
    gates = n_nests * part
    # of each nest and row: sums of exponentials, weighted sums, log-sums, gates, shares, slopes in y and in the offsets
    p_weighted, p_log, p_gate, p_share, p_slope, p_own = gates, 2 * gates, 3 * gates, 4 * gates, 5 * gates, 6 * gates
    share, slope, own = rows[p_share:p_slope], rows[p_slope:p_own], rows[p_own : p_own + gates]
    p_row = p_own + gates
    most, kept_rows = rows[p_row : p_row + part], rows[p_row + part : p_row + 2 * part]
    factors, below = rows[p_row + 2 * part : p_row + 3 * part], rows[p_row + 3 * part : p_row + 4 * part]
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
        fill(kept_rows, n - begin, part - min(part, n - begin), zero)  # what fills up the width does not count
        fill(factors, 0, part, zero)
        fill(below, 0, part, zero)
        for m in range(n_nests):
            for j in range(part):
                place = m * part + j
                put(rows, place, one / at(rows, place))
                put(rows, p_gate + place, at(rows, p_gate + place) / at(total, j))
                put(share, place, at(rows, p_gate + place) * at(rows, place))
                put(own, place, zero)
        for j in range(min(part, n - begin)):
            label, weight = at(labels, first + begin + j), at(weights, first + begin + j)
            under = at(y, label * width + begin + j) - at(top, j)
            p = 0.0
            for m in range(n_nests):
                found = at(share, m * part + j) * at(e, (m * n_classes + label) * part + j)
                put(own, m * part + j, found)
                p += found
            nll = -math.log(p)
            if not p > least and p == p:  # what has vanished is computed again from logarithms
                most_log = -math.inf
                for m in range(n_nests):
                    place = m * part + j
                    log_s = numbers[m] * under + numbers[p_offset + m * n_classes + label] - at(rows, p_log + place)
                    # as above, since a gate may have vanished, too
                    gate = kind(beta / numbers[m]) * at(rows, p_log + place) + theta[p_bias + m]
                    log_joint = (gate - at(most, j)) - math.log(at(total, j)) + log_s
                    put(slope, place, kind(log_joint))
                    most_log = max(most_log, log_joint)
                p = 0.0
                for m in range(n_nests):
                    found = kind(math.exp(at(slope, m * part + j) - most_log))
                    put(own, m * part + j, found)
                    p += found
                nll = -most_log - math.log(p)
            kept = 1.0
            if rate > 0.0:
                probability = math.exp(-nll)
                observed = (1.0 - rate) * probability + rate / n_classes
                nll = -math.log(observed)
                of_rate += weight * (probability - 1.0 / n_classes) / observed
                kept = (1.0 - rate) * probability / observed
            loss += weight * nll
            put(kept_rows, j, kind(kept * weight))
            put(factors, j, kind(kept * weight / p))
            put(below, j, under)
        fill(total, 0, part, zero)
        of_beta = zero
        for m in range(n_nests):
            mu = numbers[m]
            ratio = kind(beta / mu)
            of_mu = of_gate = of_log = zero
            for j in range(part):
                place = m * part + j
                q = at(own, place) * at(factors, j)
                gate = at(kept_rows, j) * at(rows, p_gate + place) - q
                r = (q + gate * ratio) * at(rows, place)
                put(total, j, at(total, j) + mu * q)
                of_mu += r * at(rows, p_weighted + place) - q * at(below, j)
                of_gate += gate
                of_log += gate * at(rows, p_log + place)
                put(own, place, r)
                put(slope, place, mu * r)
                put(rows, place, q)
            of_beta += ratio * of_log
            grad[start + m] += mu * of_mu - ratio * of_log
            grad[p_bias + m] += of_gate
            for j in range(min(part, n - begin)):
                label = at(labels, first + begin + j)
                # the reference class has its offsets after all others
                place = p_c + m * n_out + label if label < n_out else p_c + n_nests * n_out + m
                put(grad, place, at(grad, place) - at(rows, m * part + j))
        grad[start + n_nests] += of_beta
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
def prepare_nests(theta, start, n_out, n_nests, numbers):
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
