"""Losses of candidates on held-out rows, and the comparison of two candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

#: Most held-out rows that are doubted, whatever their number.
DOUBTED_ROWS = 0.25
#: Standard errors at which a difference is sure: more than the usual two, as each is about the best of several fits.
SURE_ERRORS = 2.5
#: Share of a log-loss that matters: less is not worth a search.
LEAST_GAIN = 0.01


def doubted_rows(losses: np.ndarray, n_rows: int) -> float:
    r"""Number of held-out rows to doubt: those expected to fail by chance, and at most a quarter of one.

    ``losses`` are log-losses of ``n_rows`` rows, each held out once or several times. The margin of a row is the log-odds of
    its label; margins below their median are taken to be normal, which gives the number that are expected below 0.
    """
    with np.errstate(over="ignore"):
        margin = -np.log(np.expm1(np.clip(losses, 1e-12, 700.0)))
    middle = np.median(margin)
    below = middle - margin[margin < middle]
    if not len(below) or not middle > 0.0:
        return DOUBTED_ROWS
    return float(min(DOUBTED_ROWS, n_rows * ndtr(-middle / np.sqrt(np.mean(below**2)))))


class Difference(NamedTuple):
    """Mean of a loss minus another, row by row, and its standard error."""

    mean: float
    error: float


@dataclass(frozen=True)
class HeldOut:
    """All held-out rows, one fold after the other."""

    fold: np.ndarray  #: number of the fold, (n,)
    row: np.ndarray  #: number of the row, (n,)
    source: np.ndarray  #: the same, but one number for all copies of a row, (n,)
    weight: np.ndarray  #: what each counts, (n,); sums to 1
    between_folds: bool  #: whether errors are at least those between folds, as rows of a group are not independent

    @classmethod
    def of(
        cls,
        folds: list[tuple[np.ndarray, np.ndarray]],
        weight: np.ndarray,
        between_folds: bool,
        copies: np.ndarray | None = None,
    ) -> HeldOut:
        """Put the held-out parts of folds together, with weights of shape (N,).

        ``copies`` (N,) has the number of the row that each is a copy of, where labels are soft.
        """
        row = np.concatenate([held for _, held in folds])
        fold = np.repeat(np.arange(len(folds)), [len(held) for _, held in folds])
        share, source = weight[row], row if copies is None else copies[row]
        return cls(fold, row, source, share / share.sum(), between_folds and len(folds) > 1)

    @property
    def n_rows(self) -> int:
        """How many rows are held out at least once; copies of a row are one."""
        return len(np.unique(self.source))

    def first(self, n_folds: int) -> HeldOut:
        """The held-out rows of the first folds."""
        return self.first_rows(int((self.fold < n_folds).sum()))

    def first_rows(self, n: int) -> HeldOut:
        """The same, by how many they are."""
        return self.select(slice(n))

    def select(self, rows: slice | np.ndarray) -> HeldOut:
        """Some of the held-out rows."""
        fold, share = self.fold[rows], self.weight[rows]
        between_folds = self.between_folds and len(np.unique(fold)) > 1
        return HeldOut(fold, self.row[rows], self.source[rows], share / share.sum(), between_folds)

    def mean(self, loss: np.ndarray) -> Difference:
        """Mean of losses of all folds or the first ones, and its standard error."""
        return self.difference(loss, np.zeros_like(loss))

    def difference(self, loss: np.ndarray, other: np.ndarray) -> Difference:
        """Mean of ``loss - other`` on the folds that have both, and its standard error."""
        both = min(len(loss), len(other))
        if both < len(self.row):
            return self.first_rows(both).difference(loss[:both], other[:both])
        away = loss - other
        if not np.isfinite(away).all():
            return Difference(float("inf"), float("inf"))
        mean = float(self.weight @ away)
        # a row that is held out several times is still one row, and so are copies of it
        of_row = np.bincount(self.source, self.weight)
        seen = of_row > 0
        deviation = np.bincount(self.source, self.weight * (away - mean))[seen] / of_row[seen]
        error = self._error(deviation, of_row[seen])
        if self.between_folds:
            share = np.bincount(self.fold, self.weight)
            of_fold = np.bincount(self.fold, self.weight * away) / share
            times = len(self.row) / len(np.unique(self.row))  # folds of another repeat hold the same rows
            error = max(error, self._error(of_fold - mean, share, times))
        return Difference(mean, error)

    @staticmethod
    def _error(deviation: np.ndarray, weight: np.ndarray, times: float = 1.0) -> float:
        if len(weight) < 2:
            return float("inf")  # a single one tells nothing about others
        count = 1.0 / (times * float(weight @ weight))  # of equal weights, their number
        return float(np.sqrt(weight @ deviation**2 / max(count - 1.0, 1.0)))
