"""The rows that an estimator is fitted to, after they were checked."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from legendretron._internal.labels import check_labels
from legendretron._internal.sklearn_compat import check_features, check_sample_weight
from legendretron.estimators.classes import apply_class_weight, swap_labels
from legendretron.estimators.soft_labels import SoftLabels


class FitData(NamedTuple):
    """Checked rows with labels and weights."""

    X: Any  #: features, an array or a sparse matrix
    y: np.ndarray  #: labels, of ``classes``
    weight: np.ndarray  #: times that of the class; rows of weight zero are left out
    classes: np.ndarray  #: sorted labels
    groups: Any = None  #: of rows that are held out together
    copies: np.ndarray | None = None  #: row that each is a copy of, where labels are soft

    @property
    def n_classes(self) -> int:
        """``C``."""
        return len(self.classes)

    @property
    def places(self) -> np.ndarray:
        """Labels as places in ``classes``."""
        places: np.ndarray = np.searchsorted(self.classes, self.y)
        return places

    @property
    def labels(self) -> np.ndarray:
        """Labels from 0, in the order of a link."""
        labels: np.ndarray = swap_labels(self.places, self.n_classes)
        return labels

    @property
    def rows(self) -> np.ndarray:
        """Numbers of the rows that count."""
        return np.flatnonzero(self.weight > 0)

    def normalize(self) -> Self:
        """The same with weights up to 1: only ratios matter, and sums must not overflow."""
        return self._replace(weight=self.weight / self.weight.max())


def check_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None, *, partial: bool = False, **options: Any
) -> FitData:
    """Check features, labels or soft labels, and weights; part of the data must have labels, and may be of one class."""
    options["order"] = "C"
    soft = None if partial else SoftLabels.read(y)
    copies = None
    if soft is not None:
        X = check_features(estimator, X, **options)
        X, y, weight = soft.apply(X, check_sample_weight(sample_weight, X), estimator.class_weight)
        copies = soft.row if soft.has_copies else None
    else:
        check_labels(y)
        X, y = check_features(estimator, X, y, **options)
        check_classification_targets(y)
        weight = apply_class_weight(estimator.class_weight, y, check_sample_weight(sample_weight, X))
    classes = np.unique(y)
    if len(classes) < 2 and not partial:
        raise ValueError(
            f"fit needs samples of at least 2 classes, but the data contains only one class: {classes.tolist()[0]!r}."
        )
    return FitData(X, y, weight, classes, groups, copies)
