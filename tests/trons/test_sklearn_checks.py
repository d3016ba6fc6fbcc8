"""scikit-learn's own checks, with nothing marked as expected to fail but what is wrong in a check itself."""

import pytest
import sklearn
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)
from tests.data_forms import skip_repeated_forms

# as a user makes them: the defaults have to pass
QUICK = [GLMTronClassifier(), BregmanTronClassifier("label", max_iter=3)]
LONG = [
    ISGPLinkgisticClassifier(),
    SlIsotronClassifier(),
    BregmanTronClassifier(),
    BregmanTronClassifier("label"),
    BregmanTronClassifier("approx"),
    GPLinkgisticClassifier(),
]


def wrong_checks(estimator):
    """In scikit-learn 1.6 they give rows and their repetitions other labels when there may be two classes only."""
    reason = "the check takes the first label for one class, after it has shuffled the rows of one of two samples"
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(names, reason) if parse_version(sklearn.__version__) < parse_version("1.7") else {}


@parametrize_with_checks(QUICK, expected_failed_checks=wrong_checks)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(LONG, expected_failed_checks=wrong_checks)
def test_scikit_learn_checks_of_others(estimator, check):
    # one of each kind is enough for all formats; test_estimators.py fits every estimator to sparse data
    skip_repeated_forms(check, any_format=isinstance(estimator, ISGPLinkgisticClassifier))
    check(estimator)
