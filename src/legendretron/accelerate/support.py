"""Whether compiled functions can replace plain operations: those of Numba on the CPU, of Triton on CUDA."""

from __future__ import annotations

from functools import cache
from importlib import import_module

import torch
from torch import Tensor

__all__ = ["PRECISIONS", "VECTOR", "compiled_applies", "has_numba", "has_triton", "kernels_apply"]

#: Types of numbers that compiled functions and kernels work with.
PRECISIONS = (torch.float32, torch.float64)
#: Entries of a vector of the CPU, at most: rows are filled up to a multiple of this.
VECTOR = 16


@cache
def _can_import(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True


def has_numba() -> bool:
    """Whether Numba can be imported; there may be none yet for a new version of Python or numpy."""
    return _can_import("numba")


def has_triton() -> bool:
    """Whether Triton can be imported; it comes with torch for CUDA on Linux."""
    return _can_import("triton")


def compiled_applies(tensor: Tensor) -> bool:
    """Whether functions of Numba can work on this tensor and others like it."""
    return tensor.is_cpu and tensor.is_contiguous() and tensor.dtype in PRECISIONS and has_numba()


def kernels_apply(tensor: Tensor) -> bool:
    """Whether kernels of Triton can work on this tensor and others like it."""
    return tensor.is_cuda and tensor.dtype in PRECISIONS and has_triton()
