r"""The canonical link as Triton kernels for CUDA: one for the forward pass, one for the backward pass.

A program holds all nests of a row, ``(M, C)``, so that rows are read once. Differences below ``LOWEST`` count as masked. The
formulas are those of :mod:`legendretron.accelerate.cpu.nested_link`. In the backward pass a program takes several rows,
one after the other, and writes the sums of their parameters' gradients: what is left is a sum over the programs, in a fixed
order.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["nests_backward_kernel", "nests_forward_kernel"]


@triton.jit
def _parameters(
    log_mu, log_beta, offsets, reference, gate_bias, n_classes,
    M: tl.constexpr, NESTS: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """``mu``, ``beta``, offsets of all classes and gate biases; nests that only fill up have no weight."""
    nests, cols = tl.arange(0, NESTS), tl.arange(0, BLOCK_C)
    real = nests < M
    mu = tl.exp(tl.load(log_mu + nests, real, 0.0))
    beta = tl.exp(tl.load(log_beta))
    place = nests[:, None] * (n_classes - 1) + cols[None, :]
    own = tl.load(offsets + place, real[:, None] & (cols < n_classes - 1)[None, :], 0.0)
    last = tl.load(reference + nests, real, 0.0)
    c = tl.where((cols == n_classes - 1)[None, :], last[:, None], own)
    bias = tl.load(gate_bias + nests, real, float("-inf"))
    return mu, beta, c, bias


@triton.jit
def _nests_of_row(
    x, mu, beta, c, bias, n_classes, ALL: tl.constexpr, LOWEST: tl.constexpr, BLOCK_C: tl.constexpr
):  # fmt: skip
    """Differences to the largest, logits over their log-sum-exps, these, log-gates, and log-probabilities."""
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
    lse = most + tl.log(tl.sum(tl.exp(a - most[:, None]), 1))
    gate = beta / mu * lse + bias
    highest = tl.max(gate, 0)
    log_pi = (gate - highest) - tl.log(tl.sum(tl.exp(gate - highest), 0))
    log_s = a - lse[:, None]
    joint = log_pi[:, None] + log_s
    top = tl.max(joint, 0)
    top = tl.where(masked, 0.0, top)
    total = tl.sum(tl.exp(joint - top[None, :]), 0)
    log_p = tl.where(masked, float("-inf"), top + tl.log(tl.where(masked, 1.0, total)))
    return masked, d, log_s, lse, log_pi, joint, log_p


@triton.jit
def nests_forward_kernel(
    x_ptr, log_mu, log_beta, offsets, reference, gate_bias, log_p_ptr, n_classes,
    M: tl.constexpr, NESTS: tl.constexpr, ALL: tl.constexpr, LOWEST: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """One row to one row of log-probabilities."""
    row = tl.program_id(0).to(tl.int64)
    mu, beta, c, bias = _parameters(log_mu, log_beta, offsets, reference, gate_bias, n_classes, M, NESTS, BLOCK_C)
    given = n_classes
    if not ALL:
        given = n_classes - 1
    _, _, _, _, _, _, log_p = _nests_of_row(x_ptr + row * given, mu, beta, c, bias, n_classes, ALL, LOWEST, BLOCK_C)
    cols = tl.arange(0, BLOCK_C)
    tl.store(log_p_ptr + row * n_classes + cols, log_p, cols < n_classes)


@triton.jit
def nests_backward_kernel(
    x_ptr, log_mu, log_beta, offsets, reference, gate_bias, g_ptr, dx_ptr, sums, n, n_classes,
    M: tl.constexpr, NESTS: tl.constexpr, ALL: tl.constexpr, LOWEST: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Gradients of some rows, and sums of those of the parameters over these rows, in the order of the parameters."""
    nests, cols = tl.arange(0, NESTS), tl.arange(0, BLOCK_C)
    inside = cols < n_classes
    mu, beta, c, bias = _parameters(log_mu, log_beta, offsets, reference, gate_bias, n_classes, M, NESTS, BLOCK_C)
    given = n_classes
    if not ALL:
        given = n_classes - 1
    of_c = tl.zeros_like(c)
    of_mu = tl.zeros_like(mu)
    of_gates = tl.zeros_like(mu)
    of_slopes = tl.zeros_like(mu)
    first = tl.program_id(0)
    for i in range(first, n, tl.num_programs(0)):
        row = first.to(tl.int64) * 0 + i
        masked, d, log_s, lse, log_pi, joint, log_p = _nests_of_row(
            x_ptr + row * given, mu, beta, c, bias, n_classes, ALL, LOWEST, BLOCK_C
        )
        g = tl.load(g_ptr + row * n_classes + cols, inside, 0.0)
        share = tl.exp(joint - tl.where(masked, 0.0, log_p)[None, :]) * tl.where(masked, 0.0, g)[None, :]
        of_nest = tl.sum(share, 1)
        of_gate = of_nest - tl.exp(log_pi) * tl.sum(of_nest, 0)
        through = of_gate * (beta / mu)
        cot = share + tl.exp(log_s) * (through - of_nest)[:, None]
        tl.store(dx_ptr + row * given + cols, tl.sum(mu[:, None] * cot, 0), cols < given)
        of_c += cot
        of_mu += mu * tl.sum(cot * d[None, :], 1) - through * lse
        of_gates += of_gate
        of_slopes += through * lse
    real = nests < M
    k = n_classes - 1
    out = sums + first.to(tl.int64) * (M * (n_classes + 2) + 1)
    tl.store(out + nests, of_mu, real)
    tl.store(out + M, tl.sum(of_slopes, 0))
    own = out + M + 1
    tl.store(own + nests[:, None] * k + cols[None, :], of_c, real[:, None] & (cols < k)[None, :])
    last = tl.sum(tl.where((cols == k)[None, :], of_c, 0.0), 1)
    tl.store(own + M * k + nests, last, real)
    tl.store(own + M * k + M + nests, of_gates, real)
