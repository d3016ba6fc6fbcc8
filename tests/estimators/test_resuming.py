"""Going on from a fit: warm starts, partial fits, sparse data after dense ones, checkpoints."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from legendretron import CompositeLink, LegendreTronClassifier
from legendretron.training import History
from tests.estimators.cases import FAST, X, every, y
from tests.given import GIVEN


def test_partial_fit_learns_over_calls():
    clf = LegendreTronClassifier(learning_rate=0.04, random_state=0)
    order = np.random.default_rng(0).permutation(150)
    losses = []
    for _ in range(20):
        for part in np.array_split(order, 3):
            clf.partial_fit(X[part], y[part], classes=[0, 1, 2])
        losses.append(-clf.predict_log_proba(X)[np.arange(150), y].mean())
    assert losses[-1] < 0.2 < losses[0]
    assert clf.n_iter_ == 60


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
    clf = LegendreTronClassifier(warm_start=True, max_epochs=5, random_state=0, **GIVEN).fit(X, y)
    first = clf.history_["train_loss"][-1]
    clf.fit(X, y)
    assert clf.history_["train_loss"][0] < first * 1.05
    assert clf.history_["train_loss"][-1] < first
    with pytest.raises(ValueError, match="warm_start needs the classes of the first fit"):
        clf.fit(X, y % 2)


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
    monkeypatch.setattr("legendretron.estimators.settings._CHECKPOINT_EPOCHS", 5)
    settings = {**GIVEN, "max_epochs": 12, "random_state": 0}
    plain = LegendreTronClassifier(**settings).fit(X, y)
    with monkeypatch.context() as patch:
        _die_in_epoch(patch, 8)
        with pytest.raises(_Died):
            LegendreTronClassifier(checkpoint=path, **settings).fit(X, y)
    # only this very fit may go on from there
    for other in (
        LegendreTronClassifier(checkpoint=path, **{**settings, "alpha": 0.5}),
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


@every
def test_sparse_data_after_dense_ones(estimator):
    """Centring cannot be had on sparse data; it moves into the intercept instead."""
    clf = clone(estimator).set_params(warm_start=True, max_epochs=30 if hasattr(estimator, "link") else 300)
    before = clf.fit(X, y).predict_proba(X)
    after = clf.fit(scipy.sparse.csr_matrix(X), y).predict_proba(X)
    assert -np.log(after[np.arange(150), y]).mean() < -np.log(before[np.arange(150), y]).mean() + 0.02


def test_a_failed_warm_start_in_another_precision_leaves_the_model_alone():
    clf = LegendreTronClassifier(warm_start=True, **FAST).fit(X, y)
    before = clf.predict_proba(X)
    clf.set_params(early_stopping=0.001)
    with pytest.raises(ValueError, match=r"early_stopping cannot hold out a share of 0.001 of 150 rows"):
        clf.fit(X.astype(np.float32), y)
    assert np.array_equal(clf.predict_proba(X), before)


def test_partial_fit_keeps_the_moments_of_adam():
    kept = LegendreTronClassifier(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    lost = LegendreTronClassifier(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    lost._standardized.moments = None
    assert not np.allclose(kept.partial_fit(X, y).coef_, lost.partial_fit(X, y).coef_)


def test_rows_that_come_one_by_one_are_not_forgotten_when_two_come():
    """A first batch of one row has no variance to set the normalization by; a later one must not undo what was trained."""
    clf = LegendreTronClassifier.from_paper("libsvm", random_state=0)
    for i in range(60):
        clf.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1, 2])
    assert not clf.link_.needs_batch
    before = clf.predict_proba(X)
    clf.set_params(learning_rate=1e-12).partial_fit(X[60:62], y[60:62])
    np.testing.assert_allclose(clf.predict_proba(X), before, atol=1e-8)
