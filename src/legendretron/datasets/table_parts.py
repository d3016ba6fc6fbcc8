"""A table in one file or in several: a file, a folder, or a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legendretron._internal.columns import quoted
from legendretron.datasets.table_files import SUFFIXES, format_of, frame_chunks
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
        from legendretron.datasets.libsvm import LibsvmSource  # which imports torch and scikit-learn

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


@dataclass(frozen=True)
class TableParts:
    """Files that make up one table, in the order of their names."""

    files: tuple[Path, ...]  #: at least one
    format: str  #: of all of them

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(path.stat().st_size for path in self.files)


def find_parts(path: str | os.PathLike[str], format: str | None = None) -> TableParts:
    """Find the files of a table.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.csv", "a.csv", "_done"):
    ...         _ = Path(folder, name).write_text("x,y")
    ...     parts = find_parts(folder)
    >>> [file.name for file in parts.files], parts.format
    (['a.csv', 'b.csv'], 'csv')
    """
    path = Path(path)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path)))
        kinds = {file: _format_or_none(file, format) for file in found}
        files = [file for file in found if kinds[file] is not None]
        if not files:
            raise ValueError(f"folder {str(path)!r} holds no table: no file in it ends in {SUFFIXES}.")
    elif not path.exists() and glob.has_magic(str(path)):
        files = sorted(Path(name) for name in glob.glob(str(path), recursive=True) if Path(name).is_file())
        if not files:
            raise ValueError(f"no file matches the pattern {str(path)!r}.")
    else:
        files = [path]
    formats = {file: format_of(file, format) for file in files}
    if len(set(formats.values())) > 1:
        some = [next(file for file in files if formats[file] == kind) for kind in sorted(set(formats.values()))]
        raise ValueError(
            f"{str(path)!r} holds files of several formats, such as {quoted(some)}; give a pattern for one."
        )
    return TableParts(tuple(files), formats[files[0]])


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _format_or_none(path: Path, format: str | None) -> str | None:
    try:
        return format_of(path, format)
    except ValueError:
        return None
