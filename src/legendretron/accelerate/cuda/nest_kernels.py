r"""Canonical links as Triton kernels: one for the forward pass, one for the backward pass, of heads and of training steps.

A program holds all nests of a row, ``(M, C)``, so that rows are read once. Differences below ``LOWEST`` count as masked. The
formulas are those of :class:`legendretron.potentials.NestedLogSumExp`. In the backward pass a program takes several rows of a
run, one after the other, and writes the sums of their parameters' gradients: what is left is a sum over the programs.
"""

from __future__ import annotations

import triton
import triton.language as tl

from legendretron.accelerate.cuda.row_kernels import load_noise_rate, observed_loss

__all__ = ["nests_backward_kernel", "nests_forward_kernel"]


@triton.jit
def _parameters(
    log_mu, log_beta, offsets, reference, gate_bias, shift, n_classes,
    M: tl.constexpr, NESTS: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """``mu``, ``beta``, offsets of all classes and gate biases; nests that only fill up have no weight."""
    nests, cols = tl.arange(0, NESTS), tl.arange(0, BLOCK_C)
    real = nests < M
    mu = tl.exp(tl.load(log_mu + shift + nests, real, 0.0))
    beta = tl.exp(tl.load(log_beta + shift))
    place = nests[:, None] * (n_classes - 1) + cols[None, :]
    own = tl.load(offsets + shift + place, real[:, None] & (cols < n_classes - 1)[None, :], 0.0)
    last = tl.load(reference + shift + nests, real, 0.0)
    c = tl.where((cols == n_classes - 1)[None, :], last[:, None], own)
    bias = tl.load(gate_bias + shift + nests, real, float("-inf"))
    return mu, beta, c, bias


@triton.jit
def _nests_of_row(
    x, mu, beta, c, bias, n_classes, ALL: tl.constexpr, LOWEST: tl.constexpr, BLOCK_C: tl.constexpr
):  # fmt: skip
    """Masks, differences to the largest, exponents of the nests, their softmax, log-sum-exps, and logarithms of the gates."""
    cols = tl.arange(0, BLOCK_C)
    inside = cols < n_classes
    given = n_classes
    if not ALL:
        given = n_classes - 1
    value = tl.load(x + cols, cols < given, 0.0)  # the reference class's logit is 0
    value = tl.where(inside, value, float("-inf"))
    below = value - tl.max(value, 0)
    masked = cols >= n_classes
    if ALL:
        masked = masked | (below < LOWEST)
    d = tl.where(masked, 0.0, below)
    a = tl.where(masked[None, :], float("-inf"), mu[:, None] * d[None, :] + c)
    most = tl.max(a, 1)
    e = tl.exp(a - most[:, None])
    total = tl.sum(e, 1)
    lse = most + tl.log(total)
    gate = beta / mu * lse + bias
    highest = tl.max(gate, 0)
    log_pi = (gate - highest) - tl.log(tl.sum(tl.exp(gate - highest), 0))
    return masked, d, a, e / total[:, None], lse, log_pi


@triton.jit
def _log_proba(masked, joint):
    """Log-probabilities of all classes, from logarithms of the shares of all nests in them."""
    top = tl.where(masked, 0.0, tl.max(joint, 0))
    total = tl.sum(tl.exp(joint - top[None, :]), 0)
    return tl.where(masked, float("-inf"), top + tl.log(tl.where(masked, 1.0, total)))


@triton.jit
def nests_forward_kernel(
    x_ptr, log_mu, log_beta, offsets, reference, gate_bias, log_p_ptr, n_classes,
    M: tl.constexpr, NESTS: tl.constexpr, ALL: tl.constexpr, LOWEST: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """One row to one row of log-probabilities."""
    row = tl.program_id(0).to(tl.int64)
    mu, beta, c, bias = _parameters(log_mu, log_beta, offsets, reference, gate_bias, 0, n_classes, M, NESTS, BLOCK_C)
    given = n_classes
    if not ALL:
        given = n_classes - 1
    masked, _, a, _, lse, log_pi = _nests_of_row(
        x_ptr + row * given, mu, beta, c, bias, n_classes, ALL, LOWEST, BLOCK_C
    )
    log_p = _log_proba(masked, (log_pi - lse)[:, None] + a)
    cols = tl.arange(0, BLOCK_C)
    tl.store(log_p_ptr + row * n_classes + cols, log_p, cols < n_classes)


@triton.jit
def nests_backward_kernel(
    x_ptr, log_mu, log_beta, offsets, reference, gate_bias, labels, given_ptr, flat, known_rate, dx_ptr, sums, n, n_classes,
    STRIDE, P, M: tl.constexpr, NESTS: tl.constexpr, ALL: tl.constexpr, LOWEST: tl.constexpr, BLOCK_C: tl.constexpr,
    LABELS: tl.constexpr, LEARNED: tl.constexpr, NOISY: tl.constexpr,
):  # fmt: skip
    """Gradients of some rows of a run, and sums of those of the parameters over these rows, in the parameters' order.

    With ``LABELS``, those of the log-loss of labels, whose weights are given; before the sums of the link come those of the
    bias, and after them the noise rate's, losses and hits. Otherwise a cotangent of the log-probabilities is given.
    """
    nests, cols = tl.arange(0, NESTS), tl.arange(0, BLOCK_C)
    inside = cols < n_classes
    run = tl.program_id(1).to(tl.int64)
    mu, beta, c, bias = _parameters(
        log_mu, log_beta, offsets, reference, gate_bias, run * STRIDE, n_classes, M, NESTS, BLOCK_C
    )
    given = n_classes
    if not ALL:
        given = n_classes - 1
    of_c = tl.zeros_like(c)
    of_mu = tl.zeros_like(mu)
    of_gates = tl.zeros_like(mu)
    of_slopes = tl.zeros_like(mu)
    of_bias = tl.sum(of_c, 0)
    of_rate = tl.sum(of_mu, 0)
    loss = of_rate
    hits = of_rate
    rate = load_noise_rate(flat, run, P, known_rate, LEARNED, NOISY)
    first = tl.program_id(0)
    for i in range(first, n, tl.num_programs(0)):
        row = run * n + i
        masked, d, a, softmax, lse, log_pi = _nests_of_row(
            x_ptr + row * given, mu, beta, c, bias, n_classes, ALL, LOWEST, BLOCK_C
        )
        if LABELS:
            label = tl.load(labels + row)
            weight = tl.load(given_ptr + row)
            of_label = cols == label
            log_share = log_pi - lse + tl.sum(tl.where(of_label[None, :], a, 0.0), 1)
            most = tl.max(log_share, 0)
            nll = -(most + tl.log(tl.sum(tl.exp(log_share - most), 0)))
            of_nest = tl.exp(log_share + nll)
            believed = weight
            if rate is not None:
                nll, of_rate_here, believed = observed_loss(nll, rate, weight, n_classes)
                of_rate += of_rate_here
            p = tl.where(inside, tl.sum(tl.exp(log_pi)[:, None] * softmax, 0), -1.0)
            highest = tl.max(p, 0)
            best = tl.min(tl.where(p == highest, cols, BLOCK_C), 0)  # among equals the first, and the last of two
            if n_classes == 2:
                best = tl.max(tl.where(p == highest, cols, 0), 0)
            loss += weight * nll
            hits += tl.where(best == label, weight, 0.0)
            of_nest = -believed * of_nest
            share = tl.where(of_label[None, :], of_nest[:, None], 0.0)
        else:
            joint = (log_pi - lse)[:, None] + a
            log_p = _log_proba(masked, joint)
            g = tl.load(given_ptr + row * n_classes + cols, inside & ~masked, 0.0)
            share = tl.exp(joint - tl.where(masked, 0.0, log_p)[None, :]) * g[None, :]
            of_nest = tl.sum(share, 1)
        of_gate = of_nest - tl.exp(log_pi) * tl.sum(of_nest, 0)
        through = of_gate * (beta / mu)
        cot = share + softmax * (through - of_nest)[:, None]
        dx = tl.sum(mu[:, None] * cot, 0)
        tl.store(dx_ptr + row * given + cols, dx, cols < given)
        of_bias += dx
        of_c += cot
        of_mu += mu * tl.sum(cot * d[None, :], 1) - through * lse
        of_gates += of_gate
        of_slopes += through * lse
    real = nests < M
    k = n_classes - 1
    size = M * (n_classes + 2) + 1
    if LABELS:
        size += k + 3
    out = sums + (run * tl.num_programs(0) + first) * size
    if LABELS:
        tl.store(out + cols, of_bias, cols < k)
        tl.store(out + size - 3, of_rate)
        tl.store(out + size - 2, loss)
        tl.store(out + size - 1, hits)
        out += k
    tl.store(out + nests, of_mu, real)
    tl.store(out + M, tl.sum(of_slopes, 0))
    own = out + M + 1
    tl.store(own + nests[:, None] * k + cols[None, :], of_c, real[:, None] & (cols < k)[None, :])
    last = tl.sum(tl.where((cols == k)[None, :], of_c, 0.0), 1)
    tl.store(own + M * k + nests, last, real)
    tl.store(own + M * k + M + nests, of_gates, real)
