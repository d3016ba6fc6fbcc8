"""The rows of a training step by Triton kernels: predictors in, gradients of all parameters but ``W`` out."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from legendretron._triton.kernel_link import KernelLink
from legendretron._triton.nested_step_kernels import add_nested_kernel, nested_step_kernel
from legendretron._triton.step_kernels import add_bias_kernel, add_ridge_kernel, ridge_step_kernel

__all__ = ["LinkStep"]

_BLOCK_N = 32  # rows that are added up at once


class LinkStep:
    """Gradients of the weighted log-loss of a batch, for all runs.

    Parameters
    ----------
    link : KernelLink
        What the parameters after the bias are.
    flat : Tensor of shape (R, P)
        Parameters, read in each call: ``W``, bias, those of the link.
    n_weights : int
        Entries of ``W``.
    """

    def __init__(self, link: KernelLink, flat: Tensor, n_weights: int) -> None:
        self.link, self.flat, self.n_weights = link, flat, n_weights
        # in memory: as an argument it would be rounded to single precision
        self.known_rate = flat.new_full((1,), link.known_rate)
        self.noise = {"LEARNED": link.learned_rate, "NOISY": link.known_rate > 0.0}

    def __call__(self, z: Tensor, labels: Tensor, weight: Tensor, gradient: Tensor, totals: Tensor) -> Tensor:
        """Write gradients, add to totals, and return the gradient in the predictors, of their shape.

        Parameters
        ----------
        z : Tensor of shape (R, n, K)
            Predictors.
        labels, weight : Tensor of shape (R, n)
            Of the rows.
        gradient : Tensor of shape (R, P)
            Written to, all but the part of ``W``.
        totals : Tensor of shape (2, R)
            Weighted sums of losses and hits, times ``n``, are added.
        """
        link, flat = self.link, self.flat
        runs, n, k = z.shape
        n_all, size = runs * n, flat.shape[1]
        start = self.n_weights + k
        z, labels, weight = z.contiguous(), labels.contiguous(), weight.contiguous()
        dz, sums = torch.empty_like(z), z.new_empty(n_all, 3)
        with torch.cuda.device_of(z):  # kernels go to the current device, wherever the tensors are
            if link.n_nests:
                block = triton.next_power_of_2(k + 1)
                records = z.new_empty(n_all, 5 * link.n_nests + 2)
                nested_step_kernel[(n_all,)](
                    z, flat, labels, weight, records, sums, dz, n, k, size, start, self.known_rate,
                    N=link.n_nests, BLOCK_K=block, **self.noise, num_warps=_warps(block),
                )  # fmt: skip
                add_nested_kernel[(runs, triton.cdiv(k + 1, 32) + 1)](
                    z, flat, labels, records, gradient, n, k, size, start,
                    N=link.n_nests, SMALL_UP=triton.next_power_of_2(2 * link.n_nests + 1), BLOCK_N=_BLOCK_N, BLOCK_K=32,
                    num_warps=2,
                )  # fmt: skip
            else:
                self._ridge_step(z, labels, weight, gradient, dz, sums)
            block = min(64, triton.next_power_of_2(k))
            add_bias_kernel[(runs, triton.cdiv(k, block))](
                dz, sums, gradient, totals, n, k, size, self.n_weights, runs, LEARNED=link.learned_rate,
                BLOCK_N=_BLOCK_N, BLOCK_K=block, num_warps=2,
            )  # fmt: skip
        return dz

    def _ridge_step(
        self, z: Tensor, labels: Tensor, weight: Tensor, gradient: Tensor, dz: Tensor, sums: Tensor
    ) -> None:
        link, flat = self.link, self.flat
        runs, n, k = z.shape
        n_all, size, start = runs * n, flat.shape[1], self.n_weights + k
        blocks, normed = link.n_blocks, link.scale_floor is not None
        rank, rows = link.depth * link.hidden + 1, (link.depth - 1) * link.mixed_units + 1
        small = rank + rows * link.hidden + 2 + (3 * rows - 2 if normed else 0)
        inputs = z.new_empty(max(blocks - 1, 1), n_all, k)
        cotangents, records = z.new_empty(max(blocks, 1), n_all, k), z.new_empty(n_all, max(blocks, 1), small + rank)
        block = triton.next_power_of_2(k)
        ridge_step_kernel[(n_all,)](
            z, flat, labels, weight, inputs, cotangents, records, sums, dz, n_all, n, k, size, start, self.known_rate,
            B=blocks, H=link.hidden, M=link.depth, MIXED=link.mixed_units, BLOCK_K=block,
            NORMED=normed, FLOOR=link.scale_floor or 0.0, **self.noise, num_warps=_warps(block),
        )  # fmt: skip
        if blocks:
            add_ridge_kernel[(runs * blocks, triton.cdiv(k, 16) + 1)](
                z, inputs, cotangents, records, gradient, n_all, n, k, size, start,
                B=blocks, R=rank, SMALL=small, RANK=max(triton.next_power_of_2(rank), 16),
                SMALL_UP=triton.next_power_of_2(small), BLOCK_N=_BLOCK_N, BLOCK_K=16, num_warps=2, num_stages=3,
            )  # fmt: skip


def _warps(block: int) -> int:
    return max(1, min(4, block // 256))
