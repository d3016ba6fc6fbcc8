"""What a source of rows is, in which order its blocks are read, how rows are checked, and reading ahead in a thread."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import scipy.sparse

from legendretron._internal.labels import missing_labels
from legendretron._internal.parameters import spell
from legendretron.streaming.moments import Moments


class CompleteRows:
    """A source without the rows of another one that lack a label or a feature.

    Parameters
    ----------
    source : Source
        The other one, whose features are dense. Rows that could not be read are left as they are.
    missing_labels : {"error", "drop"} or None
        What to do with rows whose label is missing; None leaves them as they are.
    drop_gaps : bool
        Whether to leave out rows with NaN among the features.
    """

    def __init__(self, source: Source, missing_labels: str | None, *, drop_gaps: bool) -> None:
        self._source, self._missing_labels, self._drop_gaps = source, missing_labels, drop_gaps
        self.feature_names = source.feature_names
        self.n_unlabeled = self.n_incomplete = 0  #: how many were left out in the last whole pass, and why
        self.lost: set[Any] = set()  #: labels of rows that were left out

    def batches(self, epoch: int | None = None, *, seed: int = 0, shard: tuple[int, int] = (0, 1)) -> Iterator[Batch]:
        """See :class:`Source`."""
        n_unlabeled, n_incomplete, lost = 0, 0, set[Any]()
        for batch in self._source.batches(epoch, seed=seed, shard=shard):
            unlabeled = incomplete = np.zeros(len(batch), dtype=bool)
            if self._missing_labels is not None and batch.y is not None:
                unlabeled = missing_labels(batch.y)
            if self._drop_gaps and batch.moments is None:
                incomplete = np.isnan(batch.X).any(axis=1) & ~unlabeled
            if not (unlabeled | incomplete).any():
                yield batch
                continue
            if batch.faults:  # of rows that could not be read, all is missing
                readable = ~np.isin(batch.row_numbers, [*batch.faults])
                unlabeled, incomplete = unlabeled & readable, incomplete & readable
            if unlabeled.any() and self._missing_labels == "error":
                raise ValueError(
                    f"{batch.place_of(int(unlabeled.argmax()))}: the label is missing; "
                    f"{spell('missing_labels', 'drop')} leaves such rows out."
                )
            n_unlabeled += int(unlabeled.sum())
            n_incomplete += int(incomplete.sum())
            lost |= set() if batch.y is None else {*batch.y[incomplete].tolist()}
            rest = batch.take(~(unlabeled | incomplete))
            if unlabeled.any() and rest.y is not None and len(rest):
                rest = replace(rest, y=np.array(rest.y.tolist()))  # true and false beside a missing value were objects
            if len(rest):
                yield rest
        self.n_unlabeled, self.n_incomplete, self.lost = n_unlabeled, n_incomplete, lost


#: Row numbers of file ``f`` begin at ``f`` times this, so that they depend neither on row groups nor on other files' length.
ROWS_OF_A_FILE = 2**40


def _count_from_0(row: int) -> str:
    return f"row {row} (from 0)"


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
    faults: Mapping[int, str] = field(default_factory=dict)  #: what is wrong with rows, by number
    #: from the number of a row in its file to where it is, for messages, such as its line
    locate: Callable[[int], str] = _count_from_0
    moments: Moments | None = None  #: of the features, with equal weights, if they are known: then all are finite

    def __len__(self) -> int:
        return len(self.row_numbers)

    def place_of(self, row: int) -> str:
        """Where a row comes from, for messages."""
        place = self.locate(int(self.row_numbers[row]) % ROWS_OF_A_FILE)
        return f"{self.origin}, {place}" if self.origin else place

    def take(self, rows: Any) -> Self:
        """Some of the rows, by a slice, a mask or indices."""
        return replace(
            self,
            X=self.X[rows],
            y=None if self.y is None else self.y[rows],
            weight=None if self.weight is None else self.weight[rows],
            row_numbers=self.row_numbers[rows],
            moments=None,
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
    #: Blocks that a shuffled pass reads in turn, since rows of one block are often alike.
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


T = TypeVar("T")
_POLL = 0.05  # seconds between two looks whether the caller has gone


def read_ahead(items: Iterable[T], depth: int = 4) -> Generator[T]:
    """Yield the items, which a thread reads up to ``depth`` of in advance.

    An error of the iterable is raised here, in its place. Closing the generator, or leaving it to be collected, ends the
    thread, and closes the iterable in it.
    """
    ready: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(depth)
    gone = threading.Event()

    def put(done: bool, item: T | BaseException | None) -> bool:
        while not gone.is_set():
            try:
                ready.put((done, item), timeout=_POLL)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        iterator = iter(items)
        try:
            for item in iterator:
                if not put(False, item):
                    break
            put(True, None)
        except BaseException as error:  # whatever it is, the caller is to see it
            put(True, error)
        finally:
            if hasattr(iterator, "close"):
                iterator.close()

    thread = threading.Thread(target=read, name="legendretron-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            done, item = ready.get()
            if not done:
                yield item  # type: ignore[misc]
            elif isinstance(item, BaseException):
                raise item
            else:
                return
    finally:
        gone.set()
        thread.join()


#: What rows are picked for; choices for different purposes are independent.
HELD_OUT, SAMPLE = 1, 2


def row_share(row_numbers: np.ndarray, seed: int, purpose: int) -> np.ndarray:
    """A number in [0, 1) for each row, by the finalizer of splitmix64; rows below a share are picked.

    It depends on the number of the row and the seed alone: not on batches, files' order of reading or epochs.

    Examples
    --------
    >>> share = row_share(np.arange(100_000), seed=0, purpose=HELD_OUT)
    >>> round(float((share < 0.1).mean()), 2)
    0.1
    """
    start = (int(seed) * 0x9E3779B97F4A7C15 + int(purpose) * 0xD1B54A32D192ED03) % 2**64
    with np.errstate(over="ignore"):
        z = row_numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


#: How many bad rows a message locates.
_MOST_TOLD = 3


class BadRowError(ValueError):
    """A row of a source cannot be used: a value is missing or not finite.

    Examples
    --------
    >>> raise BadRowError("row 7 has no age; skip_bad_rows leaves such rows out")
    Traceback (most recent call last):
    legendretron.streaming.source.BadRowError: row 7 has no age; skip_bad_rows leaves such rows out
    """


def in_precision(batch: Batch, dtype: Any, names: Sequence[str] | None) -> Batch:
    """A batch with features of a type, if one is given; a row with a number that is too large for it has a fault."""
    if dtype is None or batch.X.dtype == dtype:
        return batch
    with np.errstate(over="ignore"):
        X = batch.X.astype(dtype)
        values, exact = (X.data, batch.X.data) if scipy.sparse.issparse(X) else (X, batch.X)
        all_finite = np.isfinite(values.sum())
    faults = dict(batch.faults)
    if not all_finite:
        for place in np.argwhere(np.isinf(values) & np.isfinite(exact)).tolist():
            if len(place) == 2:
                row, column = place
            else:
                row, column = int(np.searchsorted(X.indptr, place[0], side="right")) - 1, int(X.indices[place[0]])
            faults.setdefault(
                int(batch.row_numbers[row]),
                f"{_column(names, column)} holds {exact[tuple(place)]:g}, which is too large for {np.dtype(dtype)}; "
                f"{spell('dtype', 'float64')} has room for it",
            )
    return replace(batch, X=X, faults=faults)


def _column(names: Sequence[str] | None, place: int) -> str:
    return f"feature {place}" if names is None else f"column {names[place]!r}"


class RowCheck:
    """Checks the batches of one pass, and leaves out bad rows as long as there are not too many.

    Features become those of the type of the fit, if it is given.
    """

    def __init__(self, feature_names: tuple[str, ...] | None = None, skip_bad_rows: int = 0, dtype: Any = None) -> None:
        self._names, self._most, self._dtype = feature_names, skip_bad_rows, dtype
        self._n_features: int | None = None if feature_names is None else len(feature_names)
        self.n_skipped = 0  #: how many have been left out
        self.skipped: list[str] = []  #: what was wrong with the first three of them, and where they are
        self.labels: set[Any] = set()  #: their labels

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch without bad rows, perhaps an empty one, or raise a :class:`BadRowError` that names the place."""
        d = int(batch.X.shape[1])
        if self._n_features is None:
            self._n_features = d
        if d != self._n_features:
            raise ValueError(
                f"{batch.origin or 'a batch'} has {d} features, but batches before it have {self._n_features}."
            )
        batch = in_precision(batch, self._dtype, self._names)
        bad = np.zeros(len(batch), dtype=bool) if batch.moments is not None else ~_finite_rows(batch.X)
        if batch.y is not None:
            bad |= missing_labels(batch.y)
        if batch.weight is not None:
            bad |= ~(np.isfinite(batch.weight) & (batch.weight >= 0.0))
        if batch.faults:
            bad |= np.isin(batch.row_numbers, list(batch.faults))
        if not bad.any():
            return batch
        places, before = np.flatnonzero(bad), self.n_skipped
        self.n_skipped += len(places)
        if self.n_skipped > self._most:
            raise BadRowError(
                f"{self._fault(batch, int(places[self._most - before]))}; repair the row: {spell('skip_bad_rows')} is the "
                f"number of bad rows that may be left out, got {self._most}."
            )
        self.skipped += [self._fault(batch, int(row)) for row in places[: _MOST_TOLD - len(self.skipped)]]
        if batch.y is not None:
            self.labels |= {*batch.y[bad & ~missing_labels(batch.y)].tolist()}
        return batch.take(~bad)

    def _fault(self, batch: Batch, row: int) -> str:
        """What is wrong with a row, and where it is."""
        values = batch.X[[row]].toarray()[0] if scipy.sparse.issparse(batch.X) else batch.X[row]
        wrong = np.flatnonzero(~np.isfinite(values))
        if (known := batch.faults.get(int(batch.row_numbers[row]))) is not None:
            fault = known
        elif len(wrong):
            value = "a missing value (NaN)" if np.isnan(values[wrong[0]]) else "an infinite value"
            fault = f"{_column(self._names, wrong[0])} holds {value}"
        elif batch.y is not None and missing_labels(batch.y[[row]])[0]:
            fault = "the label is missing"
        else:
            assert batch.weight is not None
            fault = f"the weight is {batch.weight[row]}, which is not a finite number from 0 up"
        return f"{batch.place_of(row)}: {fault}"


def _finite_rows(X: Any) -> np.ndarray:
    """Which rows hold finite numbers only."""
    if scipy.sparse.issparse(X):
        rows = np.ones(X.shape[0], dtype=bool)
        entries = np.flatnonzero(~np.isfinite(X.data))
        rows[np.searchsorted(X.indptr, entries, side="right") - 1] = False
        return rows
    with np.errstate(over="ignore", invalid="ignore"):
        sums = X.sum(axis=1, dtype=np.float64)
    # a sum of finite numbers is finite unless they are huge
    finite: np.ndarray = np.isfinite(sums)
    if not finite.all():
        finite[~finite] = np.isfinite(X[~finite]).all(axis=1)
    return finite
