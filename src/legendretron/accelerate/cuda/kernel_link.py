"""What the kernels of a training step know of a link; without Triton, so that links can be looked at anywhere."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["HIGHEST_RANK", "MOST_CLASSES", "MOST_NESTS", "KernelLink"]

#: A program holds all classes of a row, once for each nest.
MOST_CLASSES = 1024
#: Kernels are unrolled over units and nests; more of them take long to compile.
HIGHEST_RANK, MOST_NESTS = 17, 8


class KernelLink(NamedTuple):
    """A link as the kernels know it: a chain of ridge blocks, none for softmax+, or nests; and symmetric noise of labels."""

    n_blocks: int = 0
    hidden: int = 1
    depth: int = 1
    mixed_units: int = 1  # of a layer, that see the one before
    scale_floor: float | None = None  # of units that are normalised; None without normalisation
    n_nests: int = 0
    learned_rate: bool = False
    known_rate: float = 0.0
