"""Settings that follow from the size of the table.

Training is measured in steps, not in passes over the rows: few rows need as many steps as some thousand do.
"""

from __future__ import annotations

import math

__all__ = ["BETAS", "FOLDS", "LEARNING_RATE", "PATIENCE", "batch_for", "hidden_for", "repeats_for", "steps_for"]

FOLDS = 5
LEARNING_RATE = 0.04
BETAS = (0.9, 0.95)
#: Of the fifty times that held-out rows are looked at, those without an improvement after which a fold ends.
PATIENCE = 20


def batch_for(n_rows: int) -> int:
    """Rows in a step.

    Examples
    --------
    >>> batch_for(50), batch_for(1000), batch_for(100_000), batch_for(1_000_000)
    (50, 64, 128, 1024)
    """
    return min(n_rows, max(64, 2 ** int(math.log2(max(1, n_rows) / 1000) + 0.5)))


def steps_for(n_rows: int) -> int:
    """Steps of training.

    Examples
    --------
    >>> steps_for(100), steps_for(5000), steps_for(1_000_000)
    (1000, 5000, 12000)
    """
    return int(min(max(1000, n_rows), 12_000))


def hidden_for(n_rows: int) -> tuple[int, ...]:
    """Units of the hidden layers.

    Examples
    --------
    >>> hidden_for(999), hidden_for(1000)
    ((64, 64), (128, 128))
    """
    return (64, 64) if n_rows < 1000 else (128, 128)


def repeats_for(n_rows: int) -> int:
    """How often the rows are divided into folds.

    Examples
    --------
    >>> repeats_for(999), repeats_for(1000)
    (2, 1)
    """
    return 2 if n_rows < 1000 else 1
