"""Some rows of a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

#: Row numbers of file ``f`` begin at ``f`` times this, so that they depend neither on row groups nor on other files' length.
ROWS_OF_A_FILE = 2**40


@dataclass(frozen=True)
class Batch:
    """Rows with labels, weights and numbers.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
        Features, float32 or float64.
    y : ndarray of shape (n,) or None
        Labels: integers, booleans or strings; None where a source has no target, as for prediction.
    weight : ndarray of shape (n,) or None
        Weights, float64; None if all are 1.
    row_numbers : ndarray of shape (n,)
        One number for each row, int64: the same whenever and in whatever order the row is read. Of the files of a source,
        file ``f`` has numbers from ``f * 2**40``.
    origin : str
        Where the rows come from, for messages, such as a file and its row group; may be empty.
    faults : mapping of int to str
        What is wrong with rows that could not be read, and where they stand, by their number. Their features are NaN. They
        are an error, or left out and counted, as rows with missing values are.

    Examples
    --------
    >>> Batch(np.ones((2, 3)), np.array(["a", "b"]), weight=None, row_numbers=np.array([0, 1])).X.shape
    (2, 3)
    """

    X: Any
    y: np.ndarray | None
    weight: np.ndarray | None
    row_numbers: np.ndarray
    origin: str = ""
    faults: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.row_numbers)

    def take(self, rows: Any) -> Self:
        """Some of the rows, by a slice, a mask or indices."""
        return replace(
            self,
            X=self.X[rows],
            y=None if self.y is None else self.y[rows],
            weight=None if self.weight is None else self.weight[rows],
            row_numbers=self.row_numbers[rows],
        )
