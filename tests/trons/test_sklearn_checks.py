"""scikit-learn's own checks, with nothing marked as expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)

# as a user makes them: the defaults have to pass
ESTIMATORS = [
    GLMTronClassifier(),
    SlIsotronClassifier(),
    BregmanTronClassifier(),
    BregmanTronClassifier("label"),
    BregmanTronClassifier("approx"),
    ISGPLinkgisticClassifier(),
    GPLinkgisticClassifier(),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
