"""Whether compiled functions can replace plain operations: those of Numba on the CPU, of Triton on CUDA."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module

import torch
from torch import Tensor, nn

__all__ = [
    "PRECISIONS",
    "VECTOR",
    "addresses_of",
    "can_read",
    "check_memory",
    "compiled_applies",
    "has_numba",
    "has_triton",
    "kernels_apply",
]

#: Types of numbers that compiled functions and kernels work with.
PRECISIONS = (torch.float32, torch.float64)
#: Entries of a vector of the CPU, at most: rows are filled up to a multiple of this.
VECTOR = 16
#: Types of tensors whose numbers are where ``data_ptr`` says.
_PLAIN_TYPES = (Tensor, nn.Parameter)


def can_read(tensors: Sequence[Tensor], shapes: Sequence[tuple[int, ...]], like: Tensor) -> bool:
    """Whether tensors are what compiled functions need: plain, of these shapes, contiguous, and in memory like another one.

    Compiled functions take addresses and sizes. Of any other tensor they would read numbers that mean something else, or
    beyond its end. So this is asked before each call, and plain operations take the rest, or raise their errors.

    Examples
    --------
    >>> z = torch.zeros(5, 2)
    >>> can_read([z], [(5, 2)], z), can_read([z], [(5, 3)], z), can_read([z.mT], [(2, 5)], z)
    (True, False, False)
    """
    dtype, on_cpu = like.dtype, like.is_cpu
    if len(tensors) != len(shapes) or dtype not in PRECISIONS:
        return False
    for tensor, shape in zip(tensors, shapes, strict=True):
        if (
            type(tensor) not in _PLAIN_TYPES
            or tensor.shape != shape
            or tensor.dtype is not dtype
            or tensor.is_cpu is not on_cpu
            or not tensor.is_contiguous()
        ):
            return False
    return on_cpu or all(tensor.device == like.device for tensor in tensors)


def addresses_of(tensors: Iterable[Tensor]) -> list[int]:
    """Where the numbers of tensors are, for compiled functions; see :func:`can_read`.

    Raises
    ------
    RuntimeError
        If memory has been freed, as other libraries do with parameters that they bring back for each use.
    """
    addresses = [tensor.data_ptr() for tensor in tensors]
    if 0 in addresses:
        check_memory(tensors)
    return addresses


def check_memory(tensors: Iterable[Tensor]) -> None:
    """Raise a ``RuntimeError`` if the memory of a tensor has been freed."""
    for tensor in tensors:
        if tensor.numel() and not tensor.data_ptr():
            raise RuntimeError(
                f"a tensor of shape {tuple(tensor.shape)} has no memory: it was freed, and not brought back for its use."
            )


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
