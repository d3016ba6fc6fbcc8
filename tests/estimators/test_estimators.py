"""The estimators in the hands of users: data of all kinds, pipelines, bad input, weights."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron import (
    CanonicalLink,
    CanonicalLoss,
    CompositeLink,
    LegendreTronClassifier,
    MultinomialLogisticClassifier,
)
from legendretron.training import History

X, y = load_iris(return_X_y=True)
X2, y2 = load_breast_cancer(return_X_y=True)
FAST = {"max_epochs": 30, "random_state": 0}
ESTIMATORS = [
    LegendreTronClassifier(**FAST),
    LegendreTronClassifier(link="canonical", **FAST),
    LegendreTronClassifier(link="softmax", **FAST),
    MultinomialLogisticClassifier(alpha=1e-2),
]
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: f"{type(e).__name__}-{getattr(e, 'link', '')}")


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
    assert len(clf.history_) == clf.n_iter_


def test_two_classes_have_the_sign_of_scikit_learn():
    ours = MultinomialLogisticClassifier(alpha=1e-2, standardize=False).fit(X2[:, :3] / 10, y2)
    theirs = LogisticRegression(C=1 / (1e-2 * len(X2)), max_iter=10_000, tol=1e-10).fit(X2[:, :3] / 10, y2)
    assert np.allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("alpha", [1e-1, 1e-3, 1e-4])
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer, load_digits])
def test_agrees_with_logistic_regression(load, alpha):
    features, labels = load(return_X_y=True)
    features = StandardScaler().fit_transform(features)
    ours = MultinomialLogisticClassifier(alpha=alpha, standardize=False).fit(features, labels)
    theirs = LogisticRegression(C=1 / (alpha * len(labels)), max_iter=100_000, tol=1e-8).fit(features, labels)
    assert np.abs(ours.predict_proba(features) - theirs.predict_proba(features)).max() < 1e-4


def test_standardising_inside_equals_a_pipeline():
    inside = MultinomialLogisticClassifier(alpha=1e-2).fit(X, y)
    outside = make_pipeline(StandardScaler(), MultinomialLogisticClassifier(alpha=1e-2, standardize=False)).fit(X, y)
    assert np.allclose(inside.predict_proba(X), outside.predict_proba(X), atol=1e-6)


@every
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
def test_sparse_equals_dense_without_centring(estimator):
    features = X * (X > 1.5)
    settings = {"standardize": False}
    dense = clone(estimator).set_params(**settings).fit(features, y)
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_matrix):
        sparse = clone(estimator).set_params(**settings).fit(kind(features), y)
        assert np.allclose(sparse.predict_proba(kind(features)), dense.predict_proba(features), atol=1e-6)
    scaled = clone(estimator).fit(scipy.sparse.csr_matrix(features), y)
    assert scaled.score(scipy.sparse.csr_matrix(features), y) > 0.8


@every
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype(estimator, dtype):
    by_data = clone(estimator).fit(X.astype(dtype), y)
    by_parameter = clone(estimator).set_params(dtype=dtype).fit(X, y)
    for clf in (by_data, by_parameter):
        assert clf.coef_.dtype == clf.predict_proba(X[:2].astype(dtype)).dtype == np.dtype(dtype)


@every
def test_random_state_repeats(estimator):
    first, second = (clone(estimator).fit(X, y).predict_proba(X) for _ in range(2))
    assert np.array_equal(first, second)


def test_many_classes_and_few_samples():
    features, labels = make_classification(n_samples=300, n_features=20, n_informative=15, n_classes=30,
                                           n_clusters_per_class=1, random_state=0)  # fmt: skip
    clf = LegendreTronClassifier(**FAST).fit(features, labels)
    assert clf.predict_proba(features).shape == (300, 30)


def test_early_stopping():
    clf = LegendreTronClassifier(early_stopping=True, max_epochs=500, n_iter_no_change=5, random_state=0).fit(X2, y2)
    assert clf.n_iter_ < 500
    assert np.isfinite(clf.history_["validation_loss"]).all()


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


def test_partial_fit_learns_over_calls():
    clf = LegendreTronClassifier(learning_rate=0.02, random_state=0)
    order = np.random.default_rng(0).permutation(150)
    losses = []
    for _ in range(40):
        for part in np.array_split(order, 3):
            clf.partial_fit(X[part], y[part], classes=[0, 1, 2])
        losses.append(-clf.predict_log_proba(X)[np.arange(150), y].mean())
    assert losses[-1] < 0.2 < losses[0]
    assert clf.n_iter_ == 120


def test_partial_fit_errors():
    clf = LegendreTronClassifier()
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        clf.partial_fit(X, y)
    clf.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"y holds labels that are not in classes: \[7\]"):
        clf.partial_fit(X, np.full(150, 7))
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        clf.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="X has 3 features"):
        clf.partial_fit(X[:, :3], y)


def test_warm_start_goes_on():
    clf = LegendreTronClassifier(warm_start=True, max_epochs=5, schedule="constant", random_state=0).fit(X, y)
    first = clf.history_["train_loss"][-1]
    clf.fit(X, y)
    assert clf.history_["train_loss"][0] < first * 1.05
    assert clf.history_["train_loss"][-1] < first
    with pytest.raises(ValueError, match="warm_start needs the classes of the first fit"):
        clf.fit(X, y % 2)


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
    assert not hasattr(composite, "loss_")
    with pytest.raises(AttributeError, match="use CanonicalLink"):
        _ = composite.loss_
    with pytest.raises(NotFittedError):
        _ = LegendreTronClassifier().predict(X)


@every
def test_in_the_company_of_scikit_learn(estimator):
    search = GridSearchCV(clone(estimator), {"alpha": [1e-3, 1e-1]}, cv=2, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_["alpha"] in (1e-3, 1e-1)
    pipeline = make_pipeline(StandardScaler(), clone(estimator))
    assert cross_val_predict(pipeline, X, y, cv=3, method="predict_proba").shape == (150, 3)
    assert CalibratedClassifierCV(clone(estimator).set_params(max_epochs=500), cv=2).fit(X, y).score(X, y) > 0.9
    again = pickle.loads(pickle.dumps(clone(estimator).fit(X, y)))
    assert np.array_equal(again.predict_proba(X), clone(estimator).fit(X, y).predict_proba(X))
    assert "arxiv.org" in clone(estimator)._repr_html_()


@every
def test_metadata_routing(estimator):
    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(estimator).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scores = cross_validate(routed, X, y, params={"sample_weight": np.ones(150)}, cv=2)
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), routed)
        piped.fit(X, y, sample_weight=np.ones(150))
    assert len(scores["test_score"]) == 2
    assert piped.score(X, y) > 0.5


def _nan():
    bad = X.copy()
    bad[3, 1] = np.nan
    return bad


def _inf():
    bad = X.copy()
    bad[3, 1] = np.inf
    return bad


@every
@pytest.mark.parametrize(
    ("features", "labels", "weight", "message"),
    [
        (_nan(), y, None, "NaN"),
        (_inf(), y, None, "infinity"),
        (X, np.zeros(150), None, "only one class"),
        (X[:0], y[:0], None, "0 sample"),
        (X, y[:100], None, "inconsistent numbers of samples"),
        (X, y + 0.5, None, "Unknown label type"),
        (X, y, -np.ones(150), "Negative values"),
        (X, y, np.zeros(150), "(?i)sample.?weight"),
        (X, y, np.ones(3), "sample_weight.shape"),
        (X.reshape(-1), y, None, "Expected 2D array"),
    ],
)
def test_bad_data_is_refused_and_nothing_is_half_fitted(estimator, features, labels, weight, message):
    fresh = clone(estimator)
    with pytest.raises(ValueError, match=message):
        fresh.fit(features, labels, sample_weight=weight)
    assert not [name for name in vars(fresh) if name.endswith("_")]
    fitted = clone(estimator).fit(X2[::10, :7], y2[::10])
    before = fitted.predict_proba(X2[:, :7])
    with pytest.raises(ValueError, match=message):
        fitted.fit(features, labels, sample_weight=weight)
    assert fitted.n_features_in_ == 7
    assert np.array_equal(fitted.predict_proba(X2[:, :7]), before)


@every
def test_more_features_at_predict(estimator):
    clf = clone(estimator).fit(X, y)
    with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 4 features"):
        clf.predict(np.ones((2, 5)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1}, "'alpha' parameter .* Got -1"),
        ({"link": "probit"}, "link must be one of .* got 'probit'"),
        ({"link_alpha": -0.1}, "'link_alpha' parameter"),
        ({"hidden": 0}, "'hidden' parameter .* Got 0"),
        ({"n_blocks": 0}, "'n_blocks' parameter"),
        ({"depth": 1.5}, "'depth' parameter"),
        ({"solver": "sgd"}, "'solver' parameter"),
        ({"learning_rate": 0}, "'learning_rate' parameter"),
        ({"batch_size": 0}, "'batch_size' parameter"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
        ({"dtype": "float16"}, "'dtype' parameter"),
        ({"device": "tpu"}, "device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got 'tpu'"),
        ({"checkpoint": "x", "solver": "lbfgs"}, "checkpoint needs solver='adam'"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        LegendreTronClassifier(**parameters).fit(X, y)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none():
    with pytest.raises(ValueError, match="device='cuda' was asked for, but torch sees no CUDA device here"):
        LegendreTronClassifier(device="cuda").fit(X, y)
    assert LegendreTronClassifier(device="auto", **FAST).fit(X, y).score(X, y) > 0.8


def test_warnings():
    with pytest.warns(ConvergenceWarning, match=r"has not converged in 3 iterations \(max_epochs=3\)"):
        MultinomialLogisticClassifier(max_epochs=3).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultinomialLogisticClassifier().fit(X, y)


class _Died(Exception):
    pass


def _die_in_epoch(monkeypatch, number):
    """Make training die at the end of an epoch, as a killed process would."""
    original = History.append

    def append(self, epoch, *rest):
        if epoch == number:
            raise _Died
        original(self, epoch, *rest)

    monkeypatch.setattr(History, "append", append)


def test_a_fit_that_died_is_resumed(tmp_path, monkeypatch):
    path = tmp_path / "fit.safetensors"
    settings = {"max_epochs": 12, "random_state": 0, "checkpoint_every": 5}
    plain = LegendreTronClassifier(**settings).fit(X, y)
    with monkeypatch.context() as patch:
        _die_in_epoch(patch, 8)
        with pytest.raises(_Died):
            LegendreTronClassifier(checkpoint=path, **settings).fit(X, y)
    # only this very fit may go on from there
    for other in (
        LegendreTronClassifier(checkpoint=path, alpha=0.5, **settings),
        LegendreTronClassifier(checkpoint=path, **{**settings, "random_state": 1}),
        LegendreTronClassifier(checkpoint=path, link=CompositeLink(3).double(), **settings),
    ):
        with pytest.raises(ValueError, match="belongs to other data, settings or random_state"):
            other.fit(X, y)
    with pytest.raises(ValueError, match="belongs to other data"):
        LegendreTronClassifier(checkpoint=path, **settings).fit(X + 1e-9, y)
    content = path.read_bytes()
    path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with pytest.raises(ValueError, match="checksum does not match"):
        LegendreTronClassifier(checkpoint=path, **settings).fit(X, y)
    path.write_bytes(content)
    epochs = []
    original = History.append
    monkeypatch.setattr(
        History, "append", lambda self, epoch, *rest: (epochs.append(epoch), original(self, epoch, *rest))
    )
    resumed = LegendreTronClassifier(checkpoint=path, **settings).fit(X, y)
    assert epochs == list(range(6, 13))  # from the checkpoint on, and not from the start
    assert np.array_equal(plain.predict_proba(X), resumed.predict_proba(X))
    assert not path.exists()


def test_checkpoints_that_could_not_be_resumed_are_refused(tmp_path):
    with pytest.raises(ValueError, match="checkpoint needs a random_state"):
        LegendreTronClassifier(checkpoint=tmp_path / "c").fit(X, y)
    with pytest.raises(ValueError, match=r"checkpoint must be the path of a file, but .* is a folder"):
        LegendreTronClassifier(checkpoint=tmp_path, random_state=0).fit(X, y)


@every
def test_sparse_data_after_dense_ones(estimator):
    """Centring cannot be had on sparse data; it moves into the intercept instead."""
    clf = clone(estimator).set_params(warm_start=True, max_epochs=300 if estimator.solver == "lbfgs" else 30)
    before = clf.fit(X, y).predict_proba(X)
    after = clf.fit(scipy.sparse.csr_matrix(X), y).predict_proba(X)
    assert -np.log(after[np.arange(150), y]).mean() < -np.log(before[np.arange(150), y]).mean() + 0.02


def test_a_failed_warm_start_in_another_precision_leaves_the_model_alone():
    clf = LegendreTronClassifier(warm_start=True, **FAST).fit(X, y)
    before = clf.predict_proba(X)
    clf.set_params(early_stopping=True, validation_fraction=0.001)
    with pytest.raises(ValueError, match=r"early_stopping cannot hold out validation_fraction=0.001 of 150 samples"):
        clf.fit(X.astype(np.float32), y)
    assert np.array_equal(clf.predict_proba(X), before)


def test_early_stopping_looks_at_rows_it_does_not_train_on():
    """Labels without a pattern can be learned by heart, but not foreseen."""
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(120, 60)), rng.integers(0, 2, 120)
    clf = LegendreTronClassifier(early_stopping=True, validation_fraction=0.3, n_iter_no_change=50, max_epochs=200,
                                 learning_rate=0.05, alpha=0.0, random_state=0).fit(features, labels)  # fmt: skip
    assert clf.history_["train_loss"][-1] < 0.3
    assert clf.history_["validation_loss"][-1] > 0.7


def test_class_order_of_link_and_loss():
    clf = LegendreTronClassifier(**FAST).fit(X2, y2)
    assert list(clf.link_classes_) == [1, 0]
    z = torch.as_tensor(clf.linear_predictor(X2))
    columns = clf.link_.inverse(z).numpy()[:, np.argsort(clf.link_classes_)]
    assert np.allclose(columns, clf.predict_proba(X2))
    position = torch.as_tensor(np.argsort(clf.link_classes_)[y2])
    assert clf.loss_(z, position) < 0.5 * clf.loss_(z, 1 - position)
    three = LegendreTronClassifier(**FAST).fit(X, y)
    assert list(three.link_classes_) == [0, 1, 2]


def test_rows_that_count_nothing_are_not_there():
    weight = np.ones(150)
    weight[:40] = 0
    for make in (
        lambda: MultinomialLogisticClassifier(alpha=0.1, class_weight="balanced", tol=1e-10),
        lambda: LegendreTronClassifier(batch_size=16, class_weight="balanced", **FAST),
    ):
        weighted, removed = make().fit(X, y, sample_weight=weight), make().fit(X[40:], y[40:])
        assert np.allclose(weighted.predict_proba(X), removed.predict_proba(X), atol=1e-7)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_bad_class_weights(weight):
    with pytest.raises(ValueError, match="class_weight must hold finite, non-negative weights"):
        LegendreTronClassifier(class_weight={0: 1, 1: 1, 2: weight}).fit(X, y)


def test_class_weights_that_leave_nothing():
    with pytest.raises(ValueError, match="leaves no sample that counts"):
        LegendreTronClassifier(class_weight={0: 0, 1: 0, 2: 0}).fit(X, y)


def test_weights_of_partial_fit_count_across_calls():
    def after(weight):
        clf = LegendreTronClassifier(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
        return clf.partial_fit(X[:10], y[:10], sample_weight=np.full(10, weight)).coef_

    assert not np.allclose(after(1e3), after(1e-3))
    with pytest.raises(ValueError, match="class_weight='balanced' needs all data at once"):
        LegendreTronClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])


def test_partial_fit_keeps_the_moments_of_adam():
    kept = LegendreTronClassifier(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    lost = LegendreTronClassifier(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    lost._standardized.moments = None
    assert not np.allclose(kept.partial_fit(X, y).coef_, lost.partial_fit(X, y).coef_)


def test_penalties_differ_for_three_classes_and_not_for_two():
    for data, same in (((X, y), False), ((X2, y2), True)):
        p = [
            MultinomialLogisticClassifier(alpha=0.1, penalty=k).fit(*data).predict_proba(data[0])
            for k in ("symmetric", "reference")
        ]
        assert np.allclose(*p, atol=1e-6) == same


def test_lbfgs_says_when_it_gave_up():
    with pytest.warns(ConvergenceWarning, match="scale the features"):
        MultinomialLogisticClassifier(alpha=1e-4, standardize=False, max_epochs=200).fit(X * 1e9, y)


def test_a_start_at_the_minimum_still_counts_as_an_iteration():
    clf = MultinomialLogisticClassifier().fit(np.ones((10, 2)), [0, 1] * 5)
    assert clf.n_iter_ == len(clf.history_) == 1
    assert np.allclose(clf.predict_proba(np.ones((1, 2))), 0.5)


def test_extreme_weights_and_features():
    plain = MultinomialLogisticClassifier(alpha=0.1).fit(X, y).predict_proba(X)
    for size in (1e307, 1e-300):
        weighted = MultinomialLogisticClassifier(alpha=0.1).fit(X, y, sample_weight=np.full(150, size))
        assert np.allclose(weighted.predict_proba(X), plain, atol=1e-6)


@pytest.mark.parametrize("group", ["libsvm", "mnist", "aloi"])
def test_presets(group):
    clf = LegendreTronClassifier.from_paper(group, random_state=1)
    assert clf.network == "cpflow"
    assert clf.init == "paper"
    assert clf.link_alpha is None  # the same as alpha
    assert clf.penalize_intercept
    assert clf.random_state == 1
    baseline = MultinomialLogisticClassifier.from_paper(group)
    for name in ("alpha", "learning_rate", "decay", "max_epochs", "batch_size"):
        assert getattr(baseline, name) == getattr(clf, name)
    with pytest.raises(ValueError, match="group must be one of 'libsvm', 'mnist', 'aloi', got 'uci'"):
        LegendreTronClassifier.from_paper("uci")


def test_presets_are_the_papers_table():
    clf = LegendreTronClassifier.from_paper("mnist")
    assert (clf.n_blocks, clf.hidden, clf.depth) == (1, 4, 4)
    assert (clf.learning_rate, clf.decay, clf.decay_every, clf.max_epochs, clf.batch_size) == (0.001, 0.7, 4, 200, 128)
    assert LegendreTronClassifier.from_paper("aloi").max_epochs == 360


@pytest.mark.exhaustive
def test_learns_probabilities_drawn_from_a_known_canonical_link():
    """A linear model with a link far from softmax: learned probabilities come closer than logistic regression's.

    Stated: from 20,000 draws a mean total variation below 0.02, and below a fifth of logistic regression's.
    """
    rng = np.random.default_rng(0)
    link = CanonicalLink(3, n_nests=2, dtype=torch.float64)
    mu, offsets = torch.tensor([6.0, 0.2]), torch.tensor([[3.0, -3.0, 0.0], [-1.0, 1.0, 0.0]])
    with torch.no_grad():
        link.nests.log_mu.copy_(mu.log())
        link.nests.log_beta.fill_(np.log(0.5))
        link.nests.offsets.copy_(offsets[:, :-1])
        link.nests.reference_offset.zero_()
        link.nests.gate_bias.copy_(-0.5 / mu * torch.logsumexp(offsets, -1))  # both nests matter near the origin
    features = rng.normal(size=(20_000, 4))
    weight = np.array([[2.0, -1.0], [0.5, 1.5], [-1.0, 0.0], [0.0, 1.0]])
    with torch.no_grad():
        truth = link.inverse(torch.as_tensor(features @ weight)).numpy()
    labels = (truth.cumsum(1) < rng.random((20_000, 1))).sum(1)

    def distance(clf):
        return 0.5 * np.abs(clf.fit(features, labels).predict_proba(features) - truth).sum(1).mean()

    settings = {"alpha": 1e-5, "max_epochs": 40, "random_state": 0, "batch_size": 512, "learning_rate": 0.03}
    logistic = distance(MultinomialLogisticClassifier(alpha=1e-5))
    canonical = distance(LegendreTronClassifier(link="canonical", **settings))
    composite = distance(LegendreTronClassifier(link="composite", hidden=8, **settings))
    assert canonical < 0.02
    assert canonical < logistic / 5
    assert composite < logistic / 2


def test_composite_link_object_with_cpflow():
    clf = LegendreTronClassifier(link=CompositeLink(3, network="cpflow", dtype=torch.float64), **FAST).fit(X, y)
    assert not clf.link_.needs_batch


def test_the_layout_of_the_features_in_memory_does_not_matter():
    X, y = load_breast_cancer(return_X_y=True)
    rows, columns = (LegendreTronClassifier(max_epochs=3, random_state=0).fit(a, y) for a in (X, np.asfortranarray(X)))
    assert np.array_equal(rows.coef_, columns.coef_)
    assert np.array_equal(rows.predict_proba(X), rows.predict_proba(np.asfortranarray(X)))


def test_rows_that_come_one_by_one_are_not_forgotten_when_two_come():
    """A first batch of one row has no variance to set the normalisation by; a later one must not undo what was trained."""
    clf = LegendreTronClassifier.from_paper("libsvm", random_state=0)
    for i in range(60):
        clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1, 2])
    assert not clf.link_.needs_batch
    before = clf.predict_proba(X)
    clf.set_params(learning_rate=1e-12).partial_fit(X[60:62], y[60:62])
    np.testing.assert_allclose(clf.predict_proba(X), before, atol=1e-8)
