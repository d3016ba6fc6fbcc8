"""Tables in parts of some rows each, as they are read for predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from legendretron.datasets.libsvm_stream import LibsvmSource
from legendretron.datasets.table_files import frame_chunks
from legendretron.datasets.table_parts import TableParts
from legendretron.datasets.tables import Table, columns_of, texts_of

__all__ = ["ROWS_AT_ONCE", "read_in_chunks"]

ROWS_AT_ONCE = 2**15


def read_in_chunks(
    parts: TableParts,
    target: str | None = None,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    n_features: int | None = None,
    text: Any = None,
    as_text: Sequence[str] = (),
    keep: Sequence[str] = (),
    missing: str = "impute",
) -> Iterator[Table]:
    """Read the files of a table one after the other, as tables of some rows each.

    Parameters
    ----------
    parts : TableParts
        The files.
    target, features, drop, n_features, text, as_text, keep, missing
        As in :func:`~legendretron.datasets.tables.read_columns`.
    """
    if parts.format == "libsvm":
        for batch in LibsvmSource(parts.files, n_features).batches():
            yield Table(parts.files[0], batch.X, batch.y, None, None)
        return
    texts = texts_of(target, as_text, features, keep)
    for path in parts.files:
        done = 0
        for frame in frame_chunks(path, parts.format, ROWS_AT_ONCE, as_text=texts, text=text):
            yield columns_of(
                path,
                frame,
                parts.format,
                target,
                features=features,
                drop=drop,
                keep=keep,
                missing=missing,
                first_row=done,
            )
            done += len(frame)
