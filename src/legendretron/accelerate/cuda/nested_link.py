"""The canonical link by Triton kernels, from tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from legendretron.accelerate.cuda.launching import Launcher, on_device_of
from legendretron.accelerate.cuda.nested_link_kernels import nests_backward_kernel, nests_forward_kernel

__all__ = ["NestsOnCUDA"]

_LOWEST = {
    dtype: -(torch.finfo(dtype).max ** 0.5) for dtype in (torch.float32, torch.float64)
}  # as plain operations have it
_KERNELS = (nests_forward_kernel, nests_backward_kernel)
_PROGRAMS = 128  # that share the rows of a backward pass, and write sums of their own


class NestsOnCUDA:
    """The canonical link; parameters are those of ``NestsOnCPU``."""

    def __init__(self, n_nests: int, n_classes: int, all_classes: bool) -> None:
        self._n_nests, self._n_classes = n_nests, n_classes
        nests, block_c = triton.next_power_of_2(n_nests), triton.next_power_of_2(n_classes)
        warps = max(1, min(16, nests * block_c // 512))
        meta = {"M": n_nests, "NESTS": nests, "ALL": bool(all_classes), "BLOCK_C": block_c, "num_warps": warps}
        self._launchers = {
            dtype: tuple(Launcher(kernel, {**meta, "LOWEST": lowest}) for kernel in _KERNELS)
            for dtype, lowest in _LOWEST.items()
        }

    def kept_size(self, n: int) -> int:
        """Nothing is kept beside rows and log-probabilities."""
        return 0

    def forward(self, z: Tensor, tensors: Sequence[Tensor], keep: bool) -> tuple[Tensor, Tensor]:
        """Log-probabilities ``(n, C)`` of rows of predictors or logits."""
        n, c = len(z), self._n_classes
        log_p = z.new_empty(n, c)
        with on_device_of(z):
            self._launchers[z.dtype][0]((n, 1), (z, *tensors, log_p), c)
        return log_p, z.new_empty(0)

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, kept: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        """Gradients of rows, and of all parameters one after the other."""
        n, c = len(z), self._n_classes
        programs = min(n, _PROGRAMS)
        dz, sums = torch.empty_like(z), z.new_empty(programs, self._n_nests * (c + 2) + 1)
        with on_device_of(z):
            self._launchers[z.dtype][1]((programs, 1), (z, *tensors, g, dz, sums), n, c)
        return dz, sums.sum(0) if wanted[1] else z.new_empty(0)
