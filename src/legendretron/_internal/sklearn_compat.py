"""The private parts of scikit-learn that its own estimators are made of, in one place.

Supported are scikit-learn 1.6 to 1.9. Where a newer version moves or renames one of them, only this module changes:
``_fit_context`` (1.3), ``HasMethods``, ``Interval`` and ``StrOptions`` (1.2),
``make_constraint`` (1.2), ``_check_sample_weight(ensure_non_negative=...)`` (1.6). What scikit-learn reads
from an estimator under a private name stays with the estimator: ``_parameter_constraints`` (1.2), ``_doc_link_module`` and
``_doc_link_template`` (1.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import HasMethods as HasMethods
from sklearn.utils._param_validation import Interval as Interval
from sklearn.utils._param_validation import StrOptions as StrOptions
from sklearn.utils._param_validation import make_constraint
from sklearn.utils.validation import _check_sample_weight, validate_data

from legendretron._internal.columns import check_collected, is_number
from legendretron._internal.labels import check_labels, holds_dates, missing_labels
from legendretron._internal.parameters import ParameterError
from legendretron._internal.sparse import check_sparse

#: Decorator of a fit method: parameters are checked against ``_parameter_constraints`` first.
validates_parameters = _fit_context(prefer_skip_nested_validation=True)


@contextmanager
def restore_on_error(estimator: Any) -> Iterator[None]:
    """Restore the estimator's attributes if the block raises."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def validate_parameters(estimator: BaseEstimator) -> None:
    """Check an estimator's parameters against its ``_parameter_constraints``, outside of a fit method, one by one."""
    for name, value in estimator.get_params(deep=False).items():
        accepted = [make_constraint(constraint) for constraint in estimator._parameter_constraints.get(name, ())]
        if accepted and not any(constraint.is_satisfied_by(value) for constraint in accepted):
            shown = " or ".join(_in_words(constraint) for constraint in accepted if not constraint.hidden)
            raise ParameterError(name, f"must be {shown}, got {value!r}.")


def _in_words(constraint: Any) -> str:
    if isinstance(constraint, StrOptions):
        return " or ".join(map(repr, sorted(constraint.options)))
    return str(constraint).replace("a float", "a number")


def check_sample_weight(sample_weight: Any, X: Any) -> np.ndarray:
    """Return weights of shape (n_samples,) in float64, all one if not given; non-negative and not all zero."""
    weight: np.ndarray = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():  # newer versions of scikit-learn have said so already
        raise ValueError("sample_weight must not be zero for all samples.")
    return weight


class Classifier(ClassifierMixin):  # type: ignore[misc]
    """scikit-learn's mixin for classifiers, whose score counts a missing label as a wrong prediction; this one refuses it."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on rows with labels ``y``, and with weights if given."""
        check_labels(y)
        return float(super().score(X, y, sample_weight))


def check_features(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Return what scikit-learn's ``validate_data`` does; where text, dates or gaps are the reason why it fails, say so."""
    check_sparse("X", X)
    check_collected("X", X)
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
