"""Data and estimators that the tests share."""

import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from tests.given import GIVEN

X, y = load_iris(return_X_y=True)
X2, y2 = load_breast_cancer(return_X_y=True)
FAST = {**GIVEN, "max_epochs": 30, "random_state": 0}
ESTIMATORS = [
    LegendreTronClassifier(**FAST),
    LegendreTronClassifier(link="canonical", **FAST),
    LegendreTronClassifier(link="softmax", solver="adam", **FAST),
    MultinomialLogisticClassifier(alpha=1e-2, tol=1e-10),
]


def _parametrize(estimators):
    return pytest.mark.parametrize(
        "estimator", estimators, ids=lambda e: f"{type(e).__name__}-{getattr(e, 'link', '')}"
    )


every = _parametrize(ESTIMATORS)
#: of both classes, where the link makes no difference
of_both_classes = _parametrize([ESTIMATORS[0], ESTIMATORS[-1]])
