"""Files that may be compressed, read as one stream of bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

#: First bytes of a compressed file, and what opens it; a file extension may be wrong.
_COMPRESSIONS: dict[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"BZh": ("bzip2", lambda file: io.BufferedReader(_Streams(file, bz2.BZ2Decompressor))),
    b"\xfd7zXZ\0": ("xz", lambda file: io.BufferedReader(_Streams(file, lzma.LZMADecompressor))),
    b"\x1f\x8b": ("gzip", gzip.open),
}
_CHUNK = 2**16
#: Bytes of which no line of text is longer, unless the file is no table: as many as two million names of columns.
LONGEST_LINE = 2**26
_BLOCK = 2**22  # bytes of lines that are read at once


class UnreadableFileError(ValueError):
    """A file that is missing, cannot be opened, or is damaged as a whole."""


class _Streams(io.RawIOBase):
    """The compressed streams of a file, one after the other.

    :func:`bz2.open` and :func:`lzma.open` stop silently at a stream after the first whose beginning is damaged; rows would
    be missing, so here it is an error.
    """

    def __init__(self, file: BinaryIO, decompressor: Callable[[], Any]):
        self._file, self._new = file, decompressor
        self._stream = decompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            compressed = b""
            if self._stream.eof:
                compressed = self._stream.unused_data.lstrip(b"\0")  # xz pads its streams with zeros
                while not compressed:
                    chunk = self._file.read(_CHUNK)
                    if not chunk:
                        return 0
                    compressed = chunk.lstrip(b"\0")
                self._stream = self._new()
            elif self._stream.needs_input:
                compressed = self._file.read(_CHUNK)
                if not compressed:
                    raise EOFError("the file ends within a compressed stream")
            content = self._stream.decompress(compressed, len(buffer))
            if content:
                buffer[: len(content)] = content
                return len(content)


def read_lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Some lines of a file after the other, without their ends, and the number of the first of them, from 1."""
    begun, number = list[bytes](), 1  # parts of the last line
    while block := file.read(_BLOCK):
        *lines, rest = block.split(b"\n")
        if lines:
            lines[0] = b"".join([*begun, lines[0]])
            yield number, lines
            number += len(lines)
            begun = []
        begun.append(rest)
        if sum(map(len, begun)) > LONGEST_LINE:
            raise line_is_too_long(path, number)
    if any(begun):
        yield number, [b"".join(begun)]


def line_is_too_long(path: Path, number: int) -> ValueError:
    """Return the error for a line of more than ``LONGEST_LINE`` bytes."""
    return ValueError(
        f"{str(path)!r} is no table of text: line {number} is longer than {LONGEST_LINE >> 20} MiB; is it another format?"
    )


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
