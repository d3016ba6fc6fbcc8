"""Checks of every row that is read; bad ones are an error, or left out and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from legendretron._internal.labels import missing_labels
from legendretron._internal.parameters import spell
from legendretron.streaming.source import ROWS_OF_A_FILE, Batch

#: What rows are picked for; choices for different purposes are independent.
HELD_OUT, SAMPLE = 1, 2


def row_share(row_numbers: np.ndarray, seed: int, purpose: int) -> np.ndarray:
    """A number in [0, 1) for each row, by the finaliser of splitmix64; rows below a share are picked.

    It depends on the number of the row and the seed alone: not on batches, files' order of reading or epochs.

    Examples
    --------
    >>> share = row_share(np.arange(100_000), seed=0, purpose=HELD_OUT)
    >>> round(float((share < 0.1).mean()), 2)
    0.1
    """
    start = (int(seed) * 0x9E3779B97F4A7C15 + int(purpose) * 0xD1B54A32D192ED03) % 2**64
    with np.errstate(over="ignore"):
        z = row_numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


#: Bad rows of which is told where they are.
_MOST_TOLD = 3


class BadRowError(ValueError):
    """A row of a source cannot be used: a value is missing or not finite.

    Examples
    --------
    >>> raise BadRowError("row 7 has no age; skip_bad_rows leaves such rows out")
    Traceback (most recent call last):
    legendretron.streaming.row_check.BadRowError: row 7 has no age; skip_bad_rows leaves such rows out
    """


class RowCheck:
    """Checks the batches of one pass, and leaves out bad rows as long as there are not too many."""

    def __init__(self, feature_names: tuple[str, ...] | None = None, skip_bad_rows: int = 0) -> None:
        self._names, self._most = feature_names, skip_bad_rows
        self._n_features: int | None = None if feature_names is None else len(feature_names)
        self.n_skipped = 0  #: how many have been left out
        self.skipped: list[str] = []  #: what was wrong with the first three of them, and where they are
        self.labels: set[Any] = set()  #: their labels

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch without bad rows, perhaps an empty one, or raise a :class:`BadRowError` that names the place."""
        d = int(batch.X.shape[1])
        if self._n_features is None:
            self._n_features = d
        if d != self._n_features:
            raise ValueError(f"{_place(batch)}has {d} features, but batches before it have {self._n_features}.")
        bad = ~_finite_rows(batch.X)
        if batch.y is not None:
            bad |= missing_labels(batch.y)
        if batch.weight is not None:
            bad |= ~(np.isfinite(batch.weight) & (batch.weight >= 0.0))
        if batch.faults:
            bad |= np.isin(batch.row_numbers, list(batch.faults))
        if not bad.any():
            return batch
        places, before = np.flatnonzero(bad), self.n_skipped
        self.n_skipped += len(places)
        if self.n_skipped > self._most:
            raise BadRowError(
                f"{self._fault(batch, int(places[self._most - before]))}; repair or leave out the row, or allow more rows to "
                f"be left out by {spell('skip_bad_rows')}, got {self._most}."
            )
        self.skipped += [self._fault(batch, int(row)) for row in places[: _MOST_TOLD - len(self.skipped)]]
        if batch.y is not None:
            self.labels |= {*batch.y[bad & ~missing_labels(batch.y)].tolist()}
        return batch.take(~bad)

    def _fault(self, batch: Batch, row: int) -> str:
        """What is wrong with a row, and where it is."""
        if (known := batch.faults.get(int(batch.row_numbers[row]))) is not None:
            return f"{_place(batch)}{known}"
        values = batch.X[[row]].toarray()[0] if scipy.sparse.issparse(batch.X) else batch.X[row]
        wrong = np.flatnonzero(~np.isfinite(values))
        number = int(batch.row_numbers[row]) % ROWS_OF_A_FILE
        if len(wrong):
            column = f"column {self._names[wrong[0]]!r}" if self._names is not None else f"feature {wrong[0]}"
            fault = f"{column} holds {'a missing value (NaN)' if np.isnan(values[wrong[0]]) else 'an infinite value'}"
        elif batch.y is not None and missing_labels(batch.y[[row]])[0]:
            fault = "the label is missing"
        else:
            assert batch.weight is not None
            fault = f"the weight is {batch.weight[row]}, which is not a finite number from 0 up"
        return f"{_place(batch)}{fault} in row {number} (from 0)"


def _place(batch: Batch) -> str:
    return f"{batch.origin}: " if batch.origin else ""


def _finite_rows(X: Any) -> np.ndarray:
    """Which rows hold finite numbers only."""
    if scipy.sparse.issparse(X):
        rows = np.ones(X.shape[0], dtype=bool)
        entries = np.flatnonzero(~np.isfinite(X.data))
        rows[np.searchsorted(X.indptr, entries, side="right") - 1] = False
        return rows
    with np.errstate(over="ignore", invalid="ignore"):
        sums = X.sum(axis=1, dtype=np.float64)
    # a sum of finite numbers is finite unless they are huge
    finite: np.ndarray = np.isfinite(sums)
    if not finite.all():
        finite[~finite] = np.isfinite(X[~finite]).all(axis=1)
    return finite
