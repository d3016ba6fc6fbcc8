"""Options that several commands share, and how options are declared.

The options of a command are the fields of a dataclass: a field has the type, the help and the default, and its name is the
parameter of the library that it sets. What is declared by :func:`option` with other names is called by these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from legendretron.datasets.text_form import TextOptions

#: Groups in the help of a command, in order.
_PANELS = ("Data", "Model", "Training", "Calibration", "Output", "Many machines")


def option(help: str, *names: str, panel: str | None = None, default: str | None = None, **more: Any) -> Any:
    """Declare an option."""
    shown = "" if default is None else f" (default: {default})"
    return typer.Option(*names, help=help + shown, rich_help_panel=panel, **{"show_default": False, **more})


def option_names(options: type) -> dict[str, str]:
    """Return what the fields of a class of options are called on the command line, its own fields first."""
    hints = get_type_hints(options, include_extras=True)
    own = [name for kind in options.__mro__ for name in vars(kind).get("__annotations__", ())]
    panels = {name: getattr(hints[name].__metadata__[0], "rich_help_panel", None) for name in own}
    names = {}
    for name in sorted(panels, key=lambda name: _PANELS.index(panels[name]) if panels[name] in _PANELS else -1):
        declared = hints[name].__metadata__[0]
        # typer takes the first name for a default
        names_given = (getattr(declared, "default", None), *(getattr(declared, "param_decls", None) or ()))
        given = [text for text in names_given if isinstance(text, str) and text.startswith("--")]
        argument = isinstance(declared, typer.models.ArgumentInfo)
        names[name] = (
            declared.metavar if argument else given[0].partition("/")[0] if given else f"--{name.replace('_', '-')}"
        )
    return names


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


def parse_number(text: str) -> str | float:
    """Parse ``auto`` or a number; the range is checked by the estimator.

    Examples
    --------
    >>> parse_number("auto"), parse_number("1e-3")
    ('auto', 0.001)
    """
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise typer.BadParameter(f"it must be auto or a number, got {text!r}.") from None


Format = StrEnum("Format", ["csv", "tsv", "parquet", "feather", "jsonl", "excel", "libsvm"])
Missing = StrEnum("Missing", {"impute": "impute", "drop_rows": "drop-rows", "error": "error"})
MissingLabels = StrEnum("MissingLabels", ["error", "drop"])


def _file(metavar: str, help: str) -> Any:
    # not readable is not a usage error: opening the file reports it
    return typer.Argument(metavar=metavar, help=help, show_default=False, readable=False)


DataFile = Annotated[
    Path,
    _file(
        "DATA",
        "The table: CSV or TSV (first line: column names), Parquet, Feather, JSON lines, Excel (its first sheet), or "
        "LIBSVM text; text also as .gz, .bz2, .xz. White space at the ends of text and names is taken off. - is standard "
        "input, CSV unless --format is given. Several files with the same columns: a folder, or a pattern in "
        "quotes, such as 'part-*.parquet'.",
    ),
]
ModelFile = Annotated[Path, _file("MODEL", "A file that 'legendretron fit' wrote.")]
AnyModelFile = Annotated[Path, _file("MODEL", "A file that 'legendretron fit' or 'legendretron calibrate' wrote.")]
StreamOption = Annotated[
    bool | None,
    option(
        "Read DATA in batches, in little memory.",
        "--stream/--no-stream",
        panel="Data",
        default="if DATA is a folder, a pattern or more than 1 GiB",
    ),
]
Keep = Annotated[
    list[str] | None, option("Column of DATA to write before the others, as it stands there; repeat it for several.")
]


@dataclass(kw_only=True)
class TableOptions:
    """How a table is read."""

    missing: Annotated[
        Missing,
        option(
            "Missing values. impute: the mean of a column, and a mark that there was none; of text, a category of its own. "
            "drop-rows: rows with missing values are left out. error: stop.",
            panel="Data",
            show_default=True,
        ),
    ] = Missing.impute
    sep: Annotated[
        str | None,
        option("Character between the columns of CSV.", panel="Data", default="comma, semicolon, tab or |, as found"),
    ] = None
    decimal: Annotated[
        str | None,
        option(
            "Decimal mark of text, . or ,.",
            panel="Data",
            default="as found; a comma not where columns are separated by it",
        ),
    ] = None
    thousands: Annotated[
        str | None,
        option(
            "What separates thousands in text, as . in 1.234,56: . , ' or a space.",
            panel="Data",
            default="nothing does",
        ),
    ] = None
    encoding: Annotated[
        str | None, option("Encoding of text.", panel="Data", default="UTF-8, else Windows-1252 with a warning")
    ] = None
    na_values: Annotated[
        list[str] | None,
        option(
            "Text that stands for a missing value, besides none at all, NA, NaN, null and the like; repeat it for several.",
            "--na",
            panel="Data",
        ),
    ] = None
    format: Annotated[Format | None, option("Format of DATA, if its extension does not tell.", panel="Data")] = None

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
class LabelledTableOptions(TableOptions):
    """How a table with labels is read."""

    target: Annotated[
        str | None, option("Column of the labels. LIBSVM text needs none.", "--target", "-t", panel="Data")
    ] = None
    missing_labels: Annotated[
        MissingLabels,
        option(
            "Rows whose label is missing. error: stop, and say where they are. drop: they are left out.",
            panel="Data",
            show_default=True,
        ),
    ] = MissingLabels.error

    @property
    def reading(self) -> dict[str, Any]:
        """Arguments of the functions that read tables."""
        return {**super().reading, "missing_labels": str(self.missing_labels)}


def given(options: Any, *names: str) -> dict[str, Any]:
    """Return fields of options by what they are called on the command line, those that were given."""
    called = option_names(type(options))
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    values = {name: getattr(options, name) for name in names}
    return {
        called[name]: value
        for name, value in values.items()
        if value is not None and value != defaults[name] and value != []
    }
