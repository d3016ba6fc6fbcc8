"""Columns whose values are unlike the training data: unknown, missing, or out of the usual range.

The usual range of a column of numbers is that between its 5 % and its 95 % quantile in the training data. Every distribution
has one, also with heavy tails, or a few distinct values.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from legendretron._internal.fields import array, check_fields, integer
from legendretron._internal.printable import one_line

#: Share of the training data below the usual range of a column, and above it, at most.
TAIL = 0.05
#: Share of the values that must be affected. A row whose category is unknown, or whose value is missing, is predicted without
#: that column: one in ten is worth a warning. Numbers are still used, and rows of one kind, such as a class, may well lie to
#: one side: their median must be out of the usual range.
_LEAST = {"unknown": 0.1, "missing": 0.1, "below": 0.5, "above": 0.5, "outside": 0.5}
#: A warning also needs twice the share in the training data, or all values,
_TIMES = 2.0
#: and a likelihood ratio of 10,000 against equal shares: by chance, one column in 50,000 has it.
_LESS_LIKELY = 1e-4
#: Columns that a warning names.
_NAMED = 5
#: Numbers of a table that its usual ranges are found from, and rows of them at least.
_MOST_NUMBERS, _LEAST_ROWS = 2_000_000, 200


class DriftWarning(UserWarning):
    """Warning that many values of a column are unknown, missing, or out of the usual range of the training data.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", DriftWarning)
    """


@dataclass(frozen=True)
class Tally:
    """Number of values of a column that are unlike the training data."""

    column: str  #: its name
    problem: (
        str  #: what is counted: ``"unknown"``, ``"missing"``, ``"below"`` and ``"above"``, or of dates ``"outside"``
    )
    words: str  #: the end of the message, after the numbers
    usual: float  #: share of such values in the training data; smoothed, so never 0 or 1
    rows: int  #: rows of the training data
    values: int  #: number of such values
    of: int  #: number of all values

    @property
    def is_drift(self) -> bool:
        """Whether many values are affected, and more than chance explains, by a likelihood ratio."""
        share = self.values / self.of if self.of else 0.0
        if share < min(max(_LEAST[self.problem], _TIMES * self.usual), 1.0):
            return False
        both = (self.usual * self.rows + self.values) / (self.rows + self.of)
        surprise = self.rows * _divergence(self.usual, both) + self.of * _divergence(share, both)
        return surprise > -math.log(_LESS_LIKELY)

    def __str__(self) -> str:
        """Return a sentence without a full stop."""
        return f"{one_line(self.column)}: {self.values:,} of {self.of:,} values {self.words}"

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of ``--json``."""
        return {"column": self.column, "problem": self.problem, "values": self.values, "of": self.of, "text": str(self)}


def _divergence(share: float, other: float) -> float:
    """Kullback-Leibler divergence of two shares; the second is not 0 or 1."""
    parts = ((share, other), (1.0 - share, 1.0 - other))
    return sum(one * math.log(one / two) for one, two in parts if one > 0.0)


def usual_share(count: int, rows: int) -> float:
    """Return ``count / rows``, smoothed by half a row of either kind, so that it is never 0 or 1."""
    return (count + 0.5) / (rows + 1.0)


class DriftWatch:
    """A context in which tables that are encoded are counted, and give no warning."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str], Tally] = {}  #: sums over all tables, by column and problem

    def __enter__(self) -> Self:
        self._token: Token[DriftWatch | None] = _WATCH.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _WATCH.reset(self._token)

    def add(self, tallies: Iterable[Tally]) -> None:
        """Add the counts of more rows."""
        for new in tallies:
            key = new.column, new.problem
            if (old := self.tallies.get(key)) is not None:
                new = replace(new, values=old.values + new.values, of=old.of + new.of)
            self.tallies[key] = new

    @property
    def found(self) -> list[Tally]:
        """Columns whose values are unlike the training data."""
        return [tally for tally in self.tallies.values() if tally.is_drift]


_WATCH: ContextVar[DriftWatch | None] = ContextVar("_WATCH", default=None)


def tell_drift(tallies: list[Tally]) -> None:
    """Pass the counts of a table to the active :class:`DriftWatch`; without one, warn if columns have drifted."""
    if (watch := _WATCH.get()) is not None:
        watch.add(tallies)
        return
    if found := [str(tally) for tally in tallies if tally.is_drift]:
        more = f"; and {len(found) - _NAMED} more columns" if len(found) > _NAMED else ""
        warnings.warn(
            f"the table is unlike the training data. {'; '.join(found[:_NAMED])}{more}.", DriftWarning, stacklevel=3
        )


def find_usual_range(numbers: np.ndarray) -> np.ndarray:
    """Return both ends of the usual range of numbers ``(n, ...)``, as an array ``(2, ...)``.

    Examples
    --------
    >>> find_usual_range(np.arange(100)).tolist()
    [5.0, 94.0]
    """
    tail = int(TAIL * len(numbers))
    ends = [tail, len(numbers) - 1 - tail]
    return np.partition(numbers, ends, axis=0)[ends].astype(np.float64)


class UsualRanges(NamedTuple):
    """Usual ranges of d features; infinite for one whose values are all the same, which says nothing about how far is far."""

    low: np.ndarray  #: (d,), of the training values at most a share ``TAIL`` is lower
    high: np.ndarray  #: (d,), and at most that share is higher
    rows: int  #: from which they were found

    @classmethod
    def of(cls, X: Any) -> Self | None:
        """Find those of features ``(n, d)``; None for sparse features."""
        if hasattr(X, "tocsr"):
            return None
        most = max(_MOST_NUMBERS // max(X.shape[1], 1), _LEAST_ROWS)
        some = np.asarray(X[:: -(-len(X) // most)])
        constant, (low, high) = some.min(0) == some.max(0), find_usual_range(some)
        return cls(np.where(constant, -np.inf, low), np.where(constant, np.inf, high), len(some))

    def to_state(self) -> dict[str, Any]:
        """Return the fields by name."""
        return self._asdict()

    @classmethod
    def from_state(cls, state: Any, n_features: int) -> Self:
        """Rebuild from :meth:`to_state`; anything else raises a ``ValueError``."""
        edges = array(n_features, finite=False)
        check_fields("usual", state, {"low": edges, "high": edges, "rows": integer(1)})
        low, high = (np.asarray(state[name]) for name in ("low", "high"))
        if not (low <= high).all():
            raise ValueError("low of usual must not be above high.")
        return cls(low, high, state["rows"])


def feature_tallies(estimator: Any, X: Any) -> list[Tally]:
    """Count the numbers of each feature that are out of the usual range of the data an estimator was fitted to.

    Where that is not known, as for sparse features, nothing is counted.
    """
    usual: UsualRanges | None = estimator._usual
    if usual is None or hasattr(X, "tocsr"):
        return []
    numbers = np.asarray(X)
    names = getattr(estimator, "feature_names_in_", [f"column {place}" for place in range(len(usual.low))])
    below, above = (np.count_nonzero(odd, axis=0).tolist() for odd in (numbers < usual.low, numbers > usual.high))
    ranges = [f"{low:.4g} to {high:.4g}" for low, high in zip(usual.low.tolist(), usual.high.tolist(), strict=True)]
    found = zip(map(str, names), ranges, below, above, strict=True)
    return [
        tally
        for name, span, n_below, n_above in found
        for tally in count_tails(name, span, usual.rows, n_below, n_above, len(numbers))
    ]


def count_tails(column: str, span: str, rows: int, below: int, above: int, of: int) -> list[Tally]:
    """Return the counts of values below and above the usual range, which is given as text."""
    usual = usual_share(int(TAIL * rows), rows)
    return [
        Tally(column, side, f"{side} the usual range of the fit, {span}", usual, rows, count, of)
        for side, count in (("below", below), ("above", above))
    ]
