"""How good a model is on the rows that it was fitted to."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FitScores"]


class FitScores(NamedTuple):
    """Scores on all rows of the table, and how many rows were left out: all of them, and those without a label."""

    rows: int
    log_loss: float
    accuracy: float
    left_out: int
    unlabelled: int = 0
