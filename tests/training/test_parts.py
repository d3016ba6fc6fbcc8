"""Files of a training's state: what they hold, and what is refused and how."""

import io
import itertools
import os

import numpy as np
import pytest
import torch

from legendretron._internal.files import write_atomically
from legendretron.accelerate.steps import autograd_step, nll_step
from legendretron.links import SoftmaxLink
from legendretron.training import History, LinearModel, as_features, train
from legendretron.training.progress import Progress
from legendretron.training.schedule import rate_factor
from legendretron.training.threads import thread_count, threads_for
from tests.saved_files import forge, read, write

REMOVE = "Remove the file to start anew, or choose another path"
#: Tensors of two runs of a cpflow link for 3 classes of 5 features.
TENSORS = {
    **dict.fromkeys(("parameters", "first_moment", "second_moment", "best"), (torch.float64, (2, 106))),
    "best_loss": (torch.float64, (2,)),
    "count": (torch.float64, ()),
    **dict.fromkeys(("waited", "n_iter"), (torch.int64, (2,))),
    **dict.fromkeys(("stopped", "diverged"), (torch.bool, (2,))),
    **dict.fromkeys(("link.blocks.0.initialized", "link.blocks.1.initialized"), (torch.bool, ())),
    "sums": (torch.float64, (3, 2)),
}


class _Died(Exception):
    pass


@pytest.fixture
def resume(problem, tmp_path, monkeypatch):
    """A function that goes on with a training that died and left a checkpoint at ``resume.path``."""

    def go_on():
        model = problem.model("cpflow", [1, 2])
        settings = problem.settings(
            [1, 2], max_epochs=3, checkpoint=tmp_path / "c", checkpoint_every=1, fingerprint="mine"
        )
        train(model, problem.sample([1, 2]), settings)
        return model

    def die(self, *row):
        if row[0] == 2:
            raise _Died
        append(self, *row)

    go_on.path = tmp_path / "c"
    append = History.append
    with monkeypatch.context() as patch:
        patch.setattr(History, "append", die)
        with pytest.raises(_Died):
            go_on()
    return go_on


def test_what_is_written(resume):
    found = read(resume.path)
    assert found["fingerprint"] == "mine"
    assert {*found["state"]} == {"epoch", "step", "seconds", "history", "tensors"}
    assert {name: (t.dtype, tuple(t.shape)) for name, t in found["state"]["tensors"].items()} == TENSORS


@pytest.mark.parametrize(
    "content", [b"", b"a,b\n1,2\n", bytes(100), np.arange(40.0).tobytes()], ids=["empty", "table", "zeros", "numbers"]
)
def test_a_file_of_somebody_is_left_alone(resume, content):
    resume.path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a checkpoint of legendretron; choose another path") as caught:
        resume()
    assert "emove" not in str(caught.value)
    assert resume.path.read_bytes() == content


def test_a_file_of_another_kind_is_left_alone(resume):
    write(resume.path, "link", {"a": torch.zeros(2)})
    with pytest.raises(ValueError, match="is not a checkpoint of legendretron; choose another path") as caught:
        resume()
    assert "emove" not in str(caught.value)
    assert resume.path.exists()


def test_a_damaged_checkpoint_may_be_removed(resume):
    content = resume.path.read_bytes()
    for damaged in (content[:-1], content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]):
        resume.path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"checkpoint cannot be read: .*damaged.*{REMOVE}"):
            resume()


FORGERIES = {
    "a note too many": (lambda s: s.update(more=1), "the state must have the fields"),
    "an epoch of words": (lambda s: s.update(epoch="two"), "epoch must be an integer"),
    "a step before the first": (lambda s: s.update(step=-1), "step must be an integer"),
    "seconds not finite": (lambda s: s.update(seconds=float("nan")), "seconds must be a number of at least 0"),
    "a history of numbers": (lambda s: s["history"].update(run=3), "run must be values of int64"),
    "a tensor too few": (lambda s: s["tensors"].pop("best"), "tensors must have the fields"),
    "a tensor too many": (lambda s: s["tensors"].update(more=torch.zeros(1)), "tensors must have the fields"),
    "a tensor that could be broadcast": (lambda s: s["tensors"].update(best=torch.zeros(())), "best must be values of"),
    "a tensor of another dtype": (
        lambda s: s["tensors"].update(n_iter=torch.zeros(2)),
        "n_iter must be values of int64",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_checkpoint_is_refused(resume, name):
    change, message = FORGERIES[name]
    forge(resume.path, lambda found: change(found["state"]))
    with pytest.raises(ValueError, match=f"checkpoint cannot be read: .*{message}.*{REMOVE}"):
        resume()


# --- schedules, history, progress, threads, files, hits ---


def test_schedules():
    assert [rate_factor("constant", e, 10) for e in range(3)] == [1.0, 1.0, 1.0]
    assert [rate_factor("step", e, 100, decay=0.5, decay_every=2) for e in range(5)] == [1.0, 1.0, 0.5, 0.5, 0.25]
    cosine = [rate_factor("cosine", e, 10) for e in range(10)]
    assert cosine[0] == 1.0
    assert all(a > b for a, b in itertools.pairwise(cosine))
    assert 0 < cosine[-1] < 0.05
    with pytest.raises(ValueError, match="schedule must be one of"):
        rate_factor("linear", 0, 10)


def test_history_becomes_a_data_frame():
    history = History()
    history.append(1, [0.5, 0.6], [0.7, 0.8], [0.9, 0.8], [0.1, 0.1], 1.0)
    history.append(2, [0.4, 0.5], [0.6, 0.7], [0.9, 0.9], [0.1, 0.1], 2.0)
    frame = history.to_frame()
    expected = ["epoch", "run", "train_loss", "validation_loss", "accuracy", "learning_rate", "seconds"]
    assert list(frame.columns) == expected
    assert len(frame) == len(history) == 4
    assert history.select_run(1)["train_loss"].tolist() == [0.6, 0.5]
    again = History.from_state(history.to_state())
    assert np.array_equal(again["seconds"], history["seconds"])
    assert "2 epochs, 2 runs" in repr(history)
    assert repr(History()) == "History(empty)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda columns: [columns], "history must be an object"),
        (lambda columns: {"epoch": []}, "history must have the fields epoch, .*, got epoch"),
        (lambda columns: {**columns, "more": [1, 1]}, "history must have the fields epoch, "),
        (
            lambda columns: {**columns, "run": np.zeros(1, dtype=int)},
            r"run must be values of int64 and of shape \(2\), got",
        ),
        (lambda columns: {**columns, "accuracy": [0.5, 0.5]}, "accuracy must be values of float64"),
        (lambda columns: {**columns, "accuracy": np.array([True, False])}, "accuracy must be values of float64"),
        (lambda columns: {**columns, "accuracy": np.ones((2, 1))}, "accuracy must be values of float64"),
        (lambda columns: {**columns, "epoch": np.array([1.5, 2])}, "epoch must be values of int64"),
        (lambda columns: {**columns, "epoch": None}, "epoch must be values of int64"),
    ],
)
def test_a_history_is_rebuilt_from_columns_of_numbers_only(change, message):
    history = History()
    for epoch in (1, 2):
        history.append(epoch, [0.5], [float("nan")], [0.9], [0.1], 1.0)
    assert len(History.from_state(history.to_state())) == 2
    with pytest.raises(ValueError, match=message):
        History.from_state(change(history.to_state()))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("verbose", "stream", "shown"), [
    (0, Terminal(), False),
    (1, Terminal(), True),
    (1, io.StringIO(), False),
    (2, io.StringIO(), True),
])  # fmt: skip
def test_progress_on_a_terminal_and_silence_in_a_log(verbose, stream, shown):
    progress = Progress(3, verbose, stream)
    for epoch in (1, 2, 3):
        progress.update(epoch, 0.5, 0.4)
    progress.close()
    text = stream.getvalue()
    assert bool(text) == shown
    if shown:
        assert "3/3" in text
        assert "validation 0.4000" in text


def test_thread_count_grows_with_the_work():
    assert thread_count(1e5, 16) == 1
    assert thread_count(1e12, 16) == 16
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with threads_for(4e7) as outer, threads_for(1.0) as inner:
            assert (outer, inner) == (2, 1)
            assert torch.get_num_threads() == 1
        with threads_for(4e7):
            with threads_for(1.0):
                pass
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_files_are_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "folder" / "file"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"never")
    assert path.read_bytes() == b"new"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_tie_is_a_hit_for_one_class_only_as_in_predict(n_classes):
    labels = torch.arange(n_classes).repeat(2).unsqueeze(0)
    z = torch.zeros(1, 2 * n_classes, n_classes - 1, dtype=torch.float64)
    # the estimators' order of two classes is the other way round, and among equals they predict the first
    expected = labels == (1 if n_classes == 2 else 0)
    for step in (nll_step(SoftmaxLink(n_classes), z), autograd_step(SoftmaxLink(n_classes))):
        _, hit, _, _ = step(z, labels, torch.ones_like(z[..., 0]))
        assert torch.equal(hit, expected)
    weight, rows = torch.zeros(1, 3, n_classes - 1, dtype=torch.float64), torch.arange(2 * n_classes).unsqueeze(0)
    model = LinearModel(weight, weight[:, 0], [SoftmaxLink(n_classes)])
    features = as_features(np.ones((2 * n_classes, 3)), torch.float64, torch.device("cpu"))
    _, accuracy = model.evaluate(features, rows, labels, torch.ones(rows.shape, dtype=torch.float64))
    assert float(accuracy) == pytest.approx(1 / n_classes)
