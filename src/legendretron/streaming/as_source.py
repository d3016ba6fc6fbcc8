"""Anything that rows can be read from, as a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch.utils.data import DataLoader, SequentialSampler

from legendretron.streaming.arrow import ArrowSource, RecordReader, is_arrow_dataset, is_record_batch
from legendretron.streaming.source import Batch, BlockSource, Source


class IterableSource(BlockSource):
    """Batches of an object that can be iterated over again and again, with the same rows in the same order each time."""

    n_blocks = 1  # it can only be read from the beginning

    def __init__(self, batches: Iterable[Any], reader: RecordReader | None = None) -> None:
        iterator = iter(batches)
        if iterator is batches:
            raise ValueError(
                f"source must be readable several times, but a {type(batches).__name__} can be iterated over only once; "
                "give a list of batches, or an object whose __iter__ starts anew."
            )
        if isinstance(batches, DataLoader) and not _in_order(batches):
            raise ValueError(
                "source is a DataLoader that shuffles, so rows cannot be told apart by their numbers; give it shuffle=False: "
                "rows are shuffled here."
            )
        self._batches, self._reader = batches, reader
        first = next(iterator, None)
        if first is None:
            raise ValueError("source has no batches.")
        if is_record_batch(first):
            self._reader = RecordReader.of_schema(first.schema, reader)
            self.feature_names = self._reader.features
        else:
            self.feature_names = _names(_parts(first, "batch 1 of the source")[0])

    def read_block(self, block: int) -> Iterator[Batch]:
        """All batches."""
        done = 0
        for number, item in enumerate(self._batches, start=1):
            origin = f"batch {number} of the source"
            batch = self._converted(item, origin, done)
            done += len(batch)
            yield batch

    def _converted(self, item: Any, origin: str, first_row: int) -> Batch:
        if is_record_batch(item):
            if self._reader is None:
                raise ValueError(f"{origin} is a {type(item).__name__}, but those before were tuples of arrays.")
            return self._reader(item, origin, first_row)
        X, y, weight = _parts(item, origin)
        if _names(X) != self.feature_names:
            raise ValueError(f"{origin} has features {_names(X)}, but the first batch has {self.feature_names}.")
        X, labels = as_floats(_plain(X), origin), np.asarray(_plain(y))
        weights = None if weight is None else np.asarray(_plain(weight), dtype=np.float64)
        for name, part in (("y", labels), ("sample_weight", weights)):
            if part is not None and part.shape != (X.shape[0],):
                raise ValueError(f"{origin}: {name} must be of shape ({X.shape[0]},), got {part.shape}.")
        return Batch(X, labels, weights, np.arange(first_row, first_row + X.shape[0]), origin)


def _in_order(loader: DataLoader[Any]) -> bool:
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    # that of an iterable data set draws nothing, and one of your own may have any order that does not change
    from torch.utils.data import RandomSampler, SubsetRandomSampler, WeightedRandomSampler

    return isinstance(sampler, SequentialSampler) or not isinstance(
        sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler
    )


def _parts(item: Any, origin: str) -> tuple[Any, Any, Any]:
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        raise ValueError(
            f"{origin} must be (X, y) or (X, y, sample_weight), or a record batch of pyarrow, got a {type(item).__name__}."
        )
    X, y, *rest = item
    if np.ndim(X) != 2 and not hasattr(X, "shape"):
        raise ValueError(f"{origin}: X must be of shape (n, d), got a {type(X).__name__}.")
    if len(X.shape) != 2:
        raise ValueError(f"{origin}: X must be of shape (n, d), got {tuple(X.shape)}.")
    return X, y, rest[0] if rest else None


def _names(X: Any) -> tuple[str, ...] | None:
    columns = getattr(X, "columns", None)
    return None if columns is None or not all(isinstance(name, str) for name in columns) else tuple(columns)


def _plain(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values


_BLOCK_ROWS = 2**14


class ArraySource(BlockSource):
    """Rows of arrays, read in slices: of memory-mapped ones only these are in memory."""

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
        self.n_blocks = -(-int(shape[0]) // block_rows)
        for name, part in (("y", self.y), ("sample_weight", self.weight)):
            if part is not None and part.shape != (shape[0],):
                raise ValueError(f"{name} must be of shape ({shape[0]},), one entry for each row, got {part.shape}.")

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


def as_source(
    data: Any,
    *,
    target: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> Source:
    """Return a source that reads ``data``.

    Parameters
    ----------
    data : tuple of arrays, data set, iterable or Source
        - ``(X, y)`` or ``(X, y, sample_weight)``: arrays, such as ``np.memmap``, of which only slices are read.
        - a ``pyarrow.dataset.Dataset``: a target column must be named.
        - a list, torch ``DataLoader`` or any other object that can be iterated over several times, with the same rows in the
          same order: batches ``(X, y)`` or ``(X, y, sample_weight)`` of arrays or tensors, or record batches of pyarrow.
        - a :class:`Source`, which is returned as it is.
    target, weight : str, optional
        Columns of the labels and of the weights, for data sets and record batches.
    features, drop : sequence of str, optional
        Columns to take as features, by default all others, and to leave out.

    Examples
    --------
    >>> import numpy as np
    >>> batches = [(np.zeros((3, 2)), np.array([0, 1, 0])), (np.ones((2, 2)), np.array([1, 1]))]
    >>> [batch.row_numbers.tolist() for batch in as_source(batches).batches()]
    [[0, 1, 2], [3, 4]]
    """
    columns = [target, weight, features, *drop]
    if callable(getattr(data, "batches", None)) and hasattr(data, "feature_names"):
        _no_columns(columns, "a source")
        source: Source = data
        return source
    if isinstance(data, tuple) and len(data) in (2, 3) and all(hasattr(part, "shape") for part in data):
        _no_columns(columns, "arrays")
        return ArraySource(*data)
    reader = RecordReader(target, None if features is None else tuple(features), weight, tuple(drop))
    if is_arrow_dataset(data):
        return ArrowSource(data, reader)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        return IterableSource(data, reader)
    raise ValueError(
        "source must be paths of files (for fit_stream), arrays (X, y), a pyarrow.dataset.Dataset, an iterable of batches "
        "such as a DataLoader, or have a method batches as legendretron.streaming.Source has, got a "
        f"{type(data).__name__}."
    )


def _no_columns(columns: list[Any], kind: str) -> None:
    if any(column is not None for column in columns):
        raise ValueError(f"target, weight, features and drop name columns, which {kind} have none of; leave them out.")
