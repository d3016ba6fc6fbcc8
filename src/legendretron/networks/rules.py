"""Settings that follow from the size of the table.

Training is measured in steps, not in passes over the rows: few rows need as many steps as some thousand do.
"""

from __future__ import annotations

import math
from typing import NamedTuple

FOLDS = 5
LEARNING_RATE = 0.04
BETAS = (0.9, 0.95)
#: Of the fifty times that held-out rows are looked at, those without an improvement after which a fold ends.
PATIENCE = 20


class Sizes(NamedTuple):
    """Sizes of networks and of their training."""

    hidden: tuple[int, ...]  #: units of the hidden layers
    n_repeats: int  #: how often the rows are divided into folds
    n_steps: int  #: steps of training
    batch_size: int  #: rows in a step

    @classmethod
    def for_rows(cls, n_rows: int) -> Sizes:
        """Sizes for a number of rows.

        Examples
        --------
        >>> tuple(Sizes.for_rows(999)), tuple(Sizes.for_rows(1000))
        (((64, 64), 2, 1000, 64), ((128, 128), 1, 1000, 64))
        >>> tuple(Sizes.for_rows(1_000_000))
        ((128, 128), 1, 12000, 1024)
        """
        batch_size = min(n_rows, max(64, 2 ** int(math.log2(max(1, n_rows) / 1000) + 0.5)))
        n_steps = min(max(1000, n_rows), 12_000)
        return cls((64, 64) if n_rows < 1000 else (128, 128), 2 if n_rows < 1000 else 1, n_steps, batch_size)
