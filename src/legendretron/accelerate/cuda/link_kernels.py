r"""The composite link as Triton kernels for CUDA: one for the forward pass, two for the backward pass.

A link is a long series of tiny operations: as torch runs them, launching some two hundred kernels takes far longer than
computing. Here one kernel takes a row of predictors through all blocks and the log-softmax, one goes backward, and one adds
up the parameters' gradients over rows in a fixed order, so results do not change from run to run. It needs the predictors
and one cotangent only, whatever the number of blocks, since a chain of blocks never leaves the span of these and of the rows
of all ``A``: see :mod:`legendretron.accelerate.cpu.chain_link` for the formulas.

The formulas are those of :mod:`legendretron.potentials.ridge` with all layers of a block written as one: with ``P`` the
matrix of all mixing weights between units, ``p`` those of the output and ``s`` the softplus,

.. math::

    \zeta = t + P s(\zeta), \quad \zeta_o = t_o + p^\top s(\zeta), \qquad
    w = p\,e + P^\top d, \quad d = s'(\zeta) \odot w, \quad e = \phi'(\zeta_o).

``P`` leads from each layer to the next only, so fixed-point iteration is exact after as many rounds as there are layers
to pass. The backward pass has the same form. CP-Flow's normalisation multiplies units, their biases and their mixing weights,
which are few, so that it costs nothing.

Between the passes a row keeps ``zeta`` of all blocks, with as much room for passing entries between threads; after those of
all rows come numbers of each block that are the same for all of them: mixing weights, ``alpha``, ``gamma``, their
derivatives in what is stored of them, and of the units that are normalised their factors and the exponentials in these.
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
def _positive(base, N: tl.constexpr, over: tl.constexpr):
    """``N`` parameters that are positive, as scalars that every thread holds."""
    values = ()
    for i in tl.static_range(N):
        values = values + (_softplus(tl.load(base + i)) / over,)
    return values


@triton.jit
def _loaded(base, N: tl.constexpr):
    """``N`` numbers, as scalars that every thread holds."""
    values = ()
    for i in tl.static_range(N):
        values = values + (tl.load(base + i),)
    return values


@triton.jit
def _of_units(scales, others, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, NORM: tl.constexpr):
    """A number for each unit: those of the units that CP-Flow's network normalises, in their order, and another one."""
    values = ()
    for u in tl.static_range(M * H + 1):
        if NORM and u == M * H:
            values = values + (scales[(M - 1) * MIXED],)
        elif NORM and u >= H and u % H < MIXED:
            values = values + (scales[(u // H - 1) * MIXED + u % H],)
        else:
            values = values + (others,)
    return values


@triton.jit
def _slope_of(raw, over: tl.constexpr):
    """Derivative of such a parameter in what is stored of it."""
    return _sigmoid(tl.load(raw)) / over


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
    z_ptr, parameters, kept_ptr, log_p_ptr, n, K,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, UNITS: tl.constexpr,
    BLOCK_K: tl.constexpr, SOFT: tl.constexpr, NORM: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    """One row of predictors to one row of log-probabilities; keeps the inner state of each block."""
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    MIXING: tl.constexpr = ROWS * H
    EACH: tl.constexpr = 8 if NORM else 5
    row = tl.program_id(0).to(tl.int64)
    units = tl.arange(0, UNITS)
    dtype = log_p_ptr.dtype.element_ty
    log_p = log_p_ptr + row * (K + 1)
    top = tl.full((), 0.0, dtype)  # the reference class's logit
    total = tl.full((), 1.0, dtype)
    if ONE:  # a tile holds all of a row, which then never leaves the registers
        every = tl.arange(0, BLOCK_K)
        kept = tl.load(z_ptr + row * K + every, every < K, 0.0)
    for b in tl.static_range(B):
        base = parameters[EACH * b]
        x_ptr = z_ptr + row * K
        if b > 0:
            x_ptr = log_p  # room for the points between
        mixing = _positive(parameters[EACH * b + 2], MIXING, H)
        alpha = _positive(parameters[EACH * b + 3], 1, 1)[0]
        gamma = _positive(parameters[EACH * b + 4], 1, 1)[0]
        bias = _loaded(parameters[EACH * b + 1], R)
        slopes = ()
        scales = ()
        if NORM:
            moves = ()
            for i in tl.static_range(ROWS):
                slope_of_scale = tl.exp(tl.load(parameters[EACH * b + 6] + i))
                slopes = slopes + (slope_of_scale,)
                scales = scales + (slope_of_scale + 0.001,)
                if i < ROWS - 1:
                    move = tl.load(parameters[EACH * b + 5] + i) + tl.load(parameters[EACH * b + 7] + i) / H
                    moves = moves + (move,)
                else:
                    moves = moves + (0.0,)
            more = _of_units(moves, 0.0, H, M, MIXED, NORM)
            moved = ()
            for u in tl.static_range(R):
                moved = moved + (bias[u] + more[u],)
            bias = moved
            scaled = ()
            for i in tl.static_range(MIXING):
                scaled = scaled + (mixing[i] * scales[i // H],)
            mixing = scaled
        scale = _of_units(scales, 1.0, H, M, MIXED, NORM)
        if tl.program_id(0) == 0:  # kept for the backward pass, with their derivatives
            numbers = kept_ptr + (row * 0 + n) * (B * 2 * R) + b * (2 * (MIXING + 2) + 2 * ROWS)
            for i in tl.static_range(MIXING):
                slope_of_mixing = _slope_of(parameters[EACH * b + 2] + i, H)
                if NORM:
                    slope_of_mixing = slope_of_mixing * scales[i // H]
                tl.store(numbers + i, mixing[i])
                tl.store(numbers + MIXING + 2 + i, slope_of_mixing)
            tl.store(numbers + MIXING, alpha)
            tl.store(numbers + MIXING + 1, gamma)
            tl.store(numbers + 2 * MIXING + 2, _slope_of(parameters[EACH * b + 3], 1))
            tl.store(numbers + 2 * MIXING + 3, _slope_of(parameters[EACH * b + 4], 1))
            if NORM:
                for i in tl.static_range(ROWS):
                    tl.store(numbers + 2 * MIXING + 4 + i, scales[i])
                    tl.store(numbers + 2 * MIXING + 4 + ROWS + i, slopes[i])
        state = kept_ptr + (row * B + b) * (2 * R)
        if ONE:
            rows = _rows(base, every, every < K, K, R)
            products = _products(rows, kept, R)
        else:
            sums = tl.zeros((UNITS,), dtype)
            sum_out = tl.full((), 0.0, dtype)
            for start in range(0, K, BLOCK_K):
                cols = start + tl.arange(0, BLOCK_K)
                inside = cols < K
                x = tl.load(x_ptr + cols, inside, 0.0)
                a = tl.load(base + units[:, None] * K + cols[None, :], (units < M * H)[:, None] & inside[None, :], 0.0)
                sums += tl.sum(a * x[None, :], axis=1)
                sum_out += tl.sum(tl.load(base + (R - 1) * K + cols, inside, 0.0) * x)
            products = _entries(sums, state + R, UNITS, M * H) + (sum_out,)
        t = ()
        for u in tl.static_range(R):
            t = t + ((products[u] + bias[u]) * scale[u],)
        zeta, soft = _upwards(t, mixing, t, H, M, MIXED, True)
        zeta_out = t[R - 1]
        slope = ()
        nothing = ()
        for u in tl.static_range(M * H):
            tl.store(state + u, zeta[u])
            slope = slope + (_sigmoid(zeta[u]),)
            nothing = nothing + (0.0,)
        for j in tl.static_range(H):
            zeta_out += mixing[MIXING - H + j] * soft[(M - 1) * H + j]
        tl.store(state + R - 1, zeta_out)
        e = tl.full((), 1.0, dtype)
        if SOFT:
            e = _sigmoid(zeta_out)
        _, d = _downwards(nothing, e, mixing, slope, H, M, MIXED)
        factors = ()
        for u in tl.static_range(M * H):
            factors = factors + (d[u] * scale[u],)
        factors = factors + (e * scale[R - 1],)
        if ONE:
            kept = alpha * kept + gamma * _combination(rows, factors, tl.zeros_like(kept), R)
        else:
            for start in range(0, K, BLOCK_K):
                cols = start + tl.arange(0, BLOCK_K)
                inside = cols < K
                y = factors[R - 1] * tl.load(base + (R - 1) * K + cols, inside, 0.0)
                for u in tl.static_range(M * H):
                    y += factors[u] * tl.load(base + u * K + cols, inside, 0.0)
                y = alpha * tl.load(x_ptr + cols, inside, 0.0) + gamma * y
                tl.store(log_p + cols, y, inside)
                if b == B - 1:
                    higher = tl.maximum(top, tl.max(tl.where(inside, y, float("-inf"))))
                    total = total * tl.exp(top - higher) + tl.sum(tl.where(inside, tl.exp(y - higher), 0.0))
                    top = higher
            tl.debug_barrier()  # what was stored is read again, perhaps by other threads
    if ONE:
        top = tl.maximum(top, tl.max(tl.where(every < K, kept, float("-inf"))))
        log_total = tl.log(tl.exp(-top) + tl.sum(tl.where(every < K, tl.exp(kept - top), 0.0)))
        tl.store(log_p + every, (kept - top) - log_total, every < K)
        tl.store(log_p + K, -top - log_total)
    else:
        log_total = tl.log(total)
        for start in range(0, K, BLOCK_K):
            cols = start + tl.arange(0, BLOCK_K)
            y = tl.load(log_p + cols, cols < K, 0.0)
            tl.store(log_p + cols, (y - top) - log_total, cols < K)
        tl.store(log_p + K, -top - log_total)


@triton.jit
def _inner_state(
    state, numbers, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, SOFT: tl.constexpr, NORM: tl.constexpr
):  # fmt: skip
    """What the forward pass knew of a block: mixing weights, softplus, slopes, bends, ``w``, ``d`` and factors of units."""
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    mixing = _loaded(numbers, ROWS * H)
    scales = ()
    if NORM:
        scales = _loaded(numbers + 2 * ROWS * H + 4, ROWS)
    scale = _of_units(scales, 1.0, H, M, MIXED, NORM)
    zeta_out = tl.load(state + R - 1)
    e = tl.full((), 1.0, zeta_out.dtype)
    bend_out = tl.full((), 0.0, zeta_out.dtype)
    if SOFT:
        e = _sigmoid(zeta_out)
        bend_out = e * _sigmoid(-zeta_out)
    zetas = _loaded(state, M * H)
    soft = ()
    slope = ()
    bend = ()
    nothing = ()
    for u in tl.static_range(M * H):
        soft = soft + (_softplus(zetas[u]),)
        slope = slope + (_sigmoid(zetas[u]),)
        bend = bend + (slope[u] * _sigmoid(-zetas[u]),)
        nothing = nothing + (0.0,)
    w, d = _downwards(nothing, e, mixing, slope, H, M, MIXED)
    return mixing, scale, zetas, soft, slope, bend, bend_out, w, d + (e,)


@triton.jit
def _store_row(
    factors, record, numbers, H: tl.constexpr, MIXING: tl.constexpr, ROWS: tl.constexpr, ROW: tl.constexpr,
    FED: tl.constexpr, SOURCE: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """Gradients of a row of the mixing weights, which feeds one unit, and of what normalises that one."""
    mixing, scale, zetas, soft, d, cot_t, cot_w, products, gamma = factors
    of_scale = gamma * d[FED] * products[FED]
    if NORM and ROW < ROWS - 1:  # nothing depends on the last unit itself, only on its slope
        t = zetas[FED]
        for j in tl.static_range(H):
            t -= mixing[ROW * H + j] * soft[SOURCE + j]
        of_scale += cot_t[FED] * t / scale[FED]
    for j in tl.static_range(H):
        of_p = d[FED] * cot_w[SOURCE + j] + cot_t[FED] * soft[SOURCE + j]
        tl.store(record + ROW * H + j, of_p * tl.load(numbers + MIXING + 2 + ROW * H + j))
        if NORM:
            of_scale += of_p * mixing[ROW * H + j] / scale[FED]
    if NORM:
        more = record + MIXING + 2
        tl.store(more + ROWS - 1 + ROW, of_scale * tl.load(numbers + 2 * MIXING + 4 + ROWS + ROW))
        if ROW < ROWS - 1:
            tl.store(more + ROW, cot_t[FED] * scale[FED])
            tl.store(more + 2 * ROWS - 1 + ROW, cot_t[FED] * scale[FED] / H)


@triton.jit
def backward_kernel(
    z_ptr, weights, kept_ptr, log_p_ptr, g_ptr, inputs, dy_ptr, records, dz_ptr, n, K,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, UNITS: tl.constexpr,
    BLOCK_K: tl.constexpr, SOFT: tl.constexpr, NORM: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    """Backward pass of one row: the predictors' gradient, and of each block what its parameters' gradients are made of.

    A record holds a row's gradients of all parameters but ``A``, in their order, those of biases first, which are the
    cotangents of ``t`` as well; then ``gamma d``. ``inputs`` is room for the points between blocks, where a tile cannot hold
    a row.
    """
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    MIXING: tl.constexpr = ROWS * H
    SMALL: tl.constexpr = R + MIXING + 2 + (3 * ROWS - 2 if NORM else 0)
    NUMBERS: tl.constexpr = 2 * (MIXING + 2) + 2 * ROWS
    row = tl.program_id(0).to(tl.int64)
    units = tl.arange(0, UNITS)
    dtype = log_p_ptr.dtype.element_ty
    all_numbers = kept_ptr + (row * 0 + n) * (B * 2 * R)
    log_p = log_p_ptr + row * (K + 1)
    g = g_ptr + row * (K + 1)
    dy_row = dy_ptr + row * K
    dz_row = dz_ptr + row * K
    g_sum = tl.load(g + K)
    points = ()
    if ONE:
        every = tl.arange(0, BLOCK_K)
        kept = tl.load(g + every, every < K, 0.0)
        p = tl.exp(tl.load(log_p + every, every < K, float("-inf")))
        kept -= p * (g_sum + tl.sum(kept))
        tl.store(dy_row + every, kept, every < K)
        points = (tl.load(z_ptr + row * K + every, every < K, 0.0),)
    else:
        for start in range(0, K, BLOCK_K):
            cols = start + tl.arange(0, BLOCK_K)
            g_sum += tl.sum(tl.load(g + cols, cols < K, 0.0))
        for start in range(0, K, BLOCK_K):
            cols = start + tl.arange(0, BLOCK_K)
            inside = cols < K
            dy = tl.load(g + cols, inside, 0.0) - tl.exp(tl.load(log_p + cols, inside, 0.0)) * g_sum
            tl.store(dy_row + cols, dy, inside)
        tl.debug_barrier()
    for b in tl.static_range(B - 1):  # the points between blocks once more
        numbers = all_numbers + b * NUMBERS
        _, scale, _, _, _, _, _, _, d = _inner_state(
            kept_ptr + (row * B + b) * (2 * R), numbers, H, M, MIXED, SOFT, NORM
        )
        alpha = tl.load(numbers + MIXING)
        gamma = tl.load(numbers + MIXING + 1)
        factors = ()
        for u in tl.static_range(R):
            factors = factors + (gamma * d[u] * scale[u],)
        if ONE:
            rows = _rows(weights[b], every, every < K, K, R)
            points = points + (_combination(rows, factors, alpha * points[b], R),)
        else:
            x_ptr = z_ptr + row * K
            if b > 0:
                x_ptr = inputs + ((b - 1) * n + row) * K
            for start in range(0, K, BLOCK_K):
                cols = start + tl.arange(0, BLOCK_K)
                inside = cols < K
                y = alpha * tl.load(x_ptr + cols, inside, 0.0)
                for u in tl.static_range(R):
                    y += factors[u] * tl.load(weights[b] + u * K + cols, inside, 0.0)
                tl.store(inputs + (b * n + row) * K + cols, y, inside)
            tl.debug_barrier()
    for b in tl.static_range(B - 1, -1, -1):
        base = weights[b]
        numbers = all_numbers + b * NUMBERS
        slopes = numbers + MIXING + 2
        state = kept_ptr + (row * B + b) * (2 * R)
        mixing, scale, zetas, soft, slope, bend, bend_out, w, d = _inner_state(state, numbers, H, M, MIXED, SOFT, NORM)
        alpha = tl.load(numbers + MIXING)
        gamma = tl.load(numbers + MIXING + 1)
        of_alpha = tl.full((), 0.0, dtype)
        from_ptr = dy_row
        if b < B - 1:
            from_ptr = dz_row
        if ONE:
            rows = _rows(base, every, every < K, K, R)
            products = _products(rows, kept, R)  # A dy
            of_alpha = tl.sum(points[b] * kept)
        else:
            x_ptr = z_ptr + row * K
            if b > 0:
                x_ptr = inputs + ((b - 1) * n + row) * K
            sums = tl.zeros((UNITS,), dtype)
            sum_out = tl.full((), 0.0, dtype)
            for start in range(0, K, BLOCK_K):
                cols = start + tl.arange(0, BLOCK_K)
                inside = cols < K
                dy = tl.load(from_ptr + cols, inside, 0.0)
                a = tl.load(base + units[:, None] * K + cols[None, :], (units < M * H)[:, None] & inside[None, :], 0.0)
                sums += tl.sum(a * dy[None, :], axis=1)
                sum_out += tl.sum(tl.load(base + (R - 1) * K + cols, inside, 0.0) * dy)
                of_alpha += tl.sum(tl.load(x_ptr + cols, inside, 0.0) * dy)
            products = _entries(sums, state + R, UNITS, M * H) + (sum_out,)
        # up through d = s' w and w = p e + P^T d
        v = ()
        for u in tl.static_range(R):
            v = v + (gamma * products[u] * scale[u],)
        cot_d, cot_w = _upwards(v, mixing, slope, H, M, MIXED, False)
        cot_e = v[R - 1]
        for j in tl.static_range(H):
            cot_e += mixing[MIXING - H + j] * cot_w[(M - 1) * H + j]
        cot_out = bend_out * cot_e
        # down through zeta = t + P s(zeta)
        own = ()
        for u in tl.static_range(M * H):
            own = own + (cot_d[u] * w[u] * bend[u],)
        _, cot_t = _downwards(own, cot_out, mixing, slope, H, M, MIXED)
        cot_t = cot_t + (cot_out,)
        record = records + (row * B + b) * (SMALL + R)
        of_gamma = tl.full((), 0.0, dtype)
        taus = ()
        for u in tl.static_range(R):
            of_gamma += d[u] * scale[u] * products[u]
            taus = taus + (cot_t[u] * scale[u],)
            tl.store(record + u, taus[u])
            tl.store(record + SMALL + u, gamma * d[u] * scale[u])
        factors = (mixing, scale, zetas, soft, d, cot_t, cot_w, products, gamma)
        for i in tl.static_range(ROWS - 1):
            _store_row(
                factors,
                record + R,
                numbers,
                H,
                MIXING,
                ROWS,
                i,
                (i // MIXED + 1) * H + i % MIXED,
                (i // MIXED) * H,
                NORM,
            )
        _store_row(factors, record + R, numbers, H, MIXING, ROWS, ROWS - 1, M * H, (M - 1) * H, NORM)
        tl.store(record + R + MIXING, of_alpha * tl.load(slopes + MIXING))
        tl.store(record + R + MIXING + 1, of_gamma * tl.load(slopes + MIXING + 1))
        if ONE:
            kept = _combination(rows, taus, alpha * kept, R)
            if b == 0:
                tl.store(dz_row + every, kept, every < K)
        else:
            for start in range(0, K, BLOCK_K):
                cols = start + tl.arange(0, BLOCK_K)
                inside = cols < K
                dx = alpha * tl.load(from_ptr + cols, inside, 0.0)
                for u in tl.static_range(R):
                    dx += taus[u] * tl.load(base + u * K + cols, inside, 0.0)
                tl.store(dz_row + cols, dx, inside)
            tl.debug_barrier()


@triton.jit
def _alphas_between(
    kept_ptr, n, low, high, B: tl.constexpr, STATES: tl.constexpr, MIXING: tl.constexpr, ROWS: tl.constexpr
):
    """Product of ``alpha`` of the blocks between two, without them."""
    numbers = kept_ptr + (low.to(tl.int64) * 0 + n) * STATES
    product = tl.full((), 1.0, kept_ptr.dtype.element_ty)
    for i in tl.static_range(B):
        alpha = tl.load(numbers + i * (2 * (MIXING + 2) + 2 * ROWS) + MIXING)
        product = tl.where((i > low) & (i < high), product * alpha, product)
    return product


@triton.jit
def add_up_kernel(
    z_ptr, weights, kept_ptr, dy_ptr, records, gradient, n, K,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, NORM: tl.constexpr, RANK: tl.constexpr,
    SMALL_UP: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums over rows: a tile of the gradient of ``A``, or, in the last program of a block, of all the rest."""
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    MIXING: tl.constexpr = ROWS * H
    SMALL: tl.constexpr = R + MIXING + 2 + (3 * ROWS - 2 if NORM else 0)
    STATES: tl.constexpr = B * 2 * R
    b = tl.program_id(0)
    size = R * K + SMALL
    chunk = tl.program_id(1)
    dtype = gradient.dtype.element_ty
    if chunk < tl.num_programs(1) - 1:
        ranks = tl.arange(0, RANK)
        cols = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
        inside = cols < K
        before = _alphas_between(kept_ptr, n, b * 0 - 1, b, B, STATES, MIXING, ROWS)
        after = _alphas_between(kept_ptr, n, b, b * 0 + B, B, STATES, MIXING, ROWS)
        of_x = tl.zeros((RANK, BLOCK_K), dtype=dtype)
        of_dy = tl.zeros((RANK, BLOCK_K), dtype=dtype)
        for start in range(0, n, BLOCK_N):
            rows = (start + tl.arange(0, BLOCK_N)).to(tl.int64)
            tile = (rows < n)[:, None] & inside[None, :]
            where = rows[:, None] * K + cols[None, :]
            x = tl.load(z_ptr + where, tile, 0.0)
            dy = tl.load(dy_ptr + where, tile, 0.0)
            record = records + (rows[None, :] * B + b) * (SMALL + R) + ranks[:, None]
            real = (rows < n)[None, :] & (ranks < R)[:, None]
            of_x = tl.dot(tl.load(record, real, 0.0), x, of_x, input_precision="ieee", out_dtype=of_x.dtype)
            of_dy = tl.dot(tl.load(record + SMALL, real, 0.0), dy, of_dy, input_precision="ieee", out_dtype=of_dy.dtype)
        total = before * of_x + after * of_dy
        for other in tl.static_range(B):
            if other != b:
                # what the points before the block, and the cotangents after it, have of the other one's A
                own_at = tl.where(other < b, 0, SMALL)
                between = _alphas_between(
                    kept_ptr, n, tl.minimum(b, other), tl.maximum(b, other), B, STATES, MIXING, ROWS
                )
                mixed = tl.zeros((RANK, RANK), dtype=dtype)
                for start in range(0, n, BLOCK_N):
                    rows = (start + tl.arange(0, BLOCK_N)).to(tl.int64)
                    left_at = records + (rows[None, :] * B + b) * (SMALL + R) + ranks[:, None] + own_at
                    right_at = records + (rows[:, None] * B + other) * (SMALL + R) + ranks[None, :] + (SMALL - own_at)
                    left = tl.load(left_at, (rows < n)[None, :] & (ranks < R)[:, None], 0.0)
                    right = tl.load(right_at, (rows < n)[:, None] & (ranks < R)[None, :], 0.0)
                    mixed = tl.dot(left, right, mixed, input_precision="ieee", out_dtype=mixed.dtype)
                a = tl.load(
                    weights[other] + ranks[:, None] * K + cols[None, :], (ranks < R)[:, None] & inside[None, :], 0.0
                )
                total = tl.dot(between * mixed, a, total, input_precision="ieee", out_dtype=total.dtype)
        out = gradient + b * size + ranks[:, None] * K + cols[None, :]
        tl.store(out, total, (ranks < R)[:, None] & inside[None, :])
    else:
        entries = tl.arange(0, SMALL_UP)
        sums = tl.zeros((SMALL_UP,), dtype=dtype)
        for first in range(0, n, BLOCK_N):
            lines = (first + tl.arange(0, BLOCK_N)).to(tl.int64)
            small = records + (lines[:, None] * B + b) * (SMALL + R) + entries[None, :]
            sums += tl.sum(tl.load(small, (lines < n)[:, None] & (entries < SMALL)[None, :], 0.0), axis=0)
        tl.store(gradient + b * size + R * K + entries, sums, entries < SMALL)
