"""Atomic downloads with checksums."""

from __future__ import annotations

import errno
import hashlib
import http.client
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from legendretron._internal.files import atomic_file
from legendretron._internal.validation import check_integer

#: Called with the number of bytes received and the total, which is None if the server does not announce it.
Progress = Callable[[int, "int | None"], None]

_CHUNK = 2**18
_TIMEOUT = 30.0  # seconds without a byte
_FIRST_PAUSE = 1.0  # seconds, doubled from one attempt to the next
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Status codes of refusals that may be temporary, and errors of the disk, which are not.
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)


class DownloadError(OSError, ValueError):
    """A download that failed: no connection, the server's refusal, a wrong checksum, or no place to write to."""


def download(
    url: str, path: str | Path, sha256: str | None = None, retries: int = 3, progress: Progress | None = None
) -> Path:
    """Download a file to ``path``, atomically: on failure nothing is left behind, and an existing file is kept.

    The address is HTTPS (HTTP on the loopback interface only), and so are those of redirects. ``sha256`` is the expected
    digest. Where a failure may be temporary, there are ``retries`` after pauses of 1, 2, 4, ... seconds. ``progress`` is
    called with the number of bytes received and the total, None if the server does not announce it.
    """
    path, retries = Path(path), check_integer("retries", retries, 0)
    opener = urllib.request.build_opener(_Redirects(_check_address(url)))
    request = urllib.request.Request(url, headers={"User-Agent": "legendretron"})
    for attempt in range(retries + 1):
        try:
            with opener.open(request, timeout=_TIMEOUT) as response, atomic_file(path) as file:
                _receive(response, file, url, sha256, progress)
            return path
        except DownloadError:
            raise
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # it holds the connection
            if attempt == retries or not _may_pass(error):
                times = "once" if attempt == 0 else f"{attempt + 1} times"
                raise DownloadError(
                    f"{url!r} could not be downloaded, tried {times}: {error or type(error).__name__}. Try again later, or "
                    f"get the file by other means and put it at {str(path)!r}."
                ) from error
            time.sleep(_FIRST_PAUSE * 2**attempt)
    raise AssertionError  # the loop returns or raises


def _may_pass(error: Exception) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _TEMPORARY
    reason = getattr(error, "reason", error)
    return not isinstance(reason, ssl.SSLCertVerificationError) and getattr(error, "errno", None) not in _OF_DISK


def _receive(response: Any, file: IO[bytes], url: str, sha256: str | None, progress: Progress | None) -> None:
    """Write what a server sends to a file, after a check of its length and checksum."""
    length = response.headers.get("Content-Length")
    total = int(length) if length is not None and length.isdigit() else None
    digest, done = hashlib.sha256(), 0
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
            f"what {url!r} sent has the SHA-256 checksum {digest.hexdigest()}, but {sha256.lower()} is expected; it is "
            "damaged or another file, and was not kept. Try again, or get it from elsewhere."
        )


def _check_address(url: str, loopback: bool = True) -> bool:
    """Whether ``url`` is on the loopback interface; raise unless it is that or HTTPS."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return False
    if loopback and parts.scheme == "http" and parts.hostname in _LOOPBACK:
        return True
    raise DownloadError(f"{url!r} is not an HTTPS address; others can be read and changed in transit.")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, to HTTPS only; one that began on the loopback interface may stay there."""

    def __init__(self, local: bool):
        self._local = local

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check_address(newurl, loopback=self._local)
        return super().redirect_request(req, fp, code, msg, headers, newurl)
