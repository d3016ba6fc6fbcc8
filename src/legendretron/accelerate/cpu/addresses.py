"""Arrays of compiled functions by their addresses: Numba takes longer to look at arrays than small work takes."""

from __future__ import annotations

from numba import carray

from legendretron.accelerate.cpu.compiling import compiled
from legendretron.accelerate.cpu.entries import pointer

__all__ = ["array_at"]


@compiled
def array_at(address, size, like):
    """An array of one dimension in the precision of ``like``, empty for the address 0."""
    return carray(pointer(address, like), (size if address != 0 else 0,))
