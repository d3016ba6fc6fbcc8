"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "AnyModelFile",
    "DataFile",
    "Format",
    "FormatOption",
    "ModelFile",
    "Same",
    "count_or_auto",
    "number_or_auto",
    "wrong_usage_of",
]

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
AnyModelFile = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A file that 'legendretron fit' or 'legendretron calibrate' wrote.",
        show_default=False,
        readable=False,
    ),
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


class Same(Enum):
    """The value of ``--link-alpha same``: ``None`` in Python, which here would be an option that was not given."""

    AS_ALPHA = None


def number_or_auto(text: str | None, option: str, *, same: bool = False) -> Any:
    """Parse ``auto``, a number, or ``same`` where that is allowed; the range is checked by the estimator.

    Examples
    --------
    >>> number_or_auto("auto", "--alpha"), number_or_auto("1e-3", "--alpha")
    ('auto', 0.001)
    """
    if text is None or text == "auto":
        return text
    if same and text == "same":
        return Same.AS_ALPHA
    try:
        return float(text)
    except ValueError:
        words = "auto, same or a number" if same else "auto or a number"
        raise typer.BadParameter(f"it must be {words}, got {text!r}.", param_hint=f"'{option}'") from None


def count_or_auto(text: str | None, option: str, most: int) -> Any:
    """Parse ``auto`` or a whole number from 1 to ``most``."""
    if text is None or text == "auto":
        return text
    try:
        count = int(text)
    except ValueError:
        count = 0
    if not 1 <= count <= most:
        reason = f"it must be auto or a whole number from 1 to {most:,}, got {text!r}."
        raise typer.BadParameter(reason, param_hint=f"'{option}'")
    return count
