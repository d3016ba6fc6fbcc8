"""Data sets of pyarrow as a source: many files, read by row group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from legendretron._internal.extras import import_extra
from legendretron.streaming.arrow_batches import RecordReader
from legendretron.streaming.batch import ROWS_OF_A_FILE, Batch
from legendretron.streaming.source import BlockSource

_BATCH_ROWS = 2**14
#: Bytes of each column that are read from a file at once. Without this a reader holds whole row groups.
_BUFFER = 2**16
#: Columns that are read at once, those of one row group at least: of each there is a page in memory, or two, of a megabyte.
_COLUMNS_AT_ONCE = 128


def is_arrow_dataset(data: Any) -> bool:
    """Whether it is a ``pyarrow.dataset.Dataset``; pyarrow is not imported for it."""
    return any(kind.__module__.startswith("pyarrow") and kind.__name__ == "Dataset" for kind in type(data).__mro__)


@dataclass(frozen=True)
class _Block:
    """A row group of a Parquet file, or a whole file of another format."""

    file: int
    fragment: Any
    group: int | None
    first_row: int
    origin: str
    constants: dict[str, Any]


class ArrowSource(BlockSource):
    """A ``pyarrow.dataset.Dataset``. Only the columns that are needed are read.

    All files are opened at once here: damaged ones, and columns that change their type, are found before any work.
    """

    def __init__(self, dataset: Any, reader: RecordReader, *, batch_rows: int = _BATCH_ROWS) -> None:
        import_extra("pyarrow.dataset", "reading data sets", "cli")
        if getattr(dataset, "_scan_options", {}).get("filter") is not None:
            raise ValueError(
                "source must be a data set without a filter; write the rows that are wanted to files first."
            )
        self._batch_rows = batch_rows
        self._reader = RecordReader.of_schema(dataset.schema, reader)
        self.feature_names = self._reader.features
        self.n_rows: int | None = 0
        self._blocks: list[_Block] = []
        first: tuple[Any, str] | None = None
        for file, fragment in enumerate(dataset.get_fragments()):
            place = _place(fragment, file)
            constants = _partition(fragment)
            if not _is_parquet(fragment):
                self._blocks.append(_Block(file, fragment, None, 0, place, constants))
                self.n_rows = None  # only counted by reading
                continue
            with _naming(place), _opened(fragment) as parquet:
                schema, metadata = parquet.schema_arrow, parquet.metadata
                rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            for name, value in constants.items():
                if name not in schema.names:
                    import pyarrow

                    schema = schema.append(pyarrow.field(name, pyarrow.scalar(value).type))
            first = (schema, place) if first is None else first
            self._reader.check_file(schema, first[0], place, first[1])
            starts = np.concatenate([[0], np.cumsum(rows)])
            self._blocks += [
                _Block(file, fragment, group, int(start), f"{place}, row group {group}", constants)
                for group, start in enumerate(starts[:-1])
            ]
            if self.n_rows is not None:
                self.n_rows += int(starts[-1])
        if first is not None:  # the files say more than the data set, whose types are those of the first
            self._reader = RecordReader.of_schema(self._common(dataset), reader)
        self.at_once = max(1, min(self.at_once, _COLUMNS_AT_ONCE // len(self._reader.columns)))
        if not self._blocks:
            raise ValueError("source is a data set without rows.")

    def _common(self, dataset: Any) -> Any:
        """The schema of all files: features are float32 only if they are in each of them."""
        import pyarrow

        schema = dataset.schema
        for fragment in {block.file: block.fragment for block in self._blocks}.values():
            if not _is_parquet(fragment):
                continue
            own = fragment.physical_schema
            for name in self._reader.features or ():
                if name in own.names and own.field(name).type != pyarrow.float32():
                    place = schema.get_field_index(name)
                    if schema.field(place).type == pyarrow.float32():
                        schema = schema.set(place, pyarrow.field(name, pyarrow.float64()))
        return schema

    @property
    def n_blocks(self) -> int:
        """Row groups."""
        return len(self._blocks)

    def read_block(self, block: int) -> Iterator[Batch]:
        """One row group, or a file of another format than Parquet."""
        own = self._blocks[block]
        done, reader = own.file * ROWS_OF_A_FILE + own.first_row, self._reader
        with _naming(own.origin):
            for records in self._records(own):
                batch = reader(records, own.origin, done, own.constants)
                done += len(batch)
                yield batch

    def _records(self, block: _Block) -> Iterator[Any]:
        if block.group is None:
            yield from block.fragment.to_batches(
                columns=self._reader.columns,
                batch_size=self._batch_rows,
                batch_readahead=2,
                fragment_readahead=1,
            )
            return
        columns = [name for name in self._reader.columns if name not in block.constants]
        with _opened(block.fragment) as parquet:
            yield from parquet.iter_batches(
                batch_size=self._batch_rows, row_groups=[block.group], columns=columns, use_threads=False
            )


def _is_parquet(fragment: Any) -> bool:
    return type(fragment).__name__ == "ParquetFileFragment"


def _place(fragment: Any, number: int) -> str:
    path = getattr(fragment, "path", None)
    return f"part {number} of the data set" if path is None else repr(str(path))


def _partition(fragment: Any) -> dict[str, Any]:
    dataset = import_extra("pyarrow.dataset", "reading data sets", "cli")
    return dict(dataset.get_partition_keys(fragment.partition_expression))


@contextmanager
def _opened(fragment: Any) -> Iterator[Any]:
    parquet = import_extra("pyarrow.parquet", "reading Parquet", "cli")
    with fragment.filesystem.open_input_file(fragment.path) as file:
        yield parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Inside the block, errors of pyarrow become a ``ValueError`` that names the file."""
    arrow = import_extra("pyarrow", "reading data sets", "cli")
    try:
        yield
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"{place} is damaged or cannot be read: {error}") from error
