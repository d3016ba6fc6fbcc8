"""Files of a training's state: what each number of their format means, and what is refused and how.

When the description here fails because what is written has changed, raise the number in
``legendretron/training/checkpoint.py`` and describe the new one.
"""

import numpy as np
import pytest
import torch

from legendretron._internal.artifacts import read_artifact, write_artifact
from legendretron.training import History, train
from legendretron.training.checkpoint import _KIND, save_checkpoint

REMOVE = "Remove the file to start anew, or choose another path"
#: By number of the format: notes, and tensors of two runs of a cpflow link for 3 classes of 5 features.
FORMATS = {
    "legendretron-checkpoint-3": (
        {"fingerprint": str, "epoch": int, "step": int, "seconds": float, "history": dict},
        {
            **dict.fromkeys(("parameters", "first_moment", "second_moment", "best"), (torch.float64, (2, 106))),
            "best_loss": (torch.float64, (2,)),
            "count": (torch.float64, ()),
            **dict.fromkeys(("waited", "n_iter"), (torch.int64, (2,))),
            **dict.fromkeys(("stopped", "diverged"), (torch.bool, (2,))),
            **dict.fromkeys(("link.blocks.0.initialized", "link.blocks.1.initialized"), (torch.bool, ())),
            "sums": (torch.float64, (3, 2)),
        },
    )
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


def test_what_is_written_is_what_the_number_says(resume):
    tensors, notes = read_artifact(resume.path, _KIND)
    expected_notes, expected_tensors = FORMATS[_KIND]
    assert {name: type(value) for name, value in notes.items()} == expected_notes
    assert {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()} == expected_tensors


@pytest.mark.parametrize(
    "content",
    [b"", b"a,b\n1,2\n", bytes(100), np.arange(40.0).tobytes()],
    ids=["empty", "table", "zeros", "numbers"],
)
def test_a_file_of_somebody_is_left_alone(resume, content):
    resume.path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a checkpoint of legendretron; choose another path") as caught:
        resume()
    assert "emove" not in str(caught.value)
    assert resume.path.read_bytes() == content


@pytest.mark.parametrize("kind", ["legendretron-estimator-2", "something-else"])
def test_a_file_of_another_kind_is_left_alone(resume, kind):
    write_artifact(resume.path, kind, {"a": torch.zeros(2)}, {})
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


def test_a_checkpoint_of_another_version_tells_who_can_read_it(resume):
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, resume.path, {"format": "legendretron-checkpoint-99", "library": "7.8.9"})
    message = rf"written by legendretron 7\.8\.9 in format 99 of .* reads format 3\. .*{REMOVE}"
    with pytest.raises(ValueError, match=message):
        resume()


FORGERIES = {
    "a note too many": (lambda t, n: n.update(more=1), "its notes must be"),
    "an epoch of words": (lambda t, n: n.update(epoch="two"), "epoch must be an integer"),
    "a step before the first": (lambda t, n: n.update(step=-1), "step must be an integer"),
    "seconds not finite": (lambda t, n: n.update(seconds=float("nan")), "seconds must be a finite number"),
    "a history of numbers": (lambda t, n: n["history"].update(run=3), "'run' must be a list of integers"),
    "a tensor too few": (lambda t, n: t.pop("best"), "its tensors must be"),
    "a tensor too many": (lambda t, n: t.update(more=torch.zeros(1)), "its tensors must be"),
    "a tensor that could be broadcast": (lambda t, n: t.update(best=torch.zeros(())), "best must be of shape"),
    "a tensor of another dtype": (lambda t, n: t.update(n_iter=t["n_iter"].float()), "n_iter must be of shape"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_checkpoint_is_refused(resume, name):
    change, message = FORGERIES[name]
    tensors, notes = read_artifact(resume.path, _KIND)
    change(tensors, notes)
    save_checkpoint(resume.path, tensors, notes)
    with pytest.raises(ValueError, match=f"checkpoint cannot be read: .*{message}.*{REMOVE}"):
        resume()
