"""Columns whose values are not like those of the fit: unknown, missing, or far outside the range."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from typing import Any, Self

#: Values unlike those of the fit are worth a warning if all are, or half of them and twice the usual share, and if equal
#: shares are 10,000 times less likely than different ones.
_MOST, _TIMES, _LESS_LIKELY = 0.5, 2.0, 1e-4
#: Columns that a warning names.
_NAMED = 5


class DriftWarning(UserWarning):
    """Most values of a column are unknown, missing, or far outside the range of the fit.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", DriftWarning)  # no word about it
    """


@dataclass(frozen=True)
class Tally:
    """How many values of a column are not like those of the fit."""

    column: str  #: its name
    problem: str  #: what is counted: ``"unknown"``, ``"missing"`` or ``"outside"``
    words: str  #: the same in words, after the numbers
    usual: float  #: the share of such values in the fit; not 0 or 1, though there may have been none
    rows: float  #: of so many values; infinite if the share is known otherwise
    values: int  #: such values
    of: int  #: of so many

    @property
    def is_drift(self) -> bool:
        """Whether these are most values, and more than chance explains by the ratio of likelihoods."""
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
        return f"{self.column}: {self.values:,} of {self.of:,} values {self.words}"

    def to_dict(self) -> dict[str, Any]:
        """Return what ``--json`` says."""
        return {"column": self.column, "problem": self.problem, "values": self.values, "of": self.of, "text": str(self)}


def _divergence(share: float, other: float) -> float:
    """Kullback-Leibler divergence of two shares; the second is not 0 or 1."""
    parts = ((share, other), (1.0 - share, 1.0 - other))
    return sum(one * math.log(one / two) for one, two in parts if one > 0.0)


def usual_share(count: int, rows: int) -> float:
    """Return the share of such values if so many of these rows have them; not 0 or 1, by half a row more of both kinds."""
    return (count + 0.5) / (rows + 1.0)


class DriftWatch:
    """Inside the block, tables that are encoded are counted here, and give no warning."""

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
        """Columns whose values are not like those of the fit."""
        return [tally for tally in self.tallies.values() if tally.is_drift]


_WATCH: ContextVar[DriftWatch | None] = ContextVar("_WATCH", default=None)


def tell_drift(tallies: list[Tally]) -> None:
    """Hand the counts of a table to who watches, or else give one warning if there is a reason to."""
    if (watch := _WATCH.get()) is not None:
        watch.add(tallies)
        return
    if found := [str(tally) for tally in tallies if tally.is_drift]:
        more = f"; and {len(found) - _NAMED} more columns" if len(found) > _NAMED else ""
        warnings.warn(
            f"the table is unlike the training data. {'; '.join(found[:_NAMED])}{more}.", DriftWarning, stacklevel=3
        )
