"""What became of each column of a table, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from legendretron.cli.errors import one_line
from legendretron.cli.report import grid

if TYPE_CHECKING:
    from legendretron.preprocessing.column import FittedColumn

__all__ = ["column_facts", "column_view"]

#: Categories that are named.
_NAMED = 4


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
        shown = ", ".join(texts[:_NAMED]) + (", ..." if len(texts) > _NAMED else "")
        return f"{len(texts)} column{'s' if len(texts) > 1 else ''}: {shown}"
    words = {"number": "itself", "boolean": "1 and 0", "date": "days since 1970-01-01"}[column.kind]
    if column.constant:
        words += ", always the same"
    return f"{words}; the mean, {column.mean:.4g}, where missing, and a mark" if column.gaps else words
