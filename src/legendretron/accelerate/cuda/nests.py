"""Canonical links on CUDA by Triton kernels: log-probabilities, their derivatives, and those of a training step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from legendretron.accelerate.cuda.chain import StepNoise
from legendretron.accelerate.cuda.launching import Launcher, on_device_of
from legendretron.accelerate.cuda.nest_kernels import nests_backward_kernel, nests_forward_kernel
from legendretron.accelerate.forms import LinkForm

__all__ = ["NestsOnCUDA"]

_LOWEST = {
    dtype: -(torch.finfo(dtype).max ** 0.5) for dtype in (torch.float32, torch.float64)
}  # as plain operations have it
#: Programs that share the rows of a backward pass, and numbers of each class that they write together.
_PROGRAMS, _SUMS = 4096, 1 << 19


class NestsOnCUDA:
    """The canonical link.

    Parameters
    ----------
    form : LinkForm
        Sizes of the nests; noise does not matter.
    all_classes : bool
        Whether rows have an entry for each class, of which very low ones count as masked.
    """

    def __init__(self, form: LinkForm, all_classes: bool) -> None:
        self._n_nests, self._n_classes = n_nests, n_classes = form.n_nests, form.n_classes
        nests, block_c = triton.next_power_of_2(n_nests), triton.next_power_of_2(n_classes)
        warps = max(1, min(16, nests * block_c // 512))
        self._meta = {"M": n_nests, "NESTS": nests, "ALL": bool(all_classes), "BLOCK_C": block_c, "num_warps": warps}
        self._launchers: dict[tuple[torch.dtype, bool, bool, bool], Launcher] = {}
        self._forward = {
            dtype: Launcher(nests_forward_kernel, {**self._meta, "LOWEST": lowest}) for dtype, lowest in _LOWEST.items()
        }

    def kept_size(self, n: int) -> int:
        """Nothing is kept beside rows and log-probabilities."""
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
        labelled = noise is not None
        size = self._n_nests * (c + 2) + 1 + (c + 2 if labelled else 0)
        dz, sums = torch.empty_like(z), z.new_empty(runs, programs, size)
        noisy = (False, False) if noise is None else (noise.learned, noise.noisy)
        flags = (z.dtype, labelled, *noisy)
        if flags not in self._launchers:
            meta = {"LOWEST": _LOWEST[z.dtype], "LABELS": labelled, "LEARNED": flags[2], "NOISY": flags[3]}
            self._launchers[flags] = Launcher(nests_backward_kernel, {**self._meta, **meta})
        known_rate = flat if noise is None else noise.known_rate
        with on_device_of(z):
            self._launchers[flags](
                (programs, runs), (z, *tensors, labels, given, flat, known_rate, dz, sums), n, c,
                tensors[0].stride(0) if runs > 1 else 0, flat.shape[-1],
            )  # fmt: skip
        return dz, sums

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, kept: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
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
