"""Atomic downloads with checksums."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from legendretron._internal.files import atomic_file

#: Called with the number of bytes received and the total, which is None if the server does not announce it.
Progress = Callable[[int, "int | None"], None]

_CHUNK = 2**18
_TIMEOUT = 30.0  # seconds without a byte
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class DownloadError(OSError, ValueError):
    """A download that failed: no connection, the server's refusal, a wrong checksum, or no place to write to."""


def download(url: str, path: str | Path, sha256: str | None = None, progress: Progress | None = None) -> Path:
    """Download a file to ``path``, atomically: on failure nothing is left behind, and an existing file is kept.

    The address, and the one that it redirects to, is HTTPS, or HTTP on the loopback interface. ``sha256`` is the expected
    digest.
    """
    path = Path(path)
    _check_address(url)
    request = urllib.request.Request(url, headers={"User-Agent": "legendretron"})
    digest, done = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response, atomic_file(path) as file:
            _check_address(response.url)
            length = response.headers.get("Content-Length")
            total = int(length) if length is not None and length.isdigit() else None
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
            if total is not None and done != total:
                raise ConnectionError(f"the connection was cut off after {done:,} of {total:,} bytes")
            if sha256 is not None and digest.hexdigest() != sha256.lower():
                raise DownloadError(
                    f"what {url!r} sent has the SHA-256 checksum {digest.hexdigest()}, but {sha256.lower()} is expected; it "
                    "is damaged or another file, and was not kept. Try again, or get it from elsewhere."
                )
    except DownloadError:
        raise
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        raise DownloadError(
            f"{url!r} could not be downloaded: {error or type(error).__name__}. Try again later, or get the file by other "
            f"means and put it at {str(path)!r}."
        ) from error
    return path


def _check_address(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    if not parts.hostname or (parts.scheme, parts.hostname in _LOOPBACK) not in (("https", False), ("http", True)):
        raise DownloadError(f"{url!r} is not an HTTPS address; others can be read and changed in transit.")
