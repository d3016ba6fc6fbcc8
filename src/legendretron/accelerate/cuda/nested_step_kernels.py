r"""The rows of a training step for nested log-sum-exp links; see :mod:`legendretron.accelerate.cuda.step_kernels`.

With :math:`v_m = \mu_m (x - \max x) + c_m`, :math:`s_m = \mathrm{softmax}(v_m)`, :math:`l_m` the log-sum-exp of :math:`v_m`
and :math:`\pi = \mathrm{softmax}(\tfrac{\beta}{\mu} l + b)`, the probabilities are :math:`p = \sum_m \pi_m s_m`. Let
:math:`q_m = \pi_m s_{my} / p_y` be the share of nest ``m`` in the label ``y``. Then

.. math::

    \frac{\partial \log p_y}{\partial v_{mk}} = q_m \delta_{ky} + g_m s_{mk}, \qquad
    g_m = \tfrac{\beta}{\mu_m} (q_m - \pi_m) - q_m,

and all other derivatives follow from these and from :math:`\partial \log p_y / \partial b_m = q_m - \pi_m`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from legendretron.accelerate.cuda.step_kernels import noise_rate, observed_loss

__all__ = ["add_nested_kernel", "nested_step_kernel"]


@triton.jit
def _offsets_at(theta, m, every, K, N: tl.constexpr):
    """Where the offsets of nest ``m`` are: the reference class has its own after those of all nests."""
    return theta + N + 1 + tl.where(every < K, m * K + every, N * K + m)


@triton.jit
def nested_step_kernel(
    z_ptr, flat, labels, weights, records, sums, dz_ptr, n, K, P, START, known_rate,
    N: tl.constexpr, BLOCK_K: tl.constexpr, LEARNED: tl.constexpr, NOISY: tl.constexpr,
):  # fmt: skip
    """One row of one run: forward, log-loss, backward.

    A record holds the gradients of ``log mu``, ``log beta`` and ``b``, then of each nest the gradients in ``l_m`` and in the
    label's logit, and ``l_m``; and the highest logit.
    """
    row = tl.program_id(0).to(tl.int64)
    run = row // n
    theta = flat + run * P + START
    every = tl.arange(0, BLOCK_K)
    inside = every <= K
    x = tl.load(z_ptr + row * K + every, every < K, 0.0)
    top = tl.max(tl.where(inside, x, float("-inf")))
    below = tl.where(inside, x - top, 0.0)
    label = tl.load(labels + row)
    weight = tl.load(weights + row)
    beta = tl.exp(tl.load(theta + N))
    of_label = every == label
    below_label = tl.sum(tl.where(of_label, below, 0.0))
    shares = ()  # s_m
    lses = ()
    mus = ()
    gates = ()
    log_s = ()  # of the label
    for m in tl.static_range(N):
        mu = tl.exp(tl.load(theta + m))
        v = mu * below + tl.load(_offsets_at(theta, m, every, K, N), inside, 0.0)
        highest = tl.max(tl.where(inside, v, float("-inf")))
        e = tl.where(inside, tl.exp(v - highest), 0.0)
        total = tl.sum(e)
        lse = highest + tl.log(total)
        shares = shares + (e / total,)
        lses = lses + (lse,)
        mus = mus + (mu,)
        gates = gates + (beta / mu * lse + tl.load(theta + N + 1 + N * K + N + m),)
        log_s = log_s + (tl.sum(tl.where(of_label, v, 0.0)) - lse,)
    high_gate = gates[0]
    for m in tl.static_range(1, N):
        high_gate = tl.maximum(high_gate, gates[m])
    sum_gates = tl.exp(gates[0] - high_gate)
    for m in tl.static_range(1, N):
        sum_gates += tl.exp(gates[m] - high_gate)
    log_sum = high_gate + tl.log(sum_gates)
    p = tl.exp(gates[0] - log_sum) * shares[0]
    high_joint = gates[0] - log_sum + log_s[0]
    for m in tl.static_range(1, N):
        p += tl.exp(gates[m] - log_sum) * shares[m]
        high_joint = tl.maximum(high_joint, gates[m] - log_sum + log_s[m])
    sum_joint = tl.exp(gates[0] - log_sum + log_s[0] - high_joint)
    for m in tl.static_range(1, N):
        sum_joint += tl.exp(gates[m] - log_sum + log_s[m] - high_joint)
    log_p = high_joint + tl.log(sum_joint)
    shown = tl.where(inside, p, -1.0)
    most = tl.max(shown)
    best = tl.min(tl.where(shown == most, every, BLOCK_K))  # among equals the first class counts, and the last of two
    if K == 1:
        best = tl.where(tl.sum(tl.where(every == 1, p, 0.0)) == most, 1, best)
    nll = -log_p
    kept = weight
    of_rate = 0.0 * nll
    rate = noise_rate(flat, run, P, known_rate, LEARNED, NOISY)
    if rate is not None:
        nll, of_rate, kept = observed_loss(nll, rate, weight, K)
    tl.store(sums + row * 3, of_rate)
    tl.store(sums + row * 3 + 1, weight * nll)
    tl.store(sums + row * 3 + 2, tl.where(best == label, weight, 0.0))
    record = records + row * (5 * N + 2)
    dx = tl.zeros_like(x)
    of_beta = 0.0 * nll
    for m in tl.static_range(N):
        pi = tl.exp(gates[m] - log_sum)
        share = -kept * tl.exp(gates[m] - log_sum + log_s[m] - log_p)
        off = share + kept * pi  # the gradient in the gate's bias
        of_lse = beta / mus[m] * off - share
        dx += mus[m] * (tl.where(of_label, share, 0.0) + of_lse * shares[m])
        within = share * below_label + of_lse * tl.sum(shares[m] * below)
        tl.store(record + m, mus[m] * within - off * lses[m] * beta / mus[m])
        tl.store(record + N + 1 + m, off)
        tl.store(record + 2 * N + 1 + m, of_lse)
        tl.store(record + 3 * N + 1 + m, share)
        tl.store(record + 4 * N + 1 + m, lses[m])
        of_beta += off * lses[m] * beta / mus[m]
    tl.store(record + N, of_beta)
    tl.store(record + 5 * N + 1, top)
    tl.store(dz_ptr + row * K + every, dx, every < K)


@triton.jit
def add_nested_kernel(
    z_ptr, flat, labels, records, gradient, n, K, P, START,
    N: tl.constexpr, SMALL_UP: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums over the rows of a run: the gradients of some offsets of a nest, or, in the last program, of all the rest."""
    run = tl.program_id(0).to(tl.int64)
    theta = flat + run * P + START
    out = gradient + run * P + START
    chunk = tl.program_id(1)
    if chunk < tl.num_programs(1) - 1:
        cols = chunk * BLOCK_K + tl.arange(0, BLOCK_K)
        inside = cols <= K
        m = tl.program_id(2)
        mu = tl.exp(tl.load(theta + m))
        c = tl.load(_offsets_at(theta, m, cols, K, N), inside, 0.0)
        total = tl.zeros((BLOCK_K,), dtype=gradient.dtype.element_ty)
        for start in range(0, n, BLOCK_N):
            local = start + tl.arange(0, BLOCK_N)
            real = local < n
            rows = run * n + local
            x = tl.load(z_ptr + rows[:, None] * K + cols[None, :], real[:, None] & (cols < K)[None, :], 0.0)
            record = records + rows * (5 * N + 2)
            of_lse = tl.load(record + 2 * N + 1 + m, real, 0.0)
            share = tl.load(record + 3 * N + 1 + m, real, 0.0)
            lse = tl.load(record + 4 * N + 1 + m, real, 0.0)
            top = tl.load(record + 5 * N + 1, real, 0.0)
            label = tl.load(labels + rows, real, -1)
            v = mu * (x - top[:, None]) + (c[None, :] - lse[:, None])
            s = tl.where(real[:, None] & inside[None, :], tl.exp(v), 0.0)
            total += tl.sum(of_lse[:, None] * s + tl.where(label[:, None] == cols[None, :], share[:, None], 0.0), 0)
        tl.store(_offsets_at(out, m, cols, K, N), total, inside)
    elif tl.program_id(2) == 0:
        entries = tl.arange(0, SMALL_UP)  # log mu, log beta, b
        sums = tl.zeros((SMALL_UP,), dtype=gradient.dtype.element_ty)
        for first in range(0, n, BLOCK_N):
            lines = first + tl.arange(0, BLOCK_N)
            small = records + (run * n + lines)[:, None] * (5 * N + 2) + entries[None, :]
            sums += tl.sum(tl.load(small, (lines < n)[:, None] & (entries <= 2 * N)[None, :], 0.0), axis=0)
        tl.store(out + tl.where(entries <= N, entries, N * K + N + entries), sums, entries <= 2 * N)
