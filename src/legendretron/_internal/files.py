"""Atomic writing of files: whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    file = _open_beside(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to ``path`` atomically, as :func:`atomic_file` does."""
    with atomic_file(path) as file:
        file.write(content)


def _open_beside(path: Path) -> BinaryIO:
    """Open a new file with a hidden name in the same folder.

    Files of ``tempfile`` are private, and could only be given the usual permissions by setting the umask to read it: for a
    moment, new files of other threads would be writable by everyone.
    """
    while True:
        with suppress(FileExistsError):
            return open(path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp"), "xb")
