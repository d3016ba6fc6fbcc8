"""Intervals of means, by draws of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: How often rows are drawn.
DRAWS = 1000
#: With more rows, groups of rows are drawn, about this many.
_GROUPS = 5000
#: Entries of a block of draws.
_AT_ONCE = 2**22
#: Share of the draws within an interval.
LEVEL = 0.95


class Estimate(NamedTuple):
    """A number with its interval."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """Whether the interval is above zero (1), below (-1), or holds it (0)."""
        return int(self.low > 0) - int(self.high < 0)


def drawn_means(columns: np.ndarray, weight: np.ndarray, seed: int) -> np.ndarray:
    """Draw rows with replacement, again and again, and return the weighted mean of each column: (draws, k).

    Many rows are divided into groups at random, and groups are drawn: means then vary as much, and take less time. Weights go
    with the rows.
    """
    rng = np.random.default_rng(seed)
    weighted = np.column_stack([columns * weight[:, None], weight])
    if (size := len(columns) // _GROUPS) > 1:
        n_groups = -(-len(columns) // size)
        # groups of equal size but for one
        group = rng.permutation(len(columns)) % n_groups
        weighted = np.column_stack([np.bincount(group, column) for column in weighted.T])
    n = len(weighted)
    means = np.empty((DRAWS, columns.shape[1]))
    block = max(1, min(DRAWS, _AT_ONCE // n))
    for start in range(0, DRAWS, block):
        rows = min(block, DRAWS - start)
        counts = np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(rows)]).astype(float)
        sums = counts @ weighted
        means[start : start + rows] = sums[:, :-1] / sums[:, -1:]
    return means


def exact_interval(share: int, weight: np.ndarray) -> Estimate:
    """Return a share of zero or one with the exact interval of a binomial distribution, by Clopper and Pearson.

    Rows with weights are as good as fewer rows without: the square of the sum over the sum of the squares.

    Examples
    --------
    >>> round(exact_interval(1, np.ones(100)).low, 3)
    0.964
    """
    n_rows = weight.sum() ** 2 / (weight**2).sum()
    bound = float(((1 - LEVEL) / 2) ** (1 / n_rows))
    return Estimate(1.0, bound, 1.0) if share else Estimate(0.0, 0.0, 1.0 - bound)


def interval(value: float, draws: np.ndarray) -> Estimate:
    """Return a value with the middle 95 % of its draws."""
    if not np.isfinite(draws).all():
        return Estimate(value, float("nan"), float("nan"))
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))
