"""Estimators are saved and loaded with the same predictions, and go on as if they had not been."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold

from legendretron import CanonicalLink, MultinomialLogisticClassifier, load
from legendretron.estimators.convex import get_link
from tests.estimators import tiny_models

X, y = load_iris(return_X_y=True)
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
    if name == "online":  # goes on as if it had not been saved
        pair = [model.partial_fit(features, labels).coef_ for model in (clf, load(tmp_path / "m"))]
        np.testing.assert_array_equal(*pair)
    again.set_params(warm_start=True).fit(features, labels)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def test_splitters_and_generators_are_not_saved(tmp_path):
    clf = MultinomialLogisticClassifier(cv=StratifiedKFold(3), random_state=np.random.RandomState(0)).fit(X, y)
    clf.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert (again.cv, again.random_state) == (None, None)


def test_a_link_for_other_classes_than_the_fit_is_not_saved(tmp_path):
    clf = tiny_models.FITTED["given canonical"]().set_params(link=CanonicalLink(7))
    with pytest.raises(ValueError, match="cannot be saved: n_classes of given_link must be 3"):
        clf.save(tmp_path / "m")


@pytest.mark.parametrize("name", ["coef_", "link_"])
def test_a_model_that_has_diverged_is_neither_saved_nor_asked(name, tmp_path):
    clf = tiny_models.FITTED["ficnn"]()
    if name == "link_":
        clf.link_.blocks[0].raw_gamma.detach().fill_(-torch.inf)  # a weight of zero, which does not show
    else:
        clf.coef_.flat[0] = np.nan
    message = "not finite, so the fit has diverged; fit again"
    with pytest.raises(ValueError, match=message):
        clf.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    for method in METHODS:
        with pytest.raises(ValueError, match=message):
            getattr(clf, method)(tiny_models.X)


@pytest.mark.parametrize("name", ["ficnn", "cpflow", "given canonical", "logistic", "given composite"])
def test_features_too_large_for_a_model_are_refused(name):
    clf = tiny_models.FITTED[name]()
    features = np.zeros((3, 2))
    features[1] = 1e308 * np.sign(clf.coef_[0])
    clf.coef_ *= 1e4 / np.abs(clf.coef_[0]).min()
    for method in METHODS:
        with pytest.raises(ValueError, match=r"row 1 of X has features so large .*; scale them as in the fit"):
            getattr(clf, method)(features)
    assert np.isfinite(clf.predict_proba(features[:1])).all()
