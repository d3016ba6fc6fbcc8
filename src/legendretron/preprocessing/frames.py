"""Tables of any kind as data frames with the columns that an encoder knows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_array

from legendretron._internal.columns import quoted
from legendretron._internal.extras import pandas


def as_frame(X: Any, fitted: Any = None, optional: Collection[str] = ()) -> tuple[Any, np.ndarray | None]:
    """Return a table as a data frame, and the names of its columns if it came with names."""
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
        return _of_array(pandas, X, fitted), None
    names = [str(name) for name in X.columns]
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
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
    lacking = [name for name in known if name not in names]
    if needed := [name for name in lacking if name not in optional]:
        raise ValueError(
            f"the table has no column {quoted(needed)}, which the fit had; it has {', '.join(map(repr, names[:20]))}."
        )
    frame = X.set_axis(names, axis=1)
    return frame.assign(**dict.fromkeys(lacking, np.nan))[known] if lacking else frame[known], None


def columns_of(frame: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and columns, by place: names may be of any type."""
    for place, name in enumerate(frame.columns):
        yield str(name), frame.iloc[:, place]


def _of_array(pandas: Any, X: Any, fitted: Any) -> Any:
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
