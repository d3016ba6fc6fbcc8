r"""The composite link as Triton kernels for CUDA: one for the forward pass, two for the backward pass.

A link is a long series of tiny operations: as torch runs them, launching some two hundred kernels takes far longer than
computing. Here one kernel takes a row of predictors through all blocks and the log-softmax, one goes backward, and one adds
up the parameters' gradients over rows in a fixed order, so results do not change from run to run.

The formulas are those of :mod:`legendretron.potentials.ridge` with all layers of a block written as one: with ``P`` the
matrix of all mixing weights between units, ``p`` those of the output and ``s`` the softplus,

.. math::

    \zeta = t + P s(\zeta), \quad \zeta_o = t_o + p^\top s(\zeta), \qquad
    w = p\,e + P^\top d, \quad d = s'(\zeta) \odot w, \quad e = \phi'(\zeta_o).

``P`` leads from each layer to the next only, so fixed-point iteration is exact after as many rounds as there are layers
to pass. The backward pass has the same form.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["add_up_kernel", "backward_kernel", "forward_kernel"]


@triton.jit
def _softplus(x):
    e = tl.exp(-tl.abs(x))
    u = 1.0 + e
    # log(1 + e) to full relative accuracy, also where 1 + e has rounded
    log1p = tl.where(u == 1.0, e, tl.log(u) * (e / tl.where(u == 1.0, 1.0, u - 1.0)))
    return tl.where(x > 0.0, x, 0.0) + log1p


@triton.jit
def _sigmoid(x):
    e = tl.exp(-tl.abs(x))
    return tl.where(x >= 0.0, 1.0 / (1.0 + e), e / (1.0 + e))


@triton.jit
def _positive(base, RAW: tl.constexpr, N: tl.constexpr, over: tl.constexpr):
    """``N`` parameters that are positive, as scalars that every thread holds."""
    values = ()
    for i in tl.static_range(N):
        value = tl.load(base + i)
        if RAW:
            value = _softplus(value) / over
        values = values + (value,)
    return values


@triton.jit
def _slope_of(raw, RAW: tl.constexpr, over: tl.constexpr):
    """Derivative of such a parameter in what is stored of it."""
    slope = 1.0
    if RAW:
        slope = _sigmoid(tl.load(raw)) / over
    return slope


@triton.jit
def _entries(vector, scratch, UNITS: tl.constexpr, N: tl.constexpr):
    """The first ``N`` entries of a vector as scalars that every thread holds; by way of memory, which is quickest."""
    units = tl.arange(0, UNITS)
    tl.store(scratch + units, vector, units < N)
    tl.debug_barrier()
    values = ()
    for u in tl.static_range(N):
        values = values + (tl.load(scratch + u),)
    return values


@triton.jit
def _add_fours(a, b, c, d, e, f, g, h):
    return a + e, b + f, c + g, d + h


@triton.jit
def _rows(base, cols, inside, K, N: tl.constexpr):
    """``N`` rows of ``A``."""
    rows = ()
    for u in tl.static_range(N):
        rows = rows + (tl.load(base + u * K + cols, inside, 0.0),)
    return rows


@triton.jit
def _products(rows, x, N: tl.constexpr):
    """Inner products of the rows with ``x``; four sums at a time, for each costs a wait of all threads."""
    values = ()
    for u in tl.static_range(0, N - 3, 4):
        a, b, c, d = tl.reduce((rows[u] * x, rows[u + 1] * x, rows[u + 2] * x, rows[u + 3] * x), 0, _add_fours)
        values = values + (a, b, c, d)
    for u in tl.static_range(N - N % 4, N):
        values = values + (tl.sum(rows[u] * x),)
    return values


@triton.jit
def _combination(rows, factors, start, N: tl.constexpr):
    """``start`` plus the rows times the factors."""
    total = start
    for u in tl.static_range(N):
        total += factors[u] * rows[u]
    return total


@triton.jit
def _upwards(own, mixing, through, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, SOFT: tl.constexpr):
    """``u = own + P f(u)`` layer by layer: with ``f`` the softplus, or multiplication by ``through``; and ``f(u)``."""
    us = ()
    fs = ()
    for k in tl.static_range(M):
        for i in tl.static_range(H):
            u = own[k * H + i]
            if k > 0 and i < MIXED:
                for j in tl.static_range(H):
                    u += mixing[((k - 1) * MIXED + i) * H + j] * fs[(k - 1) * H + j]
            us = us + (u,)
            if SOFT:
                fs = fs + (_softplus(u),)
            else:
                fs = fs + (u * through[k * H + i],)
    return us, fs


@triton.jit
def _downwards(own, out, mixing, slope, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr):
    """``w = p out + P^T u`` with ``u = own + s' w``, from the last layer to the first: ``w`` and ``u``."""
    ws = ()
    us = ()
    for k in tl.static_range(M - 1, -1, -1):
        for j in tl.static_range(H - 1, -1, -1):
            if k == M - 1:
                w = mixing[(M - 1) * MIXED * H + j] * out
            else:
                w = mixing[k * MIXED * H + j] * us[H - 1 - j]
                for i in tl.static_range(1, MIXED):
                    w += mixing[(k * MIXED + i) * H + j] * us[H - 1 - j + i]
            ws = (w,) + ws
            us = (own[k * H + j] + slope[k * H + j] * w,) + us
    return ws, us


@triton.jit
def forward_kernel(
    z_ptr, parameters, inputs, states, positives, log_p_ptr, n, K,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, UNITS: tl.constexpr,
    BLOCK_K: tl.constexpr, RAW: tl.constexpr, SOFT: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    """One row of predictors to one row of log-probabilities; keeps each block's input and inner state."""
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    row = tl.program_id(0).to(tl.int64)
    units = tl.arange(0, UNITS)
    real = units < M * H
    dtype = log_p_ptr.dtype.element_ty
    log_p = log_p_ptr + row * (K + 1)
    top = tl.full((), 0.0, dtype)  # the reference class's logit
    total = tl.full((), 1.0, dtype)
    if ONE:  # a tile holds all of a row, which then never leaves the registers
        every = tl.arange(0, BLOCK_K)
        kept = tl.load(z_ptr + row * K + every, every < K, 0.0)
    for b in tl.static_range(B):
        base = parameters[5 * b]
        x_ptr = z_ptr + row * K
        if b > 0:
            x_ptr = inputs + ((b - 1) * n + row) * K
        mixing = _positive(parameters[5 * b + 2], RAW, ROWS * H, H)
        alpha = _positive(parameters[5 * b + 3], RAW, 1, 1)[0]
        gamma = _positive(parameters[5 * b + 4], RAW, 1, 1)[0]
        if tl.program_id(0) == 0:  # kept for the backward pass, with their derivatives
            kept_at = positives + b * 2 * (ROWS * H + 2)
            for i in tl.static_range(ROWS * H):
                tl.store(kept_at + i, mixing[i])
                tl.store(kept_at + ROWS * H + 2 + i, _slope_of(parameters[5 * b + 2] + i, RAW, H))
            tl.store(kept_at + ROWS * H, alpha)
            tl.store(kept_at + ROWS * H + 1, gamma)
            tl.store(kept_at + 2 * (ROWS * H + 2) - 2, _slope_of(parameters[5 * b + 3], RAW, 1))
            tl.store(kept_at + 2 * (ROWS * H + 2) - 1, _slope_of(parameters[5 * b + 4], RAW, 1))
        sums = tl.load(parameters[5 * b + 1] + units, real, 0.0)
        sum_out = tl.load(parameters[5 * b + 1] + R - 1)
        state = states + (row * B + b) * (2 * R)
        if ONE:
            rows = _rows(base, every, every < K, K, R)
            products = _products(rows, kept, R)
            sum_out += products[R - 1]
            t = ()
            for u in tl.static_range(M * H):
                t = t + (tl.load(parameters[5 * b + 1] + u) + products[u],)
        else:
            for start in range(0, K, BLOCK_K):
                cols = start + tl.arange(0, BLOCK_K)
                inside = cols < K
                x = tl.load(x_ptr + cols, inside, 0.0)
                a = tl.load(base + units[:, None] * K + cols[None, :], real[:, None] & inside[None, :], 0.0)
                sums += tl.sum(a * x[None, :], axis=1)
                sum_out += tl.sum(tl.load(base + (R - 1) * K + cols, inside, 0.0) * x)
            t = _entries(sums, state + R, UNITS, M * H)
        zeta, soft = _upwards(t, mixing, t, H, M, MIXED, True)
        zeta_out = sum_out
        slope = ()
        nothing = ()
        for u in tl.static_range(M * H):
            tl.store(state + u, zeta[u])
            slope = slope + (_sigmoid(zeta[u]),)
            nothing = nothing + (0.0,)
        for j in tl.static_range(H):
            zeta_out += mixing[(ROWS - 1) * H + j] * soft[(M - 1) * H + j]
        tl.store(state + R - 1, zeta_out)
        e = tl.full((), 1.0, dtype)
        if SOFT:
            e = _sigmoid(zeta_out)
        _, d = _downwards(nothing, e, mixing, slope, H, M, MIXED)
        if ONE:
            kept = alpha * kept + gamma * _combination(rows, d, e * rows[R - 1], M * H)
            if b < B - 1:
                tl.store(inputs + (b * n + row) * K + every, kept, every < K)
        else:
            for start in range(0, K, BLOCK_K):
                cols = start + tl.arange(0, BLOCK_K)
                inside = cols < K
                y = e * tl.load(base + (R - 1) * K + cols, inside, 0.0)
                for u in tl.static_range(M * H):
                    y += d[u] * tl.load(base + u * K + cols, inside, 0.0)
                y = alpha * tl.load(x_ptr + cols, inside, 0.0) + gamma * y
                if b < B - 1:
                    tl.store(inputs + (b * n + row) * K + cols, y, inside)
                else:
                    tl.store(log_p + cols, y, inside)
                    higher = tl.maximum(top, tl.max(tl.where(inside, y, float("-inf"))))
                    total = total * tl.exp(top - higher) + tl.sum(tl.where(inside, tl.exp(y - higher), 0.0))
                    top = higher
            tl.debug_barrier()  # what was stored is read again, perhaps by other threads
    if ONE:
        top = tl.maximum(top, tl.max(tl.where(every < K, kept, float("-inf"))))
        lse = top + tl.log(tl.exp(-top) + tl.sum(tl.where(every < K, tl.exp(kept - top), 0.0)))
        tl.store(log_p + every, kept - lse, every < K)
        tl.store(log_p + K, -lse)
    else:
        lse = top + tl.log(total)
        for start in range(0, K, BLOCK_K):
            cols = start + tl.arange(0, BLOCK_K)
            y = tl.load(log_p + cols, cols < K, 0.0)
            tl.store(log_p + cols, y - lse, cols < K)
        tl.store(log_p + K, -lse)


@triton.jit
def backward_kernel(
    z_ptr, parameters, inputs, states, positives, log_p_ptr, g_ptr, cotangents, records, dz_ptr, n, K,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, UNITS: tl.constexpr,
    BLOCK_K: tl.constexpr, SOFT: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    """Backward pass of one row: the predictors' gradient, and of each block what its parameters' gradients are made of.

    A record holds the cotangents of ``t``, of the mixing weights, of alpha and gamma, and then ``gamma d``.
    """
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    SMALL: tl.constexpr = R + ROWS * H + 2
    row = tl.program_id(0).to(tl.int64)
    units = tl.arange(0, UNITS)
    real = units < M * H
    dtype = log_p_ptr.dtype.element_ty
    log_p = log_p_ptr + row * (K + 1)
    g = g_ptr + row * (K + 1)
    g_sum = tl.load(g + K)
    if ONE:
        every = tl.arange(0, BLOCK_K)
        kept = tl.load(g + every, every < K, 0.0)
        p = tl.exp(tl.load(log_p + every, every < K, float("-inf")))
        kept -= p * (g_sum + tl.sum(kept))
        tl.store(cotangents + ((B - 1) * n + row) * K + every, kept, every < K)
    else:
        for start in range(0, K, BLOCK_K):
            cols = start + tl.arange(0, BLOCK_K)
            g_sum += tl.sum(tl.load(g + cols, cols < K, 0.0))
        for start in range(0, K, BLOCK_K):
            cols = start + tl.arange(0, BLOCK_K)
            inside = cols < K
            dy = tl.load(g + cols, inside, 0.0) - tl.exp(tl.load(log_p + cols, inside, 0.0)) * g_sum
            tl.store(cotangents + ((B - 1) * n + row) * K + cols, dy, inside)
        tl.debug_barrier()
    for b in tl.static_range(B - 1, -1, -1):
        base = parameters[5 * b]
        x_ptr = z_ptr + row * K
        if b > 0:
            x_ptr = inputs + ((b - 1) * n + row) * K
        dy_ptr = cotangents + (b * n + row) * K
        values = positives + b * 2 * (ROWS * H + 2)
        slopes = values + ROWS * H + 2
        mixing = _positive(values, False, ROWS * H, 1)
        alpha = tl.load(values + ROWS * H)
        gamma = tl.load(values + ROWS * H + 1)
        state = states + (row * B + b) * (2 * R)
        v_out = tl.full((), 0.0, dtype)
        of_alpha = tl.full((), 0.0, dtype)
        if ONE:
            rows = _rows(base, every, every < K, K, R)
            products = _products(rows, kept, R)  # A dy
            v_out = products[R - 1]
            of_alpha = tl.sum(tl.load(x_ptr + every, every < K, 0.0) * kept)
        else:
            sums = tl.zeros((UNITS,), dtype)
            for start in range(0, K, BLOCK_K):
                cols = start + tl.arange(0, BLOCK_K)
                inside = cols < K
                x = tl.load(x_ptr + cols, inside, 0.0)
                dy = tl.load(dy_ptr + cols, inside, 0.0)
                a = tl.load(base + units[:, None] * K + cols[None, :], real[:, None] & inside[None, :], 0.0)
                sums += tl.sum(a * dy[None, :], axis=1)
                v_out += tl.sum(tl.load(base + (R - 1) * K + cols, inside, 0.0) * dy)
                of_alpha += tl.sum(x * dy)
            products = _entries(sums, state + R, UNITS, M * H)
        zeta_out = tl.load(state + R - 1)
        e = tl.full((), 1.0, dtype)
        bend_out = tl.full((), 0.0, dtype)
        if SOFT:
            e = _sigmoid(zeta_out)
            bend_out = e * _sigmoid(-zeta_out)
        soft = ()
        slope = ()
        bend = ()
        nothing = ()
        for u in tl.static_range(M * H):
            zeta = tl.load(state + u)
            soft = soft + (_softplus(zeta),)
            slope = slope + (_sigmoid(zeta),)
            bend = bend + (slope[u] * _sigmoid(-zeta),)
            nothing = nothing + (0.0,)
        w, d = _downwards(nothing, e, mixing, slope, H, M, MIXED)
        # up through d = s' w and w = p e + P^T d
        v = ()
        for u in tl.static_range(M * H):
            v = v + (gamma * products[u],)
        cot_d, cot_w = _upwards(v, mixing, slope, H, M, MIXED, False)
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
        for u in tl.static_range(M * H):
            of_gamma += d[u] * products[u]
            tl.store(record + u, cot_t[u])
            tl.store(record + SMALL + u, gamma * d[u])
        tl.store(record + R - 1, cot_out)
        tl.store(record + SMALL + R - 1, gamma * e)
        for k in tl.static_range(M - 1):
            for i in tl.static_range(MIXED):
                for j in tl.static_range(H):
                    of_p = d[(k + 1) * H + i] * cot_w[k * H + j] + cot_t[(k + 1) * H + i] * soft[k * H + j]
                    at = (k * MIXED + i) * H + j
                    tl.store(record + R + at, of_p * tl.load(slopes + at))
        for j in tl.static_range(H):
            of_out = e * cot_w[(M - 1) * H + j] + cot_out * soft[(M - 1) * H + j]
            last = (ROWS - 1) * H + j
            tl.store(record + R + last, of_out * tl.load(slopes + last))
        tl.store(record + SMALL - 2, of_alpha * tl.load(slopes + ROWS * H))
        tl.store(record + SMALL - 1, of_gamma * tl.load(slopes + ROWS * H + 1))
        if ONE:
            kept = _combination(rows, cot_t, alpha * kept + cot_out * rows[R - 1], M * H)
            if b > 0:
                tl.store(cotangents + ((b - 1) * n + row) * K + every, kept, every < K)
            else:
                tl.store(dz_ptr + row * K + every, kept, every < K)
        else:
            for start in range(0, K, BLOCK_K):
                cols = start + tl.arange(0, BLOCK_K)
                inside = cols < K
                dx = alpha * tl.load(dy_ptr + cols, inside, 0.0)
                dx += cot_out * tl.load(base + (R - 1) * K + cols, inside, 0.0)
                for u in tl.static_range(M * H):
                    dx += cot_t[u] * tl.load(base + u * K + cols, inside, 0.0)
                if b > 0:
                    tl.store(cotangents + ((b - 1) * n + row) * K + cols, dx, inside)
                else:
                    tl.store(dz_ptr + row * K + cols, dx, inside)
            tl.debug_barrier()


@triton.jit
def add_up_kernel(
    z_ptr, inputs, cotangents, records, gradient, n, K,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, RANK: tl.constexpr, SMALL_UP: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums over rows: a tile of the gradient of ``A``, or, in the last program of a block, of all the rest."""
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    SMALL: tl.constexpr = R + ROWS * H + 2
    b = tl.program_id(0)
    size = R * K + SMALL
    chunk = tl.program_id(1)
    if chunk < tl.num_programs(1) - 1:
        ranks = tl.arange(0, RANK)
        cols = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
        inside = cols < K
        x_ptr = z_ptr
        if b > 0:
            x_ptr = inputs + (b - 1).to(tl.int64) * n * K
        total = tl.zeros((RANK, BLOCK_K), dtype=gradient.dtype.element_ty)
        for start in range(0, n, BLOCK_N):
            rows = (start + tl.arange(0, BLOCK_N)).to(tl.int64)
            tile = (rows < n)[:, None] & inside[None, :]
            where = rows[:, None] * K + cols[None, :]
            x = tl.load(x_ptr + where, tile, 0.0)
            dy = tl.load(cotangents + b.to(tl.int64) * n * K + where, tile, 0.0)
            record = records + (rows[None, :] * B + b) * (SMALL + R) + ranks[:, None]
            kept = (rows < n)[None, :] & (ranks < R)[:, None]
            total = tl.dot(tl.load(record, kept, 0.0), x, total, input_precision="ieee", out_dtype=total.dtype)
            total = tl.dot(tl.load(record + SMALL, kept, 0.0), dy, total, input_precision="ieee", out_dtype=total.dtype)
        out = gradient + b * size + ranks[:, None] * K + cols[None, :]
        tl.store(out, total, (ranks < R)[:, None] & inside[None, :])
    else:
        entries = tl.arange(0, SMALL_UP)
        sums = tl.zeros((SMALL_UP,), dtype=gradient.dtype.element_ty)
        for first in range(0, n, BLOCK_N):
            lines = (first + tl.arange(0, BLOCK_N)).to(tl.int64)
            small = records + (lines[:, None] * B + b) * (SMALL + R) + entries[None, :]
            sums += tl.sum(tl.load(small, (lines < n)[:, None] & (entries < SMALL)[None, :], 0.0), axis=0)
        tl.store(gradient + b * size + R * K + entries, sums, entries < SMALL)
