"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["DataFile", "Format", "FormatOption", "ModelFile", "wrong_usage_of"]

Format = StrEnum("Format", ["csv", "tsv", "parquet", "libsvm"])

DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="The table: CSV or TSV (first line: column names), Parquet, or LIBSVM text; text also as .gz, .bz2, .xz.",
        show_default=False,
        readable=False,  # not a usage error: opening the file reports it
    ),
]
ModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A file that 'legendretron fit' wrote.", show_default=False, readable=False),
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format", help="Format of DATA, if its extension does not tell.", show_default=False, rich_help_panel="Data"
    ),
]


@contextmanager
def wrong_usage_of(option: str) -> Iterator[None]:
    """Turn a ``ValueError`` inside the block into a usage error of this option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error
