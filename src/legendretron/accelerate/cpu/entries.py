"""Access to memory and single entries in compiled functions."""

from __future__ import annotations

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from legendretron.accelerate.cpu.compiling import compiled
from legendretron.accelerate.cpu.vector_code import data_of

__all__ = ["array_at", "at", "gather", "put"]


@intrinsic
def _pointer(typing, address, like):
    """A pointer to entries of the type of ``like`` from an address, a number: quicker to pass than an array."""
    kind = types.CPointer(like.dtype)

    def generate(context, builder, signature, values):
        return builder.inttoptr(values[0], context.get_value_type(kind))

    return kind(types.int64, like), generate


@intrinsic
def at(typing, array, i):
    """``array[i]`` for ``i >= 0``: Numba would allow for negative ones, which keeps the compiler from using vectors."""

    def generate(context, builder, signature, values):
        return builder.load(builder.gep(data_of(context, builder, signature.args[0], values[0]), [values[1]]))

    return array.dtype(array, types.int64), generate


@intrinsic
def put(typing, array, i, value):
    """``array[i] = value`` for ``i >= 0``, see :func:`at`."""

    def generate(context, builder, signature, values):
        builder.store(values[2], builder.gep(data_of(context, builder, signature.args[0], values[0]), [values[1]]))
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), generate


@compiled
def array_at(address, size, like):
    """An array of one dimension in the precision of ``like``, empty for the address 0.

    Numba takes longer to look at arrays than small work takes, so functions take addresses.
    """
    return carray(_pointer(address, like), (size if address != 0 else 0,))


@compiled
def gather(where, lengths, each, times, like):
    """Arrays one after the other, from their addresses: ``times`` groups of the first ``each`` lengths."""
    size = 0
    for i in range(each):
        size += lengths[i]
    out, p = np.empty(times * size, like.dtype), 0
    for i in range(times * each):
        n = lengths[i % each]
        array = array_at(where[i], n, like)
        for k in range(n):
            put(out, p + k, at(array, k))
        p += n
    return out
