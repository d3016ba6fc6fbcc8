"""Class labels in the header of a saved model."""

from __future__ import annotations

import math
import reprlib
from itertools import pairwise
from typing import Any

import numpy as np

from legendretron._internal.fields import Field, check_fields

__all__ = ["decode_classes", "is_label"]

#: Names of the dtypes that classes can have, and the type of their values in JSON.
_CLASS_DTYPES: dict[str, type] = {
    "bool": bool,
    "str": str,
    **{f"{sign}int{bits}": int for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": float for bits in (16, 32, 64)},
}


def is_label(value: Any) -> bool:
    """Whether a value from JSON can be the label of a class."""
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


_CLASSES = {
    "dtype": Field(
        f"one of {', '.join(_CLASS_DTYPES)}, object", lambda value: value == "object" or value in [*_CLASS_DTYPES]
    ),
    "values": Field(
        "a list of at least two numbers, strings or booleans",
        lambda value: isinstance(value, list) and len(value) >= 2 and all(map(is_label, value)),
    ),
}


def decode_classes(encoded: dict[str, Any]) -> np.ndarray:
    """Return ``classes_`` from its form in JSON, or raise a ``ValueError`` if it is not that of sorted labels."""
    check_fields("classes", encoded, _CLASSES)
    dtype, values = encoded["dtype"], encoded["values"]
    kinds = {type(value) for value in values}
    of_dtype = str not in kinds or len(kinds) == 1 if dtype == "object" else kinds == {_CLASS_DTYPES[dtype]}
    if not of_dtype:
        raise ValueError(f"values must be labels of dtype {dtype}, got {reprlib.repr(values)}.")
    if dtype[:3] in ("int", "uin") and not all(np.iinfo(dtype).min <= v <= np.iinfo(dtype).max for v in values):
        raise ValueError(f"values must be integers that {dtype} can hold, got {reprlib.repr(values)}.")
    with np.errstate(over="ignore"):
        classes = np.asarray(values, dtype=dtype)
    held = classes.tolist()  # as the array holds them: two labels may have become the same, or infinite
    if held != values or any(not first < second for first, second in pairwise(held)):
        raise ValueError(f"values must be sorted and different labels of dtype {dtype}, got {reprlib.repr(values)}.")
    return classes
