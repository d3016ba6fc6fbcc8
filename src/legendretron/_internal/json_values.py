"""Values as JSON has them, so that settings and results can be named and written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def as_json(value: object, name: str) -> Any:
    """Return a value with numbers of numpy and torch as those of Python, and arrays as lists.

    What JSON does not have raises a ``ValueError`` that names the entry: other types, NaN, infinity, and dicts whose keys
    have no order.

    Examples
    --------
    >>> as_json({"accuracy": np.float64(97.5), "counts": np.array([3, 4])}, "run")
    {'accuracy': 97.5, 'counts': [3, 4]}
    """
    if isinstance(value, np.floating):  # also of more than 64 bits, which have no type of Python
        value = float(value)
    elif isinstance(value, np.generic | np.ndarray | torch.Tensor):
        value = value.tolist()
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}, not a finite number.")
        return value
    if isinstance(value, Mapping):
        pairs = zip(_keys(value, name), value.values(), strict=True)
        return {key: as_json(entry, f"{name}[{key!r}]") for key, entry in pairs}
    if isinstance(value, (list, tuple)):
        entries = [as_json(entry, f"{name}[{i}]") for i, entry in enumerate(value)]
        return tuple(entries) if isinstance(value, tuple) else entries
    raise ValueError(f"{name} is of type {type(value).__name__}, which JSON does not have.")


def _keys(value: Mapping[Any, Any], name: str) -> list[Any]:
    """Keys of a dict; refused if JSON cannot have them, or has no order for them, as for text and numbers in one dict."""
    keys = [as_json(key, f"the key {key!r} of {name}") for key in value]
    if not (all(isinstance(key, str) for key in keys) or all(isinstance(key, (int, float)) for key in keys)):
        raise ValueError(f"the keys of {name} must be all text or all numbers, got {list(value)!r}.")
    return keys
