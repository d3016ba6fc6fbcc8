"""The random start of a linear layer."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["init_linear"]


@torch.no_grad()
def init_linear(fan_in: int, generator: torch.Generator | None, *tensors: Tensor) -> None:
    r"""Fill weight and bias, one after the other, with draws from :math:`\pm 1/\sqrt{\mathtt{fan\_in}}`.

    These are the draws of ``torch.nn.Linear(fan_in, n)``, if the weight comes first and has shape ``(n, fan_in)``.

    Examples
    --------
    >>> generator = torch.Generator().manual_seed(0)
    >>> _ = torch.manual_seed(0)
    >>> weight, bias = torch.empty(2, 3), torch.empty(2)
    >>> init_linear(3, generator, weight, bias)
    >>> torch.allclose(weight, torch.nn.Linear(3, 2).weight)
    True
    """
    bound = fan_in**-0.5
    for tensor in tensors:
        tensor.uniform_(-bound, bound, generator=generator)
