"""A cache for what is computed from tensors that rarely change."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value")


class _Kept(NamedTuple, Generic[Value]):
    """A value, and what it was computed from."""

    value: Value
    key: tuple[object, ...]
    tensors: list[Tensor]  #: held, so that their addresses are not given to other tensors
    contents: list[tuple[Any, bytes]]  #: memory of those on the CPU, and what was in it
    versions: list[tuple[Tensor, int]]  #: the others, and how often they had been changed

    def is_valid(self, key: tuple[object, ...]) -> bool:
        return (
            self.key == key
            and all(memory.raw == before for memory, before in self.contents)
            and all(tensor._version == before for tensor, before in self.versions)
        )


class TensorCache(Generic[Value]):
    """One value, valid as long as the tensors that it was computed from do not change.

    Copies made by ``copy`` or ``pickle`` are empty: the value belongs to one object, and is quick to compute again. On the
    CPU, numbers are compared. Elsewhere changes are noticed as torch counts them, which leaves out those through ``.data``;
    use ``torch.no_grad()`` instead. Threads may share a cache.
    """

    def __init__(self) -> None:
        self._kept: _Kept[Value] | None = None

    def get(self, make: Callable[[Tensor], Value], like: Tensor, tensors: Sequence[Tensor]) -> Value:
        """Return the cached value, or ``make(like)`` if dtype, device or one of the tensors has changed.

        It is computed outside inference mode, so that it can be used where gradients are recorded.
        """
        kept = self._kept  # read once: another thread may replace it
        if torch.compiler.is_compiling() and kept is not None and kept.key[0] == like.dtype:
            # a compiler cannot ask whether a tensor has changed, and would unroll the loops that make a table
            return kept.value
        key = (like.dtype, like.device, *((t.data_ptr(), t.shape) for t in tensors))
        if kept is not None and kept.is_valid(key):
            return kept.value
        held = [t.detach() for t in tensors]
        own, others = [t for t in held if _can_compare(t)], [t for t in held if not _can_compare(t)]
        if any(t.is_inference() for t in others):  # these do not track in-place changes
            return make(like)
        contents = [(memory, memory.raw) for memory in map(_memory, own)]
        with torch.inference_mode(False), torch.no_grad():
            value = make(like)
        self._kept = _Kept(value, key, held, contents, [(t, t._version) for t in others])
        return value

    def __reduce__(self) -> tuple[type[TensorCache[Value]], tuple[()]]:
        return TensorCache, ()


def _can_compare(tensor: Tensor) -> bool:
    return type(tensor) is Tensor and tensor.is_cpu and tensor.is_contiguous()


def _memory(tensor: Tensor) -> Any:
    """The memory of a tensor, which is much quicker to compare than the tensor itself."""
    return (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())
