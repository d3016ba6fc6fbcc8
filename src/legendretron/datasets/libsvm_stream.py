"""Files of LIBSVM text as a source: read line by line, never as a whole."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse

from legendretron._internal.validation import check_integer
from legendretron.datasets.compressed import open_compressed
from legendretron.datasets.libsvm import DENSE_SHARE, damaged, parse_lines
from legendretron.streaming import Batch, BlockSource
from legendretron.streaming.batch import ROWS_OF_A_FILE

_BLOCK = 2**22  # bytes


class LibsvmSource(BlockSource):
    """Files of LIBSVM text. A pass finds the largest index first, unless the number of features is given.

    Rows are sparse, unless a tenth of the entries are given.
    """

    def __init__(self, files: Sequence[Path], n_features: int | None = None) -> None:
        self._files = list(files)
        self._n_features = None if n_features is None else check_integer("n_features", n_features, 1)
        self._dense = False
        if n_features is None:
            largest = given = rows = 0
            for path in files:
                for X, _ in self._parts(path):
                    largest, given, rows = max(largest, X.shape[1]), given + X.nnz, rows + X.shape[0]
            if given == 0:
                raise ValueError(damaged(files[0], "has no rows" if rows == 0 else "has no feature values index:value"))
            self._n_features = largest
            self._dense = given >= DENSE_SHARE * rows * largest

    @property
    def n_blocks(self) -> int:
        """Files: they are read from the beginning."""
        return len(self._files)

    def read_block(self, block: int) -> Iterator[Batch]:
        """One file, in batches."""
        path, done = self._files[block], block * ROWS_OF_A_FILE
        for X, labels in self._parts(path):
            n = X.shape[0]
            rows = np.ascontiguousarray(X.toarray()) if self._dense else scipy.sparse.csr_array(X)
            yield Batch(rows, labels, None, np.arange(done, done + n), repr(str(path)))
            done += n

    def _parts(self, path: Path) -> Iterator[tuple[scipy.sparse.csr_matrix, np.ndarray]]:
        """Features and labels of some lines after the other."""
        with open_compressed(path) as file:
            rest = b""
            while True:
                piece = file.read(_BLOCK)
                lines = rest + piece
                if piece:
                    whole, newline, rest = lines.rpartition(b"\n")
                    lines = whole + newline
                if lines.strip():
                    yield parse_lines(io.BytesIO(lines), path, self._n_features)
                if not piece:
                    return
