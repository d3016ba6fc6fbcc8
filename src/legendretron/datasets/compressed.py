"""Files that may be compressed, read as one stream of bytes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

#: First bytes of a compressed file, and what opens it; a file extension may be wrong.
_COMPRESSIONS: dict[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\0": ("xz", lzma.open),
    b"\x1f\x8b": ("gzip", gzip.open),
}


class UnreadableFileError(ValueError):
    """A file that is missing, cannot be opened, or is damaged as a whole."""


@contextmanager
def open_compressed(path: Path) -> Iterator[BinaryIO]:
    """Open a file, plain or compressed by bzip2, xz or gzip, as a stream of its decompressed bytes.

    Errors in reading it within the block become an :class:`UnreadableFileError`, which is a ``ValueError``.
    """
    compression = ""
    try:
        with path.open("rb") as file:
            start = file.read(6)
            file.seek(0)
            for magic, (name, opener) in _COMPRESSIONS.items():
                if start.startswith(magic):
                    compression = name
                    with opener(file) as stream:
                        yield stream
                    return
            yield file
    except FileNotFoundError as error:
        raise UnreadableFileError(f"{str(path)!r} does not exist.") from error
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if compression:
            fault = f"is damaged or breaks off: {compression} says {str(error).rstrip('.')!r}. Get it again."
        else:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).rstrip(".")
            fault = f"cannot be read: {reason}."
        raise UnreadableFileError(f"{str(path)!r} {fault}") from error
