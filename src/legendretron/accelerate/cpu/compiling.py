"""How functions are compiled, and how they get at memory and at single entries of arrays."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from legendretron.accelerate.support import VECTOR
from legendretron.potentials.cpflow import SCALE_FLOOR

__all__ = ["CONSTANTS", "array_at", "at", "cached", "compiled", "data_of", "exact", "gather", "put"]

# sums may be reordered, but NaN and infinity must survive: they show that a run has diverged
_OPTIONS = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy", "nogil": True}
# without wrappers for Python, which take long to compile
compiled = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)
# where the order of sums matters
exact = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy", nogil=True)


#: Numbers from elsewhere that compiled code contains.
CONSTANTS = {"SCALE_FLOOR": SCALE_FLOOR, "VECTOR": VECTOR}


@cache
def _sources() -> str:
    """A digest of all files with compiled functions, and of the constants that these import."""
    digest = hashlib.sha256(repr(CONSTANTS).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cached(function):
    """Compile, and cache the result on disk for later processes, where there is a folder to write to.

    Numba's key covers the code of the function alone, not of those that it calls: after an upgrade, old code would run. So
    the key includes a digest of all sources.
    """
    try:
        dispatcher = njit(cache=True, **_OPTIONS)(function)
        cache_files = dispatcher._cache
        index_key = cache_files._index_key
    except (RuntimeError, AttributeError):  # no folder to write to; or another version of Numba
        return njit(**_OPTIONS)(function)
    cache_files._index_key = lambda *given: (*index_key(*given), _sources())
    load = cache_files.load_overload

    def load_if_whole(*given):
        try:
            return load(*given)
        except Exception:  # a truncated file: compile again, or every call would fail
            cache_files.flush()
            return None

    cache_files.load_overload = load_if_whole
    return dispatcher


# --- memory, and single entries ---


def data_of(context, builder, kind, value):
    """Pointer to the first entry of an array."""
    return context.make_array(kind)(context, builder, value).data


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

    Functions take addresses since Numba needs longer to unpack arrays than a small batch takes to compute.
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
