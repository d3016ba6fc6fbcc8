"""Fits that are cut short, diverge, count little, or are large."""

import signal

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

from legendretron import LegendreTronClassifier, MultinomialLogisticClassifier
from legendretron.estimators import fit_splits
from legendretron.estimators.standardization import Standardizer
from legendretron.training.history import Progress
from tests.given import GIVEN


@pytest.fixture
def interrupted_fits(monkeypatch):
    """Press Ctrl-C at the end of the third epoch of every fit; returns the number of fits begun."""
    begun = []

    def update(self, epoch, *losses):
        if epoch == 1:
            begun.append(self)
        if epoch == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "update", update)
    return begun


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_ctrl_c_ends_a_loop_of_fits(interrupted_fits, solver):
    X, y = load_iris(return_X_y=True)
    clf = LegendreTronClassifier(max_epochs=50, solver=solver, random_state=0, **GIVEN)
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(clf, X, y, cv=5, error_score="raise")
    assert len(interrupted_fits) == 1
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert set(vars(clf)) == set(clf.get_params())  # as it was
    with pytest.raises(KeyboardInterrupt):
        fit_splits(clf.set_params(standardize=False), X, y, np.arange(150).reshape(1, -1), [0])


def test_a_fit_that_diverged_warns():
    X, y = load_iris(return_X_y=True)
    for early_stopping in (False, True):
        clf = LegendreTronClassifier(
            learning_rate=1e3, max_epochs=5, early_stopping=early_stopping, random_state=0, **GIVEN
        )
        with pytest.warns(ConvergenceWarning, match=r"Training has diverged: .* Lower learning_rate, got 1000"):
            clf.fit(X, y)


@pytest.mark.parametrize("link", ["composite", "canonical"])
def test_rows_are_trained_on_in_chunks_by_lbfgs(monkeypatch, link):
    X, y = load_iris(return_X_y=True)
    clf = LegendreTronClassifier(
        link, solver="lbfgs", alpha=0.1, link_alpha=0.1, max_epochs=20, early_stopping=True, random_state=0
    )
    whole = clone(clf).fit(X, y)
    monkeypatch.setattr("legendretron._internal.chunks.ENTRIES_AT_ONCE", 3 * 7)
    parts = clf.fit(X, y)
    assert np.allclose(parts.history_["train_loss"], whole.history_["train_loss"], rtol=1e-6)
    assert np.allclose(parts.history_["validation_loss"], whole.history_["validation_loss"], rtol=1e-6)
    assert np.allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["dense", "sparse", "stream"])
@pytest.mark.parametrize("constant", [1e22, -1e22, 0.1, [1e22, np.nextafter(1e22, np.inf)]])
def test_a_constant_does_no_harm_whatever_its_size(constant, form, dtype):
    """Also not if it is one only up to rounding, in double precision."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[::2, :5].astype(dtype), y[::2]
    column = np.resize(constant, len(X)).astype(dtype)
    # a sparse one, which is not centered, is a second intercept
    reference = np.column_stack([X, np.ones_like(column)]) if form == "sparse" else X
    probabilities = []
    for table in (reference, np.column_stack([X, column])):
        clf = MultinomialLogisticClassifier(alpha=1e-2, random_state=0)
        if form == "stream":
            clf.set_params(max_epochs=5).fit_stream((table, y))
        else:
            clf.fit(scipy.sparse.csr_array(table) if form == "sparse" else table, y)
        probabilities.append(clf.predict_proba(table))
    np.testing.assert_allclose(probabilities[1], probabilities[0], atol=1e-4 if dtype == np.float32 else 1e-6)


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_features_whose_squares_underflow_are_no_constants(make):
    wide = np.random.default_rng(0).normal(size=(50, 3))
    wide[:, 1] = 0.0
    ours = Standardizer.fit(make(wide * [1e-165, 1.0, 1e-250]), np.ones(50), standardize=True)
    plain = Standardizer.fit(make(wide), np.ones(50), standardize=True)
    assert ours.scale == pytest.approx(plain.scale * [1e-165, 1.0, 1e-250], rel=1e-12, abs=0)
    assert ours.mean == pytest.approx(plain.mean * [1e-165, 1.0, 1e-250], rel=1e-12, abs=0)
