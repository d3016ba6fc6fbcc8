"""The rows of a source that have a label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from legendretron._internal.labels import missing_labels
from legendretron._internal.parameters import spell
from legendretron.streaming.batch import ROWS_OF_A_FILE, Batch
from legendretron.streaming.source import Source


class LabelledSource:
    """A source without the rows of another one whose label is missing; or it is an error that there are such.

    Attributes
    ----------
    n_unlabelled : int
        How many were left out in the last whole pass.
    """

    def __init__(self, source: Source, *, drop: bool) -> None:
        self._source, self._drop = source, drop
        self.feature_names = source.feature_names
        self.n_unlabelled = 0

    def batches(self, epoch: int | None = None, *, seed: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """See :class:`Source`."""
        left_out = 0
        for batch in self._source.batches(epoch, seed=seed, shard=shard):
            if batch.y is None or not (missing := missing_labels(batch.y)).any():
                yield batch
                continue
            missing &= ~np.isin(batch.row_numbers, [*batch.faults])  # of rows that could not be read, all is missing
            if missing.any() and not self._drop:
                row = int(batch.row_numbers[missing.argmax()]) % ROWS_OF_A_FILE
                raise ValueError(
                    f"{batch.origin}: the label is missing in row {row} (from 0); "
                    f"{spell('missing_labels', 'drop')} leaves such rows out."
                )
            left_out += int(missing.sum())
            rest = batch.take(~missing)
            if missing.any():  # true and false beside a missing value were objects
                rest = replace(rest, y=np.array(batch.y[~missing].tolist(), dtype=None if len(rest) else batch.y.dtype))
            if len(rest):
                yield rest
        self.n_unlabelled = left_out
