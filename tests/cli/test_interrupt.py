"""Ctrl-C: no model that is not whole."""

import signal

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from legendretron import LegendreTronClassifier
from legendretron.training.progress import Progress
from tests.cli.conftest import FIXED


@pytest.fixture
def interrupt_at(monkeypatch):
    """Press Ctrl-C at the end of an epoch."""

    def at(epoch):
        def update(self, now, *losses):
            if now == epoch:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(Progress, "update", update)

    return at


@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_no_model_is_left(run, tables, tmp_path, interrupt_at, solver):
    message = "interrupted, no model was written"
    interrupt_at(3)
    out = tmp_path / "m"
    out.write_bytes(b"an older model")
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", out, "--seed", 0, "--solver", solver, "--json", *FIXED]
    ran = run(*words, code=130)
    assert ran.error == message
    assert ran.json == {"error": message}
    assert out.read_bytes() == b"an older model"
    assert list(tmp_path.iterdir()) == [out]


def test_the_same_command_goes_on(run, tables, tmp_path, interrupt_at):
    words = ["fit", tables / "iris.csv", "-t", "kind", "--seed", 0, "--epochs", 40, *FIXED]
    run(*words, "-o", tmp_path / "at once")
    interrupt_at(25)
    resumable = [*words, "-o", tmp_path / "in two", "--checkpoint", tmp_path / "c"]
    assert run(*resumable, code=130).error.endswith("the same command resumes from the checkpoint")
    interrupt_at(None)
    run(*resumable)
    assert not (tmp_path / "c").exists()
    first, second = (LegendreTronClassifier.load(tmp_path / name) for name in ("at once", "in two"))
    assert np.array_equal(first.coef_, second.coef_)


def test_a_fit_that_chooses_goes_on(run, tmp_path, monkeypatch):
    """Interrupted after the penalties were chosen: they are chosen again, and training resumes."""
    X, y = load_digits(return_X_y=True)
    frame = pd.DataFrame(X.reshape(-1, 2, 4, 2, 4).mean((2, 4)).reshape(-1, 4)[:400], columns=list("abcd"))
    frame.assign(kind=y[:400]).to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", tmp_path / "t.csv", "-t", "kind", "--seed", 0, "--link-alpha", "1e-4", "--epochs", 20]
    run(*words, "-o", tmp_path / "at once")
    resumable = [*words, "-o", tmp_path / "in two", "--checkpoint", tmp_path / "c"]
    update = Progress.update

    def interrupt(self, now, *losses):
        update(self, now, *losses)
        if now == 15 and (tmp_path / "c").exists():
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "update", interrupt)
    assert run(*resumable, code=130).error.endswith("the same command resumes from the checkpoint")
    monkeypatch.setattr(Progress, "update", update)
    run(*resumable)
    assert not (tmp_path / "c").exists()
    first, second = (LegendreTronClassifier.load(tmp_path / name) for name in ("at once", "in two"))
    assert np.array_equal(first.coef_, second.coef_)


def test_no_promise_before_there_is_a_checkpoint(run, tables, tmp_path, interrupt_at):
    interrupt_at(1)
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--seed", 0, "--epochs", 20]
    assert run(*words, "--checkpoint", tmp_path / "c", code=130).error == "interrupted, no model was written"
