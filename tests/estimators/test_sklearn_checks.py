"""scikit-learn's own checks, with nothing marked as expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier

QUICK = [LegendreTronClassifier(max_epochs=30), MultinomialLogisticClassifier()]
LONG = [
    LegendreTronClassifier(),  # as a user makes it
    # a check asks for equality to 1e-7, so L-BFGS has to go all the way to the minimum
    LegendreTronClassifier(solver="lbfgs", max_epochs=3000, alpha=0.1, tol=1e-12, random_state=0),
    LegendreTronClassifier(link="canonical"),
    LegendreTronClassifier(network="cpflow", init="paper", max_epochs=60, random_state=0),
    MultinomialLogisticClassifier(solver="adam", max_epochs=60, random_state=0),
]


@parametrize_with_checks(QUICK)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(LONG)
def test_scikit_learn_checks_of_others(estimator, check):
    check(estimator)
