"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "AnyModelFile",
    "DataFile",
    "DecimalOption",
    "EncodingOption",
    "Format",
    "FormatOption",
    "Missing",
    "MissingLabels",
    "MissingLabelsOption",
    "MissingOption",
    "ModelFile",
    "NaOption",
    "SepOption",
    "SkipOption",
    "StreamOption",
    "ThousandsOption",
    "count_or_auto",
    "number_or_auto",
    "wrong_usage_of",
]

Format = StrEnum("Format", ["csv", "tsv", "parquet", "feather", "jsonl", "excel", "libsvm"])

DataFile = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="The table: CSV or TSV (first line: column names), Parquet, Feather, JSON lines, Excel (its first sheet), or "
        "LIBSVM text; text also as .gz, .bz2, .xz. White space at the ends of text and names is taken off. - is standard "
        "input, CSV unless --format is given. Several files with the same columns: a folder, or a pattern in "
        "quotes, such as 'part-*.parquet'.",
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


def _about_text(help: str) -> Any:
    return typer.Option(help=help, show_default=False, rich_help_panel="Data")


SepOption = Annotated[
    str | None, _about_text("Character between the columns of CSV. (default: comma, semicolon, tab or |, as found)")
]
DecimalOption = Annotated[
    str | None,
    _about_text("Decimal mark of text, . or ,. (default: as found; a comma not where columns are separated by it)"),
]
ThousandsOption = Annotated[
    str | None,
    _about_text("What separates thousands in text, as . in 1.234,56: . , ' or a space. (default: nothing does)"),
]
EncodingOption = Annotated[
    str | None, _about_text("Encoding of text. (default: UTF-8, else Windows-1252 with a warning)")
]
NaOption = Annotated[
    list[str] | None,
    _about_text(
        "Text that stands for a missing value, besides none at all, NA, NaN, null and the like; repeat it for several."
    ),
]
Missing = StrEnum("Missing", {"impute": "impute", "drop_rows": "drop-rows", "error": "error"})
MissingOption = Annotated[
    Missing,
    typer.Option(
        help="Missing values. impute: the mean of a column, and a mark that there was none; of text, a category of its own. "
        "drop-rows: rows with missing values are left out. error: stop.",
        rich_help_panel="Data",
    ),
]
MissingLabels = StrEnum("MissingLabels", ["error", "drop"])
MissingLabelsOption = Annotated[
    MissingLabels,
    typer.Option(
        help="Rows whose label is missing. error: stop, and say where they are. drop: they are left out.",
        rich_help_panel="Data",
    ),
]


StreamOption = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read DATA in batches, in little memory. (default: if DATA is a folder, a pattern or more than 1 GiB)",
        show_default=False,
        rich_help_panel="Data",
    ),
]
SkipOption = Annotated[
    int,
    typer.Option(
        "--skip-bad-rows",
        help="Rows with missing or infinite values, text where there should be a number, or a wrong number of fields, to "
        "leave out at most, where DATA is read in batches.",
        min=0,
        rich_help_panel="Data",
    ),
]


@contextmanager
def wrong_usage_of(option: str) -> Iterator[None]:
    """Turn a ``ValueError`` inside the block into a usage error of this option."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error


def number_or_auto(text: str | None, option: str) -> Any:
    """Parse ``auto`` or a number; the range is checked by the estimator.

    Examples
    --------
    >>> number_or_auto("auto", "--alpha"), number_or_auto("1e-3", "--alpha")
    ('auto', 0.001)
    """
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"it must be auto or a number, got {text!r}.", param_hint=f"'{option}'") from None


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
