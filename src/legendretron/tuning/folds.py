"""Stratified folds to choose strengths by.

With many classes, stratified folds make held-out losses a little too low. That is the same for all strengths, so the choice
is the same as with random folds.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, check_cv

from legendretron._internal.parameters import ParameterError
from legendretron.tuning.rules import FOLDS, ONE_SPLIT_FROM, REPEATS, TOLD_APART

Fold = tuple[np.ndarray, np.ndarray]
#: Letters of an argument that a message has room for.
_LONGEST = 100


def make_folds(
    cv: Any, X: Any, y: np.ndarray, rows: np.ndarray, groups: Any, seed: int, copies: np.ndarray | None = None
) -> list[Fold]:
    """Training and held-out rows of each fold; none if there are too few rows to hold any out.

    ``cv`` is as in scikit-learn, with ``None`` for five folds, several times over for small data, or one split of large data.
    ``rows`` are those that count, and ``groups`` those whose rows must not be divided. If some of the n rows are copies of
    one, ``copies`` has the number of that one, from 0 and rising; copies are not divided. ``cv`` and ``groups`` are then
    about the rows without copies, and their labels are those of the first copies.
    """
    if copies is None:
        splits = _split(cv, X, y, rows, groups, seed)
    else:
        first = np.unique(copies, return_index=True)[1]
        folds = make_folds(cv, X[first], y[first], np.unique(copies[rows]), groups, seed)
        splits = [(rows[np.isin(copies[rows], a)], rows[np.isin(copies[rows], b)]) for a, b in folds]
    checked = []
    for train, held in splits:
        seen = np.unique(y[train])
        held = held[np.isin(y[held], seen)]  # of other classes, a model knows nothing
        if len(seen) >= 2 and len(held):
            checked.append((train, held))
    return checked


def given_splits(cv: Any, X: Any, y: np.ndarray, groups: Any = None) -> list[Fold]:
    """Splits as ``cv`` gives them: a number of folds, a splitter of scikit-learn, or pairs of row numbers or of masks.

    A number of folds, which is five if it is None, keeps the rows of a group together.
    """
    if groups is not None:
        groups = check_groups(groups, len(y))
    if cv is None or isinstance(cv, int | np.integer):
        cv = check_cv(cv, y, classifier=True)
        if groups is not None:
            cv = StratifiedGroupKFold(min(cv.get_n_splits(), _count_groups(groups)))
    if isinstance(cv, str | bytes | type) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise _cv_error(cv)
    splits: list[Fold] = []
    for split in cv.split(X, y, groups) if hasattr(cv, "split") else cv:
        if not (isinstance(split, tuple | list) and len(split) == 2):
            raise _cv_error(cv)
        train, held = (np.asarray(part) for part in split)
        for part in (train, held):
            whole = part.shape == y.shape if part.dtype == bool else part.ndim == 1 and part.dtype.kind in "iu"
            if not whole or (part.dtype != bool and ((part < 0) | (part >= len(y))).any()):
                raise _cv_error(cv, f", of the {len(y)} rows")
        splits.append((_numbers(train), _numbers(held)))
    if not splits:
        raise _cv_error(cv)
    return splits


def check_groups(groups: Any, n_rows: int) -> np.ndarray:
    """Return groups as an array, or raise a ``ValueError`` if there is not one for each row."""
    groups = np.asarray(groups)
    if groups.shape != (n_rows,):
        raise ValueError(f"groups must have one entry per row, {n_rows}, got shape {groups.shape}.")
    return groups


def _count_groups(groups: np.ndarray) -> int:
    """Number of groups, or a ``ValueError`` if there is only one."""
    if (count := len(np.unique(groups))) < 2:
        raise ValueError("groups has only 1 distinct value, but cross-validation needs at least 2.")
    return count


def _numbers(part: np.ndarray) -> np.ndarray:
    return np.flatnonzero(part) if part.dtype == bool else part.astype(np.int64)


def _cv_error(cv: Any, of_rows: str = "") -> ParameterError:
    return ParameterError(
        "cv",
        "must be a number of folds, a splitter of scikit-learn, or pairs of the numbers of training and held-out rows"
        f"{of_rows}, got {short_repr(cv)}.",
    )


def short_repr(cv: Any) -> str:
    """How an argument is written, with the middle left out if it is long.

    Examples
    --------
    >>> short_repr(5), len(short_repr([range(100)] * 100)) < 100
    ('5', True)
    """
    text = repr(cv)
    return text if len(text) <= _LONGEST else reprlib.repr(cv)


def _split(cv: Any, X: Any, y: np.ndarray, rows: np.ndarray, groups: Any, seed: int) -> list[Fold]:
    labels = y[rows]
    counts = np.unique(labels, return_counts=True)[1]
    if groups is not None:
        groups = check_groups(groups, len(y))
    if not (cv is None or isinstance(cv, int | np.integer)):
        given = given_splits(cv, X, y, groups)
        return [(train[np.isin(train, rows)], held[np.isin(held, rows)]) for train, held in given]
    n_folds = FOLDS if cv is None else int(cv)
    if n_folds < 2:
        raise ValueError(f"cv must be at least 2 folds, got {cv!r}.")
    n_groups = n_folds if groups is None else _count_groups(groups[rows])
    n_folds = min(n_folds, n_groups, int(counts.max()))
    if n_folds < 2:  # every class has a single row
        return []
    if groups is not None:
        splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
        return [(rows[a], rows[b]) for a, b in splitter.split(np.zeros(len(rows)), labels, groups[rows])]
    # fits are cheap if there are few rows, and no more parameters
    repeated = cv is None and (X.shape[1] + 1) * (len(counts) - 1) <= len(rows) < TOLD_APART
    folds = np.empty(len(labels), dtype=np.int64)
    random = np.random.RandomState(seed)
    splits: list[Fold] = []
    for _ in range(REPEATS if repeated else 1):
        # unlike scikit-learn's, also for classes with fewer rows than folds: one fold after the other, through all
        # classes, so that sizes of folds differ by one at most
        order = np.lexsort((random.permutation(len(labels)), labels))
        folds[order] = np.arange(len(labels)) % n_folds
        splits += [(rows[folds != k], rows[folds == k]) for k in range(n_folds)]
    return splits[:1] if cv is None and len(rows) >= ONE_SPLIT_FROM else splits
