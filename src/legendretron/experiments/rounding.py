"""Numbers as they are written into files: the same on every machine.

The last of 17 digits depends on processor and libraries, in sums, logarithms and distribution functions alike. What is
written is therefore rounded: to :data:`DIGITS` significant digits and, before that, to :data:`DECIMALS` decimal places
where it is a difference of numbers of order 1 to 100. Such a difference carries their rounding, about ``1e-14``, and one
that should be 0 has no significant digit at all.
"""

from __future__ import annotations

from typing import Any

DIGITS = 10
DECIMALS = 12


def rounded(value: Any) -> Any:
    """Round every float in a value, which may be a list or dict, to :data:`DIGITS` significant digits.

    Zero has no sign; integers, text and None stay as they are.

    Examples
    --------
    >>> rounded({"accuracy": 66.66666666666667, "p": 1.2345678901234e-26, "gap": -0.0, "seeds": 20})
    {'accuracy': 66.66666667, 'p': 1.23456789e-26, 'gap': 0.0, 'seeds': 20}
    """
    if isinstance(value, dict):
        return {name: rounded(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry) for entry in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") + 0.0  # -0.0 + 0.0 is 0.0
    return value


def rounded_difference(value: float) -> float:
    """Round a difference to :data:`DECIMALS` decimal places; zero has no sign.

    Examples
    --------
    >>> 98.1 - 98.0 == 0.1, rounded_difference(98.1 - 98.0)
    (False, 0.1)
    """
    return round(float(value), DECIMALS) + 0.0
