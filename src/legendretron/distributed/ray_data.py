"""Data sets of Ray as a source.

Ray Data deals out blocks to workers as they become ready, so that which rows a worker gets, and in which order, differs from
run to run, and after a restart. Training that is to end with the same result cannot take them like that. So the data set is
computed once, and each worker takes the blocks of its shard from the object store, in an order that the epoch and the seed
determine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legendretron.streaming.arrow_batches import RecordReader
from legendretron.streaming.batch import ROWS_OF_A_FILE, Batch
from legendretron.streaming.source import BlockSource

_BATCH_ROWS = 2**14


def is_ray_dataset(data: Any) -> bool:
    """Whether it is a ``ray.data.Dataset``; Ray is not imported for it."""
    return any(kind.__module__.startswith("ray.data") and kind.__name__ == "Dataset" for kind in type(data).__mro__)


class RayBlocks(BlockSource):
    """Blocks of a computed data set, by references into the object store."""

    def __init__(self, blocks: list[Any], reader: RecordReader) -> None:
        self._blocks, self._reader = blocks, reader
        self.feature_names = reader.features

    @classmethod
    def of(cls, dataset: Any, columns: dict[str, Any]) -> RayBlocks:
        """Compute a data set; its blocks, in the order of its rows, then stay in the object store."""
        options = dataset.context.execution_options
        before = options.preserve_order
        options.preserve_order = True  # otherwise blocks are in the order in which they happened to be ready
        try:
            blocks = dataset.materialize().to_arrow_refs()
        finally:
            options.preserve_order = before
        schema = dataset.schema().base_schema
        wanted = None if columns["features"] is None else tuple(columns["features"])
        reader = RecordReader(columns["target"], wanted, columns["weight"], columns["drop"])
        return cls(blocks, RecordReader.of_schema(schema, reader))

    @property
    def n_blocks(self) -> int:
        """Blocks of the data set."""
        return len(self._blocks)

    def read_block(self, block: int) -> Iterator[Batch]:
        """One block; its rows have numbers as those of a file."""
        import ray

        done, origin = block * ROWS_OF_A_FILE, f"block {block} of the data set"
        for records in ray.get(self._blocks[block]).to_batches(max_chunksize=_BATCH_ROWS):
            if records.num_rows:
                yield self._reader(records, origin, done)
                done += records.num_rows
