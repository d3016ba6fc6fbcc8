"""Sources of files that every process can read."""

from __future__ import annotations

import os
from typing import Any

from legendretron.streaming.as_source import as_source
from legendretron.streaming.source import Source

__all__ = ["are_paths", "source_of"]


def are_paths(data: Any) -> bool:
    """Whether data is given by the path of a file or folder, or by several."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(path, str | os.PathLike) for path in data)
    return isinstance(data, str | os.PathLike)


def source_of(data: Any, **columns: Any) -> Source:
    """Make a source of paths, or of anything that :func:`~legendretron.streaming.as_source` takes."""
    if not are_paths(data):
        return as_source(data, **columns)
    import pyarrow.dataset

    return as_source(pyarrow.dataset.dataset(os.fspath(data)), **columns)
