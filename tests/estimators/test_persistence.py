"""Estimators are saved and loaded with the same predictions, and go on as if they had not been."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris

from legendretron import CanonicalLink, LegendreTronClassifier, MultinomialLogisticClassifier
from tests.given import GIVEN

X, y = load_iris(return_X_y=True)
FAST = {**GIVEN, "learning_rate": 0.01, "max_epochs": 10, "random_state": 0}
FITTED = {
    "composite": lambda: LegendreTronClassifier(**FAST).fit(X, y),
    "cpflow": lambda: LegendreTronClassifier(link_params={"network": "cpflow", "init": "paper"}, **FAST).fit(X, y),
    "canonical": lambda: LegendreTronClassifier(link="canonical", **FAST).fit(X, y),
    "object": lambda: LegendreTronClassifier(link=CanonicalLink(3).double(), **FAST).fit(X, y),
    "strings": lambda: LegendreTronClassifier(class_weight={"a": 2.0, "b": 1.0, "c": 1.0}, **FAST).fit(
        X.astype(np.float32), np.array(list("abc"))[y]
    ),
    "two": lambda: LegendreTronClassifier(**FAST).fit(*load_breast_cancer(return_X_y=True)),
    "logistic": lambda: MultinomialLogisticClassifier(random_state=0).fit(X, y),
}


@pytest.mark.parametrize("name", FITTED)
def test_round_trip(name, tmp_path):
    clf = FITTED[name]()
    path = tmp_path / "model.safetensors"
    clf.save(path)
    again = type(clf).load(path)
    features = load_breast_cancer().data if name == "two" else X.astype(clf.coef_.dtype)
    assert np.array_equal(again.predict_proba(features), clf.predict_proba(features))
    assert np.array_equal(again.predict(features), clf.predict(features))
    assert again.classes_.dtype.kind == clf.classes_.dtype.kind
    assert again.history_.to_dict().keys() == clf.history_.to_dict().keys()
    assert again.n_iter_ == clf.n_iter_
    if name == "object":
        given, restored = clf.link.state_dict(), again.link.state_dict()
        assert all(torch.equal(given[key], restored[key]) for key in given)
    else:
        assert again.get_params() == clf.get_params()
    labels = clf.classes_[np.arange(len(features)) % len(clf.classes_)]
    refitted = [clone(c).fit(features, labels).predict_proba(features) for c in (clf, again)]
    assert np.array_equal(*refitted)
    again.set_params(warm_start=True).fit(features, clf.classes_[np.arange(len(features)) % len(clf.classes_)])
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_training_goes_on_after_loading_as_if_it_had_not_been_saved(tmp_path):
    clf = LegendreTronClassifier(random_state=0)
    for _ in range(3):
        clf.partial_fit(X, y, classes=[0, 1, 2])
    clf.save(tmp_path / "model.safetensors")
    again = LegendreTronClassifier.load(tmp_path / "model.safetensors")
    assert np.array_equal(clf.partial_fit(X, y).coef_, again.partial_fit(X, y).coef_)


def _nan_in(clf, name):
    if name == "link_":
        with torch.no_grad():
            clf.link_.blocks[0].raw_gamma.fill_(-torch.inf)  # a weight of zero, which does not show
    else:
        getattr(clf, name).flat[0] = np.nan


@pytest.mark.parametrize("name", ["coef_", "link_"])
def test_a_model_that_has_diverged_is_neither_saved_nor_asked(name, tmp_path):
    clf = FITTED["composite"]()
    _nan_in(clf, name)
    with pytest.raises(ValueError, match=r"not finite, so the fit has diverged; fit again"):
        clf.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    for ask in (clf.predict, clf.predict_proba, clf.predict_log_proba, clf.decision_function):
        with pytest.raises(
            ValueError, match=r"not finite, so the fit has diverged; fit again with a lower learning_rate"
        ):
            ask(X)


@pytest.mark.parametrize("name", ["composite", "cpflow", "canonical", "logistic", "two"])
def test_features_too_large_for_a_model_are_refused(name):
    clf = FITTED[name]()
    features = np.zeros((3, clf.n_features_in_))
    features[1] = 1e308 * np.sign(clf.coef_[0])
    clf.coef_ *= 1e3
    for ask in (clf.predict, clf.predict_proba, clf.predict_log_proba, clf.decision_function):
        with pytest.raises(ValueError, match=r"row 1 of X has features so large .*; scale them as in the fit"):
            ask(features)
    assert np.isfinite(clf.predict_proba(features[:1])).all()


def test_a_link_for_other_classes_than_the_fit_is_not_saved(tmp_path):
    clf = FITTED["object"]().set_params(link=CanonicalLink(7))
    with pytest.raises(ValueError, match="cannot be saved: n_classes of given_link must be 3"):
        clf.save(tmp_path / "m")
