"""Columns whose values are unlike the training data: unknown, missing, or far outside the range."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from legendretron._internal.printable import one_line

#: A warning needs half of the values and twice the share in the training data (or all values), and a likelihood ratio of
#: 10,000 against equal shares.
_MOST, _TIMES, _LESS_LIKELY = 0.5, 2.0, 1e-4
#: Columns that a warning names.
_NAMED = 5
#: Standard deviations from the mean beyond which a number is far. At most a 25th of the numbers of any distribution are.
_FAR = 5.0


class DriftWarning(UserWarning):
    """Warning that most values of a column are unknown, missing, or far outside the range of the training data.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", DriftWarning)
    """


@dataclass(frozen=True)
class Tally:
    """Number of values of a column that are unlike the training data."""

    column: str  #: its name
    problem: str  #: what is counted: ``"unknown"``, ``"missing"`` or ``"outside"``
    words: str  #: the end of the message, after the numbers
    usual: float  #: share of such values in the training data; smoothed, so never 0 or 1
    rows: float  #: rows of the training data; infinite if the share is known
    values: int  #: number of such values
    of: int  #: number of all values

    @property
    def is_drift(self) -> bool:
        """Whether most values are affected, and more than chance explains, by a likelihood ratio."""
        share = self.values / self.of if self.of else 0.0
        if share < min(max(_MOST, _TIMES * self.usual), 1.0):
            return False
        if math.isinf(self.rows):
            return self.of * _divergence(share, self.usual) > -math.log(_LESS_LIKELY)
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


def feature_tallies(estimator: Any, X: Any) -> list[Tally]:
    """Count the numbers of each feature that are far from those that a linear classifier was fitted to.

    It knows their means and standard deviations. Without these, as for sparse features, nothing is counted.
    """
    mean, scale = estimator._standardized.mean, estimator._standardized.scale
    if hasattr(X, "tocsr") or not mean.any():
        return []
    numbers = np.asarray(X)
    far = np.zeros(len(mean), dtype=np.int64)
    extremes = numbers.min(0, initial=math.inf), numbers.max(0, initial=-math.inf)
    inside = np.all([np.abs(values - mean) <= _FAR * scale for values in extremes], axis=0)
    for k in np.flatnonzero(~inside):  # few features have numbers so far away
        far[k] = np.count_nonzero(np.abs(numbers[:, k] - mean[k]) > _FAR * scale[k])
    names = getattr(estimator, "feature_names_in_", [f"column {place}" for place in range(len(mean))])
    return [
        Tally(
            str(name),
            "outside",
            f"more than {_FAR:g} standard deviations from the mean of the fit, {middle:.4g}",
            1.0 / _FAR**2,
            math.inf,
            int(count),
            len(numbers),
        )
        for name, middle, count in zip(names, mean.tolist(), far.tolist(), strict=True)
    ]
