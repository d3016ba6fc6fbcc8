"""Whether compiled steps can replace plain operations."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

__all__ = ["compiled_applies", "has_numba"]


@cache
def has_numba() -> bool:
    """Whether Numba can be imported; there may be none yet for a new version of Python or numpy."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def compiled_applies(tensor: Tensor) -> bool:
    """Whether compiled steps can work on this tensor and others like it.

    Examples
    --------
    >>> compiled_applies(torch.zeros(3, dtype=torch.float16))
    False
    """
    on_cpu = tensor.device.type == "cpu" and tensor.is_contiguous()
    return on_cpu and tensor.dtype in (torch.float32, torch.float64) and has_numba()
