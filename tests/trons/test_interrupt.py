"""Ctrl-C in the middle of a fit: a real signal, sent when the line of the second iteration is printed."""

import contextlib
import io
import os
import signal
import time

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

    pressed = False

    def write(self, text):
        if text.startswith("epoch 2/") and not self.pressed:
            self.pressed = True
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.02)  # the handler runs before this is over, whichever thread the signal went to
        return super().write(text)


@contextlib.contextmanager
def ctrl_c():
    before = signal.getsignal(signal.SIGINT)
    stream = CtrlC()
    try:
        with contextlib.redirect_stderr(stream):
            yield
    finally:
        assert stream.pressed
        assert signal.getsignal(signal.SIGINT) is before


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, (X @ [1.0, 2.0, -1.0] + rng.logistic(size=60) > 0).astype(int)


@every_tron
def test_raises_and_leaves_the_estimator_as_it_was(tron):
    X, y = data()
    clf = clone(tron)
    with pytest.raises(KeyboardInterrupt), ctrl_c():
        clf.fit(X, y)
    assert not hasattr(clf, "classes_")
    assert not hasattr(clf, "n_features_in_")
    clf.set_params(max_iter=3, verbose=0).fit(X, y)
    before = dict(vars(clf))
    clf.set_params(max_iter=3000, verbose=2)
    with pytest.raises(KeyboardInterrupt), ctrl_c():
        clf.fit(X[:, :2], 1 - y)
    assert {**vars(clf), "max_iter": 3, "verbose": 0} == before
