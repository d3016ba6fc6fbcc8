"""What a source of rows is, and the order in which its blocks are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from legendretron.streaming.batch import Batch


class Source(Protocol):
    """A table that can be read any number of times, in batches.

    :func:`~legendretron.streaming.as_source` makes one of arrays, iterables of batches and data sets of pyarrow.

    Attributes
    ----------
    feature_names : tuple of str or None
        Names of the features, if they have some.

    Examples
    --------
    >>> import numpy as np
    >>> from legendretron.streaming import as_source
    >>> source = as_source((np.ones((5, 2)), np.arange(5) % 2))
    >>> sum(len(batch.X) for batch in source.batches())
    5
    """

    feature_names: tuple[str, ...] | None

    def batches(self, epoch: int | None = None, *, seed: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """Read all rows once.

        Parameters
        ----------
        epoch : int or None
            None: in the order of the table. A number: in an order that depends on it and the seed alone, as far as rows can
            be read out of order; every pass yields the same rows with the same numbers.
        seed : int
            Of the order.
        shard : tuple of int
            ``(rank, world)``: only the part that belongs to one of ``world`` readers. The parts are disjoint and make up the
            whole, and each has the same rows in every epoch.
        """
        ...


class BlockSource(ABC):
    """A source whose rows come in blocks, such as row groups, that can be read in any order.

    Examples
    --------
    >>> import numpy as np
    >>> from legendretron.streaming import Batch
    >>> class Made(BlockSource):
    ...     n_blocks = 3
    ...
    ...     def read_block(self, block):
    ...         yield Batch(np.full((2, 1), float(block)), np.array([0, 1]), None, 2 * block + np.arange(2))
    >>> sum(len(batch.X) for batch in Made().batches(epoch=0, seed=1))
    6
    """

    feature_names: tuple[str, ...] | None = None
    #: Blocks that are read in turn in a shuffled pass: rows of one block, often alike, do not all come after each other.
    at_once = 8

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Number of blocks."""

    @abstractmethod
    def read_block(self, block: int) -> Iterator[Batch]:
        """Read one block, in batches."""

    def batches(self, epoch: int | None = None, *, seed: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """See :class:`Source`: blocks are shuffled, and several of them read in turn.

        If there are fewer blocks than readers, each reader takes its share of the rows of every batch.
        """
        rank, world = shard
        if not 0 <= rank < world:
            raise ValueError(f"shard must be (rank, world) with 0 <= rank < world, got {shard!r}.")
        blocks, rows = np.arange(self.n_blocks), slice(None)
        if self.n_blocks >= world:
            blocks = blocks[rank::world]  # the same rows in every epoch, which the reader may keep near
        else:
            rows = slice(rank, None, world)
        if epoch is not None:
            np.random.default_rng((seed, epoch)).shuffle(blocks)
        left, reading = deque(blocks.tolist()), deque[Iterator[Batch]]()
        while left or reading:
            while left and len(reading) < (1 if epoch is None else self.at_once):
                reading.append(self.read_block(left.popleft()))
            block = reading.popleft()
            batch = next(block, None)
            if batch is None:
                continue
            reading.append(block)
            if world > 1 and rows.step is not None:
                batch = batch.take(rows)
            if len(batch):
                yield batch
