"""Validation of a saved encoder: every field is checked before anything is built from it."""

from __future__ import annotations

import math
import reprlib
from typing import Any

from legendretron._internal.fields import Field, check_fields
from legendretron.preprocessing.column import KINDS, FittedColumn

__all__ = ["checked_columns"]


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value < 2**63


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_ENCODER = {
    "parameters": Field("an object of categorical and max_categories", lambda value: isinstance(value, dict)),
    "columns": Field("a list of at least one column", lambda value: isinstance(value, list) and len(value) > 0),
    "has_names": Field("true or false", lambda value: isinstance(value, bool)),
    "single": Field("true or false", lambda value: isinstance(value, bool)),
}
_PARAMETERS = {
    "categorical": Field("a list of names", _is_names),
    "max_categories": Field("an integer of at least 2", lambda value: _is_count(value, 2)),
}
_COLUMN = {
    "name": Field("text", lambda value: isinstance(value, str)),
    "kind": Field(f"one of {', '.join(KINDS)}", lambda value: isinstance(value, str) and value in KINDS),
    "gaps": Field("an integer that is not negative", _is_count),
    "mean": Field("a finite number", _is_finite),
    "categories": Field(
        "a list of texts, and null for the gap",
        lambda value: isinstance(value, list) and all(text is None or isinstance(text, str) for text in value),
    ),
    "pooled": Field("an integer that is not negative", _is_count),
    "constant": Field("true or false", lambda value: isinstance(value, bool)),
    "rows": Field("an integer that is not negative", _is_count),
    "rare_rows": Field("an integer that is not negative", _is_count),
    "low": Field("a finite number", _is_finite),
    "high": Field("a finite number", _is_finite),
}


def checked_columns(saved: Any) -> tuple[FittedColumn, ...]:
    """Return the columns of a saved encoder, or raise a ``ValueError`` that names the field that is wrong."""
    if not isinstance(saved, dict):
        raise ValueError(f"encoder must be an object, got {reprlib.repr(saved)}.")
    check_fields("encoder", saved, _ENCODER)
    check_fields("parameters of encoder", saved["parameters"], _PARAMETERS)
    most = saved["parameters"]["max_categories"]
    columns = []
    for fields in saved["columns"]:
        if not isinstance(fields, dict):
            raise ValueError(f"a column of encoder must be an object, got {reprlib.repr(fields)}.")
        check_fields("a column of encoder", fields, _COLUMN)
        name, kept = fields["name"], fields["categories"]
        if fields["kind"] == "categories":
            if len(set(kept)) != len(kept) or not kept or len(kept) + bool(fields["pooled"]) > most:
                raise ValueError(
                    f"categories of {name!r} must be 1 to {most} different texts, got {reprlib.repr(kept)}."
                )
        elif kept or fields["pooled"]:
            raise ValueError(f"column {name!r} of kind {fields['kind']!r} must have no categories.")
        if fields["low"] > fields["high"]:
            raise ValueError(f"low of {name!r} must not be above high, got {fields['low']} and {fields['high']}.")
        if fields["gaps"] + fields["rare_rows"] > fields["rows"]:
            raise ValueError(
                f"gaps and rare_rows of {name!r} must be some of its rows, {fields['rows']}, got {fields['gaps']} and "
                f"{fields['rare_rows']}."
            )
        numbers = {key: float(fields[key]) for key in ("mean", "low", "high")}
        columns.append(FittedColumn(**{**fields, **numbers, "categories": tuple(kept)}))
    names = [column.name for column in columns]
    if len(set(names)) != len(names):
        raise ValueError(f"columns of encoder must have different names, got {reprlib.repr(names)}.")
    if all(column.is_left_out for column in columns):
        raise ValueError("columns of encoder must not all be left out.")
    return tuple(columns)
