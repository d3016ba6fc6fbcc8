"""How good a model is on the rows that it was fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class FitScores(NamedTuple):
    """Scores on all rows of the table, rows left out, rows of each class, and how many of those left out have no label."""

    rows: int
    log_loss: float
    accuracy: float
    left_out: int
    counts: np.ndarray
    unlabelled: int = 0
