"""Softplus to full accuracy, and its inverse for setting parameters."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["softplus", "softplus_inverse"]


def softplus(x: Tensor) -> Tensor:
    """``log(1 + exp x)``.

    torch switches to the identity above 20, which is off by 2e-9: too much in float64, where gradients are checked
    against it. At 40 the switch is below the rounding of both precisions.
    """
    if torch.compiler.is_exporting() and x.dtype == torch.float64:
        # onnxruntime has no softplus of doubles
        return torch.relu(x) + torch.log1p(torch.exp(-x.abs()))
    return torch.nn.functional.softplus(x, threshold=40.0)


def softplus_inverse(y: float) -> float:
    """Return the ``x`` with ``softplus(x) = y``, for ``y > 0``."""
    return y + math.log(-math.expm1(-y))
