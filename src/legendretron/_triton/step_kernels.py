r"""A training step's work on the rows of a batch, for many runs at once, as Triton kernels: from predictors to gradients.

One kernel takes a row through the link, its log-loss and back; nothing between is written that is not needed again. A second
one adds up the gradients of all parameters but ``W`` over the rows of each run, in a fixed order. Parameters are read where
training keeps them: a row of ``flat`` holds ``W``, the bias, and then those of the link.

This file has links that are chains of ridge blocks (none: softmax+), with the formulas of
:mod:`legendretron._triton.link_kernels`. With normalisation (``network="cpflow"``) units have scales
:math:`\sigma_u = e^{s_u} + \epsilon` and shifts, which are folded into what surrounds them:
:math:`t_u = \sigma_u (A_u x + b_u + m_u)`, :math:`P'_{uj} = \sigma_u P_{uj}`. So ``A`` is used as it is stored.
"""

from __future__ import annotations

import triton
import triton.language as tl

from legendretron._triton.link_kernels import (
    _combination,
    _downwards,
    _positive,
    _products,
    _rows,
    _sigmoid,
    _softplus,
    _upwards,
)

__all__ = ["add_bias_kernel", "add_ridge_kernel", "noise_rate", "observed_loss", "ridge_step_kernel"]


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
def log_loss(y, every, K, label, weight, rate):
    """Log-loss of log-odds, whether the label is the predicted class, the gradients in the log-odds and in the rate's logit.

    All but the hit is weighted.
    """
    shown = tl.where(every < K, y, float("-inf"))
    highest = tl.max(shown)
    top = tl.maximum(highest, 0.0)  # the reference class has log-odds 0
    residual = tl.where(every < K, tl.exp(y - top), 0.0)
    total = tl.sum(residual) + tl.exp(-top)
    nll = top - tl.sum(tl.where(every == label, y, 0.0)) + tl.log(total)
    # among equals the first class counts, and the last of two
    first = tl.min(tl.where(shown == highest, every, K))
    best = tl.where((highest > 0.0) | ((highest == 0.0) & (K > 1)), first, K)
    kept = weight
    of_rate = 0.0 * nll
    if rate is not None:
        nll, of_rate, kept = observed_loss(nll, rate, weight, K)
    dy = kept * (residual / total - tl.where(every == label, 1.0, 0.0))
    return weight * nll, best == label, tl.where(every < K, dy, 0.0), of_rate


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
def _unit_scales(ptr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, NORMED: tl.constexpr, FLOOR: tl.constexpr):
    """Scales of all units, then that of the output; 1 where a unit is not normalised."""
    scales = ()
    for u in tl.static_range(M * H + 1):
        scale = 1.0
        if NORMED and ((u // H > 0 and u % H < MIXED) or u == M * H):
            scale = tl.exp(tl.load(ptr + (u // H - 1) * MIXED + u % H)) + FLOOR
        scales = scales + (scale,)
    return scales


@triton.jit
def _mixing_of(ptr, scales, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr):
    """Mixing weights, those of each row times the scale of the unit that they feed."""
    raw = _positive(ptr, True, ((M - 1) * MIXED + 1) * H, H)
    mixing = ()
    for i in tl.static_range((M - 1) * MIXED + 1):
        for j in tl.static_range(H):
            mixing = mixing + (raw[i * H + j] * scales[(i // MIXED + 1) * H + i % MIXED],)
    return raw, mixing


@triton.jit
def ridge_step_kernel(
    z_ptr, flat, labels, weights, inputs, cotangents, records, sums, dz_ptr, n_all, n, K, P, START, known_rate,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, BLOCK_K: tl.constexpr,
    NORMED: tl.constexpr, FLOOR: tl.constexpr, LEARNED: tl.constexpr, NOISY: tl.constexpr,
):  # fmt: skip
    """One row of one run: forward, log-loss, backward.

    Of each block a record holds the gradients of ``b``, the mixing weights, alpha, gamma and the normalisation, then the
    factors of ``dy`` in the gradient of ``A``; those of ``x`` are the gradients of ``b``.
    """
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    SMALL: tl.constexpr = R + ROWS * H + 2 + (3 * ROWS - 2 if NORMED else 0)
    SOFT: tl.constexpr = not NORMED
    row = tl.program_id(0).to(tl.int64)
    run = row // n
    every = tl.arange(0, BLOCK_K)
    inside = every < K
    dtype = dz_ptr.dtype.element_ty
    kept = tl.load(z_ptr + row * K + every, inside, 0.0)
    points = (kept,)
    zetas = ()
    befores = ()
    for b in tl.static_range(B):
        base = flat + run * P + START + b * (R * K + SMALL)
        bias = base + R * K
        small = bias + R  # mixing, alpha, gamma, shifts, scales, biases of the mixing
        norm = small + ROWS * H + 2
        scales = _unit_scales(norm + ROWS - 1, H, M, MIXED, NORMED, FLOOR)
        _, mixing = _mixing_of(small, scales, H, M, MIXED)
        alpha = _softplus(tl.load(small + ROWS * H))
        gamma = _softplus(tl.load(small + ROWS * H + 1))
        rows = _rows(base, every, inside, K, R)
        products = _products(rows, kept, R)
        t = ()
        for u in tl.static_range(R):
            before = products[u] + tl.load(bias + u)
            if NORMED and u // H > 0 and u % H < MIXED and u < M * H:
                i = (u // H - 1) * MIXED + u % H
                before += tl.load(norm + i) + tl.load(norm + 2 * ROWS - 1 + i) / H
            befores = befores + (before,)
            t = t + (scales[u] * before,)
        zeta, soft = _upwards(t, mixing, t, H, M, MIXED, True)
        zeta_out = t[R - 1]
        slope = ()
        nothing = ()
        for u in tl.static_range(M * H):
            slope = slope + (_sigmoid(zeta[u]),)
            nothing = nothing + (0.0,)
        for j in tl.static_range(H):
            zeta_out += mixing[(ROWS - 1) * H + j] * soft[(M - 1) * H + j]
        zetas = zetas + zeta + (zeta_out,)
        e = tl.full((), 1.0, dtype)
        if SOFT:
            e = _sigmoid(zeta_out)
        _, d = _downwards(nothing, e, mixing, slope, H, M, MIXED)
        scaled = ()
        for u in tl.static_range(M * H):
            scaled = scaled + (scales[u] * d[u],)
        kept = alpha * kept + gamma * _combination(rows, scaled, scales[R - 1] * e * rows[R - 1], M * H)
        points = points + (kept,)
        if b < B - 1:
            tl.store(inputs + (b * n_all + row) * K + every, kept, inside)
    rate = noise_rate(flat, run, P, known_rate, LEARNED, NOISY)
    label = tl.load(labels + row)
    weight = tl.load(weights + row)
    loss, hit, kept, of_rate = log_loss(kept, every, K, label, weight, rate)
    tl.store(sums + row * 3, loss)
    tl.store(sums + row * 3 + 1, tl.where(hit, weight, 0.0))
    tl.store(sums + row * 3 + 2, of_rate)
    for b in tl.static_range(B - 1, -1, -1):
        base = flat + run * P + START + b * (R * K + SMALL)
        small = base + R * K + R
        norm = small + ROWS * H + 2
        scales = _unit_scales(norm + ROWS - 1, H, M, MIXED, NORMED, FLOOR)
        raw, mixing = _mixing_of(small, scales, H, M, MIXED)
        raw_alpha = tl.load(small + ROWS * H)
        raw_gamma = tl.load(small + ROWS * H + 1)
        alpha = _softplus(raw_alpha)
        gamma = _softplus(raw_gamma)
        tl.store(cotangents + (b * n_all + row) * K + every, kept, inside)
        rows = _rows(base, every, inside, K, R)
        products = _products(rows, kept, R)  # A dy
        of_alpha = tl.sum(points[b] * kept)
        zeta_out = zetas[b * R + R - 1]
        e = tl.full((), 1.0, dtype)
        bend_out = tl.full((), 0.0, dtype)
        if SOFT:
            e = _sigmoid(zeta_out)
            bend_out = e * _sigmoid(-zeta_out)
        soft = ()
        slope = ()
        bend = ()
        nothing = ()
        v = ()
        for u in tl.static_range(M * H):
            zeta_u = zetas[b * R + u]
            soft = soft + (_softplus(zeta_u),)
            slope = slope + (_sigmoid(zeta_u),)
            bend = bend + (slope[u] * _sigmoid(-zeta_u),)
            nothing = nothing + (0.0,)
            v = v + (gamma * scales[u] * products[u],)
        w, d = _downwards(nothing, e, mixing, slope, H, M, MIXED)
        # up through d = s' w and w = p e + P^T d
        cot_d, cot_w = _upwards(v, mixing, slope, H, M, MIXED, False)
        v_out = scales[R - 1] * products[R - 1]
        cot_e = gamma * v_out
        for j in tl.static_range(H):
            cot_e += mixing[(ROWS - 1) * H + j] * cot_w[(M - 1) * H + j]
        cot_out = bend_out * cot_e
        # down through zeta = t + P s(zeta)
        own = ()
        for u in tl.static_range(M * H):
            own = own + (cot_d[u] * w[u] * bend[u],)
        _, cot_t = _downwards(own, cot_out, mixing, slope, H, M, MIXED)
        record = records + (row * B + b) * (SMALL + R)
        of_gamma = e * v_out
        of_x = ()
        for u in tl.static_range(M * H):
            of_gamma += d[u] * scales[u] * products[u]
            of_x = of_x + (scales[u] * cot_t[u],)
            tl.store(record + u, of_x[u])
            tl.store(record + SMALL + u, gamma * scales[u] * d[u])
        tl.store(record + R - 1, scales[R - 1] * cot_out)
        tl.store(record + SMALL + R - 1, gamma * scales[R - 1] * e)
        for i in tl.static_range(ROWS):
            # row i of the mixing weights leads from layer i // MIXED to unit i % MIXED of the next, or to the output
            if i == ROWS - 1:
                d_unit = e
                cot_unit = cot_out
            else:
                d_unit = d[(i // MIXED + 1) * H + i % MIXED]
                cot_unit = cot_t[(i // MIXED + 1) * H + i % MIXED]
            scale = scales[(i // MIXED + 1) * H + i % MIXED]
            of_scale = cot_unit * befores[b * R + (i // MIXED + 1) * H + i % MIXED]
            of_scale += gamma * d_unit * products[(i // MIXED + 1) * H + i % MIXED]
            for j in tl.static_range(H):
                of_p = d_unit * cot_w[(i // MIXED) * H + j] + cot_unit * soft[(i // MIXED) * H + j]
                of_scale += of_p * raw[i * H + j]
                slope_p = _sigmoid(tl.load(small + i * H + j)) / H
                tl.store(record + R + i * H + j, of_p * scale * slope_p)
            if NORMED:
                tl.store(record + R + ROWS * H + 2 + ROWS - 1 + i, of_scale * (scale - FLOOR))
                if i < ROWS - 1:
                    tl.store(record + R + ROWS * H + 2 + i, scale * cot_unit)
                    tl.store(record + R + ROWS * H + 2 + 2 * ROWS - 1 + i, scale * cot_unit / H)
        tl.store(record + R + ROWS * H, of_alpha * _sigmoid(raw_alpha))
        tl.store(record + R + ROWS * H + 1, of_gamma * _sigmoid(raw_gamma))
        kept = _combination(rows, of_x, alpha * kept + scales[R - 1] * cot_out * rows[R - 1], M * H)
    tl.store(dz_ptr + row * K + every, kept, inside)


@triton.jit
def add_ridge_kernel(
    z_ptr, inputs, cotangents, records, gradient, n_all, n, K, P, START,
    B: tl.constexpr, R: tl.constexpr, SMALL: tl.constexpr, RANK: tl.constexpr, SMALL_UP: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums over the rows of a run: a tile of the gradient of a block's ``A``, or, in its last program, of all the rest."""
    run = (tl.program_id(0) // B).to(tl.int64)
    b = tl.program_id(0) % B
    out = gradient + run * P + START + b * (R * K + SMALL)
    chunk = tl.program_id(1)
    if chunk < tl.num_programs(1) - 1:
        ranks = tl.arange(0, RANK)
        cols = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
        inside = cols < K
        x_ptr = z_ptr
        if b > 0:
            x_ptr = inputs + (b - 1).to(tl.int64) * n_all * K
        total = tl.zeros((RANK, BLOCK_K), dtype=gradient.dtype.element_ty)
        for start in range(0, n, BLOCK_N):
            local = start + tl.arange(0, BLOCK_N)
            rows = run * n + local
            tile = (local < n)[:, None] & inside[None, :]
            where = rows[:, None] * K + cols[None, :]
            x = tl.load(x_ptr + where, tile, 0.0)
            dy = tl.load(cotangents + b.to(tl.int64) * n_all * K + where, tile, 0.0)
            record = records + (rows[None, :] * B + b) * (SMALL + R) + ranks[:, None]
            kept = (local < n)[None, :] & (ranks < R)[:, None]
            total = tl.dot(tl.load(record, kept, 0.0), x, total, input_precision="ieee", out_dtype=total.dtype)
            total = tl.dot(tl.load(record + SMALL, kept, 0.0), dy, total, input_precision="ieee", out_dtype=total.dtype)
        tl.store(out + ranks[:, None] * K + cols[None, :], total, (ranks < R)[:, None] & inside[None, :])
    else:
        entries = tl.arange(0, SMALL_UP)
        sums = tl.zeros((SMALL_UP,), dtype=gradient.dtype.element_ty)
        for first in range(0, n, BLOCK_N):
            lines = first + tl.arange(0, BLOCK_N)
            small = records + ((run * n + lines)[:, None] * B + b) * (SMALL + R) + entries[None, :]
            sums += tl.sum(tl.load(small, (lines < n)[:, None] & (entries < SMALL)[None, :], 0.0), axis=0)
        tl.store(out + R * K + entries, sums, entries < SMALL)


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
    loss = zero
    hits = zero
    of_rate = zero
    for start in range(0, n, BLOCK_N):
        local = start + tl.arange(0, BLOCK_N)
        rows = run * n + local
        real = local < n
        total += tl.sum(
            tl.load(dz_ptr + rows[:, None] * K + cols[None, :], real[:, None] & (cols < K)[None, :], 0.0), 0
        )
        loss += tl.sum(tl.load(sums + rows * 3, real, 0.0))
        hits += tl.sum(tl.load(sums + rows * 3 + 1, real, 0.0))
        of_rate += tl.sum(tl.load(sums + rows * 3 + 2, real, 0.0))
    tl.store(gradient + run * P + N_WEIGHTS + cols, total, cols < K)
    if tl.program_id(1) == 0:
        tl.store(totals + run, tl.load(totals + run) + n * loss)
        tl.store(totals + n_runs + run, tl.load(totals + n_runs + run) + n * hits)
        if LEARNED:
            tl.store(gradient + run * P + P - 1, of_rate)
