"""Checks of labels and categories: which are missing, and which differ only in case or white space."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from legendretron._internal.columns import check_collected

#: Rows, and groups of texts, that a message names.
_MOST_NAMED = 3


def missing_labels(y: Any) -> np.ndarray:
    """Return which labels are None, NaN, or what pandas has for a missing value.

    Examples
    --------
    >>> missing_labels(["a", None, float("nan")]).tolist(), missing_labels(np.array([1.0, np.nan])).tolist()
    ([False, True, True], [False, True])
    """
    if hasattr(y, "isna"):  # pandas
        return np.asarray(y.isna(), dtype=bool)
    # a list of text and NaN would become an array of text, 'nan' among it
    values = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    found = [is_missing(value) for value in values.ravel()]
    return np.array(found, dtype=bool).reshape(values.shape)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas has for a missing one, which need not be installed."""
    if value is None:
        return True
    different = value != value
    # comparisons with pandas' NA are NA
    return (
        different is True or (isinstance(different, np.bool_) and bool(different)) or type(value).__name__ == "NAType"
    )


def holds_dates(values: np.ndarray) -> bool:
    """Whether an array holds dates, times or durations, as numpy's or as Python's objects.

    Examples
    --------
    >>> holds_dates(np.array(["2024-05-31"], dtype="datetime64[D]")), holds_dates(np.array(["2024-05-31"]))
    (True, False)
    """
    if values.dtype.kind != "O":
        return values.dtype.kind in "mM"
    return any(hasattr(value, "isoformat") or hasattr(value, "strftime") for value in values.ravel())


def check_labels(y: Any) -> None:
    """Raise a ``ValueError`` for labels of which some are missing, or some text and some not; says where, and what to do."""
    check_collected("y", y)
    found = missing_labels(y)
    missing = np.flatnonzero(found)
    if len(missing) and found.ndim == 1:  # who validates the shape says what is wrong with another
        some = ", ".join(map(str, missing[:_MOST_NAMED].tolist())) + (", ..." if len(missing) > _MOST_NAMED else "")
        raise ValueError(
            f"Input y contains NaN or None: {len(missing)} of {len(found)} labels are missing, in rows {some} (from 0); "
            "leave those rows out, for example keep = ~pandas.isna(y), then X[keep] and y[keep]."
        )
    values = np.asarray(y, dtype=object) if isinstance(y, list | tuple) else np.asarray(y)
    if values.dtype.kind != "O" or values.ndim != 1:
        return
    is_text = np.array([isinstance(value, str) for value in values], dtype=bool)
    if is_text.any() and not is_text.all():
        text, other = (int(np.argmax(kind)) for kind in (is_text, ~is_text))
        raise ValueError(
            f"y holds text, such as {values[text]!r} in row {text} (from 0), and other labels, such as {values[other]!r} in "
            f"row {other}; write all of them as text, for example [str(label) for label in y]."
        )


def similar_texts(texts: Iterable[Any]) -> list[list[str]]:
    """Return groups of texts that differ only by case, or by white space at the ends or within; other values are ignored.

    Examples
    --------
    >>> similar_texts(["Yes", "no", "yes ", "No", 1, "new  york", "New York"])
    [['Yes', 'yes '], ['no', 'No'], ['new  york', 'New York']]
    """
    groups: dict[str, list[str]] = {}
    for text in texts:
        if isinstance(text, str):
            groups.setdefault(" ".join(text.casefold().split()), []).append(str(text))
    return [group for group in groups.values() if len(group) > 1]


def similar_words(texts: Iterable[Any], what: str, of: Collection[Any] | None = None) -> str | None:
    """Return a sentence on texts that differ only by case or white space; None if there are none.

    With ``of``, one of such texts must be among these.

    Examples
    --------
    >>> similar_words(["Yes", "yes", "no"], "y has labels")
    "y has labels that differ only by case or white space, and are treated as different: 'Yes' and 'yes'."
    """
    groups = [group for group in similar_texts(texts) if of is None or any(text in of for text in group)]
    if not groups:
        return None
    shown = "; ".join(" and ".join(map(repr, group[:_MOST_NAMED])) for group in groups[:_MOST_NAMED])
    rest = f"; and {len(groups) - _MOST_NAMED} more" if len(groups) > _MOST_NAMED else ""
    return f"{what} that differ only by case or white space, and are treated as different: {shown}{rest}."


def label_text(label: Any) -> str:
    """Return a label as text; a whole number without a decimal point.

    Examples
    --------
    >>> label_text(1.0), label_text("a")
    ('1', 'a')
    """
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    return str(label)
