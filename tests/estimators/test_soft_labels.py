"""Soft labels: shares of the classes of each row."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from legendretron import LegendreNetClassifier, LegendreTronClassifier, MultinomialLogisticClassifier, TableClassifier
from legendretron.estimators.fit_data import SoftLabels, validation_split
from legendretron.estimators.votes import combine_votes
from legendretron.tuning.folds import make_folds

X, Y = make_classification(300, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
ONE_HOT = np.eye(3)[Y]
RNG = np.random.default_rng(0)
SHARES = 0.7 * ONE_HOT + 0.3 * RNG.dirichlet([1, 1, 1], 300)
WEIGHT = RNG.uniform(0.5, 2.0, 300)

ESTIMATORS = {
    "logistic regression": lambda: MultinomialLogisticClassifier(random_state=0),
    "link": lambda: LegendreTronClassifier(
        alpha=0.1, max_epochs=5, link_params={"hidden": 2, "depth": 2}, random_state=0
    ),
    "early stopping": lambda: LegendreTronClassifier(
        alpha=0.1, link_alpha=0.1, max_epochs=5, early_stopping=0.2, random_state=0
    ),
    "balanced": lambda: MultinomialLogisticClassifier(alpha=0.01, class_weight="balanced"),
    "networks": lambda: LegendreNetClassifier((8,), max_steps=60, random_state=0),
    "table": lambda: TableClassifier(MultinomialLogisticClassifier(alpha=0.01)),
}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_one_hot_rows_are_hard_labels(kind):
    hard = ESTIMATORS[kind]().fit(X, Y, sample_weight=WEIGHT)
    soft = ESTIMATORS[kind]().fit(X, ONE_HOT, sample_weight=WEIGHT)
    np.testing.assert_allclose(soft.predict_proba(X), hard.predict_proba(X), rtol=1e-12)
    assert np.array_equal(soft.classes_, hard.classes_)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_shares_are_fitted(kind):
    model = ESTIMATORS[kind]().fit(X, SHARES, sample_weight=WEIGHT)
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    frame = pd.DataFrame(SHARES, columns=["z", "a", "m"])  # names of columns are the labels
    named = ESTIMATORS[kind]().fit(X, frame, sample_weight=WEIGHT)
    assert named.classes_.tolist() == ["a", "m", "z"]
    if kind == "balanced":
        np.testing.assert_allclose(named.predict_proba(X)[:, 2], p[:, 0], atol=1e-6)
    assert -(SHARES * np.log(p)).sum(1).mean() < -(SHARES * np.log(SHARES.mean(0))).sum(1).mean()
    if kind == "networks" and not model.is_linear_:
        assert model.oof_proba_.shape == (300, 3)


def test_balanced_classes_have_equal_sums_of_shares():
    rows = np.flatnonzero((Y > 0) | (np.arange(300) % 4 == 0))
    factors = dict(enumerate(len(rows) / (3 * SHARES[rows].sum(0))))
    by_name, by_hand = (
        MultinomialLogisticClassifier(alpha=0.01, class_weight=weight).fit(X[rows], SHARES[rows])
        for weight in ("balanced", factors)
    )
    np.testing.assert_allclose(by_name.predict_proba(X), by_hand.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_solution_is_that_of_weighted_copies(n_classes):
    shares = SHARES[:, :n_classes] / SHARES[:, :n_classes].sum(1, keepdims=True)
    model = MultinomialLogisticClassifier(alpha=0.01, standardize=False).fit(X, shares, sample_weight=WEIGHT)
    copies = LogisticRegression(C=1.0 / (0.01 * WEIGHT.sum()), tol=1e-10, max_iter=10_000)
    copies.fit(np.repeat(X, n_classes, 0), np.tile(np.arange(n_classes), 300), (WEIGHT[:, None] * shares).ravel())
    if n_classes > 2:
        np.testing.assert_allclose(model.predict_proba(X), copies.predict_proba(X), atol=1e-4)
    sparse = MultinomialLogisticClassifier(alpha=0.01, standardize=False)
    sparse.fit(scipy.sparse.csr_array(X), shares, sample_weight=WEIGHT)
    np.testing.assert_allclose(sparse.predict_proba(X), model.predict_proba(X), atol=1e-4)
    # the mean gradient of the log-loss in the intercepts is zero
    np.testing.assert_allclose(WEIGHT @ (model.predict_proba(X) - shares) / WEIGHT.sum(), 0.0, atol=1e-5)


@pytest.mark.parametrize(
    "cv", [None, 3, KFold(3), [(np.arange(100, 300), np.arange(100))]], ids=["auto", "3", "KFold", "given"]
)
def test_copies_of_a_row_are_held_out_together(cv):
    copies = np.repeat(np.arange(300), 3)
    y = np.tile(np.arange(3), 300)
    y[::3], y[1::3] = Y, (Y + 1) % 3
    y[2::3] = (Y + 2) % 3
    rows = np.flatnonzero(copies != 7)  # of weight zero
    folds = make_folds(cv, np.zeros((900, 2)), y, rows, None, 0, copies)
    assert folds
    for train, held in folds:
        assert not np.intersect1d(copies[train], copies[held]).size
        assert not np.isin(7, copies[np.concatenate([train, held])])
        assert (np.bincount(copies[held], minlength=300)[np.unique(copies[held])] == 3).all()
    groups = np.arange(300) // 10
    for train, held in make_folds(3, np.zeros((900, 2)), y, rows, groups, 0, copies):
        assert not np.intersect1d(groups[copies[train]], groups[copies[held]]).size
    kept, held = validation_split(rows, y[rows], 0.2, 0, copies)
    assert not np.intersect1d(copies[kept], copies[held]).size
    assert len(kept) + len(held) == len(rows)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[0, 1, 1]] * 4, r"row 0 \(from 0\) sum to 2; if these are votes, divide each row by their number"),
        ([[0.5, 0.2, 0.1]] * 4, "sum to 0.8; divide each row by its sum"),
        ([[1.5, -0.5, 0.0]] * 4, r"shares of the classes, from 0 to 1, got \[1.5, -0.5, 0.0\] in row 0"),
        ([[np.nan, 0.5, 0.5]] * 4, "shares of the classes, from 0 to 1"),
        ([[0.5, 0.5, 0.0]] * 4, "class 2 has none; leave its column out"),
        ([["a", "b", "c"]] * 4, "must contain shares of the classes, from 0 to 1, got \\['a', 'b', 'c'\\]"),
        ([[0.5, 0.3, 0.2]] * 3, "y must have one row of shares per row of X, 4, got 3"),
    ],
)
@pytest.mark.parametrize("estimator", [MultinomialLogisticClassifier(alpha=0.1), LegendreNetClassifier()], ids=str)
def test_what_is_no_table_of_shares(estimator, y, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X[:4], np.array(y))
    with pytest.raises(ValueError, match="some have the same name"):
        estimator.fit(X, pd.DataFrame(SHARES, columns=["a", "a", "b"]))


def test_shares_of_two_decimals_are_scaled():
    shares = np.round(SHARES, 2)
    model = MultinomialLogisticClassifier(alpha=0.01)
    exact = clone(model).fit(X, shares / shares.sum(1, keepdims=True)).predict_proba(X)
    np.testing.assert_allclose(
        model.fit(X, 0.99 * shares / shares.sum(1, keepdims=True)).predict_proba(X), exact, atol=1e-6
    )


def three_votes(p, seed=0):
    """Shares of three votes for each row, drawn from probabilities."""
    u = np.random.default_rng(seed).random((3, len(p), 1))
    return np.eye(p.shape[1])[(p.cumsum(1) < u).sum(2).clip(max=p.shape[1] - 1)].mean(0)


def log_loss(model, X, y):
    return -np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean()


VOTERS = {
    "logistic regression": MultinomialLogisticClassifier(cv=3, label_noise="symmetric", random_state=0),
    "networks": LegendreNetClassifier((8,), max_steps=60, label_noise="symmetric", random_state=0),
}


@pytest.mark.parametrize("kind", VOTERS)
def test_votes_that_are_often_wrong(kind):
    rng, train, test = np.random.default_rng(0), slice(800), slice(800, None)
    x = rng.normal(size=(2800, 4))
    p = softmax(2.5 * x @ rng.normal(size=(4, 3)), axis=1)
    y = (p.cumsum(1) < rng.random((2800, 1))).sum(1)
    shares = three_votes(0.55 * np.eye(3)[y[train]] + 0.15)  # a vote is wrong with a probability of 0.3
    model = clone(VOTERS[kind]).fit(x[train], shares)
    assert model.noise_rate_ < 0.05  # of what is left when votes are weighed by predictions
    right = clone(VOTERS[kind]).fit(x[train], y[train])
    assert log_loss(model, x[test], y[test]) < log_loss(right, x[test], y[test]) + 0.1
    if kind != "networks":  # which are trained for too few steps here
        majority = clone(VOTERS[kind]).fit(x[train], (shares + 1e-3 * rng.random(shares.shape)).argmax(1))
        assert log_loss(model, x[test], y[test]) < log_loss(majority, x[test], y[test]) - 0.01
    sets = model.predict_set(x[test], 0.9, randomized=True, random_state=0)
    assert 0.86 < sets[np.arange(2000), y[test]].mean() < 0.95


@pytest.mark.parametrize("kind", VOTERS)
def test_votes_on_rows_that_are_ambiguous_are_not_wrong(kind):
    z = np.random.default_rng(0).normal(size=(1500, 2))
    p = 1 / (1 + np.exp(-4 * z[:, 0]))  # clear for most rows
    model = clone(VOTERS[kind]).set_params(label_noise="auto").fit(z, three_votes(np.column_stack([1 - p, p])))
    assert model.noise_rate_ == 0.0
    assert np.abs(model.predict_proba(z)[:, 1] - p).mean() < 0.04


def test_votes_on_few_ambiguous_rows_are_not_sharpened():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2060, 5))
    logits = x @ rng.normal(size=(5, 3))
    votes = (logits[:, None] + rng.gumbel(size=(2060, 3, 3))).argmax(2)
    model = clone(VOTERS["logistic regression"]).set_params(label_noise="auto")
    model.fit(x[:60], np.eye(3)[votes[:60]].mean(1))
    plain = clone(model).set_params(label_noise=None).fit(x[:60], np.eye(3)[votes[:60]].mean(1))
    assert log_loss(model, x[60:], votes[60:, 0]) < log_loss(plain, x[60:], votes[60:, 0]) + 0.02


def test_votes_count_the_same_when_training_goes_on():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2600, 5))
    logits = 3 * x @ rng.normal(size=(5, 3))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    shares = three_votes(0.5 * np.eye(3)[y[:600]] + 0.5 / 3)
    model = clone(VOTERS["logistic regression"]).set_params(warm_start=True).fit(x[:600], shares)
    before = log_loss(model, x[600:], y[600:])
    assert log_loss(model.fit(x[:600], shares), x[600:], y[600:]) < before + 0.02


def test_votes_of_unequal_numbers_are_not_combined():
    random = np.random.default_rng(0)
    true = random.integers(3, size=600)
    for several, combined in ((np.full(600, 3), True), (random.integers(1, 4, 600), False)):
        votes = [
            (k + random.integers(1, 3, n) * (random.random(n) < 0.3)) % 3 for k, n in zip(true, several, strict=True)
        ]
        shares = np.array([np.bincount(one, minlength=3) / len(one) for one in votes])
        row, label = np.nonzero(shares)
        assert (combine_votes(row, shares[row, label], 3) is not None) == combined


def test_dates_are_no_shares():
    dates = np.array([["2024-05-31", "2024-06-01"]] * 3, dtype="datetime64[D]")
    with pytest.raises(ValueError, match="Unknown label type: y holds dates"):
        SoftLabels.read(dates)
