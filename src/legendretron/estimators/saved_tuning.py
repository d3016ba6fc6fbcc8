"""Strengths, and how they were chosen, in the header of a saved estimator: JSON has no infinity."""

from __future__ import annotations

import math
import sys
from typing import Any

from legendretron.tuning import Candidate, Tuning
from legendretron.tuning.table import COLUMNS

__all__ = ["decode_strengths", "decode_tuning", "encode_strengths", "encode_tuning", "is_strengths", "is_tuning"]

_NUMBERS = ("alpha", "link_alpha", "label_noise", "log_loss", "standard_error", "difference", "difference_error")
_MODELS = ("logistic regression", "learned link", "fixed link")


def _encode(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))


def _is_number(value: Any) -> bool:
    if type(value) in (int, float):  # JSON knows integers that no float can hold
        return -sys.float_info.max <= value <= sys.float_info.max
    return value in ("inf", "-inf", "nan")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**63


def encode_strengths(alpha: float, link_alpha: float) -> list[float | str]:
    """``alpha_`` and ``link_alpha_``.

    Examples
    --------
    >>> encode_strengths(0.1, float("inf"))
    [0.1, 'inf']
    """
    return [_encode(alpha), _encode(link_alpha)]


def is_strengths(value: Any) -> bool:
    """Whether this is what :func:`encode_strengths` returns."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(_is_number, value))
        and 0.0 <= float(value[0]) < math.inf
        and float(value[1]) >= 0.0
    )


def decode_strengths(value: list[Any]) -> tuple[float, float]:
    """The reverse of :func:`encode_strengths`."""
    return float(value[0]), float(value[1])


def encode_tuning(tuning: Tuning | None) -> list[dict[str, Any]] | None:
    """The rows of the table of candidates."""
    if tuning is None:
        return None
    return [{name: _encode(value) if name in _NUMBERS else value for name, value in row.items()} for row in tuning.rows]


def is_tuning(value: Any) -> bool:
    """Whether this is what :func:`encode_tuning` returns."""
    return value is None or (isinstance(value, list) and all(map(_is_row, value)))


def _is_row(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and list(row) == list(COLUMNS)
        and all(_is_number(row[name]) for name in _NUMBERS)
        and row["model"] in _MODELS
        and isinstance(row["chosen"], bool)
        and (row["steps"] is None or _is_count(row["steps"]))
        and _is_count(row["held_out_rows"])
    )


def decode_tuning(value: list[dict[str, Any]] | None, chosen: tuple[float, float]) -> Tuning | None:
    """The reverse of :func:`encode_tuning`."""
    if value is None:
        return None
    rows = [{name: float(entry) if name in _NUMBERS else entry for name, entry in row.items()} for row in value]
    return Tuning(Candidate(*chosen), rows)
