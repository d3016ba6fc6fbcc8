r"""The rows that an estimator is fitted to: features, classes, weights, soft labels, and rows held out for early stopping.

**Order of the classes.** With two classes, that of a link is reversed: its linear predictor is that of its first class, but
in scikit-learn that of the second.

**Soft labels** are probabilities of the classes, by several annotators or another model. A row with shares of several classes
is trained on as one copy for each class, whose weight is the share: losses are linear in the label, so this is exact. A row
whose shares are one and zeros is one copy, as a row with a label is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from legendretron._internal.columns import check_collected
from legendretron._internal.labels import check_labels, holds_dates
from legendretron._internal.parameters import ParameterError
from legendretron._internal.sklearn_compat import check_features, check_sample_weight
from legendretron.tuning.folds import check_groups

#: Draws of the groups that are held out for early stopping.
_GROUP_DRAWS = 20
#: How far the sum of the shares of a row may be from one: shares that were written down are rounded, as three of 0.33.
ROUNDING = 0.02


# --- classes ---


def swap_labels(labels: Any, n_classes: int) -> Any:
    """Turn indices into ``classes_`` into those of the link's classes, or back; arrays or tensors."""
    return 1 - labels if n_classes == 2 else labels


def swap_classes(values: Any) -> Any:
    """Reorder values per class, along the last axis, from the link's order to that of ``classes_``, or back.

    Examples
    --------
    >>> import numpy as np
    >>> swap_classes(np.array([[0.2, 0.8]])), swap_classes(np.array([0.2, 0.3, 0.5]))
    (array([[0.8, 0.2]]), array([0.2, 0.3, 0.5]))
    """
    if values.shape[-1] != 2:
        return values
    return values.flip(-1) if isinstance(values, Tensor) else values[..., ::-1]


def apply_class_weight(class_weight: Any, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the rows' weights times those of their classes; rows of weight zero are left out."""
    factors = np.ones(len(y))
    if isinstance(class_weight, dict):
        values = np.asarray(list(class_weight.values()), dtype=float)
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise ValueError(f"class_weight must contain finite, non-negative weights, got {class_weight!r}.")
    if class_weight is not None:
        present = weight > 0
        factors[present] = compute_sample_weight(class_weight, y[present])
    weight = weight * factors
    if not weight.any():
        raise ValueError(f"class_weight={class_weight!r} leaves no sample with a positive weight.")
    return weight


# --- rows ---


class FitData(NamedTuple):
    """Checked rows with labels and weights."""

    X: Any  #: features, an array or a sparse matrix
    y: np.ndarray  #: labels, of ``classes``
    weight: np.ndarray  #: times that of the class; rows of weight zero are left out
    classes: np.ndarray  #: sorted labels
    groups: np.ndarray | None = None  #: of rows that are held out together; of those without copies
    copies: np.ndarray | None = None  #: row that each is a copy of, where labels are soft

    @property
    def n_classes(self) -> int:
        """``C``."""
        return len(self.classes)

    @property
    def places(self) -> np.ndarray:
        """Labels as places in ``classes``."""
        places: np.ndarray = np.searchsorted(self.classes, self.y)
        return places

    @property
    def labels(self) -> np.ndarray:
        """Labels from 0, in the order of a link."""
        labels: np.ndarray = swap_labels(self.places, self.n_classes)
        return labels

    @property
    def rows(self) -> np.ndarray:
        """Numbers of the rows that count."""
        return np.flatnonzero(self.weight > 0)

    def without(self, rows: np.ndarray) -> Self:
        """The same, but some rows do not count."""
        weight = self.weight.copy()
        weight[rows] = 0.0
        return self._replace(weight=weight)

    def normalize(self) -> Self:
        """The same with weights up to 1: only ratios matter, and sums must not overflow."""
        return self._replace(weight=self.weight / self.weight.max())


def check_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None, *, partial: bool = False, **options: Any
) -> FitData:
    """Check features, labels or soft labels, and weights; part of the data must have labels, and may be of one class."""
    options["order"] = "C"
    soft = None if partial else SoftLabels.read(y)
    copies = None
    if soft is not None:
        X = check_features(estimator, X, **options)
        n_rows = X.shape[0]
        X, y, weight = soft.apply(X, check_sample_weight(sample_weight, X), estimator.class_weight)
        copies = soft.row if soft.has_copies else None
    else:
        check_labels(y)
        X, y = check_features(estimator, X, y, **options)
        check_classification_targets(y)
        n_rows = X.shape[0]
        weight = apply_class_weight(estimator.class_weight, y, check_sample_weight(sample_weight, X))
    groups = None if groups is None else check_groups(groups, n_rows)
    classes = np.unique(y)
    if len(classes) < 2 and not partial:
        raise ValueError(
            f"fit needs samples of at least 2 classes, but the data contains only one class: {classes.tolist()[0]!r}."
        )
    return FitData(X, y, weight, classes, groups, copies)


def validation_split(
    rows: np.ndarray,
    labels: np.ndarray,
    fraction: float,
    seed: int,
    copies: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows into a training and a validation set, stratified by class.

    ``copies[i]`` is the row that row ``i`` of the table is a copy of; copies stay together, and so do rows of a group.
    ``groups`` are those of the rows without copies.
    """
    if copies is not None:
        originals, first = np.unique(copies[rows], return_index=True)
        train, held_out = validation_split(originals, labels[first], fraction, seed, groups=groups)
        return rows[np.isin(copies[rows], train)], rows[np.isin(copies[rows], held_out)]
    if groups is not None:
        return _hold_out_groups(rows, labels, fraction, seed, groups[rows])
    try:
        train, held_out = train_test_split(rows, test_size=fraction, stratify=labels, random_state=seed)
    except ValueError as error:
        counts = np.unique(labels, return_counts=True)[1]
        if counts.min() < 2:
            why = "a class has one row, but needs two, one to hold out and one to fit; leave out that row, or hold out none."
        else:
            held = math.ceil(fraction * len(rows))
            why = (
                f"that is {held}, but at least {len(counts)} are needed, one of each class, and as many to fit; give another "
                "share, or hold out none."
            )
        raise ParameterError(
            "early_stopping", f"cannot hold out a share of {fraction:g} of {len(rows)} rows: {why}"
        ) from error
    return train, held_out


def _hold_out_groups(
    rows: np.ndarray, labels: np.ndarray, fraction: float, seed: int, groups: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same for groups: of some draws, the one that holds out a share of every class that is nearest to the fraction."""
    classes, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    n_groups, splits = len(np.unique(groups)), []
    if 0 < math.ceil(fraction * n_groups) < n_groups:
        splitter = GroupShuffleSplit(_GROUP_DRAWS, test_size=fraction, random_state=seed)
        for train, held_out in splitter.split(rows, groups=groups):
            held = np.bincount(place[held_out], minlength=len(classes))
            if (held < counts).all():
                splits.append((float(np.abs(held - fraction * counts).sum()), train, held_out))
    if not splits:
        raise ParameterError(
            "early_stopping",
            f"cannot hold out a share of {fraction:g} of {n_groups} groups and leave rows of every class to fit; give "
            "another share, or hold out none.",
        )
    _, train, held_out = min(splits, key=lambda split: split[0])
    return rows[train], rows[held_out]


# --- soft labels ---


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
        check_collected(name, y)
        if isinstance(y, list | tuple) and y and isinstance(y[0], list | tuple | np.ndarray):
            y = np.asarray(y)
        if len(getattr(y, "shape", ())) != 2 or y.shape[1] < 2 or hasattr(y, "tocsr"):
            return None
        if holds_dates(np.asarray(y)):
            raise ValueError("Unknown label type: y holds dates, times or durations, which are no shares of classes.")
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
