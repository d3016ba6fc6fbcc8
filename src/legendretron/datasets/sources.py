"""Sources by the paths of their files, or of anything else that rows can be read from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from legendretron._internal.extras import import_extra
from legendretron.datasets.streams import open_source
from legendretron.datasets.table_parts import TableParts, find_parts
from legendretron.streaming.as_source import as_source
from legendretron.streaming.source import Source
from legendretron.streaming.spool import Spool


def are_paths(data: Any) -> bool:
    """Whether data is given by the path of a file or folder, or by several.

    Examples
    --------
    >>> are_paths("table/"), are_paths(["a.parquet", "b.parquet"]), are_paths([1, 2])
    (True, True, False)
    """
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(path, str | os.PathLike) for path in data)
    return isinstance(data, str | os.PathLike)


@contextmanager
def open_rows(data: Any, **how: Any) -> Iterator[Source]:
    """Make a source as :func:`source_of` does; temporary files that it needs are deleted at the end of the block."""
    source = source_of(data, **how)
    try:
        yield source
    finally:
        if source is not data and isinstance(source, Spool):
            source.close()


def source_of(
    data: Any,
    *,
    target: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    skip_bad_rows: int = 0,
) -> Source:
    """Make a source of paths, or of anything that :func:`~legendretron.streaming.as_source` takes.

    Paths may be files, folders and patterns on this machine, or addresses such as ``s3://bucket/folder`` of Parquet files.
    """
    columns: dict[str, Any] = {"target": target, "weight": weight, "features": features, "drop": tuple(drop)}
    if not are_paths(data):
        return as_source(data, **columns)
    paths = [os.fspath(path) for path in (data if isinstance(data, list | tuple) else [data])]
    if any("://" in path for path in paths):
        return as_source(_remote(paths), **columns)
    found = [find_parts(path) for path in paths]
    if len({parts.format for parts in found}) > 1:
        raise ValueError(f"data must be files of one format, got {sorted({parts.format for parts in found})}.")
    parts = TableParts(tuple(file for part in found for file in part.files), found[0].format)
    if weight is None:
        return open_source(parts, target, features=features, drop=list(drop), skip_bad_rows=skip_bad_rows)
    if parts.format != "parquet":
        raise ValueError(f"weight={weight!r} names a column, which is read from Parquet only; {parts.format} is given.")
    dataset = import_extra("pyarrow.dataset", "reading Parquet", "cli")
    return as_source(dataset.dataset([str(file) for file in parts.files], format="parquet"), **columns)


def _remote(paths: list[str]) -> Any:
    """A data set of Parquet files elsewhere."""
    dataset = import_extra("pyarrow.dataset", "reading Parquet", "cli")
    if len(paths) == 1:
        return dataset.dataset(paths[0], format="parquet")
    systems = import_extra("pyarrow.fs", "reading Parquet", "cli")
    found = [systems.FileSystem.from_uri(path) for path in paths]
    return dataset.dataset([path for _, path in found], format="parquet", filesystem=found[0][0])
