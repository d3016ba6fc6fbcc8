"""scikit-learn's own checks, with nothing marked as expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)

ESTIMATORS = [
    GLMTronClassifier(),
    SlIsotronClassifier(max_iter=50),
    BregmanTronClassifier(max_iter=30),
    BregmanTronClassifier("label", max_iter=5),
    BregmanTronClassifier("approx", max_iter=30),
    # a check asks for equality to 1e-7, so the predictor must not be nearly undetermined
    ISGPLinkgisticClassifier(alpha=0.1, max_iter=5, random_state=0),
    GPLinkgisticClassifier(max_iter=5, random_state=0),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
