"""Compiled predictions of estimators against plain ones."""

import numpy as np
import pytest
import scipy.sparse

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron._internal import chunks
from legendretron.estimators import linear as prediction

LINKS = {"composite": {"link_params": {"hidden": 3}}, "canonical": {}, "softmax": {}}


def fitted(link, n_classes, n_features, dtype, **given):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, n_features)).astype(dtype)
    y = np.arange(60) % n_classes
    strengths = {} if link == "softmax" else {"link_alpha": 1e-3}
    settings = {**LINKS[link], **strengths, **given}
    model = LegendreTronClassifier(link=link, alpha=1e-3, max_epochs=3, random_state=0, **settings)
    return model.fit(X, y), rng


def plain(monkeypatch, model, method, X):
    with monkeypatch.context() as patch:
        patch.setattr(prediction, "row_probabilities", lambda link, dtype: None)
        return getattr(model, method)(X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("link", "n_classes", "n_features"), [
    ("composite", 2, 1), ("composite", 5, 3), ("canonical", 2, 4), ("canonical", 3, 1), ("softmax", 4, 2),
])  # fmt: skip
def test_equals_plain_predictions(monkeypatch, link, n_classes, n_features, dtype):
    model, rng = fitted(link, n_classes, n_features, dtype)
    assert model._compile_link() is not None
    monkeypatch.setattr(chunks, "ENTRIES_IN_CACHE", 200)  # several chunks
    monkeypatch.setattr(chunks, "ROWS_OF_A_PRODUCT", 1)
    X = 3 * rng.normal(size=(301, n_features)).astype(dtype)
    tolerance = 1e-12 if dtype == np.float64 else 3e-5
    for rows in (X, X[:1], X[:17], np.asfortranarray(X), scipy.sparse.csr_array(X)):
        for method in ("predict_proba", "predict_log_proba", "decision_function"):
            found, expected = getattr(model, method)(rows), plain(monkeypatch, model, method, rows)
            assert found.dtype == expected.dtype == dtype
            assert np.allclose(found, expected, rtol=tolerance, atol=tolerance)
        assert np.array_equal(model.predict(rows), plain(monkeypatch, model, "predict", rows))


def test_weights_that_are_changed_count():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 3
    model = MultinomialLogisticClassifier(alpha=0.1).fit(X, y)
    before = model.predict_proba(X)
    model.coef_[...] = 0.0
    model.intercept_[...] = 0.0
    assert not np.allclose(before, 1 / 3, atol=1e-3)
    assert np.allclose(model.predict_proba(X), 1 / 3)
