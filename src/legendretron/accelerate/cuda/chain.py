"""Composite links on CUDA by Triton kernels: log-probabilities, their derivatives, and those of a training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from legendretron.accelerate.cuda.chain_kernels import (
    COTANGENT,
    FORWARD,
    LABELS,
    add_rows_kernel,
    add_tiles_kernel,
    columns_kernel,
    loss_kernel,
    spread_kernel,
    tile_kernel,
    units_kernel,
)
from legendretron.accelerate.cuda.launching import Launcher, on_device_of
from legendretron.accelerate.cuda.unit_kernels import fold_kernel
from legendretron.accelerate.forms import LinkForm
from legendretron.potentials.cpflow import SCALE_FLOOR

__all__ = ["ChainOnCUDA", "StepNoise"]

#: Classes up to which rows go through a chain of blocks in registers, and rows that do so together.
_FEW_CLASSES, _TILE = 64, 16
#: Most rows, classes and units of a row that goes through a chain in registers alone: with more rows, they share lines of A.
_SINGLE_ROWS, _SINGLE_CLASSES, _SINGLE_UNITS = 1024, 1024, 16
#: Rows of a program where there are more.
_ROWS = 32
#: Tiles whose sums one program adds up, one after the other.
_MOST_TILES = 64
#: Rows of a forward pass whose units are saved in memory at once.
_ROWS_AT_ONCE = 65_536


class StepNoise(NamedTuple):
    """Symmetric label noise of a training step."""

    learned: bool  #: whether the last parameter is the logit of the rate
    known_rate: Tensor  #: shape (1,), in memory: as an argument it would be rounded to single precision
    noisy: bool  #: whether the known rate is above zero


class _Batch(NamedTuple):
    """Labels and weights of a training step, and where it writes."""

    labels: Tensor
    weights: Tensor
    flat: Tensor
    noise: StepNoise
    totals: Tensor


class ChainOnCUDA:
    """Softmax+ after a chain of ridge blocks, without noise; without blocks it is softmax+ itself."""

    def __init__(self, form: LinkForm) -> None:
        n_blocks, n_out, hidden, depth, mixed = (
            form.n_blocks, form.n_classes - 1, form.hidden, form.depth, form.mixed_units,
        )  # fmt: skip
        normalized, self.shapes = form.normalized, form.shapes
        self._n_blocks, self._n_out, self._each = n_blocks, n_out, 8 if normalized else 5
        self._rank = rank = hidden * depth + 1
        rows = (depth - 1) * mixed + 1
        self._n_raw = rank + rows * hidden + 2 + (3 * rows - 2 if normalized else 0)
        self._n_sums = 2 * rank + rows * hidden + 2
        self._n_numbers = 2 * rank + 3 * rows * hidden + 4
        self._few = n_out <= _FEW_CLASSES
        sizes: dict[str, Any] = {"B": n_blocks, "H": hidden, "M": depth, "MIXED": mixed}
        folded: dict[str, Any] = {"NORMED": normalized, "FLOOR": SCALE_FLOOR}
        power = triton.next_power_of_2
        # 16 is the least size of a matrix product
        self._units = {**sizes, "UNITS": power(hidden), "RANK": max(16, power(rank)), "SOFT": form.final_softplus}
        self._fold = Launcher(
            fold_kernel, {**sizes, **folded, "RANK": power(rank), "MIXING": power(rows * hidden), "num_warps": 1}
        )
        self._adding = {
            **sizes, **folded, "UNITS": power(hidden), "RANK": power(rank), "MIXING_ROWS": power(rows),
            "SMALL_UP": power(self._n_sums), "BLOCK": 256, "TILES": 16, "num_warps": 2,
        }  # fmt: skip
        block = max(16, power(n_out))
        self._tile = {
            **self._units, "BLOCK_N": _TILE if self._few else 1, "BLOCK_K": block, "num_stages": 1,
        }  # fmt: skip
        self._chunks = min(8, triton.cdiv(n_out, 128))  # parts of the classes, each for a program of its own
        self._launchers: dict[tuple[Any, ...], Launcher] = {}

    def _launcher(self, kernel: Any, key: tuple[Any, ...], constants: dict[str, Any]) -> Launcher:
        name = (kernel, *key)
        if name not in self._launchers:
            self._launchers[name] = Launcher(kernel, constants)
        return self._launchers[name]

    # --- a head or a prediction: one run ---

    def _is_in_registers(self, n: int) -> bool:
        """Whether rows of a head go through all blocks in registers."""
        single = n <= _SINGLE_ROWS and self._n_out <= _SINGLE_CLASSES and self._rank <= _SINGLE_UNITS
        return self._few or single

    @property
    def _n_folded(self) -> int:
        """Numbers of all blocks, up to an address that is a multiple of 16."""
        return triton.cdiv(max(self._n_blocks, 1) * self._n_numbers, 4) * 4

    def saved_size(self, n: int) -> int:
        """Numbers that the forward pass keeps beside its result."""
        if self._few:
            return self._n_folded
        width = (4 if self._is_in_registers(n) else 3) * self._n_blocks * self._rank
        return self._n_folded + n * (width + (self._n_blocks - 1) * self._n_out)

    def forward(self, z: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probabilities ``(n, C)`` of predictors ``(n, K)``, and what the backward pass needs beside them."""
        n, k = z.shape
        with on_device_of(z):
            saved = z.new_empty(self.saved_size(n))
            self._fold_parameters(saved, tensors, 1)
            if not self._is_in_registers(n):
                y = self._forward_many(z.unsqueeze(0), tensors, saved, saved[self._n_folded :])[0]
                return torch.log_softmax(torch.nn.functional.pad(y, (0, 1)), -1), saved
            log_p = z.new_empty(n, k + 1)
            for first in range(0, n, _ROWS_AT_ONCE):
                part = slice(first, first + _ROWS_AT_ONCE)
                self._tiles(FORWARD, z[None, part], tensors, saved, log_p[part], saved=saved)
            return log_p, saved

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, saved: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the predictors, and of all parameters one after the other."""
        k, blocks = self._n_out, self._n_blocks
        # a run's row has a place for the gradient of a bias, too
        gradient = z.new_empty(1, k + blocks * (self._rank * k + self._n_raw))
        with on_device_of(z):
            if self._is_in_registers(len(z)):
                dz = self._tiles(COTANGENT, z.unsqueeze(0), tensors, saved, None, g, gradient, log_p=log_p, saved=saved)
            else:
                dy = g[:, :k] - log_p[:, :k].exp() * g.sum(-1, keepdim=True)
                dz = self._backward_many(
                    z.unsqueeze(0), dy.unsqueeze(0), tensors, saved, saved[self._n_folded :], gradient, k
                )
        return dz.view(z.shape), gradient[0, k:]

    # --- a training step: all runs ---

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
        """Gradient in the predictors ``(R, n, K)`` of the weighted log-loss of labels ``(R, n)``.

        ``flat`` (R, P) holds all parameters: from ``start`` on the bias, then those of the link. Their gradients are written
        to ``gradient``, and weighted sums of losses and hits, times ``n``, are added to ``totals`` (2, R).
        """
        runs, n, k = z.shape
        tensors = self._views(flat, start + k)
        batch = _Batch(labels, weights, flat, noise, totals)
        with on_device_of(z):
            numbers = self._fold_parameters(z.new_empty(runs * self._n_folded), tensors, runs)
            if self._few:
                return self._tiles(LABELS, z, tensors, numbers, None, weights, gradient, start, batch)
            saved = z.new_empty(runs * n * (3 * self._n_blocks * self._rank + max(self._n_blocks - 1, 0) * k))
            y = self._forward_many(z, tensors, numbers, saved)
            dy, sums = torch.empty_like(y), z.new_empty(runs * n, 3)
            block = min(1024, triton.next_power_of_2(k))
            noisy = {"LEARNED": noise.learned, "NOISY": noise.noisy}
            loss_kernel[(runs * n,)](
                y, flat, labels, weights, sums, dy, n, k, flat.shape[1], noise.known_rate, **noisy,
                BLOCK_K=block, ONE=k <= block, num_warps=4,
            )  # fmt: skip
            dz = self._backward_many(z, dy, tensors, numbers, saved, gradient, start + k)
            block = min(64, block)
            add_rows_kernel[(runs, triton.cdiv(k, block))](
                dz, sums, gradient, totals, n, k, gradient.shape[1], start, runs, LEARNED=noise.learned, BLOCK_N=_ROWS,
                BLOCK_K=block, num_warps=2,
            )  # fmt: skip
        return dz

    def _views(self, flat: Tensor, start: int) -> list[Tensor]:
        """The parameters of all blocks, as parts of the rows of ``flat``."""
        rank, rows = self._rank, (self._units["M"] - 1) * self._units["MIXED"] + 1
        lengths = [rank * self._n_out, rank, rows * self._units["H"], 1, 1, rows - 1, rows, rows - 1][: self._each]
        lengths *= self._n_blocks
        return list(flat[:, start : start + sum(lengths)].split(lengths, 1))

    def _fold_parameters(self, numbers: Tensor, tensors: Sequence[Tensor], runs: int) -> Tensor:
        """Write what the kernels need of each block beside ``A``."""
        if self._n_blocks:
            self._fold((runs, 1), (numbers, tuple(tensors)), self._stride(tensors, runs))
        return numbers

    @staticmethod
    def _stride(tensors: Sequence[Tensor], runs: int) -> int:
        """From the parameters of one run to those of the next."""
        return tensors[0].stride(0) if tensors and runs > 1 else 0

    # --- rows in registers ---

    def _tiles(
        self,
        mode: int,
        z: Tensor,
        tensors: Sequence[Tensor],
        numbers: Tensor,
        out: Tensor | None,
        weights: Tensor | None = None,
        gradient: Tensor | None = None,
        start: int = 0,
        batch: _Batch | None = None,
        log_p: Tensor | None = None,
        saved: Tensor | None = None,
    ) -> Tensor:
        runs, n, k = z.shape
        blocks, rank, few = self._n_blocks, self._rank, self._few
        tiles = triton.cdiv(n, self._tile["BLOCK_N"])
        length = k + blocks * (rank * k + self._n_sums) + 3 if few else blocks * self._n_sums
        out = torch.empty_like(z) if out is None else out
        n_states = blocks * runs * n * 4 * rank
        if few or saved is None:
            states = z.new_empty(max(n_states, 1))
            points = states if mode == FORWARD else z.new_empty(max(blocks - 1, 1) * runs * n * k)
        else:
            states, points = saved[self._n_folded :], saved[self._n_folded + n_states :]
        parts = states if mode == FORWARD else z.new_empty(runs * tiles, length)
        cotangents = states if few or mode == FORWARD else z.new_empty(blocks * runs * n * k)
        labels, flat, noise = (None, None, None) if batch is None else (batch.labels, batch.flat, batch.noise)
        learned, noisy = (False, False) if noise is None else (noise.learned, noise.noisy)
        width = k if flat is None else flat.shape[1]
        some = z  # takes the place of what this mode does not read
        given = [some if t is None else t for t in (labels, weights, flat, log_p)]
        known_rate = some if noise is None else noise.known_rate
        stride = self._stride(tensors, runs)
        # so that registers hold a tile and A, also in double precision
        warps = (4 if k <= 32 else 8) if few else z.element_size()
        constants = {**self._tile, "MODE": mode, "LEARNED": learned, "NOISY": noisy, "num_warps": warps}
        self._launcher(tile_kernel, (mode, learned, noisy, warps), constants)(
            (runs * tiles, 1),
            (z, tuple(tensors[:: self._each]) or (some,), numbers, *given, points, states, cotangents, parts, out,
             known_rate),
            runs * n, n, k, stride, width, tiles,
        )  # fmt: skip
        if gradient is not None:
            if few and tiles > _MOST_TILES:
                parts, tiles = parts.view(runs, tiles, length).sum(1), 1
            if few:
                chunks = triton.cdiv(length, self._adding["BLOCK"])
                self._add(parts, parts, numbers, gradient, batch, (n, start, tiles, 0), learned, True, blocks + chunks)
            else:
                self._columns(z, points, cotangents, states, gradient, start + k)
                self._add(parts, parts, numbers, gradient, None, (n, start + k, tiles, 0), False, False, blocks)
        return out

    def _columns(
        self, z: Tensor, points: Tensor, cotangents: Tensor, states: Tensor, gradient: Tensor, start: int
    ) -> None:
        """Write the gradients of all ``A``."""
        runs, n, k = z.shape
        constants = {
            "R": self._rank, "RANK": self._units["RANK"], "WIDTH": 4 * self._rank, "BLOCK_N": _ROWS, "BLOCK_K": 32,
            "num_warps": 2, "num_stages": 3,
        }  # fmt: skip
        self._launcher(columns_kernel, (), constants)(
            (runs, self._n_blocks * triton.cdiv(k, 32)), (z, points, cotangents, states, gradient),
            runs * n, n, k, start, gradient.shape[1], self._rank * k + self._n_raw,
        )  # fmt: skip

    def _add(
        self,
        parts: Tensor,
        dots: Tensor,
        numbers: Tensor,
        gradient: Tensor,
        batch: _Batch | None,
        sizes: tuple[int, int, int, int],
        learned: bool,
        whole: bool,
        programs: int,
    ) -> None:
        n, start, tiles, n_dots = sizes
        runs, width = gradient.shape
        totals = gradient if batch is None else batch.totals
        scratch = gradient.new_empty(runs * max(self._n_blocks, 1) * self._n_sums)
        flags = {"LEARNED": learned, "WHOLE": whole, "DOTS": n_dots > 0, "LABELED": batch is not None}
        self._launcher(add_tiles_kernel, tuple(flags.values()), {**self._adding, **flags})(
            (runs, programs), (parts, dots, numbers, gradient, totals, scratch),
            n, self._n_out, start, width, tiles, n_dots, runs,
        )  # fmt: skip

    # --- many classes ---

    def _split_saved(self, z: Tensor, saved: Tensor) -> tuple[list[Tensor], Tensor]:
        """Inputs of all blocks, and the states of their units, which are what is saved."""
        runs, n, k = z.shape
        blocks = self._n_blocks
        n_states = blocks * runs * n * 3 * self._rank
        states, rest = saved[:n_states], saved[n_states:]
        return [z, *(rest.view(blocks - 1, runs, n, k) if blocks > 1 else ())], states.view(blocks, -1)

    def _spread(
        self,
        x: Tensor,
        b: int,
        tensors: Sequence[Tensor],
        numbers: Tensor,
        *,
        d: Tensor | None = None,
        out: Tensor | None = None,
        next_b: int | None = None,
        other: Tensor | None = None,
        dots: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """``alpha x + A' d``, products with the next ``A``, and parts of the sum of ``x`` times another."""
        runs, n, k = x.shape
        tiles, chunks, rank = triton.cdiv(n, _ROWS), self._chunks, self._rank
        y = x if d is None else torch.empty_like(x) if out is None else out
        products = x.new_empty(chunks if next_b is not None else 0, runs * n, rank)
        weights = tensors[:: self._each]
        flags = (d is not None, other is not None, next_b is not None)
        constants = {
            "B": self._n_blocks, "R": rank, "RANK": self._units["RANK"], "NUMBERS": self._n_numbers, "BLOCK_N": _ROWS,
            "BLOCK_K": 32, "CHUNKS": chunks,
            # three products of tensor cores, as exact as single precision
            "PRECISION": "tf32x3" if x.dtype == torch.float32 else "ieee",
            "SPREAD": flags[0], "DOT": flags[1], "NEXT": flags[2], "num_warps": 2, "num_stages": 1,
        }  # fmt: skip
        given = [x if t is None else t for t in (other, dots)]
        self._launcher(spread_kernel, (x.dtype, *flags), constants)(
            (runs * tiles * chunks, 1),
            (x, x if d is None else d, weights[b], weights[b if next_b is None else next_b], numbers, given[0], y, given[1],
             products),
            runs * n, n, k, self._stride(tensors, runs), triton.cdiv(triton.cdiv(k, 32), chunks) * 32, tiles, b,
            tiles * chunks,
        )  # fmt: skip
        return y, products

    def _update_units(self, x: Tensor, tensors: tuple[Tensor, ...], b: int, backward: bool) -> None:
        runs, n, _ = x.shape
        tiles = triton.cdiv(n, _ROWS)
        constants = {**self._units, "BLOCK_N": _ROWS, "CHUNKS": self._chunks, "BACKWARD": backward, "num_warps": 4}
        self._launcher(units_kernel, (backward,), constants)((runs * tiles, 1), tensors, runs * n, n, tiles, b)

    def _forward_many(self, z: Tensor, tensors: Sequence[Tensor], numbers: Tensor, saved: Tensor) -> Tensor:
        """Log-odds; keeps what the backward pass needs."""
        blocks, rank = self._n_blocks, self._rank
        if not blocks:
            return z
        points, states = self._split_saved(z, saved)
        y, products = self._spread(z, 0, tensors, numbers, next_b=0)
        for b in range(blocks):
            self._update_units(z, (products, numbers, states, states), b, backward=False)
            last = b + 1 == blocks
            y, products = self._spread(
                points[b], b, tensors, numbers, d=states[b, 2 * rank :], out=None if last else points[b + 1],
                next_b=None if last else b + 1,
            )  # fmt: skip
        return y

    def _backward_many(
        self,
        z: Tensor,
        dy: Tensor,
        tensors: Sequence[Tensor],
        numbers: Tensor,
        saved: Tensor,
        gradient: Tensor,
        start: int,
    ) -> Tensor:
        """The gradient in the predictors; writes those of the blocks, from the column ``start`` on."""
        runs, n, k = z.shape
        blocks, rank = self._n_blocks, self._rank
        if not blocks:
            return dy
        points, states = self._split_saved(z, saved)
        tiles = triton.cdiv(n, _ROWS)
        parts, dots = z.new_empty(runs * tiles, blocks, self._n_sums), z.new_empty(runs, blocks, tiles * self._chunks)
        products = self._spread(dy, blocks - 1, tensors, numbers, next_b=blocks - 1)[1]
        for b in reversed(range(blocks)):
            self._update_units(z, (products, numbers, states, parts), b, backward=True)
            state = states[b].view(runs, n, 3, rank)
            offset = start + b * (rank * k + self._n_raw)
            grad_weights = gradient[:, offset : offset + rank * k].view(runs, rank, k)
            torch.bmm(state[:, :, 1].mT, points[b], out=grad_weights)
            grad_weights.baddbmm_(state[:, :, 2].mT, dy)
            dy, products = self._spread(
                dy, b, tensors, numbers, d=states[b, rank:], next_b=b - 1 if b else None, other=points[b], dots=dots
            )
        if tiles > _MOST_TILES:
            parts, tiles = parts.view(runs, tiles, -1).sum(1), 1
        self._add(parts, dots, numbers, gradient, None, (n, start, tiles, dots.shape[2]), False, False, blocks)
        return dy
