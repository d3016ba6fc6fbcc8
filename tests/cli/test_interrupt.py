"""Ctrl-C: no model that is not whole."""

import signal

import numpy as np
import pytest

from legendretron import LegendreTronClassifier
from legendretron.training.progress import Progress


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
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", out, "--seed", 0, "--solver", solver, "--json"]
    ran = run(*words, code=130)
    assert ran.error == message
    assert ran.json == {"error": message}
    assert out.read_bytes() == b"an older model"
    assert list(tmp_path.iterdir()) == [out]


def test_the_same_command_goes_on(run, tables, tmp_path, interrupt_at):
    words = ["fit", tables / "iris.csv", "-t", "kind", "--seed", 0, "--epochs", 40]
    run(*words, "-o", tmp_path / "at once")
    interrupt_at(25)
    resumable = [*words, "-o", tmp_path / "in two", "--checkpoint", tmp_path / "c"]
    assert run(*resumable, code=130).error.endswith("the same command resumes from the checkpoint")
    interrupt_at(None)
    run(*resumable)
    assert not (tmp_path / "c").exists()
    first, second = (LegendreTronClassifier.load(tmp_path / name) for name in ("at once", "in two"))
    assert np.array_equal(first.coef_, second.coef_)
