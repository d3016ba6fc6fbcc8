"""A table in one file or in several: a file, a folder, or a pattern."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legendretron._internal.columns import quoted
from legendretron.datasets.table_files import SUFFIXES, Wanted, format_of, frame_chunks
from legendretron.datasets.tables import Table, columns_of

ROWS_AT_ONCE = 2**15


def read_in_chunks(
    parts: TableParts, target: str | None = None, *, faults: dict[int, str] | None = None, **how: Any
) -> Iterator[Table]:
    """Read the files of a table one after the other, as tables of some rows each; see :class:`Wanted` for the others."""
    wanted = Wanted(target, **how)
    if parts.format == "libsvm":
        from legendretron.datasets.libsvm import LibsvmSource  # which imports torch and scikit-learn

        for batch in LibsvmSource(parts.files, wanted.n_features).batches():
            yield Table(parts.files[0], batch.X, batch.y, None, None)
        return
    for path in parts.files:
        done = 0
        bad_lines: dict[int, str] | None = None if faults is None else {}
        for read in frame_chunks(path, parts.format, ROWS_AT_ONCE, wanted, bad_lines):
            yield columns_of(path, read, wanted, first_row=done, faults=faults, in_parts=True)
            done += len(read.frame)
        if faults is not None and bad_lines:
            faults |= {-line: fault for line, fault in bad_lines.items()}


@dataclass(frozen=True)
class TableParts:
    """Files that make up one table, in the order of their names."""

    files: tuple[Path, ...]  #: at least one
    format: str  #: of all of them


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
        files = []
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            hidden = any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
            with suppress(ValueError):  # of another format than those of tables
                files += [] if hidden or not format_of(file, format) else [file]
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
