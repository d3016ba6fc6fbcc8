"""The composite link by Triton kernels, from tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from legendretron.accelerate.cuda.launching import Launcher, on_device_of
from legendretron.accelerate.cuda.link_kernels import add_up_kernel, backward_kernel, forward_kernel

__all__ = ["ChainOnCUDA"]

_TILE = 8192  # elements of A that a kernel holds at once


class ChainOnCUDA:
    """The composite link, see :mod:`legendretron.accelerate.cuda.link_kernels`; parameters are those of ``ChainOnCPU``."""

    def __init__(
        self, n_blocks: int, n_out: int, hidden: int, depth: int, mixed: int, soft: bool, normalised: bool
    ) -> None:
        self._n_blocks, self._n_out, self._each = n_blocks, n_out, 8 if normalised else 5
        self._rank = rank = hidden * depth + 1
        rows = (depth - 1) * mixed + 1
        self._small = rank + rows * hidden + 2 + (3 * rows - 2 if normalised else 0)
        self._states, self._numbers = 2 * n_blocks * rank, n_blocks * (2 * (rows * hidden + 2) + 2 * rows)
        units = triton.next_power_of_2(hidden * depth)
        block_k = min(triton.next_power_of_2(n_out), max(_TILE // units, 16))
        self._one = n_out <= block_k
        meta = {"B": n_blocks, "H": hidden, "M": depth, "MIXED": mixed, "NORM": bool(normalised)}
        warps = max(1, min(4, block_k * units // 1024))
        by_row = {
            **meta, "UNITS": units, "BLOCK_K": block_k, "SOFT": bool(soft), "ONE": self._one, "num_warps": warps,
        }  # fmt: skip
        self._forward, self._backward = Launcher(forward_kernel, by_row), Launcher(backward_kernel, by_row)
        block = 16
        add_up = {
            **meta,
            "RANK": max(triton.next_power_of_2(rank), 16),  # the smallest size of a matrix product
            "SMALL_UP": triton.next_power_of_2(self._small),
            "BLOCK_K": block,
            "BLOCK_N": 32,
            "num_warps": 2,
            "num_stages": 3,
        }
        self._add_up = Launcher(add_up_kernel, add_up)
        self._grid = (n_blocks, triton.cdiv(n_out, block) + 1)

    def kept_size(self, n: int) -> int:
        """Numbers that the forward pass keeps beside its result."""
        return n * self._states + self._numbers

    def forward(self, z: Tensor, tensors: Sequence[Tensor], keep: bool) -> tuple[Tensor, Tensor]:
        """Log-probabilities ``(n, C)`` of predictors ``(n, K)``, and what the backward pass needs beside them."""
        n = len(z)
        log_p, kept = z.new_empty(n, self._n_out + 1), z.new_empty(self.kept_size(n))
        with on_device_of(z):
            self._forward((n, 1), (z, tuple(tensors), kept, log_p), n, self._n_out)
        return log_p, kept

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, kept: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the predictors, and of all parameters one after the other."""
        n, k, blocks = len(z), self._n_out, self._n_blocks
        weights = tuple(tensors[:: self._each])
        dz, dy = torch.empty_like(z), torch.empty_like(z)
        records = z.new_empty(n * blocks * (self._small + self._rank))
        gradient = z.new_empty(blocks * (self._rank * k + self._small) if wanted[1] else 0)
        inputs = dz if self._one or blocks == 1 else z.new_empty(blocks - 1, n, k)
        with on_device_of(z):
            self._backward((n, 1), (z, weights, kept, log_p, g, inputs, dy, records, dz), n, k)
            if wanted[1]:
                self._add_up(self._grid, (z, weights, kept, dy, records, gradient), n, k)
        return dz, gradient
