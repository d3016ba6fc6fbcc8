"""Rows to fit to, with labels or with soft labels: probabilities of the classes, by several annotators or another model.

A row with shares of several classes is trained on as one copy for each class, whose weight is the share: losses are linear in
the label, so this is exact. A row whose shares are one and zeros is one copy, as a row with a label is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from legendretron._internal.labels import refuse_dates
from legendretron.estimators.classes import apply_class_weight

#: How far the sum of the shares of a row may be from one: shares that were written down are rounded, as three of 0.33.
ROUNDING = 0.02


class SoftLabels(NamedTuple):
    """Copies of rows, each with a label and a share; the copies of a row follow each other, the largest share first."""

    y: np.ndarray  #: label of each copy
    row: np.ndarray  #: row that it is a copy of
    share: np.ndarray  #: what it counts; the shares of a row sum to one

    @classmethod
    def read(
        cls, y: Any, name: str = "y", place_of: Callable[[int], str] = lambda row: f"row {row} (from 0)"
    ) -> Self | None:
        """Read a table of shares ``(n, C)``; None for labels ``(n,)``, which are for others to check.

        Labels are the names of the columns of a data frame, and 0 to ``C - 1`` of an array. Messages call the table ``name``
        and a row as ``place_of`` does.

        Examples
        --------
        >>> soft = SoftLabels.read([[1.0, 0.0], [0.25, 0.75]])
        >>> soft.y.tolist(), soft.row.tolist(), soft.share.tolist()
        ([0, 1, 0], [0, 1, 1], [1.0, 0.75, 0.25])
        """
        if isinstance(y, list | tuple) and y and isinstance(y[0], list | tuple | np.ndarray):
            y = np.asarray(y)
        if len(getattr(y, "shape", ())) != 2 or y.shape[1] < 2 or hasattr(y, "tocsr"):
            return None
        refuse_dates(y)
        labels = np.asarray(y.columns) if hasattr(y, "columns") else np.arange(y.shape[1])
        shares = _as_numbers(y, name, place_of)
        _check(shares, labels, name, place_of)
        if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels):
            labels = labels.astype(str)
        shares = shares / shares.sum(1, keepdims=True)
        row, place = np.nonzero(shares)
        order = np.lexsort((place, -shares[row, place], row))
        row, place = row[order], place[order]
        return cls(labels[place], row, shares[row, place])

    @property
    def has_copies(self) -> bool:
        """Whether a row has several classes."""
        return len(self.row) > int(self.row[-1]) + 1

    def apply(self, X: Any, weight: np.ndarray, class_weight: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """Features, labels and weights of the copies, from those of the rows."""
        if X.shape[0] != int(self.row[-1]) + 1:
            raise ValueError(f"y must have one row of shares per row of X, {X.shape[0]}, got {int(self.row[-1]) + 1}.")
        if class_weight == "balanced":  # shares count, not copies
            classes, place = np.unique(self.y, return_inverse=True)
            factors = self.share.sum() / (len(classes) * np.bincount(place, self.share))
            class_weight = dict(zip(classes.tolist(), factors.tolist(), strict=True))
        weight = apply_class_weight(class_weight, self.y, weight[self.row] * self.share)
        return X[self.row] if self.has_copies else X, self.y, weight


def _as_numbers(y: Any, name: str, place_of: Callable[[int], str]) -> np.ndarray:
    """The shares, after checking each of them."""
    try:
        shares = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        shares = np.vectorize(_as_number, otypes=[float])(np.asarray(y, dtype=object))
    wrong = np.flatnonzero(~((shares >= 0.0) & np.isfinite(shares)).all(1))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"{name} must contain shares of the classes, from 0 to 1, got {np.asarray(y)[row].tolist()} in {place_of(row)}."
        )
    return shares


def _as_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _check(shares: np.ndarray, labels: np.ndarray, name: str, place_of: Callable[[int], str]) -> None:
    if len(set(labels.tolist())) < len(labels):
        raise ValueError(
            f"{name} must have a column for each class, but some have the same name: {labels.tolist()[:10]}."
        )
    if not len(shares):
        raise ValueError(f"{name} must have at least two rows, got none.")
    total = shares.sum(1)
    wrong = np.flatnonzero(np.abs(total - 1.0) > ROUNDING)
    if len(wrong):
        row = int(wrong[0])
        way = "divide each row by its sum"
        if (shares == np.round(shares)).all():
            way = (
                "if these are votes, divide each row by their number; if a row may have several labels, fit a classifier "
                "to each column"
            )
        raise ValueError(
            f"{name} must have a column for each class, whose shares sum to 1 in each row, but those of {place_of(row)} sum "
            f"to {total[row]:g}; {way}."
        )
    if len(empty := np.flatnonzero(~(shares > 0.0).any(0))):
        raise ValueError(
            f"{name} must have a share of every class in some row, but class {labels.tolist()[empty[0]]!r} has none; leave "
            "its column out."
        )
