"""Checks of what a file holds: the one place that says which values, sizes and shapes are accepted.

A class that is saved describes its state by a table of fields, and :func:`check_fields` compares the two before anything is
built. Nothing here needs torch.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from legendretron._internal.printable import one_line


class Field(NamedTuple):
    """What a value must be, in words and as a test."""

    wanted: str
    accepts: Callable[[Any], bool]


TEXT = Field("text", lambda value: isinstance(value, str))
BOOLEAN = Field("true or false", lambda value: isinstance(value, bool))
OBJECT = Field("an object", lambda value: isinstance(value, dict))
NAMES = Field(
    "a list of different strings",
    lambda value: isinstance(value, list) and all(map(TEXT.accepts, value)) and len(set(value)) == len(value),
)


def integer(least: int) -> Field:
    """An integer that is not smaller."""
    return Field(f"an integer of at least {least}", lambda value: type(value) is int and least <= value < 2**63)


def number(low: float = -math.inf, high: float = math.inf, *, finite: bool = True) -> Field:
    """A number between two others, both included."""
    if math.isinf(low):
        wanted = "a finite number" if finite else "a number"
    else:
        wanted = f"a number {f'of at least {low:g}' if math.isinf(high) else f'from {low:g} to {high:g}'}"

    def accepts(value: Any) -> bool:
        if type(value) not in (int, float) or (finite and not math.isfinite(value)):
            return False
        return low <= value <= high or (not finite and math.isnan(value) and math.isinf(low))

    return Field(wanted, accepts)


def one_of(*choices: str) -> Field:
    """One of some words."""
    return Field(f"one of {', '.join(choices)}", lambda value: isinstance(value, str) and value in choices)


def list_of(field: Field, least: int = 0) -> Field:
    """A list of at least ``least`` values of a kind."""
    size = f" with at least {least} entr{'y' if least == 1 else 'ies'}" if least else ""
    return Field(
        f"a list{size}, each {field.wanted}",
        lambda value: isinstance(value, list) and len(value) >= least and all(map(field.accepts, value)),
    )


def optional(field: Field) -> Field:
    """The same, or null."""
    return Field(f"{field.wanted}, or null", lambda value: value is None or field.accepts(value))


def array(*shape: int | None, dtype: str | tuple[str, ...] = "float64", finite: bool = True) -> Field:
    """An array or a tensor of a shape, of which None may be any size."""
    dtypes = (dtype,) if isinstance(dtype, str) else dtype
    shown = ", ".join("any" if size is None else str(size) for size in shape)

    def accepts(value: Any) -> bool:
        if not _is_array(value) or len(value.shape) != len(shape) or _dtype_of(value) not in dtypes:
            return False
        fits = all(wanted in (None, size) for wanted, size in zip(shape, value.shape, strict=True))
        return fits and (not finite or _is_finite(value))

    return Field(f"{'finite ' if finite else ''}values of {' or '.join(dtypes)} and of shape ({shown})", accepts)


def check_fields(where: str, state: Any, fields: Mapping[str, Field]) -> None:
    """Raise a ``ValueError`` unless a state has these fields and no others, and each is what it must be.

    Examples
    --------
    >>> check_fields("the state", {"n_iter": -1}, {"n_iter": integer(0)})
    Traceback (most recent call last):
    ValueError: n_iter must be an integer of at least 0, got -1.
    """
    if not isinstance(state, dict):
        raise ValueError(f"{where} must be an object, got {_show(state)}.")
    if set(state) != set(fields):
        raise ValueError(
            f"{where} must have the fields {', '.join(fields)}, got {one_line(', '.join(map(str, state)))}."
        )
    for name, field in fields.items():
        if not field.accepts(state[name]):
            raise ValueError(f"{name} must be {field.wanted}, got {_show(state[name])}.")


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _dtype_of(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def _is_finite(value: Any) -> bool:
    return bool(np.isfinite(value).all() if isinstance(value, np.ndarray) else value.isfinite().all())


def _show(value: Any) -> str:
    if not _is_array(value):
        return reprlib.repr(value)
    finite = "" if _is_finite(value) else "values that are not finite, of "
    return f"{finite}{_dtype_of(value)} and shape {tuple(value.shape)}"
