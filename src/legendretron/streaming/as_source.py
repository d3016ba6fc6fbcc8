"""Anything that rows can be read from, as a source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from legendretron.streaming.arrays import ArraySource
from legendretron.streaming.arrow import ArrowSource, is_arrow_dataset
from legendretron.streaming.arrow_batches import RecordReader
from legendretron.streaming.iterables import IterableSource
from legendretron.streaming.source import Source


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
