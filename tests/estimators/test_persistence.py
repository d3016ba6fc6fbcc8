"""Estimators are saved and loaded with the same predictions, and go on as if they had not been."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import StratifiedKFold

from legendretron import CanonicalLink, LegendreTronClassifier, MultinomialLogisticClassifier, load
from legendretron.estimators.fixed_link import get_link
from tests.estimators import tiny_models
from tests.given import GIVEN

X, y = load_iris(return_X_y=True)
FAST = {**GIVEN, "learning_rate": 0.01, "max_epochs": 10, "random_state": 0}
FITTED = {
    "composite": lambda: LegendreTronClassifier(**FAST).fit(X, y),
    "cpflow": lambda: LegendreTronClassifier(link_params={"network": "cpflow", "init": "paper"}, **FAST).fit(X, y),
    "canonical": lambda: LegendreTronClassifier(link="canonical", **FAST).fit(X, y),
    "two": lambda: LegendreTronClassifier(**FAST).fit(*load_breast_cancer(return_X_y=True)),
    "logistic": lambda: MultinomialLogisticClassifier(random_state=0).fit(X, y),
}
ATTRIBUTES = [
    *("alpha_", "link_alpha_", "n_iter_", "classes_", "coef_", "gradient_norm_", "converged_"),
    *("noise_rate_", "noise_rate_interval_", "noise_matrix_"),
]


@pytest.mark.parametrize("name", tiny_models.FITTED)
def test_round_trip(name, tmp_path):
    clf = tiny_models.FITTED[name]()
    clf.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert type(again) is type(clf)
    features = tiny_models.X.astype(clf.coef_.dtype)
    labels = clf.classes_[np.arange(len(features)) % len(clf.classes_)]
    for method in ("predict", "predict_proba", "predict_proba_observed"):
        np.testing.assert_array_equal(getattr(again, method)(features), getattr(clf, method)(features))
    np.testing.assert_array_equal(
        again.label_quality(features, labels, cv=None), clf.label_quality(features, labels, cv=None)
    )
    for attribute in ATTRIBUTES:
        np.testing.assert_array_equal(getattr(again, attribute, None), getattr(clf, attribute, None))
    assert again.classes_.dtype.kind == clf.classes_.dtype.kind
    np.testing.assert_equal(again.history_.to_dict(), clf.history_.to_dict())
    assert hasattr(again, "tuning_") == hasattr(clf, "tuning_")
    if hasattr(clf, "tuning_"):
        pd.testing.assert_frame_equal(again.tuning_, clf.tuning_)
        assert str(again.set_calibration_) == str(clf.set_calibration_)
    given, restored = clf.get_params(), again.get_params()
    if isinstance(link := given.pop("link", None), torch.nn.Module):
        before, after = (get_link(one).state_dict() for one in (link, restored["link"]))  # a loss is saved as its link
        assert before.keys() == after.keys()
        assert all(torch.equal(before[key], after[key]) for key in before)
        restored.pop("link")
    else:
        assert restored.pop("link", None) == link
    assert given == restored
    refitted = [clone(model).fit(features, labels).predict_proba(features) for model in (clf, again)]
    np.testing.assert_array_equal(*refitted)
    again.set_params(warm_start=True).fit(features, labels)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_splitters_and_generators_are_not_saved(tmp_path):
    clf = MultinomialLogisticClassifier(cv=StratifiedKFold(3), random_state=np.random.RandomState(0)).fit(X, y)
    clf.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert (again.cv, again.random_state) == (None, None)


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
    clf = tiny_models.FITTED["given canonical"]().set_params(link=CanonicalLink(7))
    with pytest.raises(ValueError, match="cannot be saved: n_classes of given_link must be 3"):
        clf.save(tmp_path / "m")
