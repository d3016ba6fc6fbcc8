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
from sklearn.utils.validation import _check_sample_weight

from legendretron._internal.labels import check_labels
from legendretron._internal.parameters import ParameterError

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
