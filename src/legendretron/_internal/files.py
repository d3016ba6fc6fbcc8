"""Atomic writing of files: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary name in the same folder for writing; leaving the block flushes it to disk and renames it.

    Whoever reads ``path`` sees the old content or the new one, never a part; if the block fails, nothing is left behind. A
    symbolic link is followed, and the file gets the permissions of any new file.
    """
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise ValueError(f"path must be that of a file, but {os.fspath(path)!r} is a folder.")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to ``path`` atomically, as :func:`atomic_file` does."""
    with atomic_file(path) as file:
        file.write(content)


def _umask() -> int:
    mask = os.umask(0)  # it can only be read by setting it
    os.umask(mask)
    return mask
