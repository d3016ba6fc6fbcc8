"""What the link learners promise: recovery, errors, links, uncertainty."""

import copy
import functools
import signal

import numpy as np
import pytest
import scipy.sparse
import torch
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legendretron import canonicality
from legendretron.diagnostics import monotonicity
from legendretron.training.history import Progress
from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)
from legendretron.trons.base import Design

ALL = {
    "glmtron": GLMTronClassifier(max_iter=50),
    "slisotron": SlIsotronClassifier(max_iter=30),
    "bregmantron": BregmanTronClassifier(max_iter=30),
    "bregmantron_label": BregmanTronClassifier("label", max_iter=10),
    "bregmantron_approx": BregmanTronClassifier("approx", max_iter=30),
    # predictors to convergence in each iteration: those of a few steps hang on rounding, which here differs
    "isgp": ISGPLinkgisticClassifier(alpha=1e-3, max_iter=8, m_steps=300, random_state=0),
    "gp": GPLinkgisticClassifier(alpha=1e-3, max_iter=8, m_steps=300, random_state=0),
}
#: of the same kind as others, with the same code for data of all sorts
ALIKE = ("bregmantron_approx", "gp")


def cases(values):
    """Parameters of tests: the same for every estimator."""
    return [
        pytest.param(value, id=name, marks=pytest.mark.exhaustive if name in ALIKE else ())
        for name, value in values.items()
    ]


every_estimator = pytest.mark.parametrize("clf", cases(ALL))
every_name = pytest.mark.parametrize("name", cases({name: name for name in ALL}))


@functools.cache
def fitted(name):
    """One of these, fitted to the data of breast cancer; tests that change it change a copy."""
    return clone(ALL[name]).fit(*load_breast_cancer(return_X_y=True))


@pytest.fixture(scope="module")
def cancer():
    return load_breast_cancer(return_X_y=True)


def single_index(n, inverse_link, seed=0):
    """Features, labels and the probabilities they were drawn from."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    p = inverse_link(X @ np.array([1.0, 2.0, -1.0, 0.5]))
    return X, (rng.random(n) < p).astype(int), p


def bent(z):
    """Increasing, not a sigmoid: with a step in the middle, and never near 0 or 1."""
    return 0.1 + 0.8 * expit(z + 1.5 * np.tanh(2 * z))


@pytest.mark.parametrize(("name", "truth", "first", "last"), [
    ("glmtron", expit, 0.15, 0.04),
    pytest.param("slisotron", bent, 0.30, 0.16, marks=pytest.mark.exhaustive),
    pytest.param("isgp", bent, 0.30, 0.09, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_recovery_of_a_known_link(name, truth, first, last):
    """Sup-distances at fresh points, but not beyond where all but a few of the data lie, of 1,000 and 16,000 rows."""
    clf = {
        "glmtron": GLMTronClassifier(max_iter=500, tol=1e-9),
        "slisotron": SlIsotronClassifier(max_iter=40),
        "isgp": ISGPLinkgisticClassifier(max_iter=10, random_state=0),
    }[name]
    distances = []
    for n in (1000, 16_000):
        off = []
        for seed in range(2):
            fitted = clf.fit(*single_index(n, truth, seed)[:2])
            fresh, _, p = single_index(4000, truth, seed + 100)
            inside = np.abs(fresh).max(1) < 2
            off.append(np.abs(fitted.predict_proba(fresh)[inside, 1] - p[inside]).max())
        distances.append(np.mean(off))
    assert distances[0] < first
    assert distances[1] < min(last, 0.6 * distances[0])


def test_a_learned_link_beats_the_fixed_one_where_it_should():
    X, y, p = single_index(4000, bent)
    error = {}
    for name in ("glmtron", "isgp", "slisotron"):
        error[name] = np.abs(ALL[name].fit(X, y).predict_proba(X)[:, 1] - p).mean()
    assert error["isgp"] < 0.4 * error["glmtron"]
    assert error["slisotron"] < 0.7 * error["glmtron"]


@pytest.mark.parametrize("variant", ["exact", "approx"])
def test_bregmantron_of_values_stays_near_the_sigmoid_and_learns_the_predictor(variant):
    X, y, p = single_index(4000, expit)
    clf = BregmanTronClassifier(variant).fit(X, y)
    assert np.abs(clf.predict_proba(X)[:, 1] - p).mean() < 0.03
    z = np.linspace(-3, 3, 50)
    assert np.abs(clf.inverse_link(z) - expit(z)).max() < 0.05
    # steps are those of the sigmoid's slope, 1/4, not of max_slope
    eigenvalue = np.linalg.eigvalsh(np.cov(X.T, bias=True) / np.outer(X.std(0), X.std(0)))[-1]
    assert clf.history_["learning_rate"][0] == pytest.approx(4 / eigenvalue, rel=1e-3)
    assert (np.asarray(clf.history_["learning_rate"]) > 2 / eigenvalue).all()


def test_the_largest_eigenvalue_does_not_hang_on_the_start():
    x = np.array([[6.0, 8.0]])
    weight = np.full(100, 0.01)
    assert Design(np.repeat([x[0], -x[0]], 50, axis=0), weight, False).largest_eigenvalue(weight) == pytest.approx(100)
    x = np.array([[1.0, -1.0]])
    assert Design(np.repeat([x[0], -x[0]], 50, axis=0), weight, False).largest_eigenvalue(weight) == pytest.approx(2)
    for X in (np.random.default_rng(0).normal(size=(100, 7)), np.ones((100, 1))):
        ones = np.column_stack([X, np.ones(100)])
        expected = np.linalg.eigvalsh(ones.T @ ones / 100)[-1]
        assert Design(X, weight, False).largest_eigenvalue(weight) == pytest.approx(expected, rel=1e-3)
    with pytest.raises(ValueError, match="too large to multiply"):
        Design(np.full((100, 2), 1e200), weight, False).largest_eigenvalue(weight)


@every_estimator
def test_attributes_and_consistency(clf, cancer):
    X, y = cancer
    names = np.array(["malignant", "benign"])[y]
    clf.fit(X, names)
    assert clf.classes_.tolist() == ["benign", "malignant"]
    assert clf.link_classes_.tolist() == ["malignant", "benign"]
    assert clf.score(X, names) > 0.93
    z = clf.linear_predictor(X)
    assert np.allclose(z, X @ clf.coef_[0] + clf.intercept_[0])
    p = clf.predict_proba(X)
    assert np.allclose(p[:, 1], np.clip(clf.inverse_link(z), 0, 1))
    assert np.allclose(np.exp(clf.predict_log_proba(X)), p)
    assert clf.coef_.shape == (1, 30)
    assert 1 <= clf.n_iter_ <= clf.max_iter
    assert len(clf.history_) == clf.n_iter_
    report = monotonicity(clf.inverse_link, z)
    assert report.outside_share == 0.0


@every_name
def test_link_and_loss_where_there_is_an_inverse(name, cancer):
    X, _ = cancer
    clf = fitted(name)
    z = clf.linear_predictor(X)
    if isinstance(clf, SlIsotronClassifier):
        report = monotonicity(clf.inverse_link, z)
        assert report.falling_share == 0.0
        assert report.flat_share > 0
        assert report.saturated_share > 0
        assert not report.is_link
        with pytest.raises(AttributeError, match="inverse_link evaluates it as it is"):
            _ = clf.link_
        return
    p = clf.link_.inverse(torch.as_tensor(z)[:, None]).numpy()
    assert np.allclose(p[:, 0], clf.predict_proba(X)[:, 1], atol=1e-12)  # the link's first class is the second
    loss = clf.loss_
    half = torch.tensor([0.5, 0.5], dtype=torch.float64)
    assert float(loss.regret(half, half)) == 0.0
    assert float(loss.regret(half, torch.tensor([0.4, 0.6], dtype=torch.float64))) > 0
    assert canonicality(clf.link_, torch.as_tensor(z)[:50, None]).nonmonotone_share == 0.0


def test_gp_is_not_held_to_be_monotone():
    X, y, _ = single_index(1200, lambda z: 0.1 + 0.8 * expit(2 * z) - 0.6 * expit(4 * (z - 2.5)))
    clf = GPLinkgisticClassifier(random_state=0).fit(X, y)
    report = monotonicity(clf.inverse_link, np.linspace(-4, 4, 200))
    assert report.falling_share > 0.1
    assert report.largest_fall > 0.3
    with pytest.raises(AttributeError, match="ISGPLinkgisticClassifier learns a link"):
        _ = clf.link_
    assert not hasattr(clf, "loss_")
    increasing = ISGPLinkgisticClassifier(random_state=0).fit(X, y)
    assert monotonicity(increasing.inverse_link, np.linspace(-4, 4, 200)).falling_share == 0.0


@pytest.mark.parametrize("variant", ["exact", "label", "approx"])
def test_bregmantron_keeps_its_slopes(variant):
    X, y, _ = single_index(1500, bent)
    clf = BregmanTronClassifier(variant, min_slope=0.02, max_slope=0.5, max_iter=15).fit(X, y)
    slopes = clf.link_.slopes[:-1]
    assert float(slopes.max()) <= 0.5 + 1e-6
    width = float(clf.link_.knots[-1] - clf.link_.knots[0])
    assert float(slopes.min()) >= min(0.02, 0.998 / (2 * width)) - 1e-6


@pytest.mark.parametrize(
    "cls", [ISGPLinkgisticClassifier, pytest.param(GPLinkgisticClassifier, marks=pytest.mark.exhaustive)]
)
def test_the_bound_never_falls(cls, cancer):
    for X, y in (cancer, single_index(1000, bent)[:2]):
        clf = cls(alpha=1e-3, max_iter=12, random_state=0, tol=0).fit(X, y)
        rises = np.diff(clf.bound_)
        assert (rises >= -1e-9 * np.abs(clf.bound_[1:])).all()
        assert clf.bound_[-1] > clf.bound_[0]
        assert (clf.bound_error_ >= 0).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("cls", [ISGPLinkgisticClassifier, GPLinkgisticClassifier])
def test_defaults_do_not_overfit_data_that_a_line_can_separate(cls, cancer):
    wine_X, wine_y = load_wine(return_X_y=True)
    for X, y in (cancer, (wine_X[wine_y < 2], wine_y[wine_y < 2])):
        learned, fixed = [], []
        for seed in range(3):
            train, test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
            learned.append(log_loss(y_test, cls(random_state=seed).fit(train, y_train).predict_proba(test)))
            logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(train, y_train)
            fixed.append(log_loss(y_test, logistic.predict_proba(test)))
        assert np.mean(learned) < 1.25 * np.mean(fixed)


def test_the_automatic_penalty_falls_with_the_number_of_samples():
    X, y, _ = single_index(50, expit)
    automatic = ISGPLinkgisticClassifier(max_iter=3, random_state=0).fit(X, y)
    given = ISGPLinkgisticClassifier(alpha=10 / 50, max_iter=3, random_state=0).fit(X, y)
    assert np.allclose(automatic.coef_, given.coef_, rtol=1e-9)
    assert not np.allclose(
        ISGPLinkgisticClassifier(alpha=1e-4, max_iter=3, random_state=0).fit(X, y).coef_, given.coef_
    )


def test_posterior_links_and_their_spread():
    spread = []
    for n in (300, 3000):
        X, y, _ = single_index(n, bent)
        clf = ISGPLinkgisticClassifier(random_state=0).fit(X, y)
        z = np.linspace(-3, 3, 25)
        links = clf.sample_link(40, random_state=1)
        p = np.stack([link.inverse(torch.as_tensor(z)[:, None])[:, 0].numpy() for link in links])
        assert np.allclose(p, expit(clf.sample_log_odds(z, 40, random_state=1)), atol=1e-12)
        for bad in (0, -1, 2.5):
            for sample in (clf.sample_link, lambda n, clf=clf: clf.sample_log_odds([0.0], n)):
                with pytest.raises(ValueError, match="n_samples must be an integer of at least 1"):
                    sample(bad)
        assert (np.diff(p, axis=1) >= 0).all()
        spread.append(p.std(0).mean())
    assert spread[1] < 0.5 * spread[0]  # uncertainty goes down as data come in
    # the truth lies in the band at most points, up to the unit of the predictor, which the learner chooses
    scale = np.linalg.norm(clf.coef_) / np.linalg.norm([1.0, 2.0, -1.0, 0.5])
    wide = expit(clf.sample_log_odds(z * scale + clf.intercept_[0], 400, random_state=2))
    low, high = np.quantile(wide, [0.005, 0.995], axis=0)
    assert ((bent(z) > low - 0.01) & (bent(z) < high + 0.01)).mean() > 0.8


@every_estimator
def test_sparse_is_dense(clf, cancer):
    X, y = cancer
    X = X * (np.median(X, 0) < X)
    clf = clf.set_params(standardize=True)
    sparse = clf.fit(scipy.sparse.csr_array(X), y).predict_proba(X)
    scaled = X / X.std(0)
    dense = clf.set_params(standardize=False).fit(scaled, y).predict_proba(scaled)
    clf.set_params(standardize=True)
    assert np.allclose(sparse, dense, atol=1e-4)


@every_name
def test_single_precision_is_close_to_double(name, cancer):
    X, y = cancer
    single = clone(ALL[name]).fit(X.astype(np.float32), y).predict_proba(X.astype(np.float32))
    assert single.dtype == np.float32
    assert np.abs(single - fitted(name).predict_proba(X)).mean() < 0.01


@every_estimator
def test_constant_features_give_the_base_rate(clf):
    y = np.array([0, 1, 1, 1] * 10)
    p = clf.fit(np.ones((40, 2)), y).predict_proba(np.ones((1, 2)))
    assert np.allclose(p, [[0.25, 0.75]], atol=1e-2)
    p = clf.fit(np.ones((40, 2)), np.arange(40) % 10 == 0).predict_proba(np.ones((1, 2)))
    assert np.allclose(p, [[0.9, 0.1]], atol=1e-2)


@every_name
def test_errors_and_nothing_half_fitted(name, cancer):
    X, y = cancer
    clf = copy.deepcopy(fitted(name))
    before = clf.predict_proba(X)
    iris_X, iris_y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=rf"y holds 3 classes; use .*OneVsRestClassifier\({type(clf).__name__}\(\)\)"):
        clf.fit(iris_X, iris_y)
    with pytest.raises(ValueError, match=r"contains only one class: np.int64"):
        clf.fit(X, np.ones(len(y), dtype=int))
    with pytest.raises(ValueError, match=r"sample_weight must not be zero|at least one non-zero"):
        clf.fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match=r"leave samples of only one class"):
        clf.fit(X, y, y.astype(float))
    for weights, message in (({0: -1.0, 1: 1.0}, "finite, non-negative"), ({0: 0.0, 1: 1.0}, "only one class")):
        with pytest.raises(ValueError, match=message):
            clone(clf).set_params(class_weight=weights).fit(X, y)
    with pytest.raises(ValueError, match=r"too large"):
        clf.set_params(standardize=True).fit(X * 1e300, y)
    assert np.array_equal(clf.predict_proba(X), before)


def test_one_against_rest():
    X, y = load_iris(return_X_y=True)
    for clf in (ISGPLinkgisticClassifier(alpha=1e-3, max_iter=5, random_state=0), BregmanTronClassifier("label")):
        assert OneVsRestClassifier(clf.set_params(max_iter=10)).fit(X, y).score(X, y) > 0.8


@every_estimator
def test_class_weights_are_weights_of_rows(clf):
    X, y, _ = single_index(400, lambda z: 1 / (1 + np.exp(1.5 - z)))
    balanced = len(y) / (2.0 * np.bincount(y))
    by_row = clone(clf).fit(X, y, sample_weight=balanced[y]).predict_proba(X)
    for class_weight in ("balanced", dict(enumerate(balanced))):
        by_class = clone(clf).set_params(class_weight=class_weight).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(by_class, by_row, atol=1e-6)
    assert np.abs(clone(clf).fit(X, y).predict_proba(X) - by_row).max() > 0.01


RNG = np.random.default_rng(0)
X = RNG.normal(size=(25, 3)) * (RNG.random((25, 3)) < 0.7)
Y = np.arange(25) % 2
COUNTS = RNG.integers(1, 5, size=25)
#: the sample with weights, and with repetitions in another order
REPEATED = RNG.permutation(np.repeat(np.arange(25), COUNTS))


@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array])
@pytest.mark.parametrize("cls", [ISGPLinkgisticClassifier, GPLinkgisticClassifier])
def test_models_of_weights_and_repetitions_are_equal(cls, container):
    weighted = cls(random_state=0).fit(container(X), Y, COUNTS)
    repeated = cls(random_state=0).fit(container(X)[REPEATED], Y[REPEATED])
    assert np.array_equal(weighted.coef_, repeated.coef_)
    assert np.array_equal(weighted.predict_proba(container(X)), repeated.predict_proba(container(X)))


@pytest.mark.parametrize(("cls", "parameters", "message"), [
    (BregmanTronClassifier, {"min_slope": 2.0}, "min_slope must not exceed max_slope, got min_slope=2.0, max_slope=1.0"),
    (GLMTronClassifier, {"learning_rate": 1e308}, "learning_rate=1e.308 is too large"),
])  # fmt: skip
def test_parameters_that_are_refused(cls, parameters, message, cancer):
    with pytest.raises(ValueError, match=message):
        cls(**parameters).fit(*cancer)


@every_estimator
def test_ctrl_c_raises_and_leaves_the_estimator_as_it_was(clf, monkeypatch):
    X, y, _ = single_index(60, expit)
    fitted = clone(clf).set_params(max_iter=3).fit(X, y)
    before = dict(vars(fitted))

    def press(self, epoch, *losses):
        if epoch == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "update", press)
    for one in (fresh := clone(clf), fitted):
        with pytest.raises(KeyboardInterrupt):
            one.fit(X[:, :2], 1 - y)
    assert vars(fitted) == before
    assert set(vars(fresh)) == set(fresh.get_params())
