"""Arrays, memory-mapped ones among them, as a source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from legendretron.streaming.batch import Batch
from legendretron.streaming.source import BlockSource

_BLOCK_ROWS = 2**14


class ArraySource(BlockSource):
    """Rows of arrays, read in slices: of memory-mapped ones only these are in memory.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        Features.
    y : array of shape (n,), optional
        Labels.
    weight : array of shape (n,), optional
        Weights.
    """

    def __init__(self, X: Any, y: Any, weight: Any = None, *, block_rows: int = _BLOCK_ROWS) -> None:
        columns = getattr(X, "columns", None)
        if columns is not None and all(isinstance(name, str) for name in columns):
            self.feature_names = tuple(columns)
        self.X = scipy.sparse.csr_array(X) if scipy.sparse.issparse(X) else X
        self.y, self.weight = (None if part is None else np.asarray(part) for part in (y, weight))
        self.block_rows = block_rows
        shape = np.shape(X)
        if len(shape) != 2:
            raise ValueError(f"X must be of shape (n, d), got {shape}.")
        for name, part in (("y", self.y), ("sample_weight", self.weight)):
            if part is not None and part.shape != (shape[0],):
                raise ValueError(f"{name} must be of shape ({shape[0]},), one entry for each row, got {part.shape}.")

    @property
    def n_blocks(self) -> int:
        """Number of slices."""
        return -(-int(self.X.shape[0]) // self.block_rows)

    def read_block(self, block: int) -> Iterator[Batch]:
        """One slice."""
        start = block * self.block_rows
        rows = slice(start, min(start + self.block_rows, self.X.shape[0]))
        part = self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows]
        yield Batch(
            as_floats(part),
            None if self.y is None else self.y[rows],
            None if self.weight is None else self.weight[rows].astype(np.float64),
            np.arange(rows.start, rows.stop),
        )


def as_floats(X: Any, origin: str = "") -> Any:
    """Features as a matrix of float32, if they are, or else of float64; a sparse one in compressed rows."""
    if scipy.sparse.issparse(X):
        X = scipy.sparse.csr_array(X)
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    values = np.asarray(X)
    if values.dtype not in (np.float32, np.float64):
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            place = f"{origin}: " if origin else ""
            raise ValueError(f"{place}X must hold numbers, got {values.dtype}: {error}.") from error
    return values
