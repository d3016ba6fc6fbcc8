"""A table with text, dates and gaps in files, encoded as numbers while it is read in batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from legendretron.datasets.table_chunks import read_in_chunks
from legendretron.datasets.table_parts import TableParts
from legendretron.datasets.tables import Table, typed_labels
from legendretron.preprocessing import TableEncoder
from legendretron.streaming import Batch, BlockSource
from legendretron.streaming.batch import ROWS_OF_A_FILE

__all__ = ["EncodedSource"]


class EncodedSource(BlockSource):
    """Rows as an encoder encodes them, which is fitted in a pass of its own.

    Parameters
    ----------
    parts : TableParts
        The files.
    target : str
        Column of the labels.
    encoder : TableEncoder
        To be fitted here.
    **options
        Arguments of :func:`~legendretron.datasets.table_chunks.read_in_chunks`.
    """

    def __init__(self, parts: TableParts, target: str, encoder: TableEncoder, **options: Any) -> None:
        self._parts, self._target, self._options, self.encoder = parts, target, options, encoder
        texts: dict[str, None] = {}
        for path in parts.files:
            for table in self._tables(path):
                if table.X.shape[0] == 0:
                    continue
                try:
                    encoder.partial_fit(table.X)
                except ValueError as error:
                    raise ValueError(f"{str(path)!r}: {error}") from error
                if table.written is not None:
                    texts |= dict.fromkeys(table.written)
        self._labels: dict[str, Any] = {}
        if texts:  # they are numbers only if all of them are
            typed = typed_labels(list(texts), f"target column {target!r} of {str(parts.files[0])!r}")
            self._labels = dict(zip(texts, typed.tolist(), strict=True))
            self._kind = typed.dtype
        self.feature_names = tuple(encoder.get_feature_names_out())

    @property
    def n_blocks(self) -> int:
        """Files: they are read from the beginning."""
        return len(self._parts.files)

    def _tables(self, path: Path) -> Iterator[Table]:
        return read_in_chunks(TableParts((path,), self._parts.format), self._target, **self._options)

    def read_block(self, block: int) -> Iterator[Batch]:
        """One file, in batches."""
        path, done = self._parts.files[block], 0
        for table in self._tables(path):
            n = table.X.shape[0]
            rows = np.arange(done, done + n) if table.rows is None else table.rows
            done += n + table.left_out
            if n == 0:
                continue
            y = table.y
            if table.written is not None:
                y = np.array([self._labels[text] for text in table.written], dtype=self._kind)
            yield Batch(self.encoder.transform(table.X), y, None, block * ROWS_OF_A_FILE + rows, repr(str(path)))
