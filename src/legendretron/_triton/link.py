"""The composite link by Triton kernels, as an autograd function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from legendretron._triton.link_kernels import add_up_kernel, backward_kernel, forward_kernel

__all__ = ["fused_log_proba"]

_TILE = 8192  # elements of A that a kernel holds at once


def _tiles(k: int, n_units: int) -> tuple[int, int, int]:
    """Units and classes a kernel holds at once, and the warps to hold them."""
    units = triton.next_power_of_2(n_units)
    block_k = min(triton.next_power_of_2(k), max(_TILE // units, 16))
    return units, block_k, max(1, min(4, block_k * units // 1024))


class _FusedLogProba(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, generic: Any, shape: tuple[int, int, int, bool, bool], z: Tensor, *tensors: Tensor) -> Tensor:
        hidden, depth, mixed_units, raw, soft = shape
        n, k = z.shape
        blocks = len(tensors) // 5
        inputs = z.new_empty(max(blocks - 1, 1), n, k)
        states = z.new_empty(n, blocks, 2 * (depth * hidden + 1))  # half of it for passing entries between threads
        positives = z.new_empty(blocks, 2 * (((depth - 1) * mixed_units + 1) * hidden + 2))
        log_p = z.new_empty(n, k + 1)
        units, block_k, warps = _tiles(k, depth * hidden)
        meta = {"B": blocks, "H": hidden, "M": depth, "MIXED": mixed_units}
        rows = {"UNITS": units, "BLOCK_K": block_k, "SOFT": soft, "ONE": k <= block_k, "num_warps": warps}
        with torch.cuda.device_of(z):  # kernels go to the current device, wherever the tensors are
            forward_kernel[(n,)](z, tensors, inputs, states, positives, log_p, n, k, **meta, **rows, RAW=raw)
        ctx.save_for_backward(z, inputs, states, positives, log_p, *tensors)
        ctx.generic, ctx.meta, ctx.rows = generic, meta, rows
        return log_p

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        z, inputs, states, positives, log_p, *tensors = ctx.saved_tensors
        if torch.is_grad_enabled():  # higher derivatives are left to autograd
            needed = ctx.needs_input_grad[2:]
            wanted = [tensor for tensor, need in zip((z, *tensors), needed, strict=True) if need]
            found = iter(torch.autograd.grad(ctx.generic(z, tensors), wanted, g, create_graph=True, allow_unused=True))
            return None, None, *(next(found) if need else None for need in needed)
        n, k = z.shape
        meta = ctx.meta
        rank = meta["M"] * meta["H"] + 1
        small = rank + ((meta["M"] - 1) * meta["MIXED"] + 1) * meta["H"] + 2
        cotangents = z.new_empty(meta["B"], n, k)
        records = z.new_empty(n, meta["B"], small + rank)
        dz, gradient = torch.empty_like(z), z.new_empty(sum(tensor.numel() for tensor in tensors))
        rank_up = max(triton.next_power_of_2(rank), 16)  # the smallest size of a matrix product
        block_k = 16
        grid = (meta["B"], triton.cdiv(k, block_k) + 1)
        with torch.cuda.device_of(z):
            backward_kernel[(n,)](
                z,
                tuple(tensors),
                inputs,
                states,
                positives,
                log_p,
                g.contiguous(),
                cotangents,
                records,
                dz,
                n,
                k,
                **meta,
                **ctx.rows,
            )
            add_up_kernel[grid](
                z, inputs, cotangents, records, gradient, n, k, **meta,
                RANK=rank_up, SMALL_UP=triton.next_power_of_2(small), BLOCK_K=block_k,
                BLOCK_N=32, num_warps=2, num_stages=3,
            )  # fmt: skip
        parts = gradient.split([tensor.numel() for tensor in tensors])
        return None, None, dz, *(part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True))


def fused_log_proba(
    z: Tensor,
    tensors: Sequence[Tensor],
    generic: Callable[[Tensor, Sequence[Tensor]], Tensor],
    *,
    hidden: int,
    depth: int,
    mixed_units: int,
    raw: bool,
    final_softplus: bool,
) -> Tensor:
    """Log-probabilities of rows of predictors.

    Parameters
    ----------
    z : Tensor of shape (n, K)
        Predictors, in the precision of the parameters.
    tensors : sequence of Tensor
        Of each block: ``A`` (r, K), ``b`` (r,), all mixing weights (rows, H), ``alpha``, ``gamma``.
    generic : callable
        The same map by plain operations, for derivatives of higher order.
    hidden, depth, mixed_units : int
        ``H``, ``M``, and the units of a layer that see the one before.
    raw : bool
        Whether mixing weights (over ``H``), ``alpha`` and ``gamma`` are softplus of what is given.
    final_softplus : bool
        Whether the network ends in a softplus.

    Returns
    -------
    Tensor of shape (n, K + 1)
    """
    # outside the function, so that autograd knows the tensors kept for the backward pass
    z, *tensors = (tensor.contiguous() for tensor in (z, *tensors))
    result: Tensor = _FusedLogProba.apply(generic, (hidden, depth, mixed_units, raw, final_softplus), z, *tensors)  # type: ignore[no-untyped-call]
    return result
