r"""The units of ridge blocks, and the log-loss with symmetric noise, as parts of Triton kernels.

Units are tiles of some rows by the units of a layer. The formulas are those of :mod:`legendretron.potentials.ficnn`. Units
have scales and shifts, :math:`t = s \odot (A x + m)`, which are 1 and the bias in a plain network; CP-Flow's normalization is
folded into them and into the mixing weights. The numbers of a block, which :func:`fold_kernel` writes, are in this order,
with :math:`r = M H + 1` units and mixing weights of shape ``(ROWS, H)``: scales :math:`s`, shifts :math:`m`, mixing weights
times the scale of the unit that they feed, the same without it, their derivatives in the raw ones, :math:`\alpha`,
:math:`\gamma`, and their derivatives.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = [
    "fold_kernel",
    "load_noise_rate",
    "observed_loss",
    "store_folded_gradients",
    "units_backward",
    "units_forward",
]


@triton.jit
def activate(x):
    """The softplus ``log(1 + exp(x))``, its derivative ``s(x)``, and ``s(-x) = 1 - s(x)``, with one exponential."""
    e = tl.exp(-tl.abs(x))
    u = 1.0 + e
    high = 1.0 / u
    low = e * high
    # log(1 + e) to full relative accuracy, also where 1 + e has rounded
    log1p = tl.where(u == 1.0, e, tl.log(u) * (e / tl.where(u == 1.0, 1.0, u - 1.0)))
    positive = tl.where(x > 0.0, x, 0.0) + log1p
    return positive, tl.where(x >= 0.0, high, low), tl.where(x >= 0.0, low, high)


@triton.jit
def sigmoid(x):
    """``1 / (1 + exp(-x))``."""
    return activate(x)[1]


@triton.jit
def load_noise_rate(flat, run, P, known, LEARNED: tl.constexpr, NOISY: tl.constexpr):
    """The noise rate, whose logit is the last parameter if it is learned; None without noise."""
    rate = None
    if LEARNED:
        rate = sigmoid(tl.load(flat + run * P + P - 1))
    elif NOISY:
        rate = tl.load(known)
    return rate


@triton.jit
def observed_loss(nll, rate, weight, n_classes):
    """Log-loss of an observed label, its gradient in the rate's logit, and the weight of the gradient in the log-odds.

    With symmetric noise ``q = (1 - rate) p + rate / C``.
    """
    p = tl.exp(-nll)
    uniform = (1.0 + 0.0 * weight) / n_classes  # in the precision of the weight
    q = (1.0 - rate) * p + rate * uniform
    return -tl.log(q), weight * rate * (1.0 - rate) * (p - uniform) / q, weight * (1.0 - rate) * p / q


@triton.jit
def fold_kernel(
    numbers, parameters, STRIDE, B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr,
    RANK: tl.constexpr, MIXING: tl.constexpr, NORMED: tl.constexpr, FLOOR: tl.constexpr,
):  # fmt: skip
    """From the raw parameters of a run to the numbers of all of its blocks."""
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    EACH: tl.constexpr = 8 if NORMED else 5
    run = tl.program_id(0).to(tl.int64)
    units = tl.arange(0, RANK)
    entries = tl.arange(0, MIXING)
    inside = entries < ROWS * H
    for b in tl.static_range(B):
        out = numbers + (run * B + b) * (2 * R + 3 * ROWS * H + 4)
        shift = tl.load(parameters[EACH * b + 1] + run * STRIDE + units, units < R, 0.0)
        scale = tl.full((RANK,), 1.0, shift.dtype)
        feeds = tl.full((MIXING,), 1.0, shift.dtype)
        if NORMED:
            middle = (units >= H) & (units % H < MIXED) & (units < R - 1)
            place = tl.where(units == R - 1, ROWS - 1, (units // H - 1) * MIXED + units % H)
            log_scale = parameters[EACH * b + 6] + run * STRIDE
            raw = tl.load(log_scale + place, middle | (units == R - 1), 0.0)
            scale = tl.where(middle | (units == R - 1), tl.exp(raw) + FLOOR, scale)
            shift += tl.load(parameters[EACH * b + 5] + run * STRIDE + place, middle, 0.0)
            shift += tl.load(parameters[EACH * b + 7] + run * STRIDE + place, middle, 0.0) / H
            feeds = tl.exp(tl.load(log_scale + entries // H, inside, 0.0)) + FLOOR
        tl.store(out + units, scale, units < R)
        tl.store(out + R + units, shift, units < R)
        raw_mixing = tl.load(parameters[EACH * b + 2] + run * STRIDE + entries, inside, 0.0)
        positive, slope, _ = activate(raw_mixing)
        mixing = positive / H
        tl.store(out + 2 * R + entries, mixing * feeds, inside)
        tl.store(out + 2 * R + ROWS * H + entries, mixing, inside)
        tl.store(out + 2 * R + 2 * ROWS * H + entries, feeds * slope / H, inside)
        last = out + 2 * R + 3 * ROWS * H
        for i in tl.static_range(2):  # alpha and gamma
            scalar, slope_of_scalar, _ = activate(tl.load(parameters[EACH * b + 3 + i] + run * STRIDE))
            tl.store(last + i, scalar)
            tl.store(last + 2 + i, slope_of_scalar)


@triton.jit
def store_folded_gradients(
    sums, numbers, out, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, RANK: tl.constexpr,
    MIXING_ROWS: tl.constexpr, UNITS: tl.constexpr, NORMED: tl.constexpr, FLOOR: tl.constexpr,
):  # fmt: skip
    """From gradients of a block's scales, shifts, mixing weights, alpha and gamma to those of its raw parameters."""
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    units = tl.arange(0, RANK)
    scale = tl.load(numbers + units, units < R, 0.0)
    grad_shift = scale * tl.load(sums + R + units, units < R, 0.0)
    tl.store(out + units, grad_shift, units < R)
    rows = tl.arange(0, MIXING_ROWS)
    columns = tl.arange(0, UNITS)
    entries = rows[:, None] * H + columns[None, :]
    inside = (rows < ROWS)[:, None] & (columns < H)[None, :]
    grad_mixing = tl.load(sums + 2 * R + entries, inside, 0.0)
    slope = tl.load(numbers + 2 * R + 2 * ROWS * H + entries, inside, 0.0)
    tl.store(out + R + entries, grad_mixing * slope, inside)
    last = numbers + 2 * R + 3 * ROWS * H
    for i in tl.static_range(2):  # alpha and gamma
        grad = tl.load(sums + 2 * R + ROWS * H + i) * tl.load(last + 2 + i)
        tl.store(out + R + ROWS * H + i, grad)
    if NORMED:
        norm = out + R + ROWS * H + 2  # shifts, logarithms of scales, biases of the mixing
        fed = tl.where(rows < ROWS - 1, (rows // MIXED + 1) * H + rows % MIXED, R - 1)
        scale_of_row = tl.load(numbers + fed, rows < ROWS, 0.0)
        unscaled = tl.load(numbers + 2 * R + ROWS * H + entries, inside, 0.0)
        grad_scale = tl.load(sums + fed, rows < ROWS, 0.0) + tl.sum(grad_mixing * unscaled, 1)
        tl.store(norm + ROWS - 1 + rows, grad_scale * (scale_of_row - FLOOR), rows < ROWS)
        grad_bias = scale_of_row * tl.load(sums + R + fed, rows < ROWS, 0.0)
        tl.store(norm + rows, grad_bias, rows < ROWS - 1)
        tl.store(norm + 2 * ROWS - 1 + rows, grad_bias / H, rows < ROWS - 1)


@triton.jit
def _layer(k: tl.constexpr, H: tl.constexpr, UNITS: tl.constexpr):
    """Places of the units of layer ``k``, and which of them there are."""
    units = tl.arange(0, UNITS)
    return k * H + units, units < H


@triton.jit
def _mixing(numbers, k: tl.constexpr, H: tl.constexpr, MIXED: tl.constexpr, UNITS: tl.constexpr):
    """Weights from layer ``k`` to units of the next, shape (UNITS, UNITS), with zeros where there are none."""
    units = tl.arange(0, UNITS)
    place = (k * MIXED + units)[:, None] * H + units[None, :]
    return tl.load(numbers + place, (units < MIXED)[:, None] & (units < H)[None, :], 0.0)


@triton.jit
def _last_mixing(numbers, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, UNITS: tl.constexpr):
    """Weights from the last layer to the output, shape (UNITS,)."""
    units = tl.arange(0, UNITS)
    return tl.load(numbers + (M - 1) * MIXED * H + units, units < H, 0.0)


@triton.jit
def _mix(p, x):
    """``P x`` for each row of ``x``."""
    return tl.sum(p[None, :, :] * x[:, None, :], 2)


@triton.jit
def _pull_back(p, y):
    """``P' y`` for each row of ``y``."""
    return tl.sum(p[None, :, :] * y[:, :, None], 1)


@triton.jit
def units_forward(
    state, own, real, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, UNITS: tl.constexpr, SOFT: tl.constexpr
):
    """Of some rows, whose ``state`` begins with ``A x``: write ``zeta`` and ``gamma s d`` behind it.

    The output unit is the last. With ``d`` the gradient of the network, ``gamma A' (s d)`` is what a block adds.
    """
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    mixing = own + 2 * R
    gamma = tl.load(own + 2 * R + 3 * ROWS * H + 1)
    slopes = ()
    for k in tl.static_range(M):
        units, there = _layer(k, H, UNITS)
        here = real[:, None] & there[None, :]
        scale = tl.load(own + units, there, 0.0)
        shift = tl.load(own + R + units, there, 0.0)
        zeta = scale[None, :] * (tl.load(state[:, None] + units[None, :], here, 0.0) + shift[None, :])
        if k > 0:
            zeta += _mix(_mixing(mixing, k - 1, H, MIXED, UNITS), positive)  # noqa: F821
        tl.store(state[:, None] + R + units[None, :], zeta, here)
        positive, slope, _ = activate(zeta)
        slopes = slopes + (slope,)
    p = _last_mixing(mixing, H, M, MIXED, UNITS)
    scale = tl.load(own + R - 1)
    zeta = scale * (tl.load(state + R - 1, real, 0.0) + tl.load(own + 2 * R - 1)) + tl.sum(p[None, :] * positive, 1)
    tl.store(state + 2 * R - 1, zeta, real)
    e = 1.0 + 0.0 * zeta  # the slope of the output
    if SOFT:
        _, e, _ = activate(zeta)
    tl.store(state + 3 * R - 1, gamma * scale * e, real)
    w = p[None, :] * e[:, None]
    for k in tl.static_range(M - 1, -1, -1):
        units, there = _layer(k, H, UNITS)
        d = slopes[k] * w
        scales = tl.load(own + units, there, 0.0)
        tl.store(state[:, None] + 2 * R + units[None, :], gamma * scales[None, :] * d, real[:, None] & there[None, :])
        if k > 0:
            w = _pull_back(_mixing(mixing, k - 1, H, MIXED, UNITS), d)


@triton.jit
def units_backward(
    state, seen, own, real, out, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, UNITS: tl.constexpr,
    SOFT: tl.constexpr,
):  # fmt: skip
    """Of some rows, with ``A dy`` in ``seen``: replace ``zeta`` in their state by the cotangent of ``A x``.

    Writes to ``out`` the sums over these rows of the gradients of scales, shifts, mixing weights and gamma. That of alpha
    needs all classes and is left out.
    """
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    mixing = own + 2 * R
    gamma = tl.load(own + 2 * R + 3 * ROWS * H + 1)
    p = _last_mixing(mixing, H, M, MIXED, UNITS)
    # upwards: cotangents of d and of w, by d = s'(zeta) w and w = P' d of the layer above
    positives = ()
    slopes = ()
    bends = ()
    cot_ws = ()
    for k in tl.static_range(M):
        units, there = _layer(k, H, UNITS)
        here = real[:, None] & there[None, :]
        positive, slope, low = activate(tl.load(state[:, None] + R + units[None, :], here, 0.0))
        scale = tl.load(own + units, there, 0.0)
        cot_d = gamma * scale[None, :] * tl.load(seen[:, None] + units[None, :], here, 0.0)
        if k > 0:
            cot_d += _mix(_mixing(mixing, k - 1, H, MIXED, UNITS), cot_ws[k - 1])
        cot_w = cot_d * slope
        positives = positives + (positive,)
        slopes = slopes + (slope,)
        bends = bends + (cot_w * low,)  # to be multiplied by w
        cot_ws = cot_ws + (cot_w,)
    zeta = tl.load(state + 2 * R - 1, real, 0.0)
    scale = tl.load(own + R - 1)
    v = tl.load(seen + R - 1, real, 0.0)
    e = 1.0 + 0.0 * zeta  # the slope of the output
    cot_zeta = 0.0 * zeta
    if SOFT:
        _, e, low = activate(zeta)
        cot_zeta = e * low * (gamma * scale * v + tl.sum(p[None, :] * cot_ws[M - 1], 1))
    cot_zeta = tl.where(real, cot_zeta, 0.0)
    # padding rows have v = 0, and all cotangents are linear in v
    before = tl.load(state + R - 1, real, 0.0) + tl.load(own + 2 * R - 1)
    tl.store(out + R - 1, tl.sum(cot_zeta * before + gamma * e * v))
    tl.store(out + 2 * R - 1, tl.sum(cot_zeta))
    units = tl.arange(0, UNITS)
    grad_p = tl.sum(e[:, None] * cot_ws[M - 1] + cot_zeta[:, None] * positives[M - 1], 0)
    tl.store(out + 2 * R + (M - 1) * MIXED * H + units, grad_p, units < H)
    grad_gamma = e * scale * v
    tl.store(state + 2 * R - 1, scale * cot_zeta, real)
    # downwards: cotangents of zeta, by zeta = t + P softplus(zeta) of the layer below
    w = p[None, :] * e[:, None]
    passed = p[None, :] * cot_zeta[:, None]
    for k in tl.static_range(M - 1, -1, -1):
        units, there = _layer(k, H, UNITS)
        here = real[:, None] & there[None, :]
        d = slopes[k] * w
        cot = bends[k] * w + slopes[k] * passed
        scales = tl.load(own + units, there, 0.0)
        seen_here = tl.load(seen[:, None] + units[None, :], here, 0.0)
        before_here = tl.load(state[:, None] + units[None, :], here, 0.0)
        before_here += tl.load(own + R + units, there, 0.0)[None, :]
        tl.store(out + units, tl.sum(cot * before_here + gamma * d * seen_here, 0), there)
        tl.store(out + R + units, tl.sum(cot, 0), there)
        grad_gamma += tl.sum(d * scales[None, :] * seen_here, 1)
        tl.store(state[:, None] + R + units[None, :], scales[None, :] * cot, here)
        if k > 0:
            pairs = d[:, :, None] * cot_ws[k - 1][:, None, :] + cot[:, :, None] * positives[k - 1][:, None, :]
            place = ((k - 1) * MIXED + tl.arange(0, UNITS))[:, None] * H + tl.arange(0, UNITS)[None, :]
            fed = (tl.arange(0, UNITS) < MIXED)[:, None] & there[None, :]
            tl.store(out + 2 * R + place, tl.sum(pairs, 0), fed)
            weights = _mixing(mixing, k - 1, H, MIXED, UNITS)
            w = _pull_back(weights, d)
            passed = _pull_back(weights, cot)
    tl.store(out + 2 * R + ROWS * H + 1, tl.sum(tl.where(real, grad_gamma, 0.0)))
