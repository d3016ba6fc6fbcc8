"""Columns of a table: how they were read and what became of each, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from legendretron._internal.labels import similar_words
from legendretron.cli.errors import one_line
from legendretron.cli.options import wrong
from legendretron.cli.terminal import Terminal, grid

if TYPE_CHECKING:
    from legendretron.datasets.tables import Table
    from legendretron.preprocessing.column import FittedColumn

#: Categories that are named, and letters of each.
_NAMED, _LETTERS = 4, 30
_MARKS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", ".": "point", " ": "space", "'": "apostrophe"}


def check_named(option: str, columns: Sequence[str], table: Table) -> None:
    """Raise a usage error for an option that names columns which are no features."""
    if columns and table.feature_names is None:
        reason = f"{str(table.path)!r} is LIBSVM text, whose features have no names; leave it out."
        raise wrong(option, reason)
    if unknown := [name for name in columns if name not in (table.feature_names or ())]:
        listed = ", ".join((table.feature_names or ())[:20])
        reason = f"there is no column {unknown[0]!r} among the features; there are {listed}."
        raise wrong(option, reason)


def warn_of_similar_labels(classes: Any, path: Path, target: str | None, terminal: Terminal) -> None:
    """Warn of classes that differ only by case or white space."""
    place = "the labels" if target is None else f"target column {target!r}"
    if words := similar_words(classes, f"{place} of {str(path)!r} has labels"):
        terminal.warning(f"{words} Write them alike if they are the same.")


def in_words(form: Mapping[str, str | None]) -> str:
    """Return how a text file is written.

    Examples
    --------
    >>> in_words({"encoding": "utf-8", "sep": ";", "decimal": ","})
    'separator: semicolon, decimal mark: comma, encoding: utf-8'
    """
    marks = {"separator": form["sep"], "decimal mark": form["decimal"], "thousands": form.get("thousands")}
    words = [f"{name}: {_MARKS.get(mark, mark)}" for name, mark in marks.items() if mark is not None]
    return ", ".join([*words, f"encoding: {form['encoding']}"])


def listed(texts: Iterable[str], most: int) -> str:
    """Return the first texts, separated by commas; in quotes where they could not be told apart otherwise.

    Examples
    --------
    >>> listed(["Ja, sicher", "Nein"], most=6)
    "'Ja, sicher', Nein"
    """
    texts = list(texts)
    shown = [repr(text) if "," in text or text != text.strip() or not text else text for text in texts[:most]]
    return ", ".join(shown) + (", ..." if len(texts) > most else "")


def column_facts(columns: Sequence[FittedColumn]) -> list[dict[str, Any]]:
    """Return what ``--json`` says about columns."""
    return [
        {
            "name": column.name,
            "kind": column.kind,
            "missing": column.gaps,
            "features": len(column.outputs),
            "pooled": column.pooled,
            "becomes": _becomes(column),
        }
        for column in columns
    ]


def column_view(columns: Sequence[FittedColumn]) -> Any:
    """Return a table of the columns that are not just numbers."""
    view = grid("column", "kind", "missing", "becomes")
    view.columns[1].justify = view.columns[3].justify = "left"
    plain = [column for column in columns if column.kind == "number" and not (column.gaps or column.constant)]
    for column in columns:
        if column not in plain:
            view.add_row(one_line(column.name), column.kind, f"{column.gaps:,}", one_line(_becomes(column)))
    if plain:
        view.add_row(f"{len(plain):,} more", "number", "0", "itself")
    return view


def _becomes(column: FittedColumn) -> str:
    if column.kind == "identifier":
        return "left out: nearly all values are different"
    if column.kind == "empty":
        return "left out: no values"
    if column.kind == "categories":
        texts = ["(missing)" if text is None else text for text in column.categories]
        if column.pooled:
            return (
                f"{len(column.outputs)} columns: the {len(texts)} most frequent values, {column.pooled:,} others pooled"
            )
        named = [text if len(text) <= _LETTERS else f"{text[:_LETTERS]}..." for text in texts]
        return f"{len(texts)} column{'s' if len(texts) > 1 else ''}: {listed(named, _NAMED)}"
    words = "days since 1970-01-01" if column.is_date else {"number": "itself", "boolean": "1 and 0"}[column.kind]
    if column.constant:
        words += ", always the same"
    return f"{words}; the mean, {column.mean:.4g}, where missing, and a mark" if column.gaps else words
