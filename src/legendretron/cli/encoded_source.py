"""A table with text, dates and gaps in files, encoded as numbers while it is read in batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from legendretron.cli.left_out import LeftOut
from legendretron.datasets.table_chunks import read_in_chunks
from legendretron.datasets.table_parts import TableParts
from legendretron.datasets.tables import Table, without_faults
from legendretron.preprocessing import TableEncoder
from legendretron.streaming import Batch, BlockSource
from legendretron.streaming.batch import ROWS_OF_A_FILE


class EncodedSource(BlockSource):
    """Rows as an encoder encodes them, which is fitted in a pass of its own.

    Attributes
    ----------
    left_out : LeftOut
        Rows that are left out since something is missing in them, if the options say so.
    """

    def __init__(
        self, parts: TableParts, target: str, encoder: TableEncoder, *, skip_bad_rows: int = 0, **options: Any
    ) -> None:
        self._parts, self._target, self._options, self.encoder = parts, target, options, encoder
        self._skips = skip_bad_rows > 0
        self.left_out = LeftOut()
        for path in parts.files:
            for table in self._tables(path, {}):
                self.left_out.add(table)
                if table.X.shape[0] == 0:
                    continue
                try:
                    encoder.partial_fit(table.X)
                except ValueError as error:
                    _, words = without_faults(table.X, None, options.get("numbers", ()), table.form)
                    where = f", {table.place_of(min(words))}" if words else ""
                    raise ValueError(f"{str(path)!r}{where}: {error}") from error
        self.feature_names = tuple(encoder.get_feature_names_out())

    @property
    def n_blocks(self) -> int:
        """Files: they are read from the beginning."""
        return len(self._parts.files)

    def _tables(self, path: Path, faults: dict[int, str]) -> Iterator[Table]:
        one_file = TableParts((path,), self._parts.format)
        return read_in_chunks(one_file, self._target, **self._options, faults=faults if self._skips else None)

    def read_block(self, block: int) -> Iterator[Batch]:
        """One file, in batches; rows that cannot be read come last."""
        path, done = self._parts.files[block], 0
        first, origin, faults = block * ROWS_OF_A_FILE, repr(str(path)), dict[int, str]()
        for table in self._tables(path, faults):
            n = table.X.shape[0]
            rows = np.arange(done, done + n) if table.rows is None else table.rows
            done += n + table.left_out + table.unlabelled
            if n == 0:
                continue
            y = table.y if table.written is None else table.written  # text, since only all of it tells what it is
            yield Batch(self.encoder.transform(table.X), y, None, first + rows, origin)
        if faults:
            bad = {first + number % ROWS_OF_A_FILE: fault for number, fault in faults.items()}
            X = np.full((len(bad), len(self.encoder.get_feature_names_out())), np.nan)
            yield Batch(X, np.full(len(bad), None, dtype=object), None, np.array(list(bad)), origin, bad)
