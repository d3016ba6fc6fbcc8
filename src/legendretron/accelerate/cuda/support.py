"""Whether Triton kernels can replace plain operations."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

__all__ = ["has_triton", "kernels_apply"]


@cache
def has_triton() -> bool:
    """Whether Triton can be imported; it comes with torch for CUDA on Linux."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def kernels_apply(tensor: Tensor) -> bool:
    """Whether kernels can work on this tensor and others like it.

    Examples
    --------
    >>> kernels_apply(torch.zeros(3))
    False
    """
    return tensor.is_cuda and tensor.dtype in (torch.float32, torch.float64) and has_triton()
