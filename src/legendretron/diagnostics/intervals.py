"""Intervals of means, by draws of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from legendretron._internal.chunks import chunks

#: How often rows are drawn.
DRAWS = 1000
#: With more rows, groups of rows are drawn, about this many.
_GROUPS = 5000
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


def draw_groups(n: int, n_draws: int, seed: int) -> tuple[np.ndarray, Iterator[np.ndarray]]:
    """Draw rows with replacement: the group of each row (n,), and blocks of draws, how often each group is drawn.

    A group is a row; many rows are divided into groups at random, as means then vary as much, and take less time.
    """
    rng = np.random.default_rng(seed)
    group, n_groups = np.arange(n), n
    if (size := n // _GROUPS) > 1:
        n_groups = -(-n // size)
        group = rng.permutation(n) % n_groups  # of equal size but for one

    def draws() -> Iterator[np.ndarray]:
        for block in chunks(n_draws, n_groups):
            counts = np.empty((len(range(n_draws)[block]), n_groups))
            for row in counts:
                row[:] = np.bincount(rng.integers(n_groups, size=n_groups), minlength=n_groups)
            yield counts

    return group, draws()


def drawn_means(columns: Sequence[np.ndarray], weight: np.ndarray, seed: int) -> np.ndarray:
    """Draw rows with replacement, again and again, and return the weighted mean of each column: (draws, k)."""
    group, draws = draw_groups(len(weight), DRAWS, seed)
    sums = np.column_stack([np.bincount(group, column * weight) for column in (*columns, np.ones(len(weight)))])
    drawn = np.concatenate([counts @ sums for counts in draws])
    means: np.ndarray = drawn[:, :-1] / drawn[:, -1:]
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
