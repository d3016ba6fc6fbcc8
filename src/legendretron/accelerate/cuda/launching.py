"""Launching a kernel again, with little work for the processor.

Each time a kernel is called, Triton looks at all arguments to find the code that was compiled for their kind. In a plain
training loop that takes longer than computing. Here the compiled code is kept, for arguments that differ in nothing that
Triton looks at: the same device and precision, addresses that are all multiples of 16, and numbers that are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

from legendretron.accelerate.support import check_memory

__all__ = ["Launcher", "on_device_of"]

_ALIGNED = 15  # the bits of an address that are 0 if it is a multiple of 16
#: From this version on, compiled code takes all arguments of a kernel, constants too.
_CAN_KEEP = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 6)


def on_device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """Kernels go to the current device, wherever the tensors are; so that must be theirs."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device_of(tensor)


class Launcher:
    """A kernel with its constants, and options such as ``num_warps``.

    Its arguments are tensors, tuples of tensors and integers; constants come last.
    """

    def __init__(self, kernel: Any, constants: dict[str, Any]) -> None:
        self._kernel, self._constants = kernel, constants
        self._last = [constants[name] for name in kernel.arg_names if name in constants]
        self._kept: dict[tuple[Any, ...], Any] = {}

    def __call__(self, grid: tuple[int, int], tensors: Sequence[Tensor | tuple[Tensor, ...]], *numbers: int) -> None:
        """Launch ``grid[0] * grid[1]`` programs, on the current device."""
        first = tensors[0]
        assert isinstance(first, Tensor)
        bits, known = 0, True
        for tensor in tensors:
            for one in tensor if isinstance(tensor, tuple) else (tensor,):
                address = one.data_ptr()
                bits |= address
                known = known and address != 0
        if not known:
            check_memory([one for tensor in tensors for one in (tensor if isinstance(tensor, tuple) else (tensor,))])
        key = (first.device.index, first.dtype, *((number == 1, number % 16 == 0) for number in numbers))
        compiled = None if bits & _ALIGNED else self._kept.get(key)
        if compiled is not None:
            compiled[(*grid, 1)](*tensors, *numbers, *self._last)
            return
        compiled = self._kernel[grid](*tensors, *numbers, **self._constants)
        if compiled is not None and _CAN_KEEP and not bits & _ALIGNED:  # there is none in the interpreter
            self._kept[key] = compiled
