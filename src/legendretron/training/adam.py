"""Adam on one matrix of parameters, with a rate for every run."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Adam"]


class Adam:
    """Adam for parameters of shape (R, P), a run a row.

    The count of steps is a tensor on the device, so that a step can be captured in a CUDA graph.

    Parameters
    ----------
    parameters : Tensor of shape (R, P)
        Updated in place.
    betas : tuple of float
        Decay of the two moments.
    eps : float
        Keeps the denominator away from zero.

    References
    ----------
    Kingma, Ba (2015), Adam: A Method for Stochastic Optimization, ICLR.
    """

    def __init__(self, parameters: Tensor, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        self.parameters = parameters
        self.betas = betas
        self.eps = eps
        self.first = torch.zeros_like(parameters)
        self.second = torch.zeros_like(parameters)
        self.count = torch.zeros((), dtype=torch.float64, device=parameters.device)
        self._root = torch.empty_like(parameters)

    def moments(self) -> tuple[Tensor, ...]:
        """What :meth:`load` needs to go on."""
        return self.first, self.second, self.count

    def load(self, moments: tuple[Tensor, ...]) -> None:
        """Go on from the moments of another optimiser of the same shape."""
        for mine, other in zip(self.moments(), moments, strict=True):
            mine.copy_(other)

    def step(self, gradient: Tensor, rate: Tensor) -> None:
        """Update with a gradient of shape (R, P) and rates of shape (R, 1)."""
        b1, b2 = self.betas
        self.count += 1
        self.first.lerp_(gradient, 1.0 - b1)
        self.second.mul_(b2).addcmul_(gradient, gradient, value=1.0 - b2)
        correction = torch.sqrt(1.0 - b2**self.count)
        # p -= rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps), with the corrections moved onto small tensors
        torch.sqrt(self.second, out=self._root).add_((self.eps * correction).to(rate.dtype))
        factor = (-rate * (correction / (1.0 - b1**self.count))).to(rate.dtype)
        self.parameters.add_(torch.div(self.first, self._root, out=self._root).mul_(factor))
