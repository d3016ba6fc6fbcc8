"""Anything that rows can be read from, data sets of pyarrow among it, as a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from legendretron._internal.columns import check_collected, check_names, choose_names
from legendretron._internal.extras import arrow, arrow_datasets, compute, parquet
from legendretron._internal.numbers import EXACT
from legendretron.streaming.source import ROWS_OF_A_FILE, Batch, BlockSource, Source


def _is_number(kind: Any) -> bool:
    types = arrow.types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _numbers(column: Any, name: str, origin: str) -> np.ndarray:
    """Numbers of a column; missing ones are NaN."""
    if not _is_number(column.type):
        raise ValueError(f"{origin}: column {name!r} must contain numbers, but here it is of type {column.type}.")
    if arrow.types.is_decimal(column.type) or arrow.types.is_boolean(column.type):
        # booleans by way of integers, from which they are cast
        column = column.cast(arrow.float64() if arrow.types.is_decimal(column.type) else arrow.uint8())
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    return values


def _labels(column: Any) -> np.ndarray:
    """Labels, text without white space at its ends; missing and empty ones are NaN among numbers, and None among others."""
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type):
        column = compute.utf8_trim_whitespace(column)
        column = compute.if_else(compute.equal(column, ""), None, column)
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind in "fu":
        present = values[~np.isnan(values)] if values.dtype.kind == "f" else values
        if (np.abs(present) <= EXACT).all() and (present == np.floor(present)).all() and len(present) == len(values):
            return values.astype(np.int64)
    return values


_BATCH_ROWS = 2**14
#: Bytes of each column that are read from a file at once. Without this a reader holds whole row groups.
_BUFFER = 2**16
#: Columns that are read at once, those of one row group at least: of each there is a page in memory, or two, of a megabyte.
_COLUMNS_AT_ONCE = 128


@dataclass(frozen=True)
class _Block:
    """A row group of a Parquet file, or a whole file of another format."""

    file: int
    fragment: Any
    group: int | None
    first_row: int
    origin: str
    constants: dict[str, Any]  #: columns that have one value for all rows, such as those of partitions


class ArrowSource(BlockSource):
    """A ``pyarrow.dataset.Dataset``, whose columns are chosen as by :func:`as_source`; others are not read.

    All files are opened at once here: damaged ones, and columns that change their type, are found before any work.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        target: str | None = None,
        weight: str | None = None,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
    ) -> None:
        if getattr(dataset, "_scan_options", {}).get("filter") is not None:
            raise ValueError(
                "source must be a data set without a filter; write the rows that are wanted to files first."
            )
        schema, place = dataset.schema, "the source"
        names = [name for name in schema.names if not name.startswith("__index_level_")]
        check_names(place, names)
        chosen = choose_names(place, names, target=target, weight=weight, features=features, drop=drop)
        if wrong := [name for name in chosen if not _is_number(schema.field(name).type)]:
            kinds = ", ".join(f"{name!r} ({schema.field(name).type})" for name in wrong[:8])
            rest = f" and {len(wrong) - 8} more" if len(wrong) > 8 else ""
            label = "" if target is not None else "give the column of the labels as target, "
            raise ValueError(
                f"columns that are not numbers in {place}: {kinds}{rest}; {label}leave them out (drop), or encode them as "
                "numbers."
            )
        self.feature_names = tuple(chosen)
        self._features, self._target, self._weight, self._schema = chosen, target, weight, dataset.schema
        self._columns = [*chosen, *(name for name in (target, weight) if name is not None)]
        self._blocks: list[_Block] = []
        for file, fragment in enumerate(dataset.get_fragments()):
            place = _place(fragment, file)
            constants = dict(arrow_datasets.get_partition_keys(fragment.partition_expression))
            if type(fragment).__name__ != "ParquetFileFragment":
                self._blocks.append(_Block(file, fragment, None, 0, place, constants))
                continue
            with _naming(place), _open_fragment(fragment) as parquet:
                own, metadata = parquet.schema_arrow, parquet.metadata
                rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            for name, value in constants.items():
                own = own if name in own.names else own.append(arrow.field(name, arrow.scalar(value).type))
            schema = self._merge_file(schema, own, place)
            starts = np.concatenate([[0], np.cumsum(rows)])
            self._blocks += [
                _Block(file, fragment, group, int(start), f"{place}, row group {group}", constants)
                for group, start in enumerate(starts[:-1])
            ]
        single = all(schema.field(name).type == arrow.float32() for name in chosen)
        self._dtype = np.float32 if single else np.float64
        self.at_once = max(1, min(self.at_once, _COLUMNS_AT_ONCE // len(self._columns)))
        self.n_blocks = len(self._blocks)
        if not self._blocks:
            raise ValueError("source is a data set without rows.")

    def _merge_file(self, schema: Any, file: Any, place: str) -> Any:
        """A schema with the types that columns have in one more file; a ``ValueError`` if it lacks one, or has no numbers."""
        names = {*file.names}
        for name in self._columns:
            if name not in names:
                raise ValueError(f"{place} has no column {name!r}, which files before it have.")
            here, there = file.field(name).type, schema.field(name).type
            if here != there and not (_is_number(here) and _is_number(there)):
                raise ValueError(
                    f"column {name!r} changes its type: it is {here} in {place}, but {there} in files before it; write all "
                    "files with one type."
                )
            if here != there and there == arrow.float32():  # features are float32 only if they are in all files
                schema = schema.set(schema.get_field_index(name), arrow.field(name, arrow.float64()))
        return schema

    def read_block(self, block: int) -> Iterator[Batch]:
        """One row group, or a file of another format than Parquet."""
        own = self._blocks[block]
        done = own.file * ROWS_OF_A_FILE + own.first_row
        with _naming(own.origin):
            for records in self._records(own):
                batch = self._convert(records, own, done)
                done += len(batch)
                yield batch

    def _records(self, block: _Block) -> Iterator[Any]:
        if block.group is None:
            yield from block.fragment.to_batches(
                schema=self._schema,
                columns=self._columns,
                batch_size=_BATCH_ROWS,
                batch_readahead=2,
                fragment_readahead=1,
            )
            return
        columns = [name for name in self._columns if name not in block.constants]
        with _open_fragment(block.fragment) as parquet:
            yield from parquet.iter_batches(
                batch_size=_BATCH_ROWS, row_groups=[block.group], columns=columns, use_threads=False
            )

    def _convert(self, records: Any, block: _Block, first_row: int) -> Batch:
        n, fixed, origin = records.num_rows, block.constants, block.origin
        X = np.empty((n, len(self._features)), dtype=self._dtype)
        for place, name in enumerate(self._features):
            X[:, place] = fixed[name] if name in fixed else _numbers(records.column(name), name, origin)
        y = weight = None
        if self._target is not None:
            y = np.full(n, fixed[self._target]) if self._target in fixed else _labels(records.column(self._target))
        if self._weight is not None:
            weight = _numbers(records.column(self._weight), self._weight, origin).astype(np.float64)
        return Batch(X, y, weight, np.arange(first_row, first_row + n), origin)


def _place(fragment: Any, number: int) -> str:
    path = getattr(fragment, "path", None)
    return f"part {number} of the data set" if path is None else repr(str(path))


@contextmanager
def _open_fragment(fragment: Any) -> Iterator[Any]:
    with fragment.filesystem.open_input_file(fragment.path) as file:
        yield parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Inside the block, errors of pyarrow become a ``ValueError`` that names the file."""
    try:
        yield
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"{place} is damaged or cannot be read: {error}") from error


class IterableSource(BlockSource):
    """Batches of an object that can be iterated over again and again, with the same rows in the same order each time."""

    n_blocks = 1  # it can only be read from the beginning

    def __init__(self, batches: Iterable[Any]) -> None:
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
        self._batches = batches
        first = next(iterator, None)
        if first is None:
            raise ValueError("source has no batches.")
        self.feature_names = _names(_parts(first, "batch 1 of the source")[0])

    def read_block(self, block: int) -> Iterator[Batch]:
        """All batches."""
        done = 0
        for number, item in enumerate(self._batches, start=1):
            origin = f"batch {number} of the source"
            batch = self._convert(item, origin, done)
            done += len(batch)
            yield batch

    def _convert(self, item: Any, origin: str, first_row: int) -> Batch:
        X, y, weight = _parts(item, origin)
        if _names(X) != self.feature_names:
            raise ValueError(f"{origin} has features {_names(X)}, but the first batch has {self.feature_names}.")
        X, labels = as_floats(_plain(X), origin), np.asarray(_plain(y))
        weights = None if weight is None else np.asarray(_plain(weight), dtype=np.float64)
        for name, part in (("y", labels), ("sample_weight", weights)):
            if part is not None and part.shape != (X.shape[0],):
                shares = "; shares of classes are for fit, which takes the whole table" if part.ndim == 2 else ""
                raise ValueError(f"{origin}: {name} must be of shape ({X.shape[0]},), got {part.shape}{shares}.")
        return Batch(X, labels, weights, np.arange(first_row, first_row + X.shape[0]), origin)


def _in_order(loader: DataLoader[Any]) -> bool:
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    # that of an iterable data set draws nothing, and one of your own may have any order that does not change
    return not isinstance(sampler, RandomSampler | SubsetRandomSampler | WeightedRandomSampler)


def _parts(item: Any, origin: str) -> tuple[Any, Any, Any]:
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        raise ValueError(
            f"{origin} must be (X, y) or (X, y, sample_weight), got a {type(item).__name__}; give record batches as "
            "pyarrow.dataset.dataset(batches)."
        )
    X, y, *rest = item
    check_collected("X", X)
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


class ArraySource(BlockSource):
    """Rows of arrays, read in slices: of memory-mapped ones only these are in memory."""

    def __init__(self, X: Any, y: Any, weight: Any = None, *, block_rows: int = _BATCH_ROWS) -> None:
        self.feature_names = _names(X)
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
            raise ValueError(f"{place}X must contain numbers, got {values.dtype}: {error}.") from error
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
        Arrays ``(X, y)`` or ``(X, y, sample_weight)``, also ``np.memmap``; a ``pyarrow.dataset.Dataset``, with a ``target``;
        or a list, torch ``DataLoader`` or other iterable of such tuples that yields the same rows in the same order each
        time. A :class:`Source` is returned unchanged.
    target, weight : str, optional
        Columns of the labels and of the weights, for data sets.
    features, drop : sequence of str, optional
        Columns to use as features, by default all other columns, and columns to leave out.

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
    if isinstance(data, tuple) and data:
        check_collected("X", data[0])
    if isinstance(data, tuple) and len(data) in (2, 3) and all(hasattr(part, "shape") for part in data):
        _no_columns(columns, "arrays")
        return ArraySource(*data)
    # by name, since pyarrow may not be there
    if any(kind.__module__.startswith("pyarrow") and kind.__name__ == "Dataset" for kind in type(data).__mro__):
        return ArrowSource(data, target=target, weight=weight, features=features, drop=drop)
    if hasattr(data, "shape"):
        raise ValueError(
            f"a {type(data).__name__} alone has no labels; give (X, y), or use fit, as the table is in memory."
        )
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        _no_columns(columns, "batches of arrays")
        return IterableSource(data)
    raise ValueError(
        "source must be paths of files (for fit_stream), arrays (X, y), a pyarrow.dataset.Dataset, an iterable of batches "
        "such as a DataLoader, or have a method batches as legendretron.streaming.Source has, got a "
        f"{type(data).__name__}."
    )


def _no_columns(columns: list[Any], kind: str) -> None:
    if any(column is not None for column in columns):
        raise ValueError(f"target, weight, features and drop name columns, which {kind} have none of; leave them out.")
