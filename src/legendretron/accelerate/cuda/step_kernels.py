r"""A training step's work on the rows of a batch, for many runs at once, as Triton kernels: from predictors to gradients.

Parameters are read where training keeps them: a row of ``flat`` holds ``W``, the bias, and then those of the link. This file
has links that are chains of ridge blocks (none: softmax+), with the formulas of :mod:`legendretron.potentials.ridge`: with
all layers of a block written as one, ``P`` the mixing weights and ``s`` the softplus,

.. math::

    \zeta = t + P s(\zeta), \quad \zeta_o = t_o + p^\top s(\zeta), \qquad
    w = p\,e + P^\top d, \quad d = s'(\zeta) \odot w, \quad e = \phi'(\zeta_o).

With normalisation (``network="cpflow"``) units have scales :math:`\sigma_u = e^{s_u} + \epsilon` and shifts, which are folded
into what surrounds them: :math:`t_u = \sigma_u (A_u x + b_u + m_u)` and :math:`P'_{uj} = \sigma_u P_{uj}`. So ``A`` is used
as it is stored.

There are two ways to a step. Few classes: one program takes some rows of a run through the link, their loss and back, and all
that it needs stays in registers. Many classes: products with ``A`` are left to matrix multiplication, and kernels do what is
between: the units of some rows at a time, and the log-loss.
"""

from __future__ import annotations

import triton
import triton.language as tl

from legendretron.accelerate.cuda.link_kernels import _downwards, _sigmoid, _softplus, _upwards

__all__ = [
    "add_bias_kernel",
    "add_parts_kernel",
    "add_units_kernel",
    "constants_kernel",
    "loss_kernel",
    "noise_rate",
    "observed_loss",
    "spread_kernel",
    "tile_step_kernel",
    "units_backward_kernel",
    "units_forward_kernel",
]


@triton.jit
def observed_loss(nll, rate, weight, K):
    """Log-loss of an observed label, its gradient in the rate's logit, and what the gradient in the log-odds is weighted by.

    With symmetric noise ``q = (1 - rate) p + rate / C``.
    """
    p = tl.exp(-nll)
    even = (1.0 + 0.0 * weight) / (K + 1)  # in the precision of the weight
    q = (1.0 - rate) * p + rate * even
    return -tl.log(q), weight * rate * (1.0 - rate) * (p - even) / q, weight * (1.0 - rate) * p / q


@triton.jit
def noise_rate(flat, run, P, known, LEARNED: tl.constexpr, NOISY: tl.constexpr):
    """The rate of noise, whose logit is the last parameter if it is learned; None without noise."""
    rate = None
    if LEARNED:
        rate = _sigmoid(tl.load(flat + run * P + P - 1))
    elif NOISY:
        rate = tl.load(known)
    return rate


@triton.jit
def constants_kernel(
    flat, constants, K, P, START, B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr,
    RANK: tl.constexpr, MIXING: tl.constexpr, NORMED: tl.constexpr, FLOOR: tl.constexpr,
):  # fmt: skip
    """What all rows of a run share of a block.

    In order: scales and biases of the units, mixing weights times the scale of the unit that they feed, and without it, their
    derivatives in the raw ones, alpha, gamma, and their derivatives.
    """
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    SMALL: tl.constexpr = R + ROWS * H + 2 + (3 * ROWS - 2 if NORMED else 0)
    run = (tl.program_id(0) // B).to(tl.int64)
    bias = flat + run * P + START + tl.program_id(0) % B * (R * K + SMALL) + R * K
    small = bias + R
    norm = small + ROWS * H + 2  # shifts, scales, biases of the mixing
    out = constants + tl.program_id(0) * (2 * R + 3 * ROWS * H + 4)
    units = tl.arange(0, RANK)
    moved = tl.load(bias + units, units < R, 0.0)
    scale = tl.full((RANK,), 1.0, moved.dtype)
    if NORMED:
        middle = (units >= H) & (units % H < MIXED) & (units < R - 1)
        place = tl.where(units == R - 1, ROWS - 1, (units // H - 1) * MIXED + units % H)
        raw = tl.load(norm + ROWS - 1 + place, middle | (units == R - 1), 0.0)
        scale = tl.where(middle | (units == R - 1), tl.exp(raw) + FLOOR, scale)
        moved += tl.load(norm + place, middle, 0.0) + tl.load(norm + 2 * ROWS - 1 + place, middle, 0.0) / H
    tl.store(out + units, scale, units < R)
    tl.store(out + R + units, moved, units < R)
    entries = tl.arange(0, MIXING)
    inside = entries < ROWS * H
    raw_mixing = tl.load(small + entries, inside, 0.0)
    mixing = _softplus(raw_mixing) / H
    feeds = tl.full((MIXING,), 1.0, moved.dtype)
    if NORMED:
        feeds = tl.exp(tl.load(norm + ROWS - 1 + entries // H, inside, 0.0)) + FLOOR
    tl.store(out + 2 * R + entries, mixing * feeds, inside)
    tl.store(out + 2 * R + ROWS * H + entries, mixing, inside)
    tl.store(out + 2 * R + 2 * ROWS * H + entries, feeds * _sigmoid(raw_mixing) / H, inside)
    raw_alpha = tl.load(small + ROWS * H)
    raw_gamma = tl.load(small + ROWS * H + 1)
    last = out + 2 * R + 3 * ROWS * H
    tl.store(last, _softplus(raw_alpha))
    tl.store(last + 1, _softplus(raw_gamma))
    tl.store(last + 2, _sigmoid(raw_alpha))
    tl.store(last + 3, _sigmoid(raw_gamma))


@triton.jit
def _numbers(ptr, N: tl.constexpr):
    """``N`` numbers that every thread holds."""
    values = ()
    for i in tl.static_range(N):
        values = values + (tl.load(ptr + i),)
    return values


@triton.jit
def _slopes(x):
    """Derivatives of the softplus, at ``x`` and at ``-x``."""
    e = tl.exp(-tl.abs(x))
    high = 1.0 / (1.0 + e)
    low = e * high
    return tl.where(x >= 0.0, high, low), tl.where(x >= 0.0, low, high)


@triton.jit
def _forward(before, own, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, NORMED: tl.constexpr):
    """Units of some rows, given ``A x``: ``zeta`` and ``sigma d``, the output's last."""
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    scales = _numbers(own, R)
    moved = _numbers(own + R, R)
    mixing = _numbers(own + 2 * R, ROWS * H)
    t = ()
    nothing = ()
    for u in tl.static_range(R):
        t = t + (scales[u] * (before[u] + moved[u]),)
        nothing = nothing + (0.0,)
    zeta, soft = _upwards(t, mixing, t, H, M, MIXED, True)
    zeta_out = t[R - 1]
    for j in tl.static_range(H):
        zeta_out += mixing[(ROWS - 1) * H + j] * soft[(M - 1) * H + j]
    slope = ()
    for u in tl.static_range(M * H):
        slope = slope + (_slopes(zeta[u])[0],)
    e = 1.0 + 0.0 * zeta_out
    if not NORMED:
        e = _slopes(zeta_out)[0]
    _, d = _downwards(nothing, e, mixing, slope, H, M, MIXED)
    scaled = ()
    for u in tl.static_range(M * H):
        scaled = scaled + (scales[u] * d[u],)
    return zeta + (zeta_out,), scaled + (scales[R - 1] * e,)


@triton.jit
def _backward(
    zeta, before, v, real, own, out, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, NORMED: tl.constexpr,
    FLOOR: tl.constexpr,
):  # fmt: skip
    """Cotangents ``sigma cot_t`` of some rows' units, given ``A dy``; writes sums over rows of all gradients but ``A``'s.

    The gradient of alpha needs all classes and is left out.
    """
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    scales = _numbers(own, R)
    moved = _numbers(own + R, R)
    mixing = _numbers(own + 2 * R, ROWS * H)
    gamma = tl.load(own + 2 * R + 3 * ROWS * H + 1)
    soft = ()
    slope = ()
    bend = ()
    nothing = ()
    up = ()
    for u in tl.static_range(M * H):
        high, low = _slopes(zeta[u])
        soft = soft + (_softplus(zeta[u]),)
        slope = slope + (high,)
        bend = bend + (high * low,)
        nothing = nothing + (0.0,)
        up = up + (gamma * scales[u] * v[u],)
    e = 1.0 + 0.0 * zeta[R - 1]
    bend_out = 0.0 * zeta[R - 1]
    if not NORMED:
        high, low = _slopes(zeta[R - 1])
        e = high
        bend_out = high * low
    w, d = _downwards(nothing, e, mixing, slope, H, M, MIXED)
    # up through d = s' w and w = p e + P^T d
    cot_d, cot_w = _upwards(up, mixing, slope, H, M, MIXED, False)
    v_out = scales[R - 1] * v[R - 1]
    cot_e = gamma * v_out
    for j in tl.static_range(H):
        cot_e += mixing[(ROWS - 1) * H + j] * cot_w[(M - 1) * H + j]
    cot_out = bend_out * cot_e
    # down through zeta = t + P s(zeta)
    bent = ()
    for u in tl.static_range(M * H):
        bent = bent + (cot_d[u] * w[u] * bend[u],)
    _, cot_t = _downwards(bent, cot_out, mixing, slope, H, M, MIXED)
    cots = cot_t + (cot_out,)
    ds = d + (e,)
    of_x = ()
    of_gamma = e * v_out
    for u in tl.static_range(M * H):
        of_gamma += d[u] * scales[u] * v[u]
    for u in tl.static_range(R):
        of_x = of_x + (scales[u] * cots[u],)
        tl.store(out + u, tl.sum(tl.where(real, of_x[u], 0.0)))
    for i in tl.static_range(ROWS):
        # row i of the mixing weights leads from layer i // MIXED to unit i % MIXED of the next, or to the output
        d_unit = ds[(i // MIXED + 1) * H + i % MIXED]
        cot_unit = cots[(i // MIXED + 1) * H + i % MIXED]
        scale = scales[(i // MIXED + 1) * H + i % MIXED]
        of_scale = cot_unit * (before[(i // MIXED + 1) * H + i % MIXED] + moved[(i // MIXED + 1) * H + i % MIXED])
        of_scale += gamma * d_unit * v[(i // MIXED + 1) * H + i % MIXED]
        for j in tl.static_range(H):
            of_p = d_unit * cot_w[(i // MIXED) * H + j] + cot_unit * soft[(i // MIXED) * H + j]
            of_scale += of_p * tl.load(own + 2 * R + ROWS * H + i * H + j)
            factor = tl.load(own + 2 * R + 2 * ROWS * H + i * H + j)
            tl.store(out + R + i * H + j, tl.sum(tl.where(real, of_p, 0.0)) * factor)
        if NORMED:
            norm = out + R + ROWS * H + 2
            tl.store(norm + ROWS - 1 + i, tl.sum(tl.where(real, of_scale, 0.0)) * (scale - FLOOR))
            if i < ROWS - 1:
                of_bias = tl.sum(tl.where(real, scale * cot_unit, 0.0))
                tl.store(norm + i, of_bias)
                tl.store(norm + 2 * ROWS - 1 + i, of_bias / H)
    of_gamma = tl.sum(tl.where(real, of_gamma, 0.0)) * tl.load(own + 2 * R + 3 * ROWS * H + 3)
    tl.store(out + R + ROWS * H + 1, of_gamma)
    return of_x


# --- few classes ---


@triton.jit
def tile_step_kernel(
    z_ptr, flat, constants, labels, weights, points, states, parts, dz_ptr, n_all, n, K, P, START, known_rate, tiles,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, RANK: tl.constexpr, NORMED: tl.constexpr, FLOOR: tl.constexpr, LEARNED: tl.constexpr,
    NOISY: tl.constexpr,
):  # fmt: skip
    """Some rows of one run: forward, log-loss, backward.

    A part holds sums over these rows: the gradients of the bias and of the link, of the rate, then losses and hits. Products
    with ``A`` are of tiles; between them, each thread computes the units of a row, which it gets by way of memory.
    """
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    SMALL: tl.constexpr = R + ROWS * H + 2 + (3 * ROWS - 2 if NORMED else 0)
    CONSTANTS: tl.constexpr = 2 * R + 3 * ROWS * H + 4
    program = tl.program_id(0).to(tl.int64)
    run = program // tiles
    local = (program % tiles) * BLOCK_N + tl.arange(0, BLOCK_N)
    real = local < n
    rows = run * n + local
    every = tl.arange(0, BLOCK_K)
    inside = every < K
    here = real[:, None] & inside[None, :]
    ranks = tl.arange(0, RANK)
    in_rank = real[:, None] & (ranks < R)[None, :]
    in_a = (ranks < R)[:, None] & inside[None, :]
    dtype = dz_ptr.dtype.element_ty
    part = parts + program * (K + B * (R * K + SMALL) + 3)
    x = tl.load(z_ptr + rows[:, None] * K + every[None, :], here, 0.0)
    for b in range(B):
        tl.store(points + (b * n_all + rows)[:, None] * K + every[None, :], x, here)
        own = constants + (run * B + b) * CONSTANTS
        a = tl.load(flat + run * P + START + b * (R * K + SMALL) + ranks[:, None] * K + every[None, :], in_a, 0.0)
        # A x, zeta and gamma sigma d, one after the other
        state = states + (b * n_all + rows) * (3 * R)
        t = tl.dot(x, tl.trans(a), input_precision="ieee", out_dtype=dtype)
        tl.store(state[:, None] + ranks[None, :], t, in_rank)
        tl.debug_barrier()  # what was stored is read by other threads
        before = ()
        for u in tl.static_range(R):
            before = before + (tl.load(state + u, real, 0.0),)
        zeta, scaled = _forward(before, own, H, M, MIXED, NORMED)
        alpha = tl.load(own + CONSTANTS - 4)
        gamma = tl.load(own + CONSTANTS - 3)
        for u in tl.static_range(R):
            tl.store(state + R + u, zeta[u], real)
            tl.store(state + 2 * R + u, gamma * scaled[u], real)
        tl.debug_barrier()
        d = tl.load(state[:, None] + 2 * R + ranks[None, :], in_rank, 0.0)
        x = tl.dot(d, a, alpha * x, input_precision="ieee", out_dtype=dtype)
    label = tl.load(labels + rows, real, 0)
    weight = tl.load(weights + rows, real, 0.0)
    shown = tl.where(inside[None, :], x, float("-inf"))
    highest = tl.max(shown, axis=1)
    top = tl.maximum(highest, 0.0)  # the reference class has log-odds 0
    dy = tl.where(inside[None, :], tl.exp(x - top[:, None]), 0.0)
    total = tl.sum(dy, axis=1) + tl.exp(-top)
    of_label = every[None, :] == label[:, None]
    nll = top - tl.sum(tl.where(of_label, x, 0.0), axis=1) + tl.log(total)
    # among equals the first class counts, and the last of two
    first = tl.min(tl.where(shown == highest[:, None], every[None, :], BLOCK_K), axis=1)
    best = tl.where((highest > 0.0) | ((highest == 0.0) & (K > 1)), first, K)
    rate = noise_rate(flat, run, P, known_rate, LEARNED, NOISY)
    kept = weight
    if rate is not None:
        nll, of_rate, kept = observed_loss(nll, rate, weight, K)
        if LEARNED:
            tl.store(part + K + B * (R * K + SMALL), tl.sum(of_rate))
    tl.store(part + K + B * (R * K + SMALL) + 1, tl.sum(weight * nll))
    tl.store(part + K + B * (R * K + SMALL) + 2, tl.sum(tl.where(best == label, weight, 0.0)))
    dy = kept[:, None] * (dy / total[:, None] - tl.where(of_label & inside[None, :], 1.0, 0.0))
    for done in range(B):
        b = B - 1 - done
        own = constants + (run * B + b) * CONSTANTS
        out = part + K + b * (R * K + SMALL)
        a = tl.load(flat + run * P + START + b * (R * K + SMALL) + ranks[:, None] * K + every[None, :], in_a, 0.0)
        state = states + (b * n_all + rows) * (3 * R)
        d = tl.load(state[:, None] + 2 * R + ranks[None, :], in_rank, 0.0)
        zeta = ()
        before = ()
        for u in tl.static_range(R):
            before = before + (tl.load(state + u, real, 0.0),)
            zeta = zeta + (tl.load(state + R + u, real, 0.0),)
        tl.debug_barrier()
        t = tl.dot(dy, tl.trans(a), input_precision="ieee", out_dtype=dtype)
        tl.store(state[:, None] + ranks[None, :], t, in_rank)
        tl.debug_barrier()
        v = ()
        for u in tl.static_range(R):
            v = v + (tl.load(state + u, real, 0.0),)
        of_x = _backward(zeta, before, v, real, own, out + R * K, H, M, MIXED, NORMED, FLOOR)
        for u in tl.static_range(R):
            tl.store(state + R + u, of_x[u], real)
        tl.debug_barrier()
        cot = tl.load(state[:, None] + R + ranks[None, :], in_rank, 0.0)
        x = tl.load(points + (b * n_all + rows)[:, None] * K + every[None, :], here, 0.0)
        of_alpha = tl.sum(tl.sum(x * dy, axis=1)) * tl.load(own + CONSTANTS - 2)
        tl.store(out + R * K + R + ROWS * H, of_alpha)
        of_a = tl.dot(tl.trans(cot), x, input_precision="ieee", out_dtype=dtype)
        of_a = tl.dot(tl.trans(d), dy, of_a, input_precision="ieee", out_dtype=dtype)
        tl.store(out + ranks[:, None] * K + every[None, :], of_a, in_a)
        dy = tl.dot(cot, a, tl.load(own + CONSTANTS - 4) * dy, input_precision="ieee", out_dtype=dtype)
    tl.store(dz_ptr + rows[:, None] * K + every[None, :], dy, here)
    tl.store(part + every, tl.sum(dy, axis=0), inside)


@triton.jit
def add_parts_kernel(
    parts, gradient, totals, n, tiles, length, P, N_WEIGHTS, n_runs, LEARNED: tl.constexpr, BLOCK: tl.constexpr
):
    """Add up the parts of a run: gradients after those of ``W``, then what the history needs."""
    run = tl.program_id(0).to(tl.int64)
    entries = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), gradient.dtype.element_ty)
    for tile in range(tiles):
        total += tl.load(parts + (run * tiles + tile) * length + entries, entries < length, 0.0)
    of_parameters = length - 2
    if not LEARNED:  # there is a place for the rate, but no parameter
        of_parameters = length - 3
    tl.store(gradient + run * P + N_WEIGHTS + entries, total, entries < of_parameters)
    history = (entries >= length - 2) & (entries < length)
    where = totals + (entries - (length - 2)) * n_runs + run
    tl.store(where, tl.load(where, history, 0.0) + n * total, history)


# --- many classes ---


@triton.jit
def _sum_of_chunks(ptr, at, real, n_all, R: tl.constexpr, CHUNKS: tl.constexpr):
    """Products of rows with all lines of ``A``, added up from those with some of the classes each."""
    values = ()
    for u in tl.static_range(R):
        value = tl.load(ptr + at + u, real, 0.0)
        for chunk in tl.static_range(1, CHUNKS):
            value += tl.load(ptr + chunk * n_all * R + at + u, real, 0.0)
        values = values + (value,)
    return values


@triton.jit
def units_forward_kernel(
    products, constants, t_ptr, zeta_ptr, d_ptr, n_all, n, tiles, b,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, BLOCK_N: tl.constexpr,
    CHUNKS: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """From products with ``A`` to ``A x``, ``zeta`` and ``gamma sigma d``, for some rows of one run."""
    R: tl.constexpr = M * H + 1
    CONSTANTS: tl.constexpr = 2 * R + 3 * ((M - 1) * MIXED + 1) * H + 4
    program = tl.program_id(0).to(tl.int64)
    run = program // tiles
    local = (program % tiles) * BLOCK_N + tl.arange(0, BLOCK_N)
    real = local < n
    at = (run * n + local) * R
    own = constants + (run * B + b) * CONSTANTS
    before = _sum_of_chunks(products, at, real, n_all, R, CHUNKS)
    zeta, scaled = _forward(before, own, H, M, MIXED, NORMED)
    gamma = tl.load(own + CONSTANTS - 3)
    for u in tl.static_range(R):
        tl.store(t_ptr + at + u, before[u], real)
        tl.store(zeta_ptr + at + u, zeta[u], real)
        tl.store(d_ptr + at + u, gamma * scaled[u], real)


@triton.jit
def units_backward_kernel(
    products, t_ptr, zeta_ptr, constants, cot_ptr, parts, n_all, n, tiles, b,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, BLOCK_N: tl.constexpr,
    CHUNKS: tl.constexpr, NORMED: tl.constexpr, FLOOR: tl.constexpr,
):  # fmt: skip
    """From products of ``dy`` with ``A`` to the cotangents of ``A x``, and sums over some rows of one run."""
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    SMALL: tl.constexpr = R + ROWS * H + 2 + (3 * ROWS - 2 if NORMED else 0)
    CONSTANTS: tl.constexpr = 2 * R + 3 * ROWS * H + 4
    program = tl.program_id(0).to(tl.int64)
    run = program // tiles
    local = (program % tiles) * BLOCK_N + tl.arange(0, BLOCK_N)
    real = local < n
    at = (run * n + local) * R
    own = constants + (run * B + b) * CONSTANTS
    v = _sum_of_chunks(products, at, real, n_all, R, CHUNKS)
    zeta = ()
    before = ()
    for u in tl.static_range(R):
        zeta = zeta + (tl.load(zeta_ptr + at + u, real, 0.0),)
        before = before + (tl.load(t_ptr + at + u, real, 0.0),)
    of_x = _backward(zeta, before, v, real, own, parts + program * SMALL, H, M, MIXED, NORMED, FLOOR)
    for u in tl.static_range(R):
        tl.store(cot_ptr + at + u, of_x[u], real)


@triton.jit
def spread_kernel(
    x_ptr, d_ptr, flat, constants, other_ptr, out_ptr, dots, products, n_all, n, K, P, OFFSET, NEXT_OFFSET, span, tiles, b,
    B: tl.constexpr, R: tl.constexpr, RANK: tl.constexpr, CONSTANTS: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, CHUNKS: tl.constexpr, PRECISION: tl.constexpr, SPREAD: tl.constexpr, DOT: tl.constexpr,
    NEXT: tl.constexpr,
):  # fmt: skip
    """What is done to some rows and classes of one run between the units of two blocks.

    ``SPREAD``: ``y = alpha x + A^T d``; without it ``y = x``. ``DOT``: the sum of ``x`` times the other.
    ``NEXT``: products of ``y`` with the lines of the next ``A``.
    """
    program = tl.program_id(0).to(tl.int64)
    chunk = program % CHUNKS
    run = program // (CHUNKS * tiles)
    local = program // CHUNKS % tiles * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = run * n + local
    ranks = tl.arange(0, RANK)
    in_rank = (local < n)[:, None] & (ranks < R)[None, :]
    dtype = out_ptr.dtype.element_ty
    alpha = tl.full((), 1.0, dtype)
    if SPREAD:
        alpha = tl.load(constants + (run * B + b) * CONSTANTS + CONSTANTS - 4)
        d = tl.load(d_ptr + rows[:, None] * R + ranks[None, :], in_rank, 0.0)
    sums = tl.zeros((BLOCK_N, RANK), dtype)
    dot = tl.zeros((BLOCK_N,), dtype)
    for start in range(0, span, BLOCK_K):
        cols = chunk * span + start + tl.arange(0, BLOCK_K)
        here = (local < n)[:, None] & (cols < K)[None, :]
        where = rows[:, None] * K + cols[None, :]
        lines = ranks[:, None] * K + cols[None, :]
        in_a = (ranks < R)[:, None] & (cols < K)[None, :]
        y = tl.load(x_ptr + where, here, 0.0)
        if DOT:
            dot += tl.sum(y * tl.load(other_ptr + where, here, 0.0), axis=1)
        if SPREAD:
            a = tl.load(flat + run * P + OFFSET + lines, in_a, 0.0)
            y = tl.dot(d, a, alpha * y, input_precision=PRECISION, out_dtype=dtype)
            tl.store(out_ptr + where, y, here)
        if NEXT:
            a = tl.load(flat + run * P + NEXT_OFFSET + lines, in_a, 0.0)
            sums = tl.dot(y, tl.trans(a), sums, input_precision=PRECISION, out_dtype=dtype)
    if DOT:
        tl.store(dots + program, tl.sum(dot))
    if NEXT:
        tl.store(products + (chunk * n_all + rows)[:, None] * R + ranks[None, :], sums, in_rank)


@triton.jit
def add_units_kernel(
    parts, dots, constants, gradient, n_dots, tiles, P, OFFSET, b,
    B: tl.constexpr, SMALL: tl.constexpr, SMALL_UP: tl.constexpr, ALPHA: tl.constexpr, CONSTANTS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Add up the gradients of all but ``A`` of a run's block."""
    run = tl.program_id(0).to(tl.int64)
    entries = tl.arange(0, SMALL_UP)
    total = tl.zeros((SMALL_UP,), gradient.dtype.element_ty)
    for tile in range(tiles):
        total += tl.load(parts + (run * tiles + tile) * SMALL + entries, (entries < SMALL) & (entries != ALPHA), 0.0)
    of_alpha = tl.zeros((BLOCK,), gradient.dtype.element_ty)
    for start in range(0, n_dots, BLOCK):
        some = start + tl.arange(0, BLOCK)
        of_alpha += tl.load(dots + run * n_dots + some, some < n_dots, 0.0)
    slope = tl.load(constants + (run * B + b) * CONSTANTS + CONSTANTS - 2)
    total = tl.where(entries == ALPHA, slope * tl.sum(of_alpha), total)
    tl.store(gradient + run * P + OFFSET + entries, total, entries < SMALL)


@triton.jit
def loss_kernel(
    y_ptr, flat, labels, weights, sums, dy_ptr, n, K, P, known_rate,
    BLOCK_K: tl.constexpr, ONE: tl.constexpr, LEARNED: tl.constexpr, NOISY: tl.constexpr,
):  # fmt: skip
    """Log-loss of one row's log-odds and its gradient in them."""
    row = tl.program_id(0).to(tl.int64)
    y_ptr += row * K
    label = tl.load(labels + row)
    weight = tl.load(weights + row)
    zero = 0.0 * weight
    top = zero  # the reference class has log-odds 0
    total = zero + 1.0
    highest = zero + float("-inf")
    first = label * 0 + K
    own = zero
    every = tl.arange(0, BLOCK_K)
    if ONE:  # a tile holds all classes
        y = tl.load(y_ptr + every, every < K, float("-inf"))
        highest = tl.max(y)
        top = tl.maximum(zero, highest)
        e = tl.where(every < K, tl.exp(y - top), 0.0)
        total = tl.exp(-top) + tl.sum(e)
        first = tl.min(tl.where(y == highest, every, K)).to(label.dtype)
        own = tl.sum(tl.where((every == label) & (every < K), y, 0.0))  # of the reference class it is 0
    else:
        for start in range(0, K, BLOCK_K):
            cols = start + every
            y = tl.load(y_ptr + cols, cols < K, float("-inf"))
            most = tl.max(y)
            higher = tl.maximum(top, most)
            total = total * tl.exp(top - higher) + tl.sum(tl.where(cols < K, tl.exp(y - higher), 0.0))
            top = higher
            place = tl.min(tl.where(y == most, cols, K))
            first = tl.where(most > highest, place, first)
            highest = tl.maximum(highest, most)
            own += tl.sum(tl.where((cols == label) & (cols < K), y, 0.0))
    nll = top - own + tl.log(total)
    # among equals the first class counts, and the last of two
    best = tl.where((highest > 0.0) | ((highest == 0.0) & (K > 1)), first, K)
    rate = noise_rate(flat, row // n, P, known_rate, LEARNED, NOISY)
    kept = weight
    of_rate = zero
    if rate is not None:
        nll, of_rate, kept = observed_loss(nll, rate, weight, K)
    tl.store(sums + row * 3, of_rate)
    tl.store(sums + row * 3 + 1, weight * nll)
    tl.store(sums + row * 3 + 2, tl.where(best == label, weight, 0.0))
    if ONE:
        tl.store(dy_ptr + row * K + every, kept * (e / total - tl.where(every == label, 1.0, 0.0)), every < K)
    else:
        for start in range(0, K, BLOCK_K):
            cols = start + every
            y = tl.load(y_ptr + cols, cols < K, float("-inf"))
            residual = tl.exp(y - top) / total - tl.where(cols == label, 1.0, 0.0)
            tl.store(dy_ptr + row * K + cols, kept * residual, cols < K)


@triton.jit
def add_bias_kernel(
    dz_ptr, sums, gradient, totals, n, K, P, N_WEIGHTS, n_runs, LEARNED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums over the rows of a run: the gradient of the bias and of the rate of noise, and what the history needs."""
    run = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_K,), dtype=gradient.dtype.element_ty)
    zero = tl.sum(total)
    of_rate = zero
    loss = zero
    hits = zero
    for start in range(0, n, BLOCK_N):
        local = start + tl.arange(0, BLOCK_N)
        rows = run * n + local
        real = local < n
        total += tl.sum(
            tl.load(dz_ptr + rows[:, None] * K + cols[None, :], real[:, None] & (cols < K)[None, :], 0.0), 0
        )
        of_rate += tl.sum(tl.load(sums + rows * 3, real, 0.0))
        loss += tl.sum(tl.load(sums + rows * 3 + 1, real, 0.0))
        hits += tl.sum(tl.load(sums + rows * 3 + 2, real, 0.0))
    tl.store(gradient + run * P + N_WEIGHTS + cols, total, cols < K)
    if tl.program_id(1) == 0:
        tl.store(totals + run, tl.load(totals + run) + n * loss)
        tl.store(totals + n_runs + run, tl.load(totals + n_runs + run) + n * hits)
        if LEARNED:
            tl.store(gradient + run * P + P - 1, of_rate)
