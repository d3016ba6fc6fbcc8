"""The estimators in the hands of users: data of all kinds, pipelines, what is learned."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron import CanonicalLink, CanonicalLoss, LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators.fit_data import validation_split
from legendretron.losses import CompositeLoss
from tests.estimators.cases import FAST, X2, X, every, of_both_classes, y, y2


@every
@pytest.mark.parametrize("data", [(X, y), (X2, y2)], ids=["three", "two"])
def test_shapes_and_consistency(estimator, data):
    features, labels = data
    clf = clone(estimator).fit(features, labels)
    c, d = len(np.unique(labels)), features.shape[1]
    p = clf.predict_proba(features)
    assert p.shape == (len(features), c)
    assert np.allclose(p.sum(1), 1)
    assert np.allclose(np.exp(clf.predict_log_proba(features)), p)
    assert np.array_equal(clf.predict(features), clf.classes_[p.argmax(1)])
    scores = clf.decision_function(features)
    decided = (scores > 0).astype(int) if c == 2 else scores.argmax(1)
    assert np.array_equal(clf.classes_[decided], clf.predict(features))
    assert list(clf.link_classes_) == ([1, 0] if c == 2 else [0, 1, 2])
    position = torch.as_tensor(np.argsort(clf.link_classes_)[labels])
    z = torch.as_tensor(clf.linear_predictor(features))
    assert clf.loss_(z, position) < 0.5 * clf.loss_(z, (position + 1) % c)
    assert clf.coef_.shape == (c - 1, d)
    assert clf.intercept_.shape == (c - 1,)
    z = clf.linear_predictor(features)
    assert np.allclose(z, features @ clf.coef_.T + clf.intercept_)
    with torch.no_grad():
        from_link = clf.link_.inverse(torch.as_tensor(z)).numpy()
    assert np.allclose(from_link if c > 2 else from_link[:, ::-1], p)
    assert clf.score(features, labels) > 0.8
    assert clf.n_features_in_ == d
    assert clf.n_iter_ >= 1
    assert clf.history_["epoch"][-1] == clf.n_iter_


@pytest.mark.parametrize(("load", "alpha"), [
    (load_iris, 1e-1), (load_breast_cancer, 1e-4), pytest.param(load_digits, 1e-4, marks=pytest.mark.exhaustive)
])  # fmt: skip
def test_agrees_with_logistic_regression(load, alpha):
    features, labels = load(return_X_y=True)
    features = StandardScaler().fit_transform(features)
    inside = load(return_X_y=True)[0] if alpha == 1e-1 else features  # standardizing is the same inside
    ours = MultinomialLogisticClassifier(alpha=alpha, standardize=alpha == 1e-1).fit(inside, labels)
    theirs = LogisticRegression(C=1 / (alpha * len(labels)), max_iter=100_000, tol=1e-8).fit(features, labels)
    assert np.abs(ours.predict_proba(inside) - theirs.predict_proba(features)).max() < 1e-4


@of_both_classes
def test_string_labels_and_data_frames(estimator):
    names = np.array(["setosa", "versicolor", "virginica"])
    frame = pd.DataFrame(X, columns=list("abcd"))
    clf = clone(estimator).fit(frame, names[y])
    assert list(clf.feature_names_in_) == list("abcd")
    assert set(clf.predict(frame)) <= set(names)
    assert np.allclose(clf.predict_proba(frame), clone(estimator).fit(X, y).predict_proba(X), rtol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame.rename(columns={"a": "z"}))


@every
def test_sparse_equals_dense_without_centering(estimator):
    features = X * (X > 1.5)
    settings = {"standardize": False}
    dense = clone(estimator).set_params(**settings).fit(features, y)
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_matrix):
        sparse = clone(estimator).set_params(**settings).fit(kind(features), y)
        assert np.allclose(sparse.predict_proba(kind(features)), dense.predict_proba(features), atol=1e-6)
    scaled = clone(estimator).fit(scipy.sparse.csr_matrix(features), y)
    assert scaled.score(scipy.sparse.csr_matrix(features), y) > 0.8


@of_both_classes
@pytest.mark.parametrize("read_only", [False, True], ids=["own", "read-only"])
@pytest.mark.parametrize("in_order", [False, True], ids=["unsorted", "sorted"])
def test_sparse_matrices_are_not_changed(estimator, read_only, in_order):
    """Scikit-learn hands a matrix in the right format and precision on without a copy."""
    given, clf = scipy.sparse.csr_matrix(X), clone(estimator).set_params(standardize=False)
    expected = clf.fit(given, y).predict_proba(given)
    if not in_order:  # each row backwards
        given.indices, given.data = (part.reshape(150, 4)[:, ::-1].ravel() for part in (given.indices, given.data))
        given.has_sorted_indices = False
    parts = [given.data, given.indices, given.indptr]
    before = [part.copy() for part in parts]
    for part in parts:
        part.flags.writeable = not read_only
    assert np.allclose(clf.fit(given, y).predict_proba(given), expected, rtol=1e-6)
    assert all(np.array_equal(part, old) for part, old in zip(parts, before, strict=True))
    assert given.indices is parts[1]


@of_both_classes
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype(estimator, dtype):
    by_data = clone(estimator).fit(X.astype(dtype), y)
    by_parameter = clone(estimator).set_params(dtype=dtype).fit(X, y)
    for clf in (by_data, by_parameter):
        assert clf.coef_.dtype == clf.predict_proba(X[:2].astype(dtype)).dtype == np.dtype(dtype)


def test_link_objects_are_copied_and_trained():
    link = CanonicalLink(3, n_nests=2, dtype=torch.float64)
    before = {k: v.clone() for k, v in link.state_dict().items()}
    clf = LegendreTronClassifier(link=link, **FAST).fit(X, y)
    assert isinstance(clf.link_, CanonicalLink)
    assert clf.link_ is not link
    assert all(torch.equal(v, before[k]) for k, v in link.state_dict().items())
    assert not torch.equal(clf.link_.nests.offsets, link.nests.offsets)
    assert clone(clf).link is not link
    with pytest.raises(ValueError, match="link must be for n_classes=2"):
        LegendreTronClassifier(link=link).fit(X2, y2)


def test_the_learned_loss():
    clf = LegendreTronClassifier(link="canonical", **FAST).fit(X, y)
    assert isinstance(clf.loss_, CanonicalLoss)
    assert isinstance(LegendreTronClassifier(**FAST).fit(X2, y2).loss_, CanonicalLoss)
    composite = LegendreTronClassifier(**FAST).fit(X, y)
    loss, z = composite.loss_, torch.as_tensor(composite.linear_predictor(X))
    assert isinstance(loss, CompositeLoss)
    assert np.allclose(loss.predict_proba(z).numpy(), composite.predict_proba(X), atol=1e-6)
    assert loss(z, torch.as_tensor(y)).item() == pytest.approx(log_loss(y, composite.predict_proba(X)), rel=1e-4)
    assert loss.canonicality.n_points > 500
    assert isinstance(MultinomialLogisticClassifier().fit(X, y).loss_, CanonicalLoss)
    with pytest.raises(NotFittedError):
        _ = LegendreTronClassifier().predict(X)


@of_both_classes
def test_in_the_company_of_scikit_learn(estimator):
    search = GridSearchCV(clone(estimator), {"alpha": [1e-3, 1e-1]}, cv=2, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_["alpha"] in (1e-3, 1e-1)
    pipeline = make_pipeline(StandardScaler(), clone(estimator))
    assert cross_val_predict(pipeline, X, y, cv=3, method="predict_proba").shape == (150, 3)
    longer = clone(estimator).set_params(max_epochs=100, learning_rate=0.1)
    assert CalibratedClassifierCV(longer, cv=2).fit(X, y).score(X, y) > 0.9
    again = pickle.loads(pickle.dumps(clone(estimator).fit(X, y)))
    assert np.array_equal(again.predict_proba(X), clone(estimator).fit(X, y).predict_proba(X))
    assert "arxiv.org" in clone(estimator)._repr_html_()


@of_both_classes
def test_metadata_routing(estimator):
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(estimator).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scores = cross_validate(routed, X, y, params={"sample_weight": np.ones(150)}, cv=2)
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), routed)
        piped.fit(X, y, sample_weight=np.ones(150))
    assert len(scores["test_score"]) == 2
    assert piped.score(X, y) > 0.5


def test_early_stopping_looks_at_rows_it_does_not_train_on():
    """Labels without a pattern can be learned by heart, but not foreseen."""
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(120, 60)), rng.integers(0, 2, 120)
    clf = LegendreTronClassifier(early_stopping=0.3, max_epochs=200,
                                 learning_rate=0.05, alpha=0.0, link_alpha=0.0,
                                 random_state=0).fit(features, labels)  # fmt: skip
    assert clf.n_iter_ < 200
    assert clf.history_["train_loss"][-1] < 0.3
    assert clf.history_["validation_loss"][-1] > 0.7


@pytest.mark.parametrize("kind", ["rows", "groups", "copies"])
def test_penalties_and_units_do_not_know_the_rows_of_early_stopping(kind):
    """So it makes no difference to them what these rows are."""
    groups = np.arange(len(y)) // 3 if kind == "groups" else None
    shares, copies, rows, labels = y, None, np.arange(len(y)), y
    if kind == "copies":
        shares = np.eye(3)[y] * 0.8 + 0.2 * np.eye(3)[(y + 1) % 3]
        copies, rows, labels = np.repeat(np.arange(len(y)), 2), np.arange(2 * len(y)), np.repeat(y, 2)
    _, held_out = validation_split(rows, labels, 0.2, 0, copies, groups)
    held_out = held_out if copies is None else np.unique(copies[held_out])
    assert len(held_out) == 0.2 * len(y)
    others = X.copy()
    others[held_out] = 1.0 + X[held_out][::-1]
    found = []
    for features in (X, others):
        clf = LegendreTronClassifier(
            alpha=0.1, cv=2, max_epochs=2, link_params={"hidden": 2, "depth": 2}, early_stopping=0.2, random_state=0
        )
        found.append(clf.fit(features, shares, groups=groups))
    columns = ["model", "log_loss", "standard_error", "held_out_rows"]
    assert found[0].tuning_[columns].equals(found[1].tuning_[columns])
    assert np.array_equal(found[0]._standardized.mean, found[1]._standardized.mean)
    losses = [clf.history_["validation_loss"][0] for clf in found]
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)


def test_groups_are_held_out_together_for_early_stopping():
    groups = np.random.default_rng(0).integers(0, 40, len(y))
    for share in (0.1, 0.3, 0.7):
        kept, held_out = validation_split(np.arange(len(y)), y, share, 0, groups=groups)
        assert not np.intersect1d(groups[kept], groups[held_out]).size
        assert len(held_out) == pytest.approx(share * len(y), abs=0.1 * len(y))
        assert len(np.union1d(kept, held_out)) == len(y)
        shares = np.bincount(y[held_out], minlength=3) / np.bincount(y)
        assert np.ptp(shares) < 0.25
    settings = {"alpha": 0.1, "link_alpha": 0.1, "max_epochs": 1, "early_stopping": 0.3}
    with pytest.raises(
        ValueError, match=r"early_stopping cannot hold out a share of 0\.3 of 3 groups and leave rows of e"
    ):
        LegendreTronClassifier(**settings).fit(X, y, groups=y)
    with pytest.raises(ValueError, match=r"groups must have one entry per row, 150, got shape \(149,\)"):
        LegendreTronClassifier(**settings).fit(X, y, groups=y[:-1])


def test_penalties_differ_for_three_classes_and_not_for_two():
    shared = {"alpha": 0.1, "solver": "lbfgs", "max_epochs": 1000, "tol": 1e-8, "standardize": True}
    for data, same in (((X, y), False), ((X2, y2), True)):
        ours = MultinomialLogisticClassifier(**shared).fit(*data).predict_proba(data[0])
        papers = MultinomialLogisticClassifier.from_paper("libsvm", penalize_intercept=False, init="identity", **shared)
        assert np.allclose(ours, papers.fit(*data).predict_proba(data[0]), atol=1e-6) == same


def test_a_start_at_the_minimum_still_counts_as_an_iteration():
    clf = MultinomialLogisticClassifier().fit(np.ones((10, 2)), [0, 1] * 5)
    assert clf.n_iter_ == len(clf.history_) == 1
    assert np.allclose(clf.predict_proba(np.ones((1, 2))), 0.5)


def test_settings_of_the_link_are_laid_over_those_of_the_paper():
    clf = LegendreTronClassifier.from_paper("libsvm", link_params={"hidden": 3})
    assert clf.link_params == {"n_blocks": 2, "hidden": 3, "depth": 4, "network": "cpflow"}
    mnist = LegendreTronClassifier.from_paper("mnist", link_params=None)
    assert mnist.link_params == {"n_blocks": 1, "hidden": 4, "depth": 4, "network": "cpflow"}
    settings = (mnist.learning_rate, mnist.decay, mnist.decay_every, mnist.max_epochs, mnist.batch_size)
    assert settings == (0.001, 0.7, 4, 200, 128)
    assert LegendreTronClassifier.from_paper("libsvm").link_params["hidden"] == 2  # a copy was changed
    assert LegendreTronClassifier.from_paper("libsvm", link="canonical", link_params={"n_nests": 2}).link_params == {
        "n_nests": 2
    }
    with pytest.raises(ValueError, match="'link_params' parameter"):
        LegendreTronClassifier.from_paper("libsvm", link_params="hidden").fit(X, y)
