"""Canonical links on CUDA by Triton kernels: log-probabilities, their derivatives, and those of a training step.

There is one kernel for the forward pass and one for the backward pass, of heads and of training steps. A program holds all
nests of a row, ``(M, C)``, so that rows are read once. Differences below ``LOWEST`` count as masked. The formulas are those
of :class:`legendretron.potentials.NestedLogSumExp`. In the backward pass a program takes several rows of a run, one after the
other, and writes the sums of their parameters' gradients: what is left is a sum over the programs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from legendretron.accelerate.cuda.chain import StepNoise
from legendretron.accelerate.cuda.launching import Launcher, on_device_of
from legendretron.accelerate.cuda.unit_kernels import load_noise_rate, observed_loss
from legendretron.accelerate.forms import LinkForm

__all__ = ["NestsOnCUDA"]

_LOWEST = {
    dtype: -(torch.finfo(dtype).max ** 0.5) for dtype in (torch.float32, torch.float64)
}  # as plain operations have it
#: Programs that share the rows of a backward pass, and numbers of each class that they write together.
_PROGRAMS, _SUMS = 4096, 1 << 19


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
def _forward_kernel(
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
def _backward_kernel(
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
    grad_c = tl.zeros_like(c)
    grad_mu = tl.zeros_like(mu)
    grad_gates = tl.zeros_like(mu)
    grad_slopes = tl.zeros_like(mu)
    grad_bias = tl.sum(grad_c, 0)
    grad_rate = tl.sum(grad_mu, 0)
    loss = grad_rate
    hits = grad_rate
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
            is_label = cols == label
            log_share = log_pi - lse + tl.sum(tl.where(is_label[None, :], a, 0.0), 1)
            most = tl.max(log_share, 0)
            nll = -(most + tl.log(tl.sum(tl.exp(log_share - most), 0)))
            nest_share = tl.exp(log_share + nll)
            believed = weight
            if rate is not None:
                nll, row_grad_rate, believed = observed_loss(nll, rate, weight, n_classes)
                grad_rate += row_grad_rate
            p = tl.where(inside, tl.sum(tl.exp(log_pi)[:, None] * softmax, 0), -1.0)
            highest = tl.max(p, 0)
            best = tl.min(tl.where(p == highest, cols, BLOCK_C), 0)  # among equals the first, and the last of two
            if n_classes == 2:
                best = tl.max(tl.where(p == highest, cols, 0), 0)
            loss += weight * nll
            hits += tl.where(best == label, weight, 0.0)
            nest_share = -believed * nest_share
            share = tl.where(is_label[None, :], nest_share[:, None], 0.0)
        else:
            joint = (log_pi - lse)[:, None] + a
            log_p = _log_proba(masked, joint)
            g = tl.load(given_ptr + row * n_classes + cols, inside & ~masked, 0.0)
            share = tl.exp(joint - tl.where(masked, 0.0, log_p)[None, :]) * g[None, :]
            nest_share = tl.sum(share, 1)
        grad_gate = nest_share - tl.exp(log_pi) * tl.sum(nest_share, 0)
        through = grad_gate * (beta / mu)
        cot = share + softmax * (through - nest_share)[:, None]
        dx = tl.sum(mu[:, None] * cot, 0)
        tl.store(dx_ptr + row * given + cols, dx, cols < given)
        grad_bias += dx
        grad_c += cot
        grad_mu += mu * tl.sum(cot * d[None, :], 1) - through * lse
        grad_gates += grad_gate
        grad_slopes += through * lse
    real = nests < M
    k = n_classes - 1
    size = M * (n_classes + 2) + 1
    if LABELS:
        size += k + 3
    out = sums + (run * tl.num_programs(0) + first) * size
    if LABELS:
        tl.store(out + cols, grad_bias, cols < k)
        tl.store(out + size - 3, grad_rate)
        tl.store(out + size - 2, loss)
        tl.store(out + size - 1, hits)
        out += k
    tl.store(out + nests, grad_mu, real)
    tl.store(out + M, tl.sum(grad_slopes, 0))
    own = out + M + 1
    tl.store(own + nests[:, None] * k + cols[None, :], grad_c, real[:, None] & (cols < k)[None, :])
    last = tl.sum(tl.where((cols == k)[None, :], grad_c, 0.0), 1)
    tl.store(own + M * k + nests, last, real)
    tl.store(own + M * k + M + nests, grad_gates, real)


class NestsOnCUDA:
    """The canonical link, without noise.

    With ``all_classes``, rows have an entry for each class, of which very low ones count as masked.
    """

    def __init__(self, form: LinkForm, all_classes: bool) -> None:
        self._n_nests, self._n_classes = n_nests, n_classes = form.n_nests, form.n_classes
        self.shapes = form.shapes
        nests, block_c = triton.next_power_of_2(n_nests), triton.next_power_of_2(n_classes)
        warps = max(1, min(16, nests * block_c // 512))
        self._meta = {"M": n_nests, "NESTS": nests, "ALL": bool(all_classes), "BLOCK_C": block_c, "num_warps": warps}
        self._launchers: dict[tuple[torch.dtype, bool, bool, bool], Launcher] = {}
        self._forward = {
            dtype: Launcher(_forward_kernel, {**self._meta, "LOWEST": lowest}) for dtype, lowest in _LOWEST.items()
        }

    def saved_size(self, n: int) -> int:
        """Nothing is saved beside rows and log-probabilities."""
        return 0

    def forward(self, z: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probabilities ``(n, C)`` of rows of predictors or logits."""
        n, c = len(z), self._n_classes
        log_p = z.new_empty(n, c)
        with on_device_of(z):
            self._forward[z.dtype]((n, 1), (z, *tensors, log_p), c)
        return log_p, z.new_empty(0)

    def _backward(
        self,
        z: Tensor,
        tensors: Sequence[Tensor],
        labels: Tensor,
        given: Tensor,
        flat: Tensor,
        noise: StepNoise | None,
    ) -> tuple[Tensor, Tensor]:
        """Gradients in the rows, and sums ``(R, programs, size)``; see the kernel."""
        runs, n, c = 1 if noise is None else len(z), z.shape[-2], self._n_classes
        programs = min(n, triton.cdiv(min(_PROGRAMS, _SUMS // c), runs))
        labeled = noise is not None
        size = self._n_nests * (c + 2) + 1 + (c + 2 if labeled else 0)
        dz, sums = torch.empty_like(z), z.new_empty(runs, programs, size)
        noisy = (False, False) if noise is None else (noise.learned, noise.noisy)
        flags = (z.dtype, labeled, *noisy)
        if flags not in self._launchers:
            meta = {"LOWEST": _LOWEST[z.dtype], "LABELS": labeled, "LEARNED": flags[2], "NOISY": flags[3]}
            self._launchers[flags] = Launcher(_backward_kernel, {**self._meta, **meta})
        known_rate = flat if noise is None else noise.known_rate
        with on_device_of(z):
            self._launchers[flags](
                (programs, runs), (z, *tensors, labels, given, flat, known_rate, dz, sums), n, c,
                tensors[0].stride(0) if runs > 1 else 0, flat.shape[-1],
            )  # fmt: skip
        return dz, sums

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, saved: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        """Gradients of rows, and of all parameters one after the other."""
        dz, sums = self._backward(z, tensors, z, g, z, None)
        return dz, sums[0].sum(0) if wanted[1] else z.new_empty(0)

    def step(
        self,
        z: Tensor,
        labels: Tensor,
        weights: Tensor,
        flat: Tensor,
        start: int,
        noise: StepNoise,
        gradient: Tensor,
        totals: Tensor,
    ) -> Tensor:
        """As of :class:`~legendretron.accelerate.cuda.chain.ChainOnCUDA`."""
        m, k = self._n_nests, self._n_classes - 1
        tensors = flat[:, start + k : start + k + m * (k + 3) + 1].split([m, 1, m * k, m, m], 1)
        dz, sums = self._backward(z, tensors, labels, weights, flat, noise)
        total = sums.sum(1)
        n_learned = total.shape[1] - (2 if noise.learned else 3)
        gradient[:, start : start + n_learned] = total[:, :n_learned]
        totals.add_(total[:, -2:].mT, alpha=z.shape[1])
        return dz
