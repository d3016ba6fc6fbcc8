r"""A mixture of nests with its pullback: the one forward and the one backward pass of canonical links on the CPU.

The formulas are those of :class:`legendretron.potentials.NestedLogSumExp`: exponents ``a_mk = mu_m (x_k - max x) + c_mk``,
softmaxes ``s_m`` of them, gates ``pi = softmax(beta / mu lse(a) + b)``, and ``p = sum_m pi_m s_m``. Cotangents ``g`` of
``log p`` are pulled back by the shares ``r_mk = g_k pi_m s_mk / p_k`` of the nests, whose sums over classes are ``R_m``. The
cotangent of the gates is ``R_m - pi_m sum_k g_k``, and that of the exponents

    r_mk + s_mk (beta / mu_m (R_m - pi_m sum_k g_k) - R_m).

The second term is the same for all uses, :func:`pull_back_nests`. The first has an entry for each class in heads, and one for
the label in training, where ``g = -w e_y``.

Arrays are *units times rows*, see :mod:`legendretron.accelerate.cpu.vectors`; ``part`` rows go through together, as many as
have all of their exponentials in the cache.

For heads and predictions, :func:`nests_probabilities` and :func:`nests_backward` take addresses, as those of
:mod:`legendretron.accelerate.cpu.chain`. Their sizes are the number of nests, ``C``, and whether rows have an entry for each
class, or none for the last, whose logit is 0.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendretron.accelerate.cpu.compiling import array_at, at, cached, compiled, exact, gather, put
from legendretron.accelerate.cpu.products import add_outer
from legendretron.accelerate.cpu.softmax import load_rows, observe, store_rows
from legendretron.accelerate.cpu.vector_code import vector_function
from legendretron.accelerate.cpu.vectors import exp_differences, extremes, fill, highest, log_plus

__all__ = [
    "NestRows",
    "Nests",
    "evaluate_nests",
    "mix",
    "nested_loss",
    "nests_backward",
    "nests_probabilities",
    "new_rows",
    "prepare_nests",
]

Array = NDArray[Any]


@vector_function
def _highest_of_scaled(code, y, py, stride, top, offsets, p_offset, n_classes, scale, most, width):
    """``most`` is the highest of ``scale (y - top) + offset`` over the classes; a class has ``stride`` entries of ``y``."""
    with code.pieces(width) as j:
        first, best = top.load(j), code.total(-math.inf)
        with code.loop(n_classes) as k:
            value = (y.load(j + py + k * stride) - first) * scale + offsets.load(p_offset + k, 1)
            best.set(value.where(">", best.get(), value, best.get()))
        most.store(j, best.get())


@vector_function
def _nest_exponentials(
    code, y, py, stride, top, offsets, p_offset, n_classes, scale, most, e, pe, total, weighted, p, width
):
    """``e = exp(scale (y - top) + offset - most)``, its sum over the classes, and that of ``e (y - top)``.

    The exponent must not be positive. A class has ``stride`` entries of ``y`` and ``width`` of ``e``.
    """
    with code.pieces(width) as j:
        first, subtracted = top.load(j), most.load(j)
        sums, weighted_sums = code.total(), code.total()
        with code.loop(n_classes) as k:
            own = y.load(j + py + k * stride) - first
            value = code.exp(own * scale + (offsets.load(p_offset + k, 1) - subtracted))
            e.store(j + pe + k * width, value)
            sums.add(value)
            weighted_sums.add(value * own)
        total.store(p + j, sums.get())
        weighted.store(p + j, weighted_sums.get())


@vector_function
def _mix_nests(code, e, share, slope, n_nests, n_classes, out, po, stride, best, width):
    """``out = sum_m e_m slope_m`` for every class, and the number of the class with the highest ``sum_m e_m share_m``.

    Among equals that is the first, and the last of two. ``e`` has ``width`` entries for every nest and class, ``share`` and
    ``slope`` for every nest, ``out`` has ``stride`` for every class.
    """
    with code.pieces(width) as j:
        most, number = code.total(-1.0), code.total()
        with code.loop(n_classes) as k:
            mixed, sloped = code.total(), code.total()
            with code.loop(n_nests) as m:
                value = e.load(j + (m * n_classes + k) * width)
                mixed.add(value * share.load(j + m * width))
                sloped.add(value * slope.load(j + m * width))
            out.store(j + po + k * stride, sloped.get())
            p, before = mixed.get(), most.get()
            # the number of the class where it is likelier than those before
            likelier = p.where(">", before, k.number(), number.get())
            number.set(n_classes.where("==", 2, p.where(">=", before, k.number(), number.get()), likelier))
            most.set(p.where(">", before, p, before))
        best.store(j, number.get())


@vector_function
def _share_cotangents(
    code, e, pe, ratio, y, py, top, share, ps, mu, n_classes, dx, offsets, po, sums, p_sum, weighted, width
):
    """Cotangents ``c = e share ratio`` of a nest's logits: add ``mu c`` to ``dx``, and sums over rows to ``offsets``.

    Sums of ``c`` and of ``c (y - top)`` over the classes are added to those of each row. Arrays have ``width`` entries for
    every class.
    """
    with code.loop(n_classes) as k:
        total = code.total()
        with code.pieces(width) as j:
            place = j + k * width
            own = share.load(ps + j) * ratio.load(place) * e.load(pe + place)
            dx.store(place, dx.load(place) + own * mu)
            total.add(own)
            sums.store(p_sum + j, sums.load(p_sum + j) + own)
            weighted.store(j, weighted.load(j) + own * (y.load(py + place) - top.load(j)))
        offsets.store(po + k, total.get().sum(offsets.load(po + k, 1)))


class NestRows(NamedTuple):
    """What the formulas need at a block of rows: arrays of nests, then of rows alone."""

    inverse: Array  #: one over the sum of exponentials
    weighted: Array  #: sum of exponentials times ``x - max x``
    log_sum: Array
    pi: Array
    share: Array  #: what exponentials are multiplied by in ``p``, ``pi`` over their sum
    slope: Array
    shared: Array  #: ``R_m``, sum of the nest's shares over the classes
    e: Array  #: exponentials, of every nest and class
    top: Array  #: ``max x``
    most: Array  #: the highest gate
    total: Array  #: sum of exponentials of the gates
    best: Array  #: the likeliest class
    cotangent: Array  #: sum of cotangents of ``log p`` over the classes


@compiled
def new_rows(n_nests, n_classes, part, like):
    """Memory for blocks of ``part`` rows."""
    size, kind = n_nests * part, like.dtype
    return NestRows(
        np.empty(size, kind), np.empty(size, kind), np.empty(size, kind), np.empty(size, kind), np.empty(size, kind),
        np.empty(size, kind), np.empty(size, kind), np.empty(size * n_classes, kind), np.empty(part, kind),
        np.empty(part, kind), np.empty(part, kind), np.empty(part, kind), np.empty(part, kind),
    )  # fmt: skip


class Nests(NamedTuple):
    """Parameters of all nests as the formulas use them."""

    mu: Array
    beta: float
    bias: Array  #: of the gates
    offsets: Array  #: (M, C)
    largest: Array  #: the largest offset of each nest
    smallest: Array


@compiled
def prepare_nests(theta, start, n_out, n_nests, like):
    """From the parameters in ``theta``, from ``start`` on."""
    kind, size, n_classes = theta.dtype.type, like.dtype, n_out + 1
    mu, bias, offsets = np.empty(n_nests, size), np.empty(n_nests, size), np.empty(n_nests * n_classes, size)
    largest, smallest = np.empty(n_nests, size), np.empty(n_nests, size)
    p_c = start + n_nests + 1
    p_reference = p_c + n_nests * n_out
    for m in range(n_nests):
        mu[m] = math.exp(theta[start + m])
        bias[m] = theta[p_reference + n_nests + m]
        low = high = theta[p_reference + m]
        offsets[m * n_classes + n_out] = low
        for k in range(n_out):
            own = at(theta, p_c + m * n_out + k)
            put(offsets, m * n_classes + k, own)
            low, high = min(low, own), max(high, own)
        largest[m], smallest[m] = high, low
    return Nests(mu, kind(math.exp(theta[start + n_nests])), bias, offsets, largest, smallest)


@compiled
def least_exact(like):
    """Probabilities from here on are exact sums of exponentials; smaller ones have to be computed from logarithms."""
    return 1e-20 if like.itemsize == 4 else 1e-150


@compiled
def evaluate_nests(nests, n_nests, n_classes, y, begin, stride, mask, rows, part):
    """From logits, of which a class has ``stride`` entries and the first row is at ``begin``, to all of ``rows``.

    Logits lower than the largest by more than ``-mask`` count as ``mask`` below it, where nothing is left of them.
    """
    kind = y.dtype.type
    zero, one = kind(0), kind(1)
    top, most, total, e = rows.top, rows.most, rows.total, rows.e
    # lowered by more than this, the largest exponent could underflow
    widest = 20.0 if y.itemsize == 4 else 300.0
    for j in range(part):
        put(top, j, at(y, begin + j))
    for k in range(1, n_classes):
        highest(y, k * stride + begin, zero, top, rows.best, part)
    if mask > -math.inf:  # differences take the place of the logits: beside a large one, the mask would be rounded off
        for k in range(n_classes):
            for j in range(part):
                below = at(y, k * stride + begin + j) - at(top, j)
                put(y, k * stride + begin + j, kind(mask) if below < mask else below)
        fill(top, 0, part, zero)
    for m in range(n_nests):
        c, p, mu = m * n_classes, m * part, nests.mu[m]
        if nests.largest[m] - nests.smallest[m] <= widest:
            fill(most, 0, part, nests.largest[m])
        else:
            _highest_of_scaled(y, begin, stride, top, nests.offsets, c, n_classes, mu, most, part)
        _nest_exponentials(
            y, begin, stride, top, nests.offsets, c, n_classes, mu, most, e, p * n_classes, rows.inverse, rows.weighted, p,
            part,
        )  # fmt: skip
        log_plus(rows.inverse, p, most, 0, rows.log_sum, p, part)
        factor = kind(nests.beta / mu)
        for j in range(part):
            put(rows.pi, p + j, factor * at(rows.log_sum, p + j) + nests.bias[m])
    for j in range(part):
        put(most, j, at(rows.pi, j))
    for m in range(1, n_nests):
        highest(rows.pi, m * part, zero, most, rows.best, part)
    fill(total, 0, part, zero)
    for m in range(n_nests):
        exp_differences(rows.pi, m * part, most, rows.pi, m * part, total, part)
    for m in range(n_nests):
        for j in range(part):
            place = m * part + j
            put(rows.inverse, place, one / at(rows.inverse, place))
            put(rows.pi, place, at(rows.pi, place) / at(total, j))
            put(rows.share, place, at(rows.pi, place) * at(rows.inverse, place))


@compiled
def mix(rows, n_nests, n_classes, p, width):
    """``p = sum_m share_m e_m``."""
    _mix_nests(rows.e, rows.share, rows.share, n_nests, n_classes, p, 0, width, rows.best, width)


@exact
def log_of_small(nests, n_nests, n_classes, k, under, j, rows, part):
    """``log p_k`` of row ``j`` where exponentials have vanished; ``rows.slope`` becomes ``log(pi_m s_mk)``.

    ``under`` is ``x_k - max x``.
    """
    kind = rows.slope.dtype.type
    top = -math.inf
    for m in range(n_nests):
        place = m * part + j
        log_s = nests.mu[m] * under + nests.offsets[m * n_classes + k] - at(rows.log_sum, place)
        # from logarithms, since a gate may have underflowed, too
        gate = kind(nests.beta / nests.mu[m]) * at(rows.log_sum, place) + nests.bias[m]
        log_joint = (gate - at(rows.most, j)) - math.log(at(rows.total, j)) + log_s
        put(rows.slope, place, kind(log_joint))
        top = max(top, log_joint)
    if top == -math.inf:
        return top
    total = 0.0
    for m in range(n_nests):
        total += math.exp(at(rows.slope, m * part + j) - top)
    return top + math.log(total)


@compiled
def pull_back_nests(nests, start, n_out, n_nests, y, begin, stride, grad, rows, part):
    """Add gradients of all parameters but for the shares ``r_mk``, and write those of logits in their place.

    ``rows.shared`` and ``rows.cotangent`` are given; the first is changed.
    """
    kind = y.dtype.type
    zero, n_classes = kind(0), n_out + 1
    p_c = start + n_nests + 1
    p_bias = p_c + n_nests * n_classes
    grad_beta = zero
    for m in range(n_nests):
        mu = nests.mu[m]
        ratio = kind(nests.beta / mu)
        grad_mu = grad_gate = grad_log = zero
        for j in range(part):
            place = m * part + j
            gate = at(rows.shared, place) - at(rows.cotangent, j) * at(rows.pi, place)
            r = (gate * ratio - at(rows.shared, place)) * at(rows.inverse, place)
            grad_mu += r * at(rows.weighted, place)
            grad_gate += gate
            grad_log += gate * at(rows.log_sum, place)
            put(rows.shared, place, r)
            put(rows.slope, place, mu * r)
        grad_beta += ratio * grad_log
        grad[start + m] += mu * grad_mu - ratio * grad_log
        grad[p_bias + m] += grad_gate
    grad[start + n_nests] += grad_beta
    _mix_nests(rows.e, rows.share, rows.slope, n_nests, n_classes, y, begin, stride, rows.best, part)
    for m in range(n_nests):
        p_e = m * n_classes * part
        add_outer(rows.shared, m * part, 1, rows.e, p_e, n_out, grad, p_c + m * n_out, part)
        add_outer(rows.shared, m * part, 1, rows.e, p_e + n_out * part, 1, grad, p_c + n_nests * n_out + m, part)


@compiled
def nested_loss(nests, start, n_out, n_nests, y, rate, labels, weights, first, n, rows, grad, width, part):
    """Weighted sums of log-losses and of hits, and the gradient in the logit of the rate of noise.

    The gradient in ``y`` takes its place, and those in the nests' parameters are added to ``grad``.
    """
    kind = y.dtype.type
    zero = kind(0)
    n_classes = n_out + 1
    p_c = start + n_nests + 1
    shared, through = rows.shared, np.empty(part, y.dtype)
    loss = hits = grad_rate = 0.0
    for begin in range(0, width, part):
        if begin >= n:
            for k in range(n_out):
                fill(y, k * width + begin, width - begin, zero)
            break
        evaluate_nests(nests, n_nests, n_classes, y, begin, width, -math.inf, rows, part)
        fill(rows.cotangent, 0, part, zero)  # padding does not count
        fill(shared, 0, n_nests * part, zero)
        fill(through, 0, part, zero)
        for j in range(min(part, n - begin)):
            label, weight = at(labels, first + begin + j), at(weights, first + begin + j)
            under = at(y, label * width + begin + j) - at(rows.top, j)
            p = 0.0
            for m in range(n_nests):
                joint = at(rows.share, m * part + j) * at(rows.e, (m * n_classes + label) * part + j)
                put(shared, m * part + j, joint)
                p += joint
            nll = -math.log(p)
            if not p > least_exact(y) and p == p:  # underflow: computed again from logarithms
                nll = -log_of_small(nests, n_nests, n_classes, label, under, j, rows, part)
                p = 0.0
                for m in range(n_nests):
                    joint = kind(math.exp(at(rows.slope, m * part + j) + nll))
                    put(shared, m * part + j, joint)
                    p += joint
            kept = 1.0
            if rate > 0.0:
                nll, kept, slope = observe(nll, rate, n_classes)
                grad_rate += weight * slope
            loss += weight * nll
            put(rows.cotangent, j, kind(-kept * weight))
            factor = kind(-kept * weight / p)
            for m in range(n_nests):
                share = factor * at(shared, m * part + j)
                put(shared, m * part + j, share)
                # the reference class has its offsets after all others
                place = p_c + m * n_out + label if label < n_out else p_c + n_nests * n_out + m
                put(grad, place, at(grad, place) + share)
                put(grad, start + m, at(grad, start + m) + nests.mu[m] * share * under)
                put(through, j, at(through, j) + nests.mu[m] * share)
        pull_back_nests(nests, start, n_out, n_nests, y, begin, width, grad, rows, part)
        for j in range(min(part, n - begin)):
            label = at(labels, first + begin + j)
            place = label * width + begin + j
            put(y, place, at(y, place) + at(through, j))
            if label == at(rows.best, j):
                hits += at(weights, first + begin + j)
    return loss, hits, grad_rate


@compiled
def _mask(all_classes, like):
    """Differences to the largest logit below which a class is masked; without an entry for each class, none is."""
    return -math.sqrt(np.finfo(like.dtype).max) if all_classes else -math.inf


@compiled
def _gather_parameters(where, n_nests, n_out, like):
    """All parameters one after the other."""
    return gather(where, (n_nests, 1, n_nests * n_out, n_nests, n_nests), 5, 1, like)


@cached
def nests_probabilities(like, where, first, last, width, sizes, x, log, out):
    """Write log-probabilities, or probabilities, ``(n, C)`` of rows; returns whether all log-probabilities are finite."""
    n_nests, n_classes, all_classes = sizes
    n_out, given, kind = n_classes - 1, n_classes if all_classes else n_classes - 1, like.dtype.type
    largest, least_p, mask = np.finfo(like.dtype).max, least_exact(like), _mask(all_classes, like)
    nests = prepare_nests(_gather_parameters(where, n_nests, n_out, like), 0, n_out, n_nests, like)
    x, out = array_at(x, last * given, like), array_at(out, last * n_classes, like)
    rows = new_rows(n_nests, n_classes, width, like)
    y, p = np.empty(n_classes * width, like.dtype), np.empty(n_classes * width, like.dtype)
    logs = np.empty(n_classes * width if log else 0, like.dtype)
    zeros = np.zeros(n_classes * width if log else 0, like.dtype)
    least, spare = np.empty(width, like.dtype), np.empty(width, like.dtype)
    steepest = nests.mu.max()
    all_finite = True
    for begin in range(first, last, width):
        count = min(width, last - begin)
        load_rows(x, begin, count, given, y, 0, width)
        if not all_classes:
            fill(y, n_out * width, width, kind(0))
        evaluate_nests(nests, n_nests, n_classes, y, 0, width, mask, rows, width)
        mix(rows, n_nests, n_classes, p, width)
        fill(least, 0, width, kind(math.inf))
        for k in range(n_classes):
            extremes(y, k * width, spare, least, width)
        for j in range(count):
            finite = at(rows.total, j) <= largest and steepest * (at(least, j) - at(rows.top, j)) >= -largest
            all_finite = all_finite and finite  # false for NaN
        if not log:
            store_rows(p, 0, begin, count, n_classes, out, width)
            continue
        log_plus(p, 0, zeros, 0, logs, 0, n_classes * width)
        for k in range(n_classes):
            for j in range(count):
                place = k * width + j
                if at(p, place) < least_p:
                    under = at(y, place) - at(rows.top, j)
                    value = log_of_small(nests, n_nests, n_classes, k, under, j, rows, width)
                    put(logs, place, kind(-math.inf if under < 0.99 * mask else value))
                elif at(p, place) >= kind(1):
                    put(logs, place, kind(0))
        store_rows(logs, 0, begin, count, n_classes, out, width)
    return all_finite


@cached
def nests_backward(like, where, first, last, width, sizes, x, log_p, g, dx, gradient):
    """Pull cotangents ``g`` of log-probabilities back to ``x`` and all parameters, one after the other.

    ``dx`` or ``gradient`` is 0 if it is not wanted. ``log_p`` is not used: it may have lost what is small.
    """
    n_nests, n_classes, all_classes = sizes
    n_out, given, kind = n_classes - 1, n_classes if all_classes else n_classes - 1, like.dtype.type
    least_p, mask, p_c = least_exact(like), _mask(all_classes, like), n_nests + 1
    theta = _gather_parameters(where, n_nests, n_out, like)
    nests = prepare_nests(theta, 0, n_out, n_nests, like)
    x, dx, g = array_at(x, last * given, like), array_at(dx, last * given, like), array_at(g, last * n_classes, like)
    grad = array_at(gradient, theta.shape[0], like) if gradient != 0 else np.empty(theta.shape[0], like.dtype)
    fill(grad, 0, theta.shape[0], kind(0))
    rows = new_rows(n_nests, n_classes, width, like)
    y, p = np.empty(n_classes * width, like.dtype), np.empty(n_classes * width, like.dtype)
    ratio, grad_y = np.empty(n_classes * width, like.dtype), np.empty(n_classes * width, like.dtype)
    weighted = np.empty(width, like.dtype)
    for begin in range(first, last, width):
        count = min(width, last - begin)
        load_rows(x, begin, count, given, y, 0, width)
        if not all_classes:
            fill(y, n_out * width, width, kind(0))
        evaluate_nests(nests, n_nests, n_classes, y, 0, width, mask, rows, width)
        mix(rows, n_nests, n_classes, p, width)
        load_rows(g, begin, count, n_classes, ratio, 0, width)
        fill(grad_y, 0, n_classes * width, kind(0))
        fill(rows.shared, 0, n_nests * width, kind(0))
        for k in range(n_classes):
            for j in range(width):
                place = k * width + j
                if not at(p, place) < least_p:
                    put(ratio, place, at(ratio, place) / at(p, place))
                    continue
                g_row, under = at(ratio, place), at(y, place) - at(rows.top, j)
                put(ratio, place, kind(0))
                if j >= count or under < 0.99 * mask:
                    continue
                log_small = log_of_small(nests, n_nests, n_classes, k, under, j, rows, width)
                for m in range(n_nests):
                    share = g_row * kind(math.exp(min(at(rows.slope, m * width + j) - log_small, 0.0)))
                    put(rows.shared, m * width + j, at(rows.shared, m * width + j) + share)
                    grad[p_c + m * n_out + k if k < n_out else p_c + n_nests * n_out + m] += share
                    grad[m] += nests.mu[m] * share * under
                    put(grad_y, place, at(grad_y, place) + nests.mu[m] * share)
        for m in range(n_nests):
            fill(weighted, 0, width, kind(0))
            p_e, p_sum = m * n_classes * width, m * width
            _share_cotangents(
                rows.e, p_e, ratio, y, 0, rows.top, rows.share, p_sum, nests.mu[m], n_out, grad_y, grad, p_c + m * n_out,
                rows.shared, p_sum, weighted, width,
            )  # fmt: skip
            last_class = n_out * width
            _share_cotangents(
                rows.e, p_e + last_class, ratio[last_class:], y, last_class, rows.top, rows.share, p_sum, nests.mu[m], 1,
                grad_y[last_class:], grad, p_c + n_nests * n_out + m, rows.shared, p_sum, weighted, width,
            )  # fmt: skip
            for j in range(width):
                grad[m] += nests.mu[m] * at(weighted, j)
        fill(rows.cotangent, 0, width, kind(0))
        for m in range(n_nests):
            for j in range(width):
                put(rows.cotangent, j, at(rows.cotangent, j) + at(rows.shared, m * width + j))
        pull_back_nests(nests, 0, n_out, n_nests, y, 0, width, grad, rows, width)
        if dx.shape[0] > 0:
            for i in range(n_classes * width):
                put(grad_y, i, at(grad_y, i) + at(y, i))
            store_rows(grad_y, 0, begin, count, given, dx, width)
