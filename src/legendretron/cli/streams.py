"""Tables that are read in batches: when they are, and what that rules out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from legendretron.cli.models import format_for
from legendretron.cli.options import wrong
from legendretron.cli.outputs import check_no_input
from legendretron.datasets.table_parts import TableParts, find_parts

#: Bytes from which a file is read in batches.
_LARGE = 2**30
#: Bytes below which torch and scikit-learn take longer to import than predictions take without them.
_SMALL = 2**24


def is_small(data: Path) -> bool:
    """Whether a table is one file of little size."""
    return data.is_file() and data.stat().st_size < _SMALL


def streamed_parts(
    data: Path, format: str | None, stream: bool | None, outputs: Mapping[str, Path | None]
) -> TableParts | None:
    """The files of a table that is to be read in batches; None for one that is to be read as a whole.

    Outputs, by their options, must not be among them.
    """
    if data.is_fifo():
        return None  # refused where files are read
    alone = data.is_file()
    if alone and (stream is False or (stream is None and data.stat().st_size < _LARGE)):
        return None
    if not alone and not data.is_dir() and not any(mark in str(data) for mark in "*?["):
        return None  # there is no such file, which is said where files are read
    if alone:
        format_for(data, format)  # a usage error if the name does not tell
    parts = find_parts(data, format)
    if len(parts.files) > 1 and stream is False:
        raise wrong(
            "--no-stream",
            f"{str(data)!r} is {len(parts.files)} files, which are read in batches; leave it out, or give one file.",
        )
    for path in parts.files:
        check_no_input(outputs, {"DATA": path})
    return parts


def check_streamable(options: dict[str, Any]) -> None:
    """Raise a usage error for options that were given, but need all rows in memory."""
    for name, given in options.items():
        if given:
            raise wrong(
                name,
                "it needs all rows in memory, but DATA is read in batches; leave it out, or give one file and --no-stream.",
            )
