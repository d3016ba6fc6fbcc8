"""Weights of samples and of classes."""

import numpy as np
import pytest

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from tests.estimators.cases import FAST, X2, X, y, y2


def test_class_weight_and_sample_weight():
    weight = np.where(y == 1, 3.0, 1.0)
    by_class = MultinomialLogisticClassifier(alpha=0.1, class_weight={0: 1, 1: 3, 2: 1}, tol=1e-10).fit(X, y)
    by_sample = MultinomialLogisticClassifier(alpha=0.1, tol=1e-10).fit(X, y, sample_weight=weight)
    repeated = np.concatenate([np.arange(150), np.flatnonzero(y == 1), np.flatnonzero(y == 1)])
    by_repetition = MultinomialLogisticClassifier(alpha=0.1, tol=1e-10).fit(X[repeated], y[repeated])
    assert np.allclose(by_class.predict_proba(X), by_sample.predict_proba(X), atol=1e-8)
    assert np.allclose(by_class.predict_proba(X), by_repetition.predict_proba(X), atol=1e-8)
    balanced = MultinomialLogisticClassifier(class_weight="balanced").fit(X2, y2)
    assert balanced.score(X2, y2) > 0.9


def test_rows_that_count_nothing_are_not_there():
    weight = np.ones(150)
    weight[:40] = 0
    for make in (
        lambda: MultinomialLogisticClassifier(alpha=0.1, class_weight="balanced", tol=1e-10),
        lambda: LegendreTronClassifier(batch_size=16, class_weight="balanced", **FAST),
    ):
        weighted, removed = make().fit(X, y, sample_weight=weight), make().fit(X[40:], y[40:])
        assert np.allclose(weighted.predict_proba(X), removed.predict_proba(X), atol=1e-7)


def test_weights_of_partial_fit_count_across_calls():
    def after(weight):
        clf = LegendreTronClassifier(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
        return clf.partial_fit(X[:10], y[:10], sample_weight=np.full(10, weight)).coef_

    assert not np.allclose(after(1e3), after(1e-3))
    with pytest.raises(ValueError, match="class_weight='balanced' needs all data at once"):
        LegendreTronClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])


def test_extreme_weights_and_features():
    plain = MultinomialLogisticClassifier(alpha=0.1).fit(X, y).predict_proba(X)
    for size in (1e307, 1e-300):
        weighted = MultinomialLogisticClassifier(alpha=0.1).fit(X, y, sample_weight=np.full(150, size))
        assert np.allclose(weighted.predict_proba(X), plain, atol=1e-6)
