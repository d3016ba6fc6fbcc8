"""What only a process of its own can show: pipes, signals, terminals."""

import os
import signal

import numpy as np
import pytest

from legendretron import LegendreTronClassifier
from legendretron.training.history import Progress
from tests.cli.conftest import FIXED, make_iris

# most of the time of these tests goes into starting Python, and with it torch
starts_again = pytest.mark.exhaustive


def finish(process, seconds=120):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def test_exit_code_and_line(launch, tables, tmp_path):
    """Long messages are one line each, whatever the width of the terminal is said to be."""
    wide = tmp_path / f"{'w' * 120}.csv"
    wide.write_text(
        ",".join(f"a rather long name of a column, number {i}".replace(",", "") for i in range(9)) + "\n" + "1," * 9
    )
    code, out, err = finish(launch("predict", tables / "iris.safetensors", wide))
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert err.startswith("error: ")
    assert len(err) > 300


@starts_again
def test_closed_streams(launch, tables, tmp_path):
    code, _, err = finish(launch("predict", tables / "iris.safetensors", "-", preexec_fn=lambda: os.close(0)))
    assert (code, err) == (1, "error: standard input is closed; give a file, or send the table to it.\n")
    words = ["predict", tables / "iris.safetensors", tables / "iris.csv", "--out", tmp_path / "p.csv"]
    code, _, err = finish(launch(*words, stdout=None, preexec_fn=lambda: os.close(1)))
    assert (code, err) == (0, "")
    assert (tmp_path / "p.csv").exists()


@starts_again
def test_reader_that_closes_the_pipe(launch, tables, tmp_path):
    """Much more than a pipe holds, of which one line is read."""
    frame = make_iris()
    frame.loc[frame.index.repeat(200)].to_csv(tmp_path / "long.csv", index=False)
    with launch("predict", tables / "iris.safetensors", tmp_path / "long.csv", "--proba") as process:
        assert process.stdout.readline() == "prediction,p(setosa),p(versicolor),p(virginica)\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"]])
def test_reader_that_closes_the_pipe_at_once(launch, words):
    """What rich writes, it gives up in a way of its own."""
    ours, theirs = os.pipe()
    os.close(ours)
    with launch(*words, stdout=theirs) as process:
        os.close(theirs)
        assert process.stderr.read() == ""
    assert process.returncode == 0


@starts_again
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_output_to_a_full_disk(launch, tables):
    with open("/dev/full", "w") as full:
        process = launch("predict", tables / "iris.safetensors", tables / "iris.csv", stdout=full)
        code, _, err = finish(process)
    assert (code, err) == (1, "error: no space left on the disk for the output; free some, or write elsewhere\n")


# --- ctrl-C: no model that is not whole ---


@pytest.fixture
def interrupt_at(monkeypatch):
    """Press Ctrl-C at the end of an epoch."""

    def at(epoch):
        def update(self, now, *losses):
            if epoch is not None and now >= epoch:
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


def test_no_promise_before_there_is_a_checkpoint(run, tables, tmp_path, interrupt_at):
    interrupt_at(1)
    words = ["fit", tables / "iris.csv", "-t", "kind", "-o", tmp_path / "m", "--seed", 0, "--epochs", 20]
    assert run(*words, "--checkpoint", tmp_path / "c", code=130).error == "interrupted, no model was written"
