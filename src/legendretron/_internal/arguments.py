"""Checks of arguments that are plain values, for modules that do without torch."""

from __future__ import annotations

from numbers import Integral, Real


def check_integer(name: str, value: object, minimum: int) -> int:
    """Return ``value`` as an int, or raise if it is not an integer of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, got {value!r}.")
    return int(value)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return ``value``, or raise if it is not one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


def check_open_unit(name: str, value: object) -> float:
    """Return ``value`` as a float, or raise if it is not strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise ValueError(f"{name} must be a number strictly between 0 and 1, got {value!r}.")
    return float(value)
