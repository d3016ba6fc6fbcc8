"""Iterables of batches, such as torch's data loaders, as a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, SequentialSampler

from legendretron.streaming.arrays import as_floats
from legendretron.streaming.arrow_batches import RecordReader, is_record_batch
from legendretron.streaming.batch import Batch
from legendretron.streaming.source import BlockSource


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
