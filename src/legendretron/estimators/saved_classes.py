"""Class labels as parts of what is saved: their dtype and their values."""

from __future__ import annotations

import math
import reprlib
from itertools import pairwise
from typing import Any

import numpy as np

from legendretron._internal.fields import Field, check_fields, list_of, one_of

#: Names of the dtypes that classes can have, and the type of their values in JSON.
_CLASS_DTYPES: dict[str, type] = {
    "bool": bool,
    "str": str,
    **{f"{sign}int{bits}": int for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": float for bits in (16, 32, 64)},
}
LABEL = Field(
    "a number, a string or a boolean",
    lambda value: isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)),
)
_FIELDS = {"dtype": one_of(*_CLASS_DTYPES, "object"), "values": list_of(LABEL, least=2)}


def classes_to_state(labels: np.ndarray) -> dict[str, Any]:
    """The state of class labels."""
    values = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if labels.dtype.kind not in "iufbUO" or any(not isinstance(value, str | int | float | bool) for value in values):
        raise ValueError(f"classes_ must be numbers or strings to be saved, got dtype {labels.dtype}.")
    return {"dtype": "str" if labels.dtype.kind == "U" else labels.dtype.name, "values": values}


def classes_from_state(state: Any) -> np.ndarray:
    """Return ``classes_`` from their state, or raise a ``ValueError`` if it is not that of sorted labels."""
    check_fields("classes", state, _FIELDS)
    dtype, values = state["dtype"], state["values"]
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
