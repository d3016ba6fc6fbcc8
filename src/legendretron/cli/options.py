"""Options that several commands share, and how options are declared.

The options of a command are the fields of a dataclass: a field has the type, the help and the default, and its name is the
parameter of the library that it sets. What is declared by :func:`option` with other names is called by these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from legendretron.datasets.text_form import TextOptions

#: Groups in the help of a command, in order.
_PANELS = ("Data", "Model", "Training", "Calibration", "Output")
REQUIRED: Any = dataclasses.MISSING


def option(
    help: str, *names: str, value: Any = None, default: str | None = None, panel: str | None = None, **more: Any
) -> Any:
    """Declare an option with a default ``value``, which the help shows, or ``default`` if that is given."""
    shown = "" if default is None else f" (default: {default})"
    told = default is None and value is not None and value is not REQUIRED
    look = {"help": help + shown, "rich_help_panel": panel, "show_default": told, **more}
    called = names[0].partition("/")[0] if names else None
    return dataclasses.field(default=value, metadata={"typer": typer.Option(*names, **look), "called": called})


def argument(metavar: str, help: str, value: Any = REQUIRED, **more: Any) -> Any:
    """Declare an argument."""
    # not readable is not a usage error: opening the file reports it
    look = {"metavar": metavar, "help": help, "show_default": False, "readable": False, **more}
    return dataclasses.field(default=value, metadata={"typer": typer.Argument(**look), "called": metavar})


def declarations(options: type) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a class of options in the order of the help: by group, and its own fields first."""
    fields = {field.name: field for field in dataclasses.fields(options)}
    own = dict.fromkeys(name for kind in options.__mro__ for name in vars(kind).get("__annotations__", ()))
    panels = {name: getattr(fields[name].metadata["typer"], "rich_help_panel", None) for name in own}
    order = sorted(own, key=lambda name: _PANELS.index(panels[name]) if panels[name] in _PANELS else -1)
    return {name: fields[name] for name in order}


def option_names(options: type) -> dict[str, str]:
    """Return what the fields of a class of options are called on the command line."""
    called = {field.name: field.metadata["called"] for field in dataclasses.fields(options)}
    return {name: text or f"--{name.replace('_', '-')}" for name, text in called.items()}


def wrong(option: str, reason: str) -> Exception:
    """Return a usage error of an option."""
    return typer.BadParameter(reason, param_hint=f"'{option}'")


@contextmanager
def wrong_usage_of(option: str) -> Iterator[None]:
    """Turn a ``ValueError`` inside the block into a usage error of this option."""
    try:
        yield
    except ValueError as error:
        raise wrong(option, str(error)) from error


def number_or_text(text: str) -> int | float | str:
    """Parse a number, or return the text; the estimator says which it takes."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


#: What options have in common that take a number, or ``auto``.
AUTO_NUMBER: dict[str, Any] = {"default": "auto", "metavar": "auto|NUMBER", "parser": number_or_text}

Format = StrEnum("Format", ["csv", "tsv", "parquet", "feather", "jsonl", "excel", "libsvm"])
Missing = StrEnum("Missing", {"impute": "impute", "drop_rows": "drop-rows", "error": "error"})
MissingLabels = StrEnum("MissingLabels", ["error", "drop"])

data_option, output_option = partial(option, panel="Data"), partial(option, panel="Output")
data_argument = partial(
    argument,
    "DATA",
    "The table: CSV or TSV (first line: column names), Parquet, Feather, JSON lines, Excel (its first sheet), or LIBSVM "
    "text; text may be compressed (.gz, .bz2, .xz). White space around text and names is removed. - is standard input, CSV "
    "unless --format is given. For several files with the same columns, pass a folder, or a pattern in quotes, such as "
    "'part-*.parquet'.",
)
any_model_argument = partial(argument, "MODEL", "A model from 'legendretron fit' or 'legendretron calibrate'.")
stream_option = partial(
    data_option,
    "Read DATA in batches, to save memory.",
    "--stream/--no-stream",
    default="if DATA is a folder, a pattern or more than 1 GiB",
)
keep_option = partial(option, "Column of DATA to copy to the output, before the other columns; repeat for several.")
target_option = partial(data_option, "Column of the labels. Not needed for LIBSVM text.", "--target", "-t")


@dataclass(kw_only=True)
class TableOptions:
    """How a table is read."""

    missing: Missing = data_option(
        "Missing values. impute: use the mean of the column and add a column that marks them; for text, use a category of "
        "its own. drop-rows: leave out rows with missing values. error: stop.",
        value=Missing.impute,
    )
    sep: str | None = data_option("Separator of the columns of CSV.", default="comma, semicolon, tab or |, detected")
    decimal: str | None = data_option(
        "Decimal mark in text, . or ,.", default="detected; never a comma if that separates columns"
    )
    thousands: str | None = data_option(
        "Thousands separator in text, such as . in 1.234,56: . , ' or a space.", default="none"
    )
    encoding: str | None = data_option("Encoding of text.", default="UTF-8, else Windows-1252 with a warning")
    na_values: list[str] | None = data_option(
        "Text that marks a missing value, in addition to the empty text, NA, NaN, null and the like; repeat for several.",
        "--na",
    )
    format: Format | None = data_option("Format of DATA, if the file extension does not say.")

    @property
    def text(self) -> TextOptions:
        """How text files are written."""
        from legendretron.datasets.text_form import TextOptions

        return TextOptions(self.sep, self.decimal, self.encoding, tuple(self.na_values or ()), self.thousands)

    @property
    def reading(self) -> dict[str, Any]:
        """Arguments of the functions that read tables."""
        return {"text": self.text, "missing": str(self.missing)}


@dataclass(kw_only=True)
class LabeledTableOptions(TableOptions):
    """How a table with labels is read."""

    target: str | None = target_option()
    missing_labels: MissingLabels = data_option(
        "Rows whose label is missing. error: stop, and say where they are. drop: leave them out.",
        value=MissingLabels.error,
    )

    @property
    def reading(self) -> dict[str, Any]:
        """Arguments of the functions that read tables."""
        return {**super().reading, "missing_labels": str(self.missing_labels)}


def find_given(options: Any, *names: str) -> dict[str, Any]:
    """Return fields of options by what they are called on the command line, those that were given."""
    called = option_names(type(options))
    fields = {field.name: (getattr(options, field.name), field.default) for field in dataclasses.fields(options)}
    return {called[name]: fields[name][0] for name in names if fields[name][0] not in (None, [], fields[name][1])}
