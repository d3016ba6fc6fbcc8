"""Rows in shards, and joint batches that take their part from each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import scipy.sparse

from legendretron.training.row_window import Rows

__all__ = ["JointBatches", "ShardReader", "ShardedRows", "joined_rows"]


def joined_rows(parts: Sequence[Rows]) -> Rows:
    """Several one after the other."""
    if len(parts) == 1:
        return parts[0]
    sparse = scipy.sparse.issparse(parts[0].x)
    x = [part.x for part in parts]
    return Rows(
        scipy.sparse.vstack(x, format="csr") if sparse else np.concatenate(x),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


class ShardedRows(Protocol):
    """Rows that are divided into shards, each of which is read by one process."""

    #: Rows to train on, and to stop early on, in each shard.
    sizes: list[int]
    held_out: list[int]

    def training(self, shard: int, epoch: int) -> Iterator[Rows]:
        """The rows of a shard to train on, in the order of an epoch: the same one whenever it is asked for."""
        ...

    def validation(self, shard: int) -> Iterator[Rows]:
        """The rows of a shard to stop early on."""
        ...


class JointBatches:
    """How an epoch is divided into steps, the same number for all processes although shards differ in length.

    Step ``t`` of ``T`` takes the rows from ``floor(t n_s / T)`` to ``floor((t + 1) n_s / T)`` of shard ``s`` with ``n_s``
    rows. So every row is used once, and every process knows how many rows the others have without asking.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each shard.
    batch_size : int
        Rows of a joint batch, at most.

    Examples
    --------
    >>> batches = JointBatches([5, 2], batch_size=3)
    >>> batches.n_steps, [(batches.taken(0, t), batches.taken(1, t)) for t in range(3)]
    (3, [(1, 0), (2, 1), (2, 1)])
    """

    def __init__(self, sizes: Sequence[int], batch_size: int) -> None:
        self.sizes = list(sizes)
        self.n_rows = sum(self.sizes)
        self.batch_size = min(batch_size, self.n_rows)
        self.n_steps = -(-self.n_rows // self.batch_size)

    def start(self, shard: int, step: int) -> int:
        """Rows of a shard that the steps before this one take."""
        return step * self.sizes[shard] // self.n_steps

    def taken(self, shard: int, step: int) -> int:
        """Rows of a shard that a step takes."""
        return self.start(shard, step + 1) - self.start(shard, step)

    def joint(self, step: int) -> int:
        """Rows of all shards that a step takes."""
        return sum(self.taken(shard, step) for shard in range(len(self.sizes)))


class ShardReader:
    """Takes any number of rows at a time from batches of any size.

    Parameters
    ----------
    batches : iterator of Rows
        One after the other.
    shard : int
        Its number, for error messages.
    """

    def __init__(self, batches: Iterator[Rows], shard: int) -> None:
        self._batches, self._shard = batches, shard
        self._ahead: list[Rows] = []

    def _next(self) -> Rows:
        if self._ahead:
            return self._ahead.pop(0)
        try:
            return next(self._batches)
        except StopIteration:
            raise ValueError(
                f"shard {self._shard} ended before its last row; the data must not change while a model is trained on it."
            ) from None

    def take(self, n_rows: int) -> Rows | None:
        """The next rows; None if none are wanted."""
        parts: list[Rows] = []
        while n_rows:
            batch = self._next()
            if len(batch.labels) > n_rows:
                self._ahead.insert(0, batch.take(slice(n_rows, None)))
                batch = batch.take(slice(n_rows))
            if len(batch.labels):
                parts.append(batch)
            n_rows -= len(batch.labels)
        return joined_rows(parts) if parts else None

    def skip(self, n_rows: int) -> None:
        """Pass over rows, which were trained on before a checkpoint."""
        while n_rows:
            batch = self._next()
            if len(batch.labels) > n_rows:
                self._ahead.insert(0, batch.take(slice(n_rows, None)))
                return
            n_rows -= len(batch.labels)
