"""Estimators that choose the strengths of their penalties themselves."""

import copy
import math
import signal

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold

from legendretron import CanonicalLink, LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.datasets import symmetric_noise
from legendretron.estimators import linear_fit, settings
from legendretron.estimators.numpy_predictor import load_predictor
from legendretron.estimators.resuming import ChosenStrengths
from legendretron.links import SoftmaxLink
from legendretron.trons import PiecewiseLinearLink
from legendretron.tuning.noise import FoundNoise
from legendretron.tuning.table import COLUMNS
from tests.estimators.cases import X, y
from tests.tuning.conftest import bent_data

#: Few enough steps that a choice takes a moment.
QUICK = {"max_epochs": 4, "random_state": 0, "cv": 3}

X_BENT, Y_BENT = bent_data(n=400)
#: Enough of them that a link is learned there, where no floor may be chosen.
BENT = {
    "label_noise": None,
    "max_epochs": 60,
    "batch_size": 32,
    "learning_rate": 0.05,
    "random_state": 0,
    "cv": 3,
    "link_params": {"hidden": 8},
}


@pytest.fixture(scope="module")
def bent():
    """A fit that has learned a link; tests that change it take a copy."""
    return LegendreTronClassifier(**BENT).fit(X_BENT, Y_BENT)


@pytest.fixture
def calls(monkeypatch):
    """What is trained and chosen in a fit."""
    made = []

    def counting(module, name):
        function = getattr(module, name)

        def counted(*args, **settings):
            made.append(name)
            return function(*args, **settings)

        return counted

    for module, name in ((linear_fit, "train"), (linear_fit, "fit_convex"), (settings, "tune")):
        monkeypatch.setattr(module, name, counting(module, name))
    return made


def check_table(clf):
    table = clf.tuning_
    assert list(table.columns) == list(COLUMNS)
    assert table["chosen"].tolist() == [True] + [False] * (len(table) - 1)
    assert (table["alpha"][0], table["link_alpha"][0]) == (clf.alpha_, clf.link_alpha_)
    assert (table["model"][0] == "logistic regression") == math.isinf(clf.link_alpha_)
    assert set(table["model"]) <= {"logistic regression", "learned link"}
    return table


def test_defaults_choose(calls):
    clf = LegendreTronClassifier(random_state=0).fit(X[::2], y[::2])
    assert calls == ["tune", "fit_convex"]
    assert clf.get_params()["alpha"] == clf.get_params()["link_alpha"] == "auto"
    table = check_table(clf)
    assert set(table["model"]) == {"logistic regression", "learned link"}
    assert clf.link_alpha_ == math.inf
    assert isinstance(clf.link_, SoftmaxLink)
    logistic = MultinomialLogisticClassifier(random_state=0).fit(X[::2], y[::2])
    assert set(logistic.tuning_["model"]) == {"logistic regression"}
    assert logistic.alpha_ == clf.alpha_
    np.testing.assert_allclose(clf.predict_proba(X), logistic.predict_proba(X), atol=1e-4)


def test_a_learned_link_is_chosen_where_it_helps(bent):
    clf = bent
    table = check_table(clf)
    assert table["model"][0] == "learned link"
    assert table["difference"][0] < -table["difference_error"][0]
    assert type(clf.link_).__name__ == "CompositeLink"
    assert clf.coef_.dtype == clf.predict_proba(X_BENT).dtype == np.float64
    new, labels = bent_data(n=2000, seed=1)
    logistic = MultinomialLogisticClassifier(random_state=0).fit(X_BENT, Y_BENT)
    assert log_loss(labels, clf.predict_proba(new)) < log_loss(labels, logistic.predict_proba(new)) - 0.01


def test_a_learned_link_excludes_no_class(bent, tmp_path):
    clf, far = copy.deepcopy(bent), 1e3 * X_BENT[:20]
    n_classes = len(clf.classes_)
    least = 0.25 / (len(X_BENT) * n_classes)
    assert clf.predict_proba(far).min() < 0.1 * least
    clf._noise = FoundNoise(n_classes, floor=0.25 / len(X_BENT), recorded=True)  # that of a fit that may choose a floor
    p, log_p = clf.predict_proba(far), clf.predict_log_proba(far)
    np.testing.assert_allclose(p.min(), least, rtol=1e-3)
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-9)
    np.testing.assert_allclose(log_p, np.log(p), rtol=1e-6, atol=1e-9)
    of_link = clf.link_.inverse(torch.as_tensor(clf.linear_predictor(far))).numpy()[:, ::-1]
    np.testing.assert_allclose(p, (1.0 - n_classes * least) * of_link + least, rtol=1e-6, atol=1e-9)
    clf.save(tmp_path / "m")
    np.testing.assert_allclose(load_predictor(tmp_path / "m")._predict_all(far, log=True), log_p, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(LegendreTronClassifier.load(tmp_path / "m").predict_proba(far), p, rtol=1e-12)


def test_a_learned_link_is_chosen_beside_known_noise():
    clf = LegendreTronClassifier(**{**BENT, "label_noise": 0.02}).fit(X_BENT, Y_BENT)
    assert type(clf.link_).__name__ == "CompositeLink"
    assert clf.noise_rate_ == pytest.approx(0.02)


def test_a_learned_link_is_chosen_beside_noise_that_was_found():
    digits, labels = load_digits(return_X_y=True)
    few = PCA(4, random_state=0).fit_transform(digits)[:1000]
    wrong = symmetric_noise(labels[:1000], 0.2, n_classes=10, random_state=0)
    clf = LegendreTronClassifier(random_state=0, warm_start=True).fit(few, wrong)
    assert type(clf.link_).__name__ == "CompositeLink"
    low, high = clf.noise_rate_interval_
    assert low < 0.2 < high
    assert (
        clf.score(few, labels[:1000]) > MultinomialLogisticClassifier().fit(few, wrong).score(few, labels[:1000]) + 0.02
    )
    clf.set_params(max_epochs=1).fit(few, wrong)  # training continues with the link and the noise
    assert type(clf.link_).__name__ == "CompositeLink"
    assert clf.noise_rate_interval_ == (low, high)


@pytest.mark.parametrize(
    ("link", "alpha", "link_alpha"),
    [("canonical", "auto", "auto"), ("composite", 0.1, "auto"), ("canonical", "auto", 0.02), ("composite", 0.1, 0.02)],
)
def test_strengths_given_and_chosen(calls, link, alpha, link_alpha):
    clf = LegendreTronClassifier(link, alpha=alpha, link_alpha=link_alpha, **QUICK).fit(X, y)
    if alpha == 0.1:
        assert clf.alpha_ == 0.1
    if link_alpha == 0.02:
        assert clf.link_alpha_ == 0.02  # a strength that is given asks for a link
    if alpha == 0.1 and link_alpha != "auto":
        assert calls == ["train"]
        with pytest.raises(AttributeError, match="has no tuning_: its penalties were given"):
            _ = clf.tuning_
        assert not hasattr(clf, "tuning_")
        return
    assert calls[0] == "tune"
    assert len(calls) == 2
    table = check_table(clf)
    assert ("logistic regression" in set(table["model"])) == (link_alpha == "auto")
    if alpha == 0.1:
        assert set(table["alpha"]) == {0.1}


@pytest.mark.parametrize("alpha", ["auto", 0.1])
@pytest.mark.parametrize(
    "make",
    [
        lambda **settings: LegendreTronClassifier("softmax", **settings),
        lambda **settings: LegendreTronClassifier(SoftmaxLink(3), **settings),
        MultinomialLogisticClassifier,
    ],
)
def test_logistic_regression_has_one_strength(calls, make, alpha):
    clf = make(alpha=alpha).fit(X, y)
    assert calls == (["tune"] if alpha == "auto" else []) + ["fit_convex"]
    assert clf.link_alpha_ == math.inf
    if alpha == 0.1:
        assert clf.alpha_ == 0.1
    theirs = LogisticRegression(C=1 / (clf.alpha_ * 150), max_iter=10_000, tol=1e-8)
    theirs.fit((X - X.mean(0)) / X.std(0), y)
    np.testing.assert_allclose(clf.predict_proba(X), theirs.predict_proba((X - X.mean(0)) / X.std(0)), atol=1e-3)


@pytest.mark.parametrize("alpha", ["auto", 0.1])
def test_a_link_without_parameters_is_not_logistic_regression(alpha):
    link = PiecewiseLinearLink([-2.0, 0.0, 3.0], [0.1, 0.5, 0.95])
    clf = LegendreTronClassifier(link, alpha=alpha, **QUICK).fit(X[50:], y[50:])
    assert isinstance(clf.link_, PiecewiseLinearLink)
    assert clf.link_alpha_ == 0.0
    if alpha == "auto":
        assert set(check_table(clf)["model"]) == {"learned link"}


def test_groups_and_cv():
    groups = np.arange(150) % 10
    by_groups = MultinomialLogisticClassifier(random_state=0).fit(X, y, groups=groups)
    splits = list(GroupKFold(5).split(X, y, groups))
    by_splitter = MultinomialLogisticClassifier(cv=GroupKFold(5)).fit(X, y, groups=groups)
    by_list = MultinomialLogisticClassifier(cv=splits).fit(X, y)
    assert by_splitter.tuning_.equals(by_list.tuning_)
    assert not by_splitter.tuning_.equals(by_groups.tuning_)  # other folds
    for cv in (1, "five", 2.5):
        with pytest.raises(ValueError, match="'cv' parameter"):
            MultinomialLogisticClassifier(cv=cv).fit(X, y)


def test_rows_that_count_nothing_are_not_there():
    weight = np.ones(150)
    weight[::3] = 0.0
    clf = LegendreTronClassifier(**QUICK)
    weighted, removed = clone(clf).fit(X, y, weight), clone(clf).fit(X[weight > 0], y[weight > 0])
    assert weighted.alpha_ == removed.alpha_
    np.testing.assert_allclose(
        weighted.tuning_["log_loss"].to_numpy(), removed.tuning_["log_loss"].to_numpy(), rtol=1e-5
    )
    np.testing.assert_allclose(weighted.predict_proba(X), removed.predict_proba(X), atol=1e-6)


def test_warm_starts_go_on_with_the_strengths_that_were_chosen(calls, bent):
    clf = copy.deepcopy(bent).set_params(warm_start=True)
    strengths, first = (clf.alpha_, clf.link_alpha_), clf.history_["train_loss"]
    table = clf.tuning_
    calls.clear()
    clf.fit(X_BENT, Y_BENT)
    assert calls == ["train"]
    assert (clf.alpha_, clf.link_alpha_) == strengths
    assert clf.tuning_.equals(table)
    assert clf.history_["train_loss"][0] < 1.05 * first[0]  # which began with a model of some rows
    clf = MultinomialLogisticClassifier(warm_start=True).fit(X, y)
    alpha, before = clf.alpha_, clf.predict_proba(X)
    calls.clear()
    clf.fit(X, y)
    assert calls == ["fit_convex"]
    assert clf.alpha_ == alpha
    np.testing.assert_allclose(clf.predict_proba(X), before, atol=1e-5)
    clf.set_params(alpha=1.0).fit(X, y)
    assert clf.alpha_ == 1.0
    assert np.abs(clf.predict_proba(X) - before).max() > 0.05


@pytest.mark.parametrize("make", [LegendreTronClassifier, MultinomialLogisticClassifier])
def test_partial_fit(calls, make):
    clf = make(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    assert calls == ["train"]
    assert clf.alpha_ == 1e-4
    assert clf.link_alpha_ == (1e-4 if make is LegendreTronClassifier else math.inf)
    assert not hasattr(clf, "tuning_")
    clf.partial_fit(X, y)
    assert calls == ["train", "train"]
    tuned = make(**QUICK).fit(X, y)
    strengths, table = (tuned.alpha_, tuned.link_alpha_), tuned.tuning_
    before = tuned.coef_.copy()
    tuned.partial_fit(X[:50], y[:50])
    assert (tuned.alpha_, tuned.link_alpha_) == strengths
    assert tuned.tuning_.equals(table)
    assert not np.array_equal(tuned.coef_, before)


@pytest.mark.parametrize("place", ["tuning.logistic_path.fit_logistic", "training.history.Progress.update"])
def test_ctrl_c_leaves_a_fitted_estimator_as_it_was(place, monkeypatch):
    clf = LegendreTronClassifier(**QUICK).fit(X, y)
    before = clf.predict_proba(X), clf.tuning_

    def press(*args, **settings):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(f"legendretron.{place}", press)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X[:, :2], y)
    assert np.array_equal(clf.predict_proba(X), before[0])
    assert clf.tuning_.equals(before[1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_lbfgs_with_strengths_that_are_chosen():
    features, labels = load_breast_cancer(return_X_y=True)
    features, labels = features[::2], labels[::2]
    settings = {"link_alpha": 1e-3, "max_epochs": 50, "cv": 2, "random_state": 0}
    clf = LegendreTronClassifier(solver="lbfgs", **settings).fit(features, labels)
    share = labels.mean()
    frequencies = -share * math.log(share) - (1 - share) * math.log(1 - share)
    assert log_loss(labels, clf.predict_proba(features)) < 0.3 * frequencies
    check_table(clf)


def test_link_objects_can_be_in_any_precision():
    for link in (CanonicalLink(3, n_nests=2, dtype=torch.float64), CanonicalLink(3, n_nests=2)):
        clf = LegendreTronClassifier(link, link_alpha=0.01, **QUICK).fit(X, y)
        assert isinstance(clf.link_, CanonicalLink)
        assert next(clf.link_.parameters()).dtype == torch.float64
        check_table(clf)


def test_too_few_rows_to_hold_any_out():
    clf = LegendreTronClassifier(random_state=0).fit(np.eye(3), [0, 1, 2])
    assert len(clf.tuning_) == 0
    assert list(clf.tuning_.columns) == list(COLUMNS)
    assert clf.alpha_ == 0.01
    assert clf.predict(np.eye(3)).tolist() == [0, 1, 2]


def test_passes_of_a_link_do_not_limit_logistic_regression():
    features = np.random.default_rng(0).normal(size=(90, 80))
    clf = LegendreTronClassifier(standardize=False, max_epochs=2, cv=2, random_state=0)
    clf.fit(scipy.sparse.csr_array(features), y[::2].repeat(2)[:90])  # no warning that it has not converged
    assert clf.link_alpha_ == math.inf
    assert clf.n_iter_ > 2


def test_what_is_wrong_with_a_checkpoint_is_told_before_anything_is_tried(calls, tmp_path):
    for wrong in ({"random_state": None}, {"checkpoint": tmp_path}, {"solver": "lbfgs"}):
        with pytest.raises(ValueError, match="checkpoint"):
            LegendreTronClassifier(**{"checkpoint": tmp_path / "c", "random_state": 0, **wrong}).fit(X, y)
    assert calls == []


def test_strengths_of_other_data(tmp_path):
    path = tmp_path / "checkpoint"
    clf = LegendreTronClassifier(**{**QUICK, "random_state": 0}, checkpoint=path).fit(X, y)
    ChosenStrengths(path, "another fit").save(clf._tuning)
    with pytest.raises(ValueError, match="belongs to other data"):
        clf.fit(X, y)


def test_a_warm_start_takes_strengths_that_are_given_later():
    clf = LegendreTronClassifier(warm_start=True, random_state=0, cv=2, max_epochs=2).fit(X, y)
    assert clf.link_alpha_ == math.inf
    assert clf.set_params(alpha=10.0).fit(X, y).alpha_ == 10.0
    with pytest.raises(ValueError, match="link_alpha has been changed; set warm_start=False"):
        clf.set_params(link_alpha=1e-3).fit(X, y)


def test_folds_that_hold_out_nothing():
    with pytest.raises(ValueError, match=r"never holds out a row of a class .* give alpha and link_alpha\."):
        LegendreTronClassifier(cv=[(np.arange(100), np.arange(0))]).fit(X, y)
    with pytest.raises(ValueError, match=r"give alpha\."):
        MultinomialLogisticClassifier(cv=[(np.arange(100), np.arange(0))]).fit(X, y)
    with pytest.raises(ValueError, match=r"cv must be a number of folds.*got \[\]"):
        LegendreTronClassifier(cv=[]).fit(X, y)
    with pytest.raises(ValueError, match="groups never holds out a row"):
        LegendreTronClassifier().fit(X, y, groups=y)
