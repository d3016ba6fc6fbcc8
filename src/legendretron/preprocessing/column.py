"""One fitted column of a table: what it becomes."""

from __future__ import annotations

import functools
import reprlib
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from legendretron._internal.fields import (
    BOOLEAN,
    OBJECT,
    TEXT,
    check_fields,
    integer,
    list_of,
    number,
    one_of,
    optional,
)
from legendretron._internal.numbers import marks_of
from legendretron.preprocessing.drift import Tally, count_tails, usual_share
from legendretron.preprocessing.values import DATE_KINDS, Values, dates_of, numbers_of, read_values, texts_of

#: What a column can be.
KINDS = ("number", "boolean", *DATE_KINDS, "categories", "identifier", "empty")
_FORMS = {
    "date": " as year-month-day",
    "day-first date": " as day.month.year or year-month-day",
    "month-first date": " as month/day/year or year-month-day",
}
_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}

_FIELDS = {
    "name": TEXT,
    "kind": one_of(*KINDS),
    **dict.fromkeys(("gaps", "pooled", "rows", "rare_rows"), integer(0)),
    **dict.fromkeys(("mean", "low", "high", "usual_low", "usual_high"), number()),
    "categories": list_of(optional(TEXT)),
    "constant": BOOLEAN,
}


@dataclass(frozen=True)
class FittedColumn:
    """A column as the training data showed it.

    Numbers, truth values and dates become one column of numbers, and if there are gaps a second one that says where;
    categories one column each. Identifiers, of which nearly all values are different, and columns without a value are left
    out.
    """

    name: str
    kind: str  #: one of ``KINDS``; of dates it says how text is read
    gaps: int = 0  #: rows without a value
    mean: float = 0.0  #: what a gap becomes; 0 for the other kinds
    categories: tuple[str | None, ...] = ()  #: those that have a column of their own, sorted; None is the gap
    #: different values that share one more column, with unknown ones; if 0, there is none, and an unknown value is 0 in all
    pooled: int = 0
    constant: bool = False  #: whether the values, gaps left aside, are all the same
    rows: int = 0  #: of the fit
    rare_rows: int = 0  #: those with a category so rare that with one row less it would be pooled, or unknown
    low: float = 0.0  #: the smallest number; 0 for the other kinds
    high: float = 0.0  #: the largest number
    usual_low: float = 0.0  #: the usual range of numbers, see :mod:`legendretron.preprocessing.drift`
    usual_high: float = 0.0

    def to_state(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Rebuild from :meth:`to_state`; anything else raises a ``ValueError`` that names the attribute."""
        check_fields("a column of the encoder", state, _FIELDS)
        numbers = {name: float(state[name]) for name in ("mean", "low", "high", "usual_low", "usual_high")}
        column = cls(**{**state, **numbers, "categories": tuple(state["categories"])})
        name, categories = column.name, column.categories
        if (column.kind == "categories") != bool(categories) or (column.pooled and not categories):
            raise ValueError(f"column {name!r} must have categories if, and only if, it is of kind 'categories'.")
        if len(set(categories)) != len(categories):
            raise ValueError(f"categories of {name!r} must be different texts, got {reprlib.repr(categories)}.")
        if column.low > column.high:
            raise ValueError(f"low of {name!r} must not be above high, got {column.low} and {column.high}.")
        if column.usual_low > column.usual_high:
            raise ValueError(
                f"usual_low of {name!r} must not be above usual_high, got {column.usual_low} and {column.usual_high}."
            )
        if column.gaps + column.rare_rows > column.rows:
            raise ValueError(
                f"gaps and rare_rows of {name!r} must be some of its rows, {column.rows}, got {column.gaps} and "
                f"{column.rare_rows}."
            )
        return column

    @property
    def is_left_out(self) -> bool:
        """Whether nothing becomes of it."""
        return self.kind in ("identifier", "empty")

    @property
    def is_date(self) -> bool:
        """Whether it holds dates, in whichever form they are written."""
        return self.kind in DATE_KINDS

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that it becomes."""
        missing = f"{self.name} is missing"
        if self.is_left_out:
            return []
        if self.kind == "categories":
            own = [missing if text is None else f"{self.name}={text}" for text in self.categories]
            return [*own, f"{self.name}=(other)"] if self.pooled else own
        own = [f"{self.name} (days since 1970-01-01)" if self.is_date else self.name]
        return [*own, missing] if self.gaps else own

    def encode(self, column: Any) -> tuple[np.ndarray, list[Tally]]:
        """Return the columns that a column of a data frame becomes, of shape (n, number of outputs).

        And how many of its values are missing, and how many are unknown or out of the usual range.
        """
        if self.kind == "categories":
            texts = texts_of(self.name, column)
            places = [self.places.get(text, self.elsewhere) for text in texts.different]
            of_gap = self.places.get(None, self.elsewhere)
            own = np.append(places, of_gap).astype(np.intp)[texts.codes]
            encoded: np.ndarray = own[:, None] == np.arange(len(self.outputs))
            gaps = texts.codes < 0
            unknown = int(((own == self.elsewhere) & ~gaps).sum())
            words = "unknown, or rare in the fit" if self.pooled else "unknown"
            present = self.rows - self.gaps
            usual = usual_share(self.rare_rows, present)
            odd = [Tally(self.name, "unknown", words, usual, present, unknown, int((~gaps).sum()))]
            return encoded, [self._count_gaps(gaps), *odd]
        numbers = self._numbers(read_values(self.name, column))
        gaps = np.isnan(numbers)
        values = np.where(gaps, self.mean, numbers)
        encoded = np.column_stack([values, gaps]) if self.gaps else values[:, None]
        return encoded, [self._count_gaps(gaps), *self._count_far(numbers[~gaps])]

    def _count_gaps(self, gaps: np.ndarray) -> Tally:
        words = f"missing ({self.gaps:,} of {self.rows:,} in the fit)" if self.gaps else "missing"
        usual = usual_share(self.gaps, self.rows)
        return Tally(self.name, "missing", words, usual, self.rows, int(gaps.sum()), len(gaps))

    def _count_far(self, numbers: np.ndarray) -> list[Tally]:
        """Counts of numbers, without gaps, that are out of the usual range; of dates, far outside the range."""
        present = self.rows - self.gaps
        if self.constant:  # says nothing about how far is far
            return []
        if self.kind == "number":
            below, above = (int(odd.sum()) for odd in (numbers < self.usual_low, numbers > self.usual_high))
            span = f"{self.usual_low:.4g} to {self.usual_high:.4g}"
            return count_tails(self.name, span, present, below, above, len(numbers))
        if not self.is_date:
            return []
        # new rows are later than those of the fit as a rule, but not by more than all of these span
        width = self.high - self.low
        far = int(((numbers < self.low - width) | (numbers > self.high + width)).sum())
        low, high = (np.datetime64(int(day // 1), "D") for day in (self.low, self.high))
        words = f"far outside the range of the fit, {low} to {high}"
        return [Tally(self.name, "outside", words, usual_share(0, present), present, far, len(numbers))]

    @functools.cached_property
    def places(self) -> dict[str | None, int]:
        """Which output each category has."""
        return {text: place for place, text in enumerate(self.categories)}

    @property
    def elsewhere(self) -> int:
        """Which output all other values have; there is none of this number if nothing was pooled."""
        return len(self.categories)

    def _numbers(self, values: Values) -> np.ndarray:
        """Numbers of a column that has them, also if they come as text; a ``ValueError`` if not all are of the kind."""
        if values.kind == ("date" if self.is_date else self.kind) or values.gaps.all():
            return values.numbers if values.texts is None else np.full(len(values.texts.codes), np.nan)
        if values.texts is None:
            fits = self.kind == "number" or np.isin(values.numbers[~values.gaps], (0.0, 1.0)).all()
            if self.is_date or values.kind == "date" or not fits:
                numbers = "numbers other than 0 and 1" if self.kind == "boolean" else "numbers"
                raise self._make_error({"date": "dates", "number": numbers, "boolean": "true and false"}[values.kind])
            return values.numbers
        different = values.texts.different
        if self.kind == "number":
            found = numbers_of(different)
        elif self.is_date:
            found = dates_of(different, self.kind)
        else:
            found = np.array([_TRUTH.get(text.lower(), np.nan) for text in different])
        if not np.isfinite(found).all():
            raise self._make_error(repr(different[int(np.isfinite(found).argmin())]), is_text=True)
        return np.append(found, np.nan)[values.texts.codes]

    def _make_error(self, what: str, is_text: bool = False) -> ValueError:
        known = "dates" if self.is_date else {"number": "numbers", "boolean": "true and false"}[self.kind]
        holds = f"holds the text {what}" if is_text else f"holds {what}"
        marks = ""
        if is_text and self.kind == "number" and (found := marks_of([what.strip("'")])) is not None:
            marks = f", or read the file with {found.in_words}"
        return ValueError(
            f"column {self.name!r} held {known} in the fit, but now {holds}; write {known}{_FORMS.get(self.kind, '')} "
            f"there, or nothing where the value is missing{marks}."
        )


#: Fields of the state of an encoder.
_ENCODER = {
    "categorical": list_of(TEXT),
    "max_categories": integer(2),
    "columns": list_of(OBJECT, least=1),
    "has_names": BOOLEAN,
    "single": BOOLEAN,
}


def columns_from_state(state: Any) -> tuple[FittedColumn, ...]:
    """Return the columns of an encoder from its state, all of which is checked, or raise a ``ValueError``."""
    check_fields("encoder", state, _ENCODER)
    columns = tuple(map(FittedColumn.from_state, state["columns"]))
    names, most = [column.name for column in columns], state["max_categories"]
    if len(set(names)) != len(names):
        raise ValueError(f"columns of encoder must have different names, got {reprlib.repr(names)}.")
    if wide := [column.name for column in columns if column.kind == "categories" and len(column.outputs) > most]:
        raise ValueError(f"categories of {wide[0]!r} must be 1 to {most} different texts.")
    if all(column.is_left_out for column in columns):
        raise ValueError("columns of encoder must not all be left out.")
    return columns
