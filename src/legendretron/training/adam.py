"""Adam on one matrix of parameters, with a learning rate per run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from legendretron.accelerate.support import kernels_apply
from legendretron.training.penalty import Penalty

__all__ = ["Adam"]


class Adam:
    """Adam (Kingma and Ba, 2015) for parameters of shape (R, P), one row per run, which it updates in place.

    The count of steps is a tensor on the device, so that a step can be captured in a CUDA graph. There a step is one
    pass over memory, the penalty included, if Triton is available.
    """

    def __init__(self, parameters: Tensor, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        self.parameters = parameters
        self.betas = betas
        self.eps = eps
        self.first = torch.zeros_like(parameters)
        self.second = torch.zeros_like(parameters)
        self.count = torch.zeros((), dtype=torch.float64, device=parameters.device)
        # on the CPU the count is a Python number as well, which saves a dozen tiny operations per step
        self._number: int | None = None if parameters.is_cuda else 0
        self.fused = kernels_apply(parameters) and parameters.is_contiguous()
        self._root = torch.empty_like(parameters) if not self.fused else None

    def moments(self) -> tuple[Tensor, ...]:
        """What :meth:`load` needs to resume."""
        return self.first, self.second, self.count

    def load(self, moments: tuple[Tensor, ...]) -> None:
        """Resume from the moments of another optimizer of the same shape."""
        for mine, other in zip(self.moments(), moments, strict=True):
            mine.copy_(other)
        self.refresh()

    def refresh(self) -> None:
        """Read the count again after it was written from outside."""
        if self._number is not None:
            self._number = int(self.count)

    def advance(self, steps: int) -> None:
        """Count steps that compiled code has taken on the memory of moments, count and parameters."""
        if self._number is not None:
            self._number += steps

    def step(self, gradient: Tensor, rate: Tensor, penalty: Penalty | None = None, *, clear: bool = False) -> None:
        """Update with a gradient of shape (R, P), plus that of a penalty, and rates of shape (R, 1).

        The gradient given may be overwritten; ``clear`` leaves zeros in it.
        """
        if self.fused:
            self._fused_step(gradient.contiguous(), rate, penalty, clear)
            return
        if penalty is not None:
            penalty.add_gradient(gradient)
        self._plain_step(gradient, rate)
        if clear:
            gradient.zero_()

    def _fused_step(self, gradient: Tensor, rate: Tensor, penalty: Penalty | None, clear: bool) -> None:
        from legendretron.accelerate.cuda.training import adam_step

        options: dict[str, Any] = {}
        if penalty is not None and penalty.active:
            penalty.add_center(gradient)
            penalty.spare_free(gradient)
            options = {"strengths": penalty.strengths, "shared": penalty.shared_gradient(), "bounds": penalty.bounds}
        adam_step(
            self.parameters,
            gradient,
            self.first,
            self.second,
            self.count,
            rate,
            betas=self.betas,
            eps=self.eps,
            clear=clear,
            **options,
        )

    def _plain_step(self, gradient: Tensor, rate: Tensor) -> None:
        b1, b2 = self.betas
        self.count += 1
        t: Tensor | int = self.count
        if self._number is not None:
            self._number += 1
            t = self._number
        self.first.lerp_(gradient, 1.0 - b1)
        self.second.mul_(b2).addcmul_(gradient, gradient, value=1.0 - b2)
        # p -= rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps), with the corrections moved onto small tensors
        correction = (1.0 - b2**t) ** 0.5
        floor = self.eps * correction
        factor = -correction / (1.0 - b1**t)
        if isinstance(floor, Tensor):
            floor, factor = floor.to(rate.dtype), (rate * factor).to(rate.dtype)
        elif rate.shape[0] == 1:
            factor = float(rate) * factor
        else:
            factor = rate * factor
        root = torch.sqrt(self.second, out=self._root).add_(floor)
        if isinstance(factor, Tensor):
            self.parameters.addcdiv_(self.first * factor, root)
        else:
            self.parameters.addcdiv_(self.first, root, value=factor)
