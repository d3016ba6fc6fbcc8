"""scikit-learn's own checks, with nothing marked as expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)

# as a user makes them: the defaults have to pass
QUICK = [GLMTronClassifier(), BregmanTronClassifier("label", max_iter=3), ISGPLinkgisticClassifier()]
LONG = [
    SlIsotronClassifier(),
    BregmanTronClassifier(),
    BregmanTronClassifier("label"),
    BregmanTronClassifier("approx"),
    GPLinkgisticClassifier(),
]


@parametrize_with_checks(QUICK)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(LONG)
def test_scikit_learn_checks_of_others(estimator, check):
    check(estimator)
