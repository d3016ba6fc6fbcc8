"""Fields of a header from a file, checked one by one before anything is built from them."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["Field", "check_fields"]


class Field(NamedTuple):
    """What a field must be, in words and as a test."""

    wanted: str
    accepts: Callable[[Any], bool]


def check_fields(where: str, values: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    """Raise a ``ValueError`` unless there are these fields and no others, and each is what it must be."""
    if set(values) != set(fields):
        raise ValueError(f"{where} must have the fields {', '.join(fields)}, got {', '.join(map(str, values))}.")
    for name, field in fields.items():
        if not field.accepts(values[name]):
            raise ValueError(f"{name} must be {field.wanted}, got {reprlib.repr(values[name])}.")
