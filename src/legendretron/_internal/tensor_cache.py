"""A cache for what is computed from tensors that rarely change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

Value = TypeVar("Value")


class TensorCache(Generic[Value]):
    """One value, valid as long as the tensors that it was computed from do not change.

    Copies made by ``copy`` or ``pickle`` are empty: the value belongs to one object, and is quick to compute again. Changes
    are noticed as torch counts them, which leaves out those through ``.data``; use ``torch.no_grad()`` instead.
    """

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._tensors: list[Tensor] = []
        self._value: Value | None = None

    def get(self, make: Callable[[Tensor], Value], like: Tensor, tensors: Sequence[Tensor]) -> Value:
        """Return the cached value, or ``make(like)`` if dtype, device or one of the tensors has changed.

        It is computed outside inference mode, so that it can be used where gradients are recorded.
        """
        if torch.compiler.is_compiling() and self._value is not None and self._key[0] == like.dtype:
            # a compiler cannot ask whether a tensor has changed, and would unroll the loops that make a table
            return self._value
        if any(t.is_inference() for t in tensors):  # these do not track in-place changes
            return make(like)
        key = (like.dtype, like.device, *((t.data_ptr(), t._version) for t in tensors))
        if self._value is None or self._key != key:
            with torch.inference_mode(False), torch.no_grad():
                self._value = make(like)
            # holding the memory keeps its address from being given to other tensors
            self._key, self._tensors = key, [t.detach() for t in tensors]
        return self._value

    def __reduce__(self) -> tuple[type[TensorCache[Value]], tuple[()]]:
        return TensorCache, ()
