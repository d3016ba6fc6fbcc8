"""Adam on one matrix of parameters, with a learning rate per run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from legendretron.accelerate.support import kernels_apply
from legendretron.training.penalty import Penalty


class Adam:
    """Adam (Kingma and Ba, 2015) for parameters of shape (R, P), one row per run, which it updates in place.

    The count of steps is a tensor on the device, so that a step can be captured in a CUDA graph. There a step is one
    pass over memory, the penalty included, if Triton is available.
    """

    eps = 1e-8

    def __init__(self, parameters: Tensor, betas: tuple[float, float] = (0.9, 0.999)) -> None:
        self.parameters = parameters
        self.betas = betas
        self.first = torch.zeros_like(parameters)
        self.second = torch.zeros_like(parameters)
        self.count = torch.zeros((), dtype=torch.float64, device=parameters.device)
        self.fused = kernels_apply(parameters) and parameters.is_contiguous()
        self._root = torch.empty_like(parameters) if not self.fused else None

    def moments(self) -> tuple[Tensor, ...]:
        """What :meth:`load` needs to resume."""
        return self.first, self.second, self.count

    def load(self, moments: tuple[Tensor, ...]) -> None:
        """Resume from the moments of another optimizer of the same shape."""
        for mine, other in zip(self.moments(), moments, strict=True):
            mine.copy_(other)

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
        # a number on the CPU, which saves a dozen tiny operations; on CUDA the host must not wait for it
        t: Tensor | float = self.count if self.count.is_cuda else float(self.count)
        self.first.lerp_(gradient, 1.0 - b1)
        self.second.mul_(b2).addcmul_(gradient, gradient, value=1.0 - b2)
        # p -= rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps), with the corrections moved onto small tensors
        correction = (1.0 - b2**t) ** 0.5
        factor = -correction / (1.0 - b1**t)
        root = torch.sqrt(self.second, out=self._root).add_(self.eps * correction)
        if isinstance(factor, float) and len(rate) == 1:
            self.parameters.addcdiv_(self.first, root, value=float(rate) * factor)
        else:
            self.parameters.addcdiv_(self.first * (rate * factor), root)
