"""Features of an estimator that takes numbers only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from legendretron._internal.columns import is_number
from legendretron._internal.labels import holds_dates, missing_labels


def check_features(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Return what scikit-learn's ``validate_data`` does; where text, dates or gaps are the reason why it fails, say so."""
    try:
        if _has_dates(X):
            raise TypeError("dates would become nanoseconds")  # silently, by validate_data
        return validate_data(estimator, X, *y, **options)
    except (ValueError, TypeError) as error:
        reason = next(_no_numbers(X), None)
        if reason is None:
            raise
        kind = type(estimator).__name__
        raise ValueError(
            f"{reason}, but {kind} takes numbers only. TableClassifier({kind}()) takes tables with text, dates and gaps; "
            "legendretron.TableEncoder encodes them."
        ) from error


def _has_dates(X: Any) -> bool:
    kinds = X.dtypes if hasattr(X, "iloc") and hasattr(X, "columns") else [getattr(X, "dtype", None)]
    return any(getattr(kind, "kind", "") in ("m", "M") for kind in kinds)


def _no_numbers(X: Any) -> Iterator[str]:
    """Yield what holds text, dates or gaps; nothing for what is not in rows and columns."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        columns = [(f"column {str(name)!r} of X", X.iloc[:, place].to_numpy()) for place, name in enumerate(X.columns)]
    elif hasattr(X, "tocsr"):
        return
    else:
        try:
            table = np.asarray(X, dtype=None if isinstance(X, np.ndarray) else object)
        except ValueError:  # rows of different lengths
            return
        columns = [(f"column {place} of X", values) for place, values in enumerate(table.T)] if table.ndim == 2 else []
    for where, values in columns:
        kind, missing = values.dtype.kind, missing_labels(values)
        others = [] if kind in "biuf" else values[~missing]
        if texts := [value for value in others if isinstance(value, str | bytes) and not is_number(value)]:
            yield f"{where} holds text, such as {str(texts[0])!r}"
        elif holds_dates(values[~missing]):
            yield f"{where} holds dates"
        elif missing.any():
            yield f"{where} contains NaN, a gap"
