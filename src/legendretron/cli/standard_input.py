"""Data from standard input, as a file that can be read more than once."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def readable_data(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the options of a command; if DATA is ``-``, with a temporary copy of standard input, as CSV by default."""
    if options.get("data") != Path("-"):
        yield options
        return
    with tempfile.TemporaryDirectory(prefix="legendretron-") as folder:
        path = Path(folder, "standard input")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield {**options, "data": path, "format": options.get("format") or "csv"}
        except ValueError as error:
            raise ValueError(str(error).replace(repr(str(path)), "standard input")) from error
