"""Tables in parts of some rows each, as they are read for predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from legendretron.datasets.libsvm_stream import LibsvmSource
from legendretron.datasets.table_files import frame_chunks
from legendretron.datasets.table_parts import TableParts
from legendretron.datasets.tables import Table, columns_of, texts_of

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
    missing_labels: str = "error",
    faults: dict[int, str] | None = None,
    numbers: Sequence[str] = (),
) -> Iterator[Table]:
    """Read the files of a table one after the other, as tables of some rows each."""
    if parts.format == "libsvm":
        for batch in LibsvmSource(parts.files, n_features).batches():
            yield Table(parts.files[0], batch.X, batch.y, None, None)
        return
    texts = texts_of(target, as_text, features, keep)
    for path in parts.files:
        done = 0
        bad_lines: dict[int, str] | None = None if faults is None else {}
        for read in frame_chunks(
            path, parts.format, ROWS_AT_ONCE, as_text=texts, text=text, keep=keep, bad_lines=bad_lines
        ):
            yield columns_of(
                path,
                read,
                target,
                features=features,
                drop=drop,
                keep=keep,
                missing=missing,
                missing_labels=missing_labels,
                first_row=done,
                faults=faults,
                numbers=numbers,
                as_text=texts,
                in_parts=True,
            )
            done += len(read.frame)
        if faults is not None and bad_lines:
            faults |= {-line: fault for line, fault in bad_lines.items()}
