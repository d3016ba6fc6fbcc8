"""Wrong labels on the command line: the option ``--label-noise``, and what a fit has found, in words."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from legendretron._internal.columns import quoted
from legendretron._internal.labels import label_text
from legendretron.cli.options import number_or_nan, wrong

if TYPE_CHECKING:
    from legendretron.estimators.base import LinearLinkClassifier

#: If neither as few wrong labels nor as many can be ruled out, rows are too few to tell.
_NONE, _MANY = 0.01, 0.1


def read_matrix(path: Path, classes: np.ndarray) -> list[list[float]]:
    """Read a transition matrix: rows are true classes, columns the labels that they get.

    The file holds numbers only, with classes in sorted order, or the names of the classes in its first line and in its first
    column as well, in any order. ``classes`` (C,) are those of the data, sorted.
    """
    names = [label_text(label) for label in classes]
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    except (UnicodeDecodeError, csv.Error) as error:
        raise _matrix_error(path, "is not text; write the matrix as CSV") from error
    cells = [[cell.strip() for cell in line] for line in lines if any(cell.strip() for cell in line)]
    size = len(cells)
    if size not in (len(names), len(names) + 1) or any(len(line) != size for line in cells):
        raise _matrix_error(
            path,
            f"must hold {len(names)} lines of {len(names)} numbers, one line for each true class, and optionally the names "
            "of the classes as first line and first column",
        )
    order = (range(size), range(size))
    if size > len(names):
        given = [line[0] for line in cells[1:]], cells[0][1:]
        for words, place in zip(given, ("column", "line"), strict=True):
            if sorted(words) != sorted(names):
                raise _matrix_error(
                    path, f"must name the classes in its first {place}, {quoted(names)}, got {quoted(words)}"
                )
        order = tuple([1 + words.index(name) for name in names] for words in given)  # type: ignore[assignment]
    matrix = [[_number(cells[row][column], path) for column in order[1]] for row in order[0]]
    for name, shares in zip(names, matrix, strict=True):
        if abs(sum(shares) - 1.0) > 1e-4:
            raise _matrix_error(
                path, f"must have lines that sum to 1, but that of class {name!r} sums to {sum(shares):.6g}"
            )
    return matrix


def _number(text: str, path: Path) -> float:
    value = number_or_nan(text)
    if not 0.0 <= value <= 1.0:
        raise _matrix_error(path, f"must hold probabilities, from 0 to 1, but holds {text!r}")
    return value


def _matrix_error(path: Path, reason: str) -> Exception:
    return wrong("--label-noise", f"{str(path)!r} {reason}.")


def found_noise(estimator: LinearLinkClassifier) -> dict[str, Any] | None:
    """Return the share of wrong labels, where it lies, and whether it was given; None if it was not looked for."""
    if not hasattr(estimator, "noise_rate_"):
        return None
    low, high = estimator.noise_rate_interval_
    given = not isinstance(estimator.label_noise, str)
    return {"rate": estimator.noise_rate_, "low": low, "high": high, "known": given}


def noise_in_words(noise: dict[str, Any]) -> str:
    """Say what :func:`found_noise` returns.

    Examples
    --------
    >>> noise_in_words({"rate": 0.12, "low": 0.08, "high": 0.151, "known": False})
    'about 12 % (8 to 15 %)'
    >>> noise_in_words({"rate": 0.0, "low": 0.0, "high": 0.004, "known": False})
    'none found (at most 0.4 %)'
    >>> noise_in_words({"rate": 0.0, "low": 0.0, "high": 0.22, "known": False})
    'none found (too few rows to tell)'
    >>> noise_in_words({"rate": 0.12, "low": None, "high": None, "known": False})  # where it lies is not known
    'about 12 %'
    """
    rate = _percent(noise["rate"])
    if noise["known"]:
        return f"{rate} %, as given"
    if noise["low"] is None:
        return f"about {rate} %"
    low, high = _percent(noise["low"]), _percent(noise["high"])
    untold = noise["low"] < _NONE and noise["high"] > _MANY
    if noise["rate"] == 0.0:
        return "none found (too few rows to tell)" if untold else f"none found (at most {high} %)"
    return f"about {rate} % ({low} to {high} %{': too few rows to tell' if untold else ''})"


def _percent(share: float) -> str:
    percent = 100.0 * share
    return f"{percent:.0f}" if percent >= 1.0 or percent == 0.0 else f"{percent:.1g}"
