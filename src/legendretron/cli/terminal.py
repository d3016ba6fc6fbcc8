"""Output of a command: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from legendretron._internal.printable import one_line, without_controls

if TYPE_CHECKING:
    from legendretron.preprocessing.drift import Tally

#: Without a terminal nothing is wrapped or cut to a width.
_UNBOUNDED = 10_000
#: Columns that warnings name, one line each.
_MOST_COLUMNS = 10


def grid(*columns: str, title: str | None = None) -> Grid:
    """Return a rich table with the first column left-aligned and numbers right-aligned."""
    table = Grid(title=title, title_justify="left", header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
    return table


class _Console(Console):
    """A console that shows texts of grids without control characters; its own colors are not texts."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(one_line(text), **how)


class Terminal:
    """Output of a command."""

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json, self.quiet = json, quiet
        self.renamed: dict[str, str] = {}  #: what messages call files, by how errors of the library quote them

    def rename(self, text: str) -> str:
        """Return a message with other names for files that were renamed."""
        for quoted, name in self.renamed.items():
            text = text.replace(quoted, name)
        return text

    def note(self, text: str) -> None:
        """Print a note."""
        if not self.quiet:
            print(one_line(self.rename(text)), file=sys.stderr, flush=True)

    def warning(self, text: str) -> None:
        """Print a warning."""
        self.note(f"warning: {text}")

    def drift(self, found: Sequence[Tally]) -> list[dict[str, Any]]:
        """Print a warning for each column that is not like that of the fit, and return what ``--json`` says."""
        for tally in found[:_MOST_COLUMNS]:
            self.warning(str(tally))
        if len(found) > _MOST_COLUMNS:
            self.warning(f"{len(found) - _MOST_COLUMNS:,} more columns are unlike the training data; --json names them")
        return [tally.to_dict() for tally in found]

    def result(self, payload: Mapping[str, Any], *views: RenderableType, even_if_quiet: bool = True) -> None:
        """Print the result; once per command, at its end."""
        if self.json:
            print(json.dumps(_plain(payload), allow_nan=False))
        elif even_if_quiet or not self.quiet:
            # names come from data: they must not be read as markup or emoji
            width = None if sys.stdout.isatty() else _UNBOUNDED
            console = _Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)
            for view in views:
                if isinstance(view, str):  # as it is: rich would turn tabs into spaces
                    view = without_controls(view)
                    sys.stdout.write(view if view.endswith("\n") else f"{view}\n")
                else:
                    console.print(view)

    @contextmanager
    def warnings_as_lines(self) -> Iterator[None]:
        """Inside the block, print Python warnings for users as one line, without their location in the code."""
        shown = set()  # a table may be read several times

        def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
            if str(message) not in shown:
                self.warning(str(message))
            shown.add(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            # numpy's, from inner code; where it matters, one of our errors or warnings reports it too
            warnings.filterwarnings("ignore", ".* encountered in", RuntimeWarning)
            warnings.filterwarnings(
                "ignore", "about .* look wrong or random", UserWarning
            )  # the summary of the fit says it
            warnings.showwarning = show
            yield


def _plain(value: Any) -> Any:
    """Convert a value to JSON types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):  # arrays and numbers of numpy
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None  # no negative zero
    return os.fspath(value) if isinstance(value, os.PathLike) else value
