"""Record batches of pyarrow as features, labels and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from legendretron._internal.columns import check_names, choose_names
from legendretron._internal.extras import import_extra
from legendretron.streaming.batch import Batch

_EXACT = 2.0**53  # up to here a double holds every integer


def is_record_batch(item: Any) -> bool:
    """Whether it is a record batch or a table of pyarrow; pyarrow is not imported for it."""
    return type(item).__module__.partition(".")[0] == "pyarrow" and hasattr(item, "schema") and hasattr(item, "column")


@dataclass(frozen=True)
class RecordReader:
    """What the columns of record batches mean.

    Attributes
    ----------
    target : str or None
        Column of the labels.
    features : tuple of str or None
        Columns of the features, in their order; None for all but the target and the weights.
    weight : str or None
        Column of the weights.
    drop : tuple of str
        Columns to leave out.
    single : bool
        Whether all features are float32, and become that; else float64.
    """

    target: str | None = None
    features: tuple[str, ...] | None = None
    weight: str | None = None
    drop: tuple[str, ...] = ()
    single: bool = False

    @classmethod
    def of_schema(cls, schema: Any, asked: Self | None, place: str = "the source") -> Self:
        """What is asked for, after a check of all names and types against a schema; a ``ValueError`` says what is wrong."""
        asked = cls() if asked is None else asked
        names = [name for name in schema.names if not name.startswith("__index_level_")]
        check_names(place, names)
        chosen = choose_names(
            place, names, target=asked.target, weight=asked.weight, features=asked.features, drop=asked.drop
        )
        arrow = import_extra("pyarrow", "reading record batches", "cli")
        wrong = [name for name in chosen if not _is_number(arrow, schema.field(name).type)]
        if wrong:
            kinds = ", ".join(f"{name!r} ({schema.field(name).type})" for name in wrong[:8])
            rest = f" and {len(wrong) - 8} more" if len(wrong) > 8 else ""
            label = "" if asked.target is not None else "give the column of the labels as target, "
            raise ValueError(
                f"columns that are not numbers in {place}: {kinds}{rest}; {label}leave them out (drop), or encode them as "
                "numbers."
            )
        single = all(schema.field(name).type == arrow.float32() for name in chosen)
        return replace(asked, features=tuple(chosen), single=single)

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        special = [name for name in (self.target, self.weight) if name is not None]
        return [*(self.features or ()), *special]

    def check_file(self, schema: Any, first: Any, place: str, first_place: str) -> None:
        """Raise a ``ValueError`` unless a file has the columns of the first one, numbers where that has numbers."""
        arrow = import_extra("pyarrow", "reading record batches", "cli")
        for name in self.columns:
            if name not in schema.names:
                raise ValueError(f"{place} has no column {name!r}, which {first_place} has.")
            here, there = schema.field(name).type, first.field(name).type
            if here != there and not (_is_number(arrow, here) and _is_number(arrow, there)):
                raise ValueError(
                    f"column {name!r} changes its type: it is {here} in {place}, but {there} in {first_place}; write all "
                    "files with one type."
                )

    def __call__(self, batch: Any, origin: str, first_row: int, constants: Mapping[str, Any] | None = None) -> Batch:
        """Convert a record batch; ``constants`` are columns that have one value for all rows, such as those of partitions."""
        assert self.features is not None
        n, fixed = batch.num_rows, constants or {}
        X = np.empty((n, len(self.features)), dtype=np.float32 if self.single else np.float64)
        for place, name in enumerate(self.features):
            X[:, place] = fixed[name] if name in fixed else _numbers(batch.column(name), name, origin)
        y = weight = None
        if self.target is not None:
            y = np.full(n, fixed[self.target]) if self.target in fixed else _labels(batch.column(self.target))
        if self.weight is not None:
            weight = _numbers(batch.column(self.weight), self.weight, origin).astype(np.float64)
        return Batch(X, y, weight, np.arange(first_row, first_row + n), origin)


def _is_number(arrow: Any, kind: Any) -> bool:
    types = arrow.types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _numbers(column: Any, name: str, origin: str) -> np.ndarray:
    """Numbers of a column; missing ones are NaN."""
    arrow = import_extra("pyarrow", "reading record batches", "cli")
    if not _is_number(arrow, column.type):
        raise ValueError(f"{origin}: column {name!r} must hold numbers, but here it is of type {column.type}.")
    if arrow.types.is_decimal(column.type) or arrow.types.is_boolean(column.type):
        # booleans by way of integers, from which they are cast
        column = column.cast(arrow.float64() if arrow.types.is_decimal(column.type) else arrow.uint8())
    values: np.ndarray = _to_numpy(column)
    return values


def _labels(column: Any) -> np.ndarray:
    """Labels, text without white space at its ends; missing and empty ones are NaN among numbers, and None among others."""
    arrow = import_extra("pyarrow", "reading record batches", "cli")
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type):
        compute = import_extra("pyarrow.compute", "reading record batches", "cli")
        column = compute.utf8_trim_whitespace(column)
        column = compute.if_else(compute.equal(column, ""), None, column)
    values: np.ndarray = _to_numpy(column)
    if values.dtype.kind in "fu":
        present = values[~np.isnan(values)] if values.dtype.kind == "f" else values
        if (np.abs(present) <= _EXACT).all() and (present == np.floor(present)).all() and len(present) == len(values):
            return values.astype(np.int64)
    return values


def _to_numpy(column: Any) -> np.ndarray:
    # that of a chunked array, a table's, has no such option
    values: np.ndarray = column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)
    return values
