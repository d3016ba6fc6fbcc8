"""Ctrl-C in the middle of a fit: a real signal, sent when the line of the second iteration is printed."""

import contextlib
import io
import os
import signal
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from legendretron.trons import (
    BregmanTronClassifier,
    GLMTronClassifier,
    GPLinkgisticClassifier,
    ISGPLinkgisticClassifier,
    SlIsotronClassifier,
)

#: fits that go on for long, if nothing ends them
LONG = {"max_iter": 3000, "tol": 0.0, "verbose": 2}
TRONS = {
    "glmtron": GLMTronClassifier(**LONG, n_iter_no_change=3000),
    "slisotron": SlIsotronClassifier(**LONG, n_iter_no_change=3000),
    "bregmantron": BregmanTronClassifier(**LONG, n_iter_no_change=3000),
    "bregmantron_label": BregmanTronClassifier("label", **LONG, n_iter_no_change=3000),
    "bregmantron_approx": BregmanTronClassifier("approx", **LONG, n_iter_no_change=3000),
    "isgp": ISGPLinkgisticClassifier(**LONG, random_state=0),
    "gp": GPLinkgisticClassifier(**LONG, random_state=0),
}
every_tron = pytest.mark.parametrize("tron", TRONS.values(), ids=TRONS.keys())


class CtrlC(io.StringIO):
    """A standard error stream that interrupts the process when it is told of the second iteration."""

    def __init__(self, times):
        super().__init__()
        self.left = times

    def write(self, text):
        if text.startswith("epoch 2/"):
            while self.left:
                self.left -= 1
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.02)  # the handler runs before this is over, whichever thread the signal went to
        return super().write(text)


@contextlib.contextmanager
def ctrl_c(times=1):
    before = signal.getsignal(signal.SIGINT)
    stream = CtrlC(times)
    try:
        with contextlib.redirect_stderr(stream):
            yield
    finally:
        assert stream.left == 0
        assert signal.getsignal(signal.SIGINT) is before


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, (X @ [1.0, 2.0, -1.0] + rng.logistic(size=60) > 0).astype(int)


@every_tron
def test_keeps_the_weights_reached_so_far(tron):
    X, y = data()
    clf = clone(tron).set_params(keep_interrupted=True)
    with (
        ctrl_c(),
        pytest.warns(UserWarning, match=r"^Training was interrupted; the weights reached so far are kept\.$"),
    ):
        clf.fit(X, y)
    assert clf.n_iter_ == len(clf.history_) == 2
    whole = clone(clf).set_params(max_iter=2, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole.fit(X, y)
    np.testing.assert_allclose(clf.coef_, whole.coef_, rtol=1e-12)
    np.testing.assert_allclose(clf.predict_proba(X), whole.predict_proba(X), rtol=1e-12)


def test_the_warning_points_to_the_call():
    X, y = data()
    with ctrl_c(), pytest.warns(UserWarning, match="interrupted") as caught:
        clone(TRONS["glmtron"]).set_params(keep_interrupted=True).fit(X, y)
    assert [warning.filename for warning in caught] == [__file__]


@every_tron
@pytest.mark.parametrize(("keep", "times"), [(False, 1), (True, 2)], ids=["raises", "second"])
def test_raises_and_leaves_the_estimator_as_it_was(tron, keep, times):
    X, y = data()
    clf = clone(tron).set_params(keep_interrupted=keep)
    with pytest.raises(KeyboardInterrupt), ctrl_c(times):
        clf.fit(X, y)
    assert not hasattr(clf, "classes_")
    assert not hasattr(clf, "n_features_in_")
    clf.set_params(max_iter=3, verbose=0).fit(X, y)
    before = dict(vars(clf))
    clf.set_params(max_iter=3000, verbose=2)
    with pytest.raises(KeyboardInterrupt), ctrl_c(times):
        clf.fit(X[:, :2], 1 - y)
    assert {**vars(clf), "max_iter": 3, "verbose": 0} == before
