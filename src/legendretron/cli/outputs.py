"""Files that commands write: refused before the work if they cannot be, and there whole or not at all."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from legendretron.extras import import_extra
from legendretron.files import write_atomically

__all__ = ["check_suffix", "check_writable", "frame_bytes", "naming", "write_output"]


def check_suffix(path: Path, suffixes: tuple[str, ...], option: str) -> None:
    """Refuse, as wrong usage, a file name that does not tell one of the formats we can write."""
    if path.suffix.lower() not in suffixes:
        raise typer.BadParameter(f"{str(path)!r} must end in {' or '.join(suffixes)}.", param_hint=f"'{option}'")


def check_writable(path: Path) -> None:
    """Refuse, before any work, a file that could not be written after it."""
    if path.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():  # a device or a pipe, which writing would replace by a file
        raise ValueError(f"{str(path)!r} is there and not an ordinary file; write elsewhere.")
    folder = next(parent for parent in (path, *path.absolute().parents) if parent.exists() and parent != path)
    if not folder.is_dir():
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Inside, an error of the disk names this file and not the temporary one that it is written to first."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_output(path: Path, content: bytes) -> None:
    """Write a file, with the folders that it needs."""
    with naming(path):
        write_atomically(path, content)


def frame_bytes(frame: Any, suffix: str) -> bytes:
    """Return a data frame as the content of a CSV, TSV or Parquet file."""
    if suffix == ".parquet":
        import_extra("pyarrow", "writing Parquet", "cli")
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        return buffer.getvalue()
    text: str = frame.to_csv(index=False, lineterminator="\n", sep="\t" if suffix == ".tsv" else ",")
    return text.encode()
