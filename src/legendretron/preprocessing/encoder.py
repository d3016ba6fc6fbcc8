"""A table with text, dates and gaps as an array of numbers."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from legendretron._internal.columns import check_collected, quoted
from legendretron._internal.extras import pandas
from legendretron._internal.labels import similar_words
from legendretron._internal.parameters import spell
from legendretron._internal.sklearn_compat import Interval, validates_parameters
from legendretron.preprocessing.column import FittedColumn, columns_from_state
from legendretron.preprocessing.drift import Tally, tell_drift
from legendretron.preprocessing.statistics import ColumnStatistics
from legendretron.preprocessing.values import Values, is_whole, read_values, texts_of


def as_frame(X: Any, fitted: Any = None, optional: Collection[str] = ()) -> tuple[Any, np.ndarray | None]:
    """Return a table as a data frame, and the names of its columns if it came with names."""
    check_collected("X", X)
    if type(X).__module__.split(".")[0] == "pyarrow" and hasattr(X, "to_pandas"):
        X = X.to_pandas()
    elif hasattr(X, "iloc") and not hasattr(X, "columns"):
        raise ValueError(
            "Expected a table, got a series instead; give a data frame: series.to_frame().T if it is a row, "
            "series.to_frame() if it is a column."
        )
    elif not hasattr(X, "iloc") and hasattr(X, "to_pandas"):  # polars
        X = X.to_pandas()
    if not isinstance(X, pandas.DataFrame):
        return _of_array(X, fitted), None
    names = [str(name) for name in X.columns]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"the table has more than one column {twice[0]!r}; rename or remove all but one of them.")
    if len(X) == 0:
        raise ValueError("Found array with 0 sample(s), but the table must have at least 1 row.")
    if fitted is None:
        if not names:
            raise ValueError("0 feature(s): the table must have at least one column.")
        return X, np.array(names, dtype=object)
    known = [str(column) for column in getattr(fitted, "feature_names_in_", ())]
    if not known:  # fitted to an array: by place
        if len(names) != fitted.n_features_in_:
            raise ValueError(_wrong_number(len(names), fitted))
        return X, None
    there = {*names}
    lacking = [name for name in known if name not in there]
    if needed := [name for name in lacking if name not in optional]:
        raise ValueError(
            f"the table has no column {quoted(needed)}, which the training data had; it has "
            f"{', '.join(map(repr, names[:20]))}."
        )
    frame = X.set_axis(names, axis=1)
    return frame.assign(**dict.fromkeys(lacking, np.nan))[known] if lacking else frame[known], None


def columns_of(frame: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and columns, by place: names may be of any type."""
    for place, name in enumerate(frame.columns):
        yield str(name), frame.iloc[:, place]


def _of_array(X: Any, fitted: Any) -> Any:
    if scipy.sparse.issparse(X):
        raise TypeError("Sparse data was passed, but dense data is required: a table with gaps or text is not sparse.")
    array = check_array(X, dtype=None, ensure_all_finite=False)
    if array.dtype.kind in "US":
        array = array.astype(object)
    if fitted is not None and array.shape[1] != fitted.n_features_in_:
        raise ValueError(_wrong_number(array.shape[1], fitted))
    frame = pandas.DataFrame(array, columns=[f"x{place}" for place in range(array.shape[1])])
    return frame.infer_objects() if array.dtype == object else frame


def _wrong_number(number: int, fitted: Any) -> str:
    return (
        f"X has {number} features, but {type(fitted).__name__} is expecting {fitted.n_features_in_} features as input."
    )


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode a table with text, dates and missing values as numbers, for linear models and networks.

    ================  ==========================================================================================
    columns of        are encoded as
    ================  ==========================================================================================
    numbers           numbers. Missing values become the mean, with an indicator column if the training data had any
    booleans          1 and 0; missing values as for numbers
    dates             days since 1970-01-01; missing values as for numbers. Text such as ``2024-05-31``,
                      ``2024-05-31T12:30:00Z``, ``31.05.2024`` or ``05/31/2024`` counts as dates. Whether the day or the
                      month comes first is inferred from the column; if both are possible, it is the day, with a warning.
                      Days as numbers, such as 20240531, stay numbers, with a warning
    text              a one-hot column per value, including missing; at most ``max_categories`` columns: the most frequent
                      values, and one column for all others. Unknown values are counted with the others; without such a
                      column, they are 0 everywhere
    codes             text, if they are text of digits with leading zeros, such as 00136, or whole numbers so long that many
                      of them are the same in double precision
    identifiers       nothing: text is dropped if nearly all values are different (90 % of at least 20), unless the column is
                      in ``categorical``
    ================  ==========================================================================================

    Up to three other words among ten or more different numbers or dates are an error.

    A ``ColumnTransformer`` with ``SimpleImputer(add_indicator=True)`` for numbers and
    ``OneHotEncoder(max_categories=..., handle_unknown="infrequent_if_exist")`` for categories does the same. This encoder
    also detects the kind of each column, takes a table in parts, and is saved and exported to ONNX with a
    :class:`~legendretron.estimators.TableClassifier`.

    Parameters
    ----------
    categorical : sequence of str, default=()
        Columns to treat as categories even if they look like numbers, such as postal codes.
    max_categories : int, default=32
        Maximum number of columns that a text column becomes.

    Attributes
    ----------
    columns_ : tuple of FittedColumn
        How each column is encoded: its ``kind``, ``gaps``, ``mean``, ``categories`` and ``outputs``.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    ``partial_fit`` keeps counts and means but no rows, so its memory is bounded: it counts up to 100,000 different values of
    a text column, and pools values that first appear after those. The result does not depend on how rows are divided into
    parts, up to rounding.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"age": [30.0, None, 50.0], "city": ["Rome", "Bern", None]})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'age is missing', 'city=Bern', 'city=Rome', 'city is missing']
    >>> encoder.transform(pandas.DataFrame({"age": [None], "city": ["Oslo"]})).tolist()
    [[40.0, 1.0, 0.0, 0.0, 0.0]]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "categorical": ["array-like"],
        "max_categories": [Interval(Integral, 2, None, closed="left")],
    }

    n_features_in_: int
    feature_names_in_: np.ndarray
    _statistics: list[ColumnStatistics]
    _columns: tuple[FittedColumn, ...] | None
    _single: bool

    def __init__(self, *, categorical: Any = (), max_categories: int = 32) -> None:
        self.categorical = categorical
        self.max_categories = max_categories

    # --- fitting ---

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn categories and means from a table.

        A warning names the columns that were dropped, or treated as categories, automatically.

        Parameters
        ----------
        X : data frame, pyarrow table or record batch, or array of shape (n_samples, n_features)
            The table.
        y : ignored
            Not used.

        Returns
        -------
        self
        """
        fresh = type(self)(**self.get_params(deep=False)).partial_fit(X)
        fresh.columns_  # noqa: B018 - raises if a column cannot be encoded, and then nothing has changed
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(fresh.__dict__)
        for note in self.notes_:
            warnings.warn(note, stacklevel=2)
        return self

    @validates_parameters
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from more rows; a table that does not fit into memory can be given in parts.

        Parameters
        ----------
        X : as in :meth:`fit`
            Rows with the columns of the first call, in any order.
        y : ignored
            Not used.

        Returns
        -------
        self
        """
        first = not hasattr(self, "_columns")
        if not first and not hasattr(self, "_statistics"):
            raise ValueError("an encoder that was loaded from a file cannot be fitted further; fit a new one.")
        frame, names = as_frame(X, None if first else self)
        as_text = set(self.categorical)
        if not first:  # in some parts there may be too few integers to tell that they lose digits
            with_columns = zip(self._statistics, columns_of(frame), strict=True)
            as_text |= {known.name for known, (_, column) in with_columns if is_whole(column) and known.holds_codes}
        values = [
            Values("text", np.empty(0), texts_of(name, column)) if name in as_text else read_values(name, column)
            for name, column in columns_of(frame)
        ]
        if first:
            own = [name for name, _ in columns_of(frame)]
            if unknown := [name for name in self.categorical if name not in own]:
                raise ValueError(
                    f"categorical names {unknown[0]!r}, but there is no such column; there are {own[:20]}."
                )
            statistics = [ColumnStatistics(name, name in as_text) for name in own]
        else:
            statistics = self._statistics
        for of_column, read in zip(statistics, values, strict=True):
            of_column.check(read)
        for of_column, read in zip(statistics, values, strict=True):
            of_column.add(read)
        if first:
            self.n_features_in_ = len(statistics)
            if names is not None:
                self.feature_names_in_ = names
        self._statistics, self._columns = statistics, None
        return self

    @property
    def columns_(self) -> tuple[FittedColumn, ...]:
        """What becomes of each column."""
        check_is_fitted(self)
        if self._columns is None:
            columns = tuple(of_column.fit_column(self.max_categories) for of_column in self._statistics)
            if all(column.is_left_out for column in columns):
                reasons = ", ".join(f"{column.name!r} ({_REASONS[column.kind]})" for column in columns[:8])
                first = columns[0].name
                raise ValueError(
                    f"there is no column to learn from: {reasons}; take one as it is by {spell('categorical', first)}."
                )
            of_numbers = [s for s, column in zip(self._statistics, columns, strict=True) if column.kind == "number"]
            dates = any(column.is_date for column in columns)
            self._single = bool(of_numbers) and not dates and all(statistics.single for statistics in of_numbers)
            self._columns = columns
        return self._columns

    @property
    def notes_(self) -> list[str]:
        """Remarks on columns that are left out, taken for categories, or seem to number the rows, one line each."""
        notes = []
        for column in self.columns_:
            drop = spell("drop", column.name, code=f"drop(columns={column.name!r})")
            quiet = f"{drop} turns this remark off"
            if column.kind == "identifier":
                notes.append(
                    f"column {column.name!r} is left out: nearly all of its values are different, as those of names and "
                    f"numbers of rows. {quiet}; {spell('categorical', column.name)} takes its most frequent values as "
                    "categories."
                )
            elif column.kind == "empty":
                notes.append(f"column {column.name!r} is left out: it has no values. {quiet}.")
        for column, statistics in zip(self.columns_, getattr(self, "_statistics", ()), strict=False):
            what = f"column {column.name!r} has categories"
            if words := similar_words(statistics.counts, what, of=column.categories):
                notes.append(f"{words} Write them alike if they are the same.")
        for statistics in getattr(self, "_statistics", ()):
            name = statistics.name
            quiet = f"{spell('categorical', name)} turns this remark off"
            if statistics.holds_codes and not statistics.is_identifier:
                what, code = "numbers with leading zeros", statistics.padded_code
                if code is None:
                    what, code = (
                        "numbers too long to be told apart in double precision",
                        max(statistics.counts, key=len),
                    )
                notes.append(
                    f"column {name!r} holds {what}, such as {code!r}, and is treated as categories. "
                    f"{quiet}; {spell('numeric', name, code=f'astype({{{name!r}: float}})')} makes them numbers."
                )
            elif (day := statistics.day_number) is not None:
                text = str(day)
                notes.append(
                    f"column {name!r} seems to hold dates written as numbers, such as {text}, and is used as numbers. Write "
                    f"them as {text[:4]}-{text[4:6]}-{text[6:]} to use them as dates."
                )
            elif statistics.numbers_rows:
                low, high = int(statistics.numbers.low), int(statistics.numbers.high)
                notes.append(
                    f"column {name!r} seems to number the rows: it holds different whole numbers, from {low} to {high}. It "
                    f"is a feature like any other; {spell('drop', name, code=f'drop(columns={name!r})')} leaves it out."
                )
            elif (date := statistics.ambiguous_date) is not None:
                notes.append(
                    f"column {name!r} holds dates, such as {date!r}, that can be meant in two ways; the day is taken to come "
                    "first. Write them as 2024-05-31 if it is the month."
                )
            elif (date := statistics.other_date) is not None:
                notes.append(
                    f"column {name!r} seems to hold dates, but {date!r} is not read as one, so they are treated as text. "
                    f"Write all of them as 2024-05-31, 31.05.2024 or 05/31/2024, in one order. {quiet}."
                )
        return notes

    # --- after fitting ---

    def transform(self, X: Any) -> np.ndarray:
        """Return the numbers of a table.

        If many values of a column are unknown, or missing although few were in the fit, or if half of its numbers are below,
        or above, 95 % of those of the fit, a :class:`DriftWarning` says so.

        Parameters
        ----------
        X : data frame, pyarrow table or record batch, or array of shape (n_samples, n_features)
            Rows with the columns of the fit; in a data frame in any order. Other columns are ignored, and those that the
            encoder leaves out need not be there.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            float32 if all numbers of the fit were float32 and there was no date, else float64.
        """
        columns = self.columns_
        frame, _ = as_frame(X, self, optional=[column.name for column in columns if column.is_left_out])
        places, width = {}, 0
        for column in columns:
            places[column.name] = slice(width, width := width + len(column.outputs))
        encoded = np.empty((len(frame), width), dtype=np.float32 if self._single else np.float64)
        tallies: list[Tally] = []
        for column, (_, values) in zip(columns, columns_of(frame), strict=True):
            if not column.is_left_out:
                encoded[:, places[column.name]], counted = column.encode(values)
                tallies += counted
        tell_drift(tallies)
        return encoded

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the encoded columns, such as ``age``, ``age is missing`` or ``city=Rome``.

        Parameters
        ----------
        input_features : array of str, optional
            Names of the columns of the table, if it had none in the fit.
        """
        columns = self.columns_
        if input_features is not None:
            given = [str(name) for name in input_features]
            if hasattr(self, "feature_names_in_") and given != list(self.feature_names_in_):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(given) != len(columns):
                raise ValueError(
                    f"input_features should have length equal to number of features ({len(columns)}), got {len(given)}"
                )
            columns = tuple(dataclasses.replace(column, name=name) for column, name in zip(columns, given, strict=True))
        return np.array(_distinct([name for column in columns for name in column.outputs]), dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_columns")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # --- saving ---

    def to_state(self) -> dict[str, Any]:
        """Return the parameters and what was learned, as plain values; :meth:`from_state` is the reverse."""
        return {
            "categorical": list(map(str, self.categorical)),
            "max_categories": int(self.max_categories),
            "columns": [column.to_state() for column in self.columns_],
            "has_names": hasattr(self, "feature_names_in_"),
            "single": self._single,
        }

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Return a fitted encoder from what :meth:`to_state` returned; anything else raises a ``ValueError``."""
        columns = columns_from_state(state)
        encoder = cls(categorical=state["categorical"], max_categories=state["max_categories"])
        encoder.n_features_in_ = len(columns)
        if state["has_names"]:
            encoder.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        encoder._columns, encoder._single = columns, state["single"]
        return encoder


_REASONS = {"identifier": "nearly all values are different", "empty": "no values"}


def _distinct(names: list[str]) -> list[str]:
    """Return names with a number after those that occur before, as of a value '(other)' and the pooled values."""
    counts = Counter(names)
    used: set[str] = set()
    found = []
    for name in names:
        number, new = 1, name
        while new in used or (number > 1 and new in counts):
            number += 1
            new = f"{name} ({number})"
        used.add(new)
        found.append(new)
    return found
