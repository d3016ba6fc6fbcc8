"""What a source of rows is, and the order in which its blocks are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from legendretron._internal.labels import missing_labels
from legendretron._internal.parameters import spell


class LabelledSource:
    """A source without the rows of another one whose label is missing; or it is an error that there are such."""

    def __init__(self, source: Source, *, drop: bool) -> None:
        self._source, self._drop = source, drop
        self.feature_names = source.feature_names
        self.n_unlabelled = 0  #: how many were left out in the last whole pass

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


#: Row numbers of file ``f`` begin at ``f`` times this, so that they depend neither on row groups nor on other files' length.
ROWS_OF_A_FILE = 2**40


@dataclass(frozen=True)
class Batch:
    """Rows with labels, weights and numbers.

    A row has the same number whenever and in whatever order it is read: of the files of a source, file ``f`` has numbers
    from ``f * 2**40``. Rows that could not be read have a fault, and NaN for features; they are an error, or left out and
    counted, as rows with missing values are.

    Examples
    --------
    >>> Batch(np.ones((2, 3)), np.array(["a", "b"]), weight=None, row_numbers=np.array([0, 1])).X.shape
    (2, 3)
    """

    X: Any  #: (n, d), features: an array or a ``csr_array``, float32 or float64
    y: np.ndarray | None  #: (n,), labels: integers, booleans or strings; None where a source has no target
    weight: np.ndarray | None  #: (n,), float64; None if all are 1
    row_numbers: np.ndarray  #: (n,), int64
    origin: str = ""  #: where the rows come from, for messages, such as a file and its row group
    faults: Mapping[int, str] = field(default_factory=dict)  #: what is wrong with rows, and where they stand, by number

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

    n_blocks: int  #: number of blocks
    feature_names: tuple[str, ...] | None = None
    #: Blocks that are read in turn in a shuffled pass: rows of one block, often alike, do not all come after each other.
    at_once = 8

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
