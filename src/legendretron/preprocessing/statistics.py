"""What one pass over a table collects of a column, part by part, in bounded memory."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np

from legendretron._internal.numbers import Marks, lose_digits, marks_of
from legendretron._internal.parameters import spell
from legendretron.preprocessing.column import FittedColumn
from legendretron.preprocessing.drift import find_usual_range
from legendretron.preprocessing.values import (
    DATE_KINDS,
    Values,
    are_day_numbers,
    dates_of,
    find_dates,
    look_like_dates,
    look_like_other_dates,
    may_be_either,
    numbers_of,
)

#: Distinct values of a column that are counted; later ones are pooled.
MOST_COUNTED = 100_000
#: At least 20 values, 90 % distinct: an identifier.
_IDENTIFIER_SHARE, _IDENTIFIER_ROWS = 0.9, 20
#: Whole numbers count rows if their range is at most twice the number of rows.
_DENSE = 2.0
#: Text with at least 10 distinct numbers, or dates, and at most 3 other words is a column of these with marks of gaps.
_LEAST_NUMBERS, _MOST_WORDS = 10, 3
#: Numbers of a column that its usual range is found from, and the golden ratio, which says which they are.
_MOST_SAMPLED, _GOLDEN = 1_000, (math.sqrt(5.0) - 1.0) / 2.0
#: Signs before or after a number, such as those of currencies.
_WITH_SIGN = re.compile(r"[+-]?([$€£¥])? ?[+-]?[0-9][0-9.,' ]*(?(1)| ?(?:[$€£¥%‰]))")


class _Sample:
    """Some of the numbers that come in parts, at most ``_MOST_SAMPLED``; the parts make no difference.

    A number is kept if the fractional part of its place times the golden ratio is below a share. For any share, these places
    are spread evenly, whatever the period of the numbers.
    """

    def __init__(self) -> None:
        self.numbers, self._marks = np.empty(0), np.empty(0)
        self._seen, self._share = 0, 1.0

    def add(self, numbers: np.ndarray) -> None:
        """Take in more numbers."""
        marks = np.arange(self._seen, self._seen + len(numbers)) * _GOLDEN % 1.0
        self._seen += len(numbers)
        kept = marks < self._share
        self.numbers = np.concatenate([self.numbers, numbers[kept]])
        self._marks = np.concatenate([self._marks, marks[kept]])
        while len(self.numbers) > _MOST_SAMPLED:
            self._share /= 2
            kept = self._marks < self._share
            self.numbers, self._marks = self.numbers[kept], self._marks[kept]


class StrayTextError(ValueError):
    """A column of numbers or dates holds a few words; ``text`` is one of them."""

    def __init__(self, message: str, column: str, text: str) -> None:
        super().__init__(message)
        self.column, self.text = column, text


class _Mean:
    """Mean of numbers that come in parts; it cannot overflow."""

    def __init__(self) -> None:
        self.count, self.mean, self.low, self.high = 0, 0.0, np.inf, -np.inf

    def add(self, numbers: np.ndarray) -> None:
        """Take in more numbers, none of them NaN."""
        if len(numbers):
            before, self.count = self.count, self.count + len(numbers)
            self.mean = self.mean * (before / self.count) + float((numbers / self.count).sum())
            self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))


def _are_different(numbers: np.ndarray) -> bool:
    """Whether these are whole numbers, no two of them the same."""
    if len(numbers) == 0 or numbers.max() - numbers.min() < len(numbers) - 1:  # soon told
        return len(numbers) == 0
    return bool((numbers == np.floor(numbers)).all()) and len(np.unique(numbers)) == len(numbers)


class ColumnStatistics:
    """Statistics of a column."""

    def __init__(self, name: str, categorical: bool) -> None:
        self.name, self.categorical = name, categorical
        self.rows = self.gaps = 0
        self.kind: str | None = None  #: of all values so far
        self.single = True  #: whether all numbers are float32
        self.numbers, self.sample = _Mean(), _Sample()
        self.counts: dict[str, int] = {}
        self.uncounted = 0  #: rows of values that are not counted
        self.dates = {kind: _Mean() for kind in DATE_KINDS}  #: ways in which all texts so far are dates
        self.all_different = True  #: whether numbers are whole, and different in each part
        #: some of the numbers, if all of them may be days such as 20240531, else None
        self.day_numbers: set[float] | None = set()

    def check(self, values: Values) -> None:
        """Raise a ``ValueError`` for values of another kind than those before."""
        if self.kind not in (None, values.kind) and not values.gaps.all():
            if {self.kind, values.kind} == {"text", "number"}:  # perhaps numbers with a few words in them
                of_text = self if self.kind == "text" else ColumnStatistics(self.name, self.categorical)
                if of_text is not self:
                    of_text.add(values)
                of_text._check_words()
            raise ValueError(
                f"column {self.name!r} holds values of kind {self.kind} in the first rows, and {values.kind} in later ones; "
                f"convert them, or give {spell('categorical', self.name)}."
            )

    def add(self, values: Values) -> None:
        """Take in the values of more rows, which have been checked."""
        gaps = values.gaps
        if not gaps.all():
            self.kind = values.kind
        self.rows += len(gaps)
        self.gaps += int(gaps.sum())
        if values.texts is None:
            present = values.numbers[~gaps]
            self.numbers.add(present)
            self.sample.add(present)
            self.single &= values.single or bool(gaps.all())
            self.all_different = self.all_different and not gaps.any() and _are_different(values.numbers)
            if self.day_numbers is not None and not gaps.all():
                present = values.numbers[~gaps]
                is_day = values.kind == "number" and are_day_numbers(present)
                self.day_numbers = self.day_numbers | {*np.unique(present)[:_LEAST_NUMBERS]} if is_day else None
            return
        self.categorical |= values.declared
        amounts = np.bincount(values.texts.codes[~gaps], minlength=len(values.texts.different))
        for text, amount in zip(values.texts.different, amounts.tolist(), strict=True):
            if text in self.counts or len(self.counts) < MOST_COUNTED:
                self.counts[text] = self.counts.get(text, 0) + amount
            else:
                self.uncounted += amount
        if self.dates and not self.categorical and values.texts.different:
            self._add_dates(values.texts.different, amounts)

    def _add_dates(self, texts: list[str], amounts: np.ndarray) -> None:
        """Take in texts, and how often each occurs, in all ways in which they may be dates."""
        if not look_like_dates(texts):
            self.dates = {}
        for kind in tuple(self.dates):
            days = dates_of(texts, kind)
            if np.isfinite(days).all():
                self.dates[kind].add(np.repeat(days, amounts))
            else:
                del self.dates[kind]

    def fit_column(self, max_categories: int) -> FittedColumn:
        """Return what the column becomes, or raise a ``ValueError`` if that cannot be told."""
        if self.kind is None:
            return FittedColumn(self.name, "empty", self.gaps, rows=self.rows)
        if self.kind != "text":
            return self._of_numbers(self.kind, self.numbers)
        if not self.categorical:
            if self.date_kind is not None:
                return self._of_numbers(self.date_kind, self.dates[self.date_kind])
            if not self.holds_codes:
                self._check_words()
                self._check_dates()
            if self.is_identifier:
                return FittedColumn(self.name, "identifier", self.gaps, rows=self.rows)
        return self._of_categories(max_categories)

    @property
    def holds_codes(self) -> bool:
        """Whether texts are categories since they are digits with leading zeros, or lose digits as numbers."""
        if self.kind != "text" or self.categorical:
            return False
        if not all(text.isascii() and text.isdigit() for text in self.counts):
            return False
        return self.padded_code is not None or lose_digits(self.counts)

    @property
    def padded_code(self) -> str | None:
        """The first text with a zero before another digit."""
        return next((text for text in self.counts if len(text) > 1 and text[0] == "0"), None)

    @property
    def date_kind(self) -> str | None:
        """In which way texts are dates; None if they are none."""
        return None if self.kind != "text" or self.categorical else next(iter(self.dates), None)

    @property
    def ambiguous_date(self) -> str | None:
        """A date of which only custom says whether the day or the month comes first, where no other row tells."""
        if self.date_kind != "day-first date" or "month-first date" not in self.dates:
            return None
        return next((text for text in self.counts if may_be_either(text)), None)

    @property
    def other_date(self) -> str | None:
        """A text that is not read as a date, where nearly all texts have some form of one."""
        texts = [*self.counts]
        if self.kind != "text" or self.categorical or self.date_kind is not None or not look_like_other_dates(texts):
            return None
        return texts[int(find_dates(texts)[1].argmin())]

    @property
    def day_number(self) -> int | None:
        """A number that is a day, such as 20240531, where all of them are, and at least ten different ones."""
        if self.day_numbers is None or len(self.day_numbers) < _LEAST_NUMBERS:
            return None
        return int(min(self.day_numbers))

    @property
    def numbers_rows(self) -> bool:
        """Whether numbers seem to be those of rows, or of some rows of a larger table: whole, different, and dense."""
        if self.kind != "number" or not self.all_different or self.rows < _IDENTIFIER_ROWS:
            return False
        return self.rows - 1 <= self.numbers.high - self.numbers.low <= _DENSE * self.rows

    @property
    def is_identifier(self) -> bool:
        """Whether nearly all texts are different."""
        present = self.rows - self.gaps
        return present >= _IDENTIFIER_ROWS and self.different >= _IDENTIFIER_SHARE * present

    @property
    def different(self) -> int:
        """Number of different texts, at most."""
        return len(self.counts) + self.uncounted

    def _of_numbers(self, kind: str, numbers: _Mean) -> FittedColumn:
        constant = numbers.low == numbers.high
        mean = numbers.low if constant else numbers.mean  # exact
        column = FittedColumn(
            self.name, kind, self.gaps, mean, constant=constant, rows=self.rows, low=numbers.low, high=numbers.high
        )
        if kind != "number" or constant:
            return column
        low, high = find_usual_range(self.sample.numbers).tolist()
        return replace(column, usual_low=low, usual_high=high)

    def _of_categories(self, max_categories: int) -> FittedColumn:
        """The most frequent categories; of equally frequent ones the last in sorted order, as in OneHotEncoder."""
        texts: list[str | None] = [*sorted(self.counts), *([None] if self.gaps else [])]
        counts = [self.gaps if text is None else self.counts[text] for text in texts]
        unseen = 1 if self.uncounted else 0
        if len(texts) + unseen > max_categories:
            order = np.argsort(counts, kind="stable")
            kept = np.sort(order[len(order) - (max_categories - 1) :])
        else:
            kept = np.arange(len(texts))
        return FittedColumn(
            self.name,
            "categories",
            self.gaps,
            categories=tuple(texts[place] for place in kept),
            pooled=len(texts) - len(kept) + unseen,
            constant=self.different == 1,
            rows=self.rows,
            rare_rows=self._rare_rows([texts[place] for place in kept]),
        )

    def _rare_rows(self, kept: list[str | None]) -> int:
        """Rows with a value that might not be kept if it had one row less, as it has for a row that is held out."""
        pooled = [self.counts[text] for text in self.counts.keys() - set(kept)]
        most = max(pooled) + 1 if pooled else 1  # with one row less, it might be among those that are pooled
        frequent = sum(self.counts[text] for text in kept if text is not None and self.counts[text] > most)
        return self.rows - self.gaps - frequent

    def _check_words(self) -> None:
        """Raise a ``ValueError`` for a column of text that seems to be one of numbers."""
        texts = list(self.counts)
        is_number, marks = np.isfinite(numbers_of(texts)), None
        if not is_number.all() and (marks := marks_of(texts)) is not None:
            is_number |= np.isfinite(marks.numbers(texts))
        words = [text for text, number in zip(texts, is_number, strict=True) if not number]
        signs = [text for text in words if _WITH_SIGN.fullmatch(text)]
        names = f"give {spell('categorical', self.name)} if they are names"
        if signs and len(signs) == len(words):
            raise ValueError(
                f"column {self.name!r} holds numbers with a sign, such as {signs[0]!r}; remove the sign, or {names}."
            )
        if not words and marks is not None:
            either = ""
            if marks == Marks(",") and np.isfinite(Marks(".", ",").numbers(texts)).all():  # 1,234
                either = f", or with {spell('thousands', ',')} if commas separate thousands"
            raise ValueError(
                f"column {self.name!r} holds numbers written as {max(texts, key=len)!r}; read the file with "
                f"{marks.in_words}{either}, or {names}."
            )
        if not words:
            grouped = np.isfinite(Marks(",", ".").numbers(texts)).all()  # 1.234
            pointed = next((text for text in texts if "." in text), None) if grouped else None
            read = (
                ""
                if pointed is None
                else f"read the file with {Marks(',', '.').in_words} if points separate thousands, "
            )
            raise ValueError(
                f"column {self.name!r} holds numbers as text, such as {pointed or texts[0]!r}; {read}convert it to numbers, "
                f"or {names}."
            )
        if is_number.sum() >= _LEAST_NUMBERS and len(words) <= _MOST_WORDS:
            raise self._make_stray_error("numbers", words, "" if marks is None else f" and {marks.in_words}")

    def _check_dates(self) -> None:
        """Raise a ``ValueError`` for a column of dates in which a few texts are none."""
        texts = list(self.counts)
        without_form = itertools.islice((text for text in texts if not look_like_dates([text])), _MOST_WORDS + 1)
        if len(texts) < _LEAST_NUMBERS or len([*without_form]) > _MOST_WORDS:  # soon told
            return
        _, are_dates = find_dates(texts)
        words = [text for text, is_date in zip(texts, are_dates, strict=True) if not is_date]
        if are_dates.sum() >= _LEAST_NUMBERS and len(words) <= _MOST_WORDS:
            raise self._make_stray_error("dates", words)

    def _make_stray_error(self, what: str, words: list[str], too: str = "") -> StrayTextError:
        shown = ", ".join(f"{word!r} ({self.counts[word]})" for word in words)
        message = (
            f"column {self.name!r} holds {what}, and the text {shown}; if that stands for a missing value, read the file "
            f"with {spell('na_values', words[0])}{too}; if the {what} are names, give {spell('categorical', self.name)}."
        )
        return StrayTextError(message, self.name, words[0])
