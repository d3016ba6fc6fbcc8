"""Rows picked by a hash of their number, so that the choice never moves."""

from __future__ import annotations

import numpy as np

#: What rows are picked for; choices for different purposes are independent.
HELD_OUT, SAMPLE = 1, 2


def row_share(row_numbers: np.ndarray, seed: int, purpose: int) -> np.ndarray:
    """A number in [0, 1) for each row, by the finaliser of splitmix64; rows below a share are picked.

    It depends on the number of the row and the seed alone: not on batches, files' order of reading or epochs.

    Examples
    --------
    >>> share = row_share(np.arange(100_000), seed=0, purpose=HELD_OUT)
    >>> round(float((share < 0.1).mean()), 2)
    0.1
    """
    start = (int(seed) * 0x9E3779B97F4A7C15 + int(purpose) * 0xD1B54A32D192ED03) % 2**64
    with np.errstate(over="ignore"):
        z = _mixed(row_numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
