"""scikit-learn's own checks, with nothing marked as expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier

ESTIMATORS = [
    LegendreTronClassifier(max_epochs=60, random_state=0),
    LegendreTronClassifier(solver="lbfgs", max_epochs=60, alpha=1e-2, random_state=0),
    LegendreTronClassifier(link="canonical", max_epochs=60, random_state=0),
    LegendreTronClassifier(network="cpflow", init="paper", max_epochs=60, random_state=0),
    MultinomialLogisticClassifier(alpha=1e-2),
    MultinomialLogisticClassifier(solver="adam", max_epochs=60, random_state=0),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
