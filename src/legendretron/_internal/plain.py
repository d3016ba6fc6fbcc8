"""Values of numpy as the values of JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_json"]


def as_json(value: Any) -> Any:
    """Return a value with numpy's numbers and arrays in it, however deep, as plain ones.

    Examples
    --------
    >>> as_json({"a": np.int64(3), "b": (np.float64(0.5), "c")})
    {'a': 3, 'b': [0.5, 'c']}
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    return value
