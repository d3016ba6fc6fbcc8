"""The rows of a training step by Triton kernels: predictors in, gradients of all parameters but ``W`` out."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from legendretron.accelerate.cuda.nested_step_kernels import add_nested_kernel, nested_step_kernel
from legendretron.accelerate.cuda.step_kernels import (
    add_bias_kernel,
    add_parts_kernel,
    add_units_kernel,
    constants_kernel,
    loss_kernel,
    spread_kernel,
    tile_step_kernel,
    units_backward_kernel,
    units_forward_kernel,
)
from legendretron.accelerate.forms import LinkForm

__all__ = ["LinkStep"]

#: Classes up to which rows go through a chain of blocks in registers.
_FEW = 64
_TILE = 16  # rows that do so together
_BLOCK_N = 32  # rows that are added up at once, or whose units are computed together


class LinkStep:
    """Gradients of the weighted log-loss of a batch, for all runs.

    Parameters
    ----------
    link : LinkForm
        What the parameters after the bias are.
    flat : Tensor of shape (R, P)
        Parameters, read in each call: ``W``, bias, those of the link.
    n_weights : int
        Entries of ``W``.
    """

    def __init__(self, link: LinkForm, flat: Tensor, n_weights: int) -> None:
        self.link, self.flat, self.n_weights = link, flat, n_weights
        # in memory: as an argument it would be rounded to single precision
        self.known_rate = flat.new_full((1,), link.known_rate)
        self.noise = {"LEARNED": link.learned_rate, "NOISY": link.known_rate > 0.0}
        self.normed = link.scale_floor is not None
        self.rank, self.mixing_rows = link.depth * link.hidden + 1, (link.depth - 1) * link.mixed_units + 1
        #: parameters of a block beside A, and numbers that constants_kernel makes of them
        self.small = self.rank + self.mixing_rows * link.hidden + 2 + (3 * self.mixing_rows - 2 if self.normed else 0)
        self.n_constants = 2 * self.rank + 3 * self.mixing_rows * link.hidden + 4
        self.sizes = {
            "B": link.n_blocks,
            "H": link.hidden,
            "M": link.depth,
            "MIXED": link.mixed_units,
            "NORMED": self.normed,
        }
        self.floor = {"FLOOR": link.scale_floor or 0.0}

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
        batch = z.contiguous(), labels.contiguous(), weight.contiguous()
        with torch.cuda.device_of(z):  # kernels go to the current device, wherever the tensors are
            if self.link.n_nests:
                return self._nested_step(*batch, gradient, totals)
            if z.shape[-1] <= _FEW:
                return self._tile_step(*batch, gradient, totals)
            return self._wide_step(*batch, gradient, totals)

    def _nested_step(self, z: Tensor, labels: Tensor, weight: Tensor, gradient: Tensor, totals: Tensor) -> Tensor:
        runs, n, k = z.shape
        size, start, nests = self.flat.shape[1], self.n_weights + k, self.link.n_nests
        block = triton.next_power_of_2(k + 1)
        dz, records, sums = torch.empty_like(z), z.new_empty(runs * n, 5 * nests + 2), z.new_empty(runs * n, 3)
        nested_step_kernel[(runs * n,)](
            z, self.flat, labels, weight, records, sums, dz, n, k, size, start, self.known_rate,
            N=nests, BLOCK_K=block, **self.noise, num_warps=max(1, min(4, block // 256)),
        )  # fmt: skip
        add_nested_kernel[(runs, triton.cdiv(k + 1, 32) + 1, nests)](
            z, self.flat, labels, records, gradient, n, k, size, start,
            N=nests, SMALL_UP=triton.next_power_of_2(2 * nests + 1), BLOCK_N=_BLOCK_N, BLOCK_K=32, num_warps=2,
        )  # fmt: skip
        self._add_bias(dz, sums, gradient, totals)
        return dz

    def _add_bias(self, dz: Tensor, sums: Tensor, gradient: Tensor, totals: Tensor) -> None:
        runs, n, k = dz.shape
        block = min(64, triton.next_power_of_2(k))
        add_bias_kernel[(runs, triton.cdiv(k, block))](
            dz, sums, gradient, totals, n, k, self.flat.shape[1], self.n_weights, runs, LEARNED=self.link.learned_rate,
            BLOCK_N=_BLOCK_N, BLOCK_K=block, num_warps=2,
        )  # fmt: skip

    def _constants(self, runs: int, k: int) -> Tensor:
        blocks, entries = self.link.n_blocks, self.mixing_rows * self.link.hidden
        constants = self.flat.new_empty(runs, max(blocks, 1), self.n_constants)
        if blocks:
            constants_kernel[(runs * blocks,)](
                self.flat, constants, k, self.flat.shape[1], self.n_weights + k, **self.sizes, **self.floor,
                RANK=triton.next_power_of_2(self.rank), MIXING=triton.next_power_of_2(entries), num_warps=1,
            )  # fmt: skip
        return constants

    def _tile_step(self, z: Tensor, labels: Tensor, weight: Tensor, gradient: Tensor, totals: Tensor) -> Tensor:
        runs, n, k = z.shape
        size, tiles = self.flat.shape[1], triton.cdiv(n, _TILE)
        length = k + self.link.n_blocks * (self.rank * k + self.small) + 3
        dz, parts = torch.empty_like(z), z.new_empty(runs * tiles, length)
        points = z.new_empty(max(self.link.n_blocks, 1), runs * n, k)
        states = z.new_empty(max(self.link.n_blocks, 1), runs * n, 3 * self.rank)
        block = max(16, triton.next_power_of_2(k))  # the smallest size of a matrix product
        tile_step_kernel[(runs * tiles,)](
            z, self.flat, self._constants(runs, k), labels, weight, points, states, parts, dz,
            runs * n, n, k, size, self.n_weights + k, self.known_rate, tiles,
            **self.sizes, **self.floor, **self.noise, BLOCK_N=_TILE, BLOCK_K=block,
            RANK=max(16, triton.next_power_of_2(self.rank)), num_warps=4 if block <= 32 else 8, num_stages=1,
        )  # fmt: skip
        stretch = min(256, triton.next_power_of_2(length))
        add_parts_kernel[(runs, triton.cdiv(length, stretch))](
            parts, gradient, totals, n, tiles, length, size, self.n_weights, runs,
            LEARNED=self.link.learned_rate, BLOCK=stretch, num_warps=2,
        )  # fmt: skip
        return dz

    def _wide_step(self, z: Tensor, labels: Tensor, weight: Tensor, gradient: Tensor, totals: Tensor) -> Tensor:
        runs, n, k = z.shape
        size, rank, blocks = self.flat.shape[1], self.rank, self.link.n_blocks
        tiles, chunks = triton.cdiv(n, _BLOCK_N), _chunks(k)
        constants = self._constants(runs, k)
        offsets = [self.n_weights + k + b * (rank * k + self.small) for b in range(blocks)]
        units: dict[str, Any] = {**self.sizes, "BLOCK_N": _BLOCK_N, "CHUNKS": chunks, "num_warps": 1}

        def spread(x: Tensor, b: int, d: Tensor | None = None, next_b: int | None = None, other: Tensor | None = None):  # type: ignore[no-untyped-def]
            """``alpha x + A^T d``, products with the next ``A``, and parts of the sum of ``x`` times another."""
            out = x if d is None else torch.empty_like(x)
            products, dots = x.new_empty(chunks, runs * n, rank), x.new_empty(runs, tiles * chunks)
            spread_kernel[(runs * tiles * chunks,)](
                x, x if d is None else d, self.flat, constants, x if other is None else other, out, dots, products,
                runs * n, n, k, size, offsets[b], offsets[b if next_b is None else next_b],
                triton.cdiv(triton.cdiv(k, 32), chunks) * 32, tiles, b,
                B=blocks, R=rank, RANK=max(16, triton.next_power_of_2(rank)), CONSTANTS=self.n_constants,
                BLOCK_N=_BLOCK_N, BLOCK_K=32, CHUNKS=chunks,
                # three products of tensor cores, as exact as single precision
                PRECISION="tf32x3" if x.dtype == torch.float32 else "ieee",
                SPREAD=d is not None, DOT=other is not None, NEXT=next_b is not None, num_warps=2, num_stages=1,
            )  # fmt: skip
            return out, products, dots

        points, inner = [z], []
        if blocks:
            products = spread(z, 0, next_b=0)[1]
        for b in range(blocks):
            t = z.new_empty(runs, n, rank)
            zeta, d = torch.empty_like(t), torch.empty_like(t)
            units_forward_kernel[(runs * tiles,)](products, constants, t, zeta, d, runs * n, n, tiles, b, **units)
            y, products, _ = spread(points[b], b, d, b + 1 if b + 1 < blocks else None)
            points.append(y)
            inner.append((t, zeta, d))
        y = points.pop()
        dy, sums = torch.empty_like(y), z.new_empty(runs * n, 3)
        block = min(1024, triton.next_power_of_2(k))
        loss_kernel[(runs * n,)](
            y, self.flat, labels, weight, sums, dy, n, k, size, self.known_rate, **self.noise,
            BLOCK_K=block, ONE=k <= block, num_warps=4,
        )  # fmt: skip
        if blocks:
            products = spread(dy, blocks - 1, next_b=blocks - 1)[1]
        for b in reversed(range(blocks)):
            t, zeta, d = inner[b]
            cot, parts = torch.empty_like(t), z.new_empty(runs * tiles, self.small)
            units_backward_kernel[(runs * tiles,)](
                products, t, zeta, constants, cot, parts, runs * n, n, tiles, b, **units, **self.floor
            )
            of_weights = gradient[:, offsets[b] : offsets[b] + rank * k].view(runs, rank, k)
            torch.bmm(cot.mT, points[b], out=of_weights)
            of_weights.baddbmm_(d.mT, dy)
            dy, products, dots = spread(dy, b, cot, b - 1 if b else None, points[b])
            add_units_kernel[(runs,)](
                parts, dots, constants, gradient, dots.shape[1], tiles, size, offsets[b] + rank * k, b,
                B=blocks, SMALL=self.small, SMALL_UP=triton.next_power_of_2(self.small),
                ALPHA=rank + self.mixing_rows * self.link.hidden, CONSTANTS=self.n_constants, BLOCK=64, num_warps=1,
            )  # fmt: skip
        self._add_bias(dy, sums, gradient, totals)
        return dy


def _chunks(k: int) -> int:
    """Into how many parts the classes are divided, each for a program of its own."""
    return min(8, triton.cdiv(k, 128))
