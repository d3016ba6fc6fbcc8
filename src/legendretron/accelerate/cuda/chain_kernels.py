r"""Composite links as Triton kernels, for many runs at once: softmax+ after a chain of ridge blocks, or without any.

There are two ways. Few classes, or few rows: one program takes some rows of a run, or a single one, through the link, and on
request back again, without writing points between blocks where others would have to wait for them. Many classes: programs
take some rows and some classes from the units of one block to those of the next.

Parameters are read where they are kept, at a stride from one run to the next: in training in one row a run, in a head in
tensors of their own. See :mod:`legendretron.accelerate.cuda.unit_kernels` for what is computed of all units.
"""

from __future__ import annotations

import triton
import triton.language as tl

from legendretron.accelerate.cuda.unit_kernels import (
    load_noise_rate,
    observed_loss,
    store_folded_gradients,
    units_backward,
    units_forward,
)

__all__ = [
    "COTANGENT",
    "FORWARD",
    "LABELS",
    "add_rows_kernel",
    "add_tiles_kernel",
    "columns_kernel",
    "loss_kernel",
    "spread_kernel",
    "tile_kernel",
    "units_kernel",
]

#: Modes of a kernel: log-probabilities; gradients of the log-loss of labels; gradients for a given cotangent.
FORWARD, LABELS, COTANGENT = 0, 1, 2


# --- rows in registers ---


@triton.jit
def _multiply(x, a, ONE: tl.constexpr):
    """Products of rows of ``x`` with the lines of ``A``."""
    if ONE:
        products = tl.sum(x * a, 1)[None, :]
    else:
        products = tl.dot(x, tl.trans(a), input_precision="ieee", out_dtype=x.dtype)
    return products


@triton.jit
def _spread(d, a, x, ONE: tl.constexpr):
    """``x + d A``."""
    if ONE:
        spread = x + tl.sum(tl.trans(d) * a, 0)[None, :]
    else:
        spread = tl.dot(d, a, x, input_precision="ieee", out_dtype=x.dtype)
    return spread


@triton.jit
def tile_kernel(
    z_ptr, blocks, numbers, labels, weights, flat, log_p_ptr, points, states, cotangents, parts, out_ptr, known_rate,
    n_all, n, K, STRIDE, P, tiles, B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr,
    UNITS: tl.constexpr, RANK: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SOFT: tl.constexpr,
    MODE: tl.constexpr, LEARNED: tl.constexpr, NOISY: tl.constexpr,
):  # fmt: skip
    """Some rows of one run.

    ``MODE`` is 0 to write log-probabilities; 1 for the log-loss of ``labels`` with ``weights``, and 2 for a cotangent of the
    log-probabilities in ``weights``, to write the gradient in ``z``. A part then holds sums over these rows: the gradients of
    the bias and of all blocks, of the noise rate, then losses and hits. Units get their inputs by way of memory.

    A single row, of more classes, has sums in place of matrix products. It is not taken forward again in mode 2, and leaves
    the gradients of ``A`` to :func:`columns_kernel`: its part has only what the blocks have beside ``A``.
    """
    ONE: tl.constexpr = BLOCK_N == 1
    R: tl.constexpr = M * H + 1
    MIXING: tl.constexpr = ((M - 1) * MIXED + 1) * H
    SMALL: tl.constexpr = 2 * R + MIXING + 2
    NUMBERS: tl.constexpr = 2 * R + 3 * MIXING + 4
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
    lines = ranks[:, None] * K + every[None, :]
    dtype = out_ptr.dtype.element_ty
    if ONE:
        part = parts + program * (B * SMALL)
    else:
        part = parts + program * (K + B * (R * K + SMALL) + 3)
    x = tl.load(z_ptr + rows[:, None] * K + every[None, :], here, 0.0)
    for b in tl.static_range(0 if ONE and MODE == 2 else B):
        if b > 0 and (ONE or MODE > 0):
            tl.store(points + ((b - 1) * n_all + rows)[:, None] * K + every[None, :], x, here)
        own = numbers + (run * B + b) * NUMBERS
        state = states + (b * n_all + rows) * (4 * R)
        a = tl.load(blocks[b] + run * STRIDE + lines, in_a, 0.0)
        tl.store(state[:, None] + ranks[None, :], _multiply(x, a, ONE), in_rank)
        tl.debug_barrier()  # what was stored is read by other threads
        units_forward(state, own, real, H, M, MIXED, UNITS, SOFT)
        tl.debug_barrier()
        d = tl.load(state[:, None] + 2 * R + ranks[None, :], in_rank, 0.0)
        x = _spread(d, a, tl.load(own + NUMBERS - 4) * x, ONE)
    shown = tl.where(inside[None, :], x, float("-inf"))
    highest = tl.max(shown, axis=1)
    top = tl.maximum(highest, 0.0)  # the reference class has log-odds 0
    e = tl.where(inside[None, :], tl.exp(x - top[:, None]), 0.0)
    total = tl.sum(e, axis=1) + tl.exp(-top)
    if MODE == 0:
        log_total = tl.log(total)
        place = out_ptr + rows[:, None] * (K + 1)
        tl.store(place + every[None, :], (x - top[:, None]) - log_total[:, None], here)
        tl.store(out_ptr + rows * (K + 1) + K, -top - log_total, real)
        return
    if MODE == 2:
        place = weights + rows[:, None] * (K + 1)
        g = tl.load(place + every[None, :], here, 0.0)
        sum_g = tl.sum(g, axis=1) + tl.load(weights + rows * (K + 1) + K, real, 0.0)
        if ONE:
            p = tl.exp(tl.load(log_p_ptr + rows[:, None] * (K + 1) + every[None, :], here, float("-inf")))
        else:
            p = e / total[:, None]
        dy = g - sum_g[:, None] * p
    else:
        label = tl.load(labels + rows, real, 0)
        weight = tl.load(weights + rows, real, 0.0)
        is_label = every[None, :] == label[:, None]
        nll = top - tl.sum(tl.where(is_label & inside[None, :], x, 0.0), axis=1) + tl.log(total)
        # ties go to the first class, and to the last of two
        first = tl.min(tl.where(shown == highest[:, None], every[None, :], BLOCK_K), axis=1)
        best = tl.where((highest > 0.0) | ((highest == 0.0) & (K > 1)), first, K)
        rate = load_noise_rate(flat, run, P, known_rate, LEARNED, NOISY)
        believed = weight
        grad_rate = 0.0 * weight
        sums = part + K + B * (R * K + SMALL)
        if rate is not None:
            nll, grad_rate, believed = observed_loss(nll, rate, weight, K + 1)
        tl.store(sums, tl.sum(grad_rate))
        tl.store(sums + 1, tl.sum(weight * nll))
        tl.store(sums + 2, tl.sum(tl.where(best == label, weight, 0.0)))
        dy = believed[:, None] * (e / total[:, None] - tl.where(is_label & inside[None, :], 1.0, 0.0))
    for b in tl.static_range(B - 1, -1, -1):
        own = numbers + (run * B + b) * NUMBERS
        state = states + (b * n_all + rows) * (4 * R)
        place = (b * n_all + rows)[:, None] * K + every[None, :]
        if ONE:
            small = part + b * SMALL
        else:
            small = part + K + b * (R * K + SMALL) + R * K
        a = tl.load(blocks[b] + run * STRIDE + lines, in_a, 0.0)
        tl.store(state[:, None] + 3 * R + ranks[None, :], _multiply(dy, a, ONE), in_rank)
        tl.debug_barrier()
        units_backward(state, state + 3 * R, own, real, small, H, M, MIXED, UNITS, SOFT)
        tl.debug_barrier()
        cot = tl.load(state[:, None] + R + ranks[None, :], in_rank, 0.0)
        if b > 0:
            x = tl.load(points + ((b - 1) * n_all + rows)[:, None] * K + every[None, :], here, 0.0)
        else:
            x = tl.load(z_ptr + place, here, 0.0)
        tl.store(small + 2 * R + MIXING, tl.sum(tl.sum(x * dy, axis=1)))  # of alpha
        if ONE:
            tl.store(cotangents + place, dy, here)
        else:
            d = tl.load(state[:, None] + 2 * R + ranks[None, :], in_rank, 0.0)
            grad_a = tl.dot(tl.trans(cot), x, input_precision="ieee", out_dtype=dtype)
            grad_a = tl.dot(tl.trans(d), dy, grad_a, input_precision="ieee", out_dtype=dtype)
            tl.store(small - R * K + lines, grad_a, in_a)
        dy = _spread(cot, a, tl.load(own + NUMBERS - 4) * dy, ONE)
    tl.store(out_ptr + rows[:, None] * K + every[None, :], dy, here)
    if not ONE:
        tl.store(part + every, tl.sum(dy, axis=0), inside)


@triton.jit
def columns_kernel(
    x_ptr, points, cotangents, states, gradient, n_all, n, K, START, P, SIZE,
    R: tl.constexpr, RANK: tl.constexpr, WIDTH: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Some columns of the gradient of one ``A``, from the points before a block, the cotangents behind it, and its states."""
    run = tl.program_id(0).to(tl.int64)
    chunks = tl.cdiv(K, BLOCK_K)
    b = tl.program_id(1) // chunks
    cols = tl.program_id(1) % chunks * BLOCK_K + tl.arange(0, BLOCK_K)
    ranks = tl.arange(0, RANK)
    in_rank = ranks < R
    grad = tl.zeros((RANK, BLOCK_K), gradient.dtype.element_ty)
    for first in range(0, n, BLOCK_N):
        local = first + tl.arange(0, BLOCK_N)
        rows = run * n + local
        here = (local < n)[:, None] & (cols < K)[None, :]
        place = (b * n_all + rows)[:, None] * K + cols[None, :]
        if b > 0:
            x = tl.load(points + ((b - 1) * n_all + rows)[:, None] * K + cols[None, :], here, 0.0)
        else:
            x = tl.load(x_ptr + place, here, 0.0)
        state = states + (b * n_all + rows)[None, :] * WIDTH + ranks[:, None]
        real = (local < n)[None, :] & in_rank[:, None]
        grad = tl.dot(tl.load(state + R, real, 0.0), x, grad, input_precision="ieee", out_dtype=grad.dtype)
        dy = tl.load(cotangents + place, here, 0.0)
        grad = tl.dot(tl.load(state + 2 * R, real, 0.0), dy, grad, input_precision="ieee", out_dtype=grad.dtype)
    out = gradient + run * P + START + b * SIZE + ranks[:, None] * K + cols[None, :]
    tl.store(out, grad, in_rank[:, None] & (cols < K)[None, :])


@triton.jit
def add_tiles_kernel(
    parts, dots, numbers, gradient, totals, scratch, n, K, START, P, tiles, n_dots, n_runs,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, UNITS: tl.constexpr, RANK: tl.constexpr,
    MIXING_ROWS: tl.constexpr, SMALL_UP: tl.constexpr, BLOCK: tl.constexpr, NORMED: tl.constexpr, FLOOR: tl.constexpr,
    LEARNED: tl.constexpr, WHOLE: tl.constexpr, DOTS: tl.constexpr, LABELED: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Add up the parts of a run: the first ``B`` programs what a block has beside ``A``, the others all the rest.

    With ``WHOLE``, parts are those of :func:`tile_kernel`, and ``START`` is where the bias is. Without it they have only what
    the blocks have beside ``A``, and ``START`` is where the first block is. With ``DOTS``, gradients of alpha are sums of
    ``dots``.
    """
    R: tl.constexpr = M * H + 1
    ROWS: tl.constexpr = (M - 1) * MIXED + 1
    SMALL: tl.constexpr = 2 * R + ROWS * H + 2
    RAW: tl.constexpr = R + ROWS * H + 2 + (3 * ROWS - 2 if NORMED else 0)
    NUMBERS: tl.constexpr = 2 * R + 3 * ROWS * H + 4
    dtype = gradient.dtype.element_ty
    run = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1)
    length = B * SMALL
    before = b * SMALL
    if WHOLE:
        length = K + B * (R * K + SMALL) + 3
        before = K + b * (R * K + SMALL) + R * K
    if b < B:
        small = tl.arange(0, SMALL_UP)
        small_sum = tl.zeros((SMALL_UP,), dtype)
        for first in range(0, tiles, TILES):
            some_tiles = first + tl.arange(0, TILES)
            line = (run * tiles + some_tiles)[:, None] * length + before + small[None, :]
            small_sum += tl.sum(tl.load(parts + line, (some_tiles < tiles)[:, None] & (small < SMALL)[None, :], 0.0), 0)
        if DOTS:
            some = tl.arange(0, BLOCK)
            grad_alpha = tl.zeros((BLOCK,), dtype)
            for first in range(0, n_dots, BLOCK):
                where = (run * B + b) * n_dots + first + some
                grad_alpha += tl.load(dots + where, first + some < n_dots, 0.0)
            small_sum = tl.where(small == 2 * R + ROWS * H, tl.sum(grad_alpha), small_sum)
        sums = scratch + (run * B + b) * SMALL
        tl.store(sums + small, small_sum, small < SMALL)
        tl.debug_barrier()
        out = gradient + run * P + START + b * (R * K + RAW) + R * K
        if WHOLE:
            out += K
        store_folded_gradients(
            sums, numbers + (run * B + b) * NUMBERS, out, H, M, MIXED, RANK, MIXING_ROWS, UNITS, NORMED, FLOOR
        )
    else:
        entries = (b - B) * BLOCK + tl.arange(0, BLOCK)
        n_sums = length - 3
        if LABELED:
            n_sums = length
        total = tl.zeros((BLOCK,), dtype)
        for tile in range(tiles):
            total += tl.load(parts + (run * tiles + tile) * length + entries, entries < n_sums, 0.0)
        tl.store(gradient + run * P + START + entries, total, entries < K)
        inner = entries - K
        in_block = inner % (R * K + SMALL)
        is_weight = (entries >= K) & (entries < length - 3) & (in_block < R * K)
        place = START + K + inner // (R * K + SMALL) * (R * K + RAW) + in_block
        tl.store(gradient + run * P + place, total, is_weight)
        if LEARNED:
            tl.store(gradient + run * P + P - 1 + 0 * entries, total, entries == length - 3)
        if LABELED:
            history = (entries >= length - 2) & (entries < length)
            where = totals + (entries - (length - 2)) * n_runs + run
            tl.store(where, tl.load(where, history, 0.0) + n * total, history)


# --- many classes ---


@triton.jit
def units_kernel(
    products, numbers, states, parts, n_all, n, tiles, b,
    B: tl.constexpr, H: tl.constexpr, M: tl.constexpr, MIXED: tl.constexpr, UNITS: tl.constexpr, RANK: tl.constexpr,
    BLOCK_N: tl.constexpr, CHUNKS: tl.constexpr, SOFT: tl.constexpr, BACKWARD: tl.constexpr,
):  # fmt: skip
    """From products of some rows of one run with ``A`` to the state of their units.

    With ``BACKWARD``, products are those of the rows' cotangents: the cotangents of ``A x`` take the place of ``zeta`` in the
    state, and sums over these rows are written to ``parts``.
    """
    R: tl.constexpr = M * H + 1
    MIXING: tl.constexpr = ((M - 1) * MIXED + 1) * H
    program = tl.program_id(0).to(tl.int64)
    run = program // tiles
    local = (program % tiles) * BLOCK_N + tl.arange(0, BLOCK_N)
    real = local < n
    rows = run * n + local
    state = states + (b * n_all + rows) * (3 * R)
    ranks = tl.arange(0, RANK)
    in_rank = real[:, None] & (ranks < R)[None, :]
    seen = tl.zeros((BLOCK_N, RANK), states.dtype.element_ty)
    for chunk in range(CHUNKS):
        seen += tl.load(products + (chunk * n_all + rows)[:, None] * R + ranks[None, :], in_rank, 0.0)
    own = numbers + (run * B + b) * (2 * R + 3 * MIXING + 4)
    if BACKWARD:
        tl.store(products + rows[:, None] * R + ranks[None, :], seen, in_rank)
        tl.debug_barrier()
        out = parts + (program * B + b) * (2 * R + MIXING + 2)
        units_backward(state, products + rows * R, own, real, out, H, M, MIXED, UNITS, SOFT)
    else:
        tl.store(state[:, None] + ranks[None, :], seen, in_rank)
        tl.debug_barrier()
        units_forward(state, own, real, H, M, MIXED, UNITS, SOFT)


@triton.jit
def spread_kernel(
    x_ptr, d_ptr, a_ptr, next_ptr, numbers, other_ptr, out_ptr, dots, products, n_all, n, K, STRIDE, span, tiles, b, n_dots,
    B: tl.constexpr, R: tl.constexpr, RANK: tl.constexpr, NUMBERS: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, CHUNKS: tl.constexpr, PRECISION: tl.constexpr, SPREAD: tl.constexpr, DOT: tl.constexpr,
    NEXT: tl.constexpr,
):  # fmt: skip
    """What is done to some rows and classes of one run between the units of two blocks.

    ``SPREAD``: ``y = alpha x + A' d`` with ``d`` in one part of the state of a row; without it ``y = x``. ``DOT``: the sum of
    ``x`` times the other. ``NEXT``: products of ``y`` with the lines of the next ``A``.
    """
    program = tl.program_id(0).to(tl.int64)
    chunk = program % CHUNKS
    run = program // (CHUNKS * tiles)
    tile = program // CHUNKS % tiles
    local = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = run * n + local
    ranks = tl.arange(0, RANK)
    in_rank = (local < n)[:, None] & (ranks < R)[None, :]
    dtype = out_ptr.dtype.element_ty
    alpha = tl.full((), 1.0, dtype)
    if SPREAD:
        alpha = tl.load(numbers + (run * B + b) * NUMBERS + NUMBERS - 4)
        d = tl.load(d_ptr + rows[:, None] * (3 * R) + ranks[None, :], in_rank, 0.0)
    sums = tl.zeros((BLOCK_N, RANK), dtype)
    dot = tl.zeros((BLOCK_N,), dtype)
    for start in range(0, span, BLOCK_K):
        cols = chunk * span + start + tl.arange(0, BLOCK_K)
        here = (local < n)[:, None] & (cols < K)[None, :]
        where = rows[:, None] * K + cols[None, :]
        lines = run * STRIDE + ranks[:, None] * K + cols[None, :]
        in_a = (ranks < R)[:, None] & (cols < K)[None, :]
        y = tl.load(x_ptr + where, here, 0.0)
        if DOT:
            dot += tl.sum(y * tl.load(other_ptr + where, here, 0.0), axis=1)
        if SPREAD:
            a = tl.load(a_ptr + lines, in_a, 0.0)
            y = tl.dot(d, a, alpha * y, input_precision=PRECISION, out_dtype=dtype)
            tl.store(out_ptr + where, y, here)
        if NEXT:
            a = tl.load(next_ptr + lines, in_a, 0.0)
            sums = tl.dot(y, tl.trans(a), sums, input_precision=PRECISION, out_dtype=dtype)
    if DOT:
        tl.store(dots + (run * B + b) * n_dots + tile * CHUNKS + chunk, tl.sum(dot))
    if NEXT:
        tl.store(products + (chunk * n_all + rows)[:, None] * R + ranks[None, :], sums, in_rank)


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
    # ties go to the first class, and to the last of two
    best = tl.where((highest > 0.0) | ((highest == 0.0) & (K > 1)), first, K)
    rate = load_noise_rate(flat, row // n, P, known_rate, LEARNED, NOISY)
    believed = weight
    grad_rate = zero
    if rate is not None:
        nll, grad_rate, believed = observed_loss(nll, rate, weight, K + 1)
    tl.store(sums + row * 3, grad_rate)
    tl.store(sums + row * 3 + 1, weight * nll)
    tl.store(sums + row * 3 + 2, tl.where(best == label, weight, 0.0))
    if ONE:
        tl.store(dy_ptr + row * K + every, believed * (e / total - tl.where(every == label, 1.0, 0.0)), every < K)
    else:
        for start in range(0, K, BLOCK_K):
            cols = start + every
            y = tl.load(y_ptr + cols, cols < K, float("-inf"))
            residual = tl.exp(y - top) / total - tl.where(cols == label, 1.0, 0.0)
            tl.store(dy_ptr + row * K + cols, believed * residual, cols < K)


@triton.jit
def add_rows_kernel(
    dz_ptr, sums, gradient, totals, n, K, P, START, n_runs, LEARNED: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums over the rows of a run: the gradient of the bias and of the noise rate, and what the history needs."""
    run = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_K,), dtype=gradient.dtype.element_ty)
    zero = tl.sum(total)
    grad_rate = zero
    loss = zero
    hits = zero
    for start in range(0, n, BLOCK_N):
        local = start + tl.arange(0, BLOCK_N)
        rows = run * n + local
        real = local < n
        in_tile = real[:, None] & (cols < K)[None, :]
        total += tl.sum(tl.load(dz_ptr + rows[:, None] * K + cols[None, :], in_tile, 0.0), 0)
        grad_rate += tl.sum(tl.load(sums + rows * 3, real, 0.0))
        loss += tl.sum(tl.load(sums + rows * 3 + 1, real, 0.0))
        hits += tl.sum(tl.load(sums + rows * 3 + 2, real, 0.0))
    tl.store(gradient + run * P + START + cols, total, cols < K)
    if tl.program_id(1) == 0:
        tl.store(totals + run, tl.load(totals + run) + n * loss)
        tl.store(totals + n_runs + run, tl.load(totals + n_runs + run) + n * hits)
        if LEARNED:
            tl.store(gradient + run * P + P - 1, grad_rate)
