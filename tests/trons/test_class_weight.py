import numpy as np
import pytest
from sklearn.base import clone

from tests.trons.test_estimators import every_estimator, single_index


@every_estimator
def test_class_weights_are_weights_of_rows(clf):
    X, y, _ = single_index(400, lambda z: 1 / (1 + np.exp(1.5 - z)))
    balanced = len(y) / (2.0 * np.bincount(y))
    by_row = clone(clf).fit(X, y, sample_weight=balanced[y]).predict_proba(X)
    for class_weight in ("balanced", dict(enumerate(balanced))):
        by_class = clone(clf).set_params(class_weight=class_weight).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(by_class, by_row, atol=1e-6)
    assert np.abs(clone(clf).fit(X, y).predict_proba(X) - by_row).max() > 0.01


@every_estimator
def test_wrong_class_weights(clf):
    X, y, _ = single_index(50, lambda z: 1 / (1 + np.exp(-z)))
    with pytest.raises(ValueError, match="class_weight must hold finite, non-negative"):
        clone(clf).set_params(class_weight={0: -1.0, 1: 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="leave samples of only one class"):
        clone(clf).set_params(class_weight={0: 0.0, 1: 1.0}).fit(X, y)
