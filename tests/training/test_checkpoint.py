"""Files of a training's state: what they hold, and what is refused and how."""

import pytest
import torch

from legendretron.training import History, train
from tests.saved_files import forge, write

REMOVE = "Remove the file to start over, or choose another path"


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


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", bytes(100), None], ids=["empty", "table", "zeros", "link"])
def test_a_file_of_somebody_is_left_alone(resume, content):
    if content is None:
        write(resume.path, "link", {"a": torch.zeros(2)})
        content = resume.path.read_bytes()
    resume.path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a checkpoint of legendretron; choose another path") as caught:
        resume()
    assert "emove" not in str(caught.value)
    assert resume.path.read_bytes() == content


def test_a_damaged_checkpoint_may_be_removed(resume):
    content = resume.path.read_bytes()
    for damaged in (content[:-1], content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]):
        resume.path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"checkpoint cannot be read: .*damaged.*{REMOVE}"):
            resume()


FORGERIES = {
    "a note too many": (lambda s: s.update(more=1), "the state must have the fields"),
    "an epoch of words": (lambda s: s.update(epoch="two"), "epoch must be an integer"),
    "seconds not finite": (lambda s: s.update(seconds=float("nan")), "seconds must be a number of at least 0"),
    "a tensor too few": (lambda s: s["tensors"].pop("best"), "tensors must have the fields"),
    "a tensor that could be broadcast": (lambda s: s["tensors"].update(best=torch.zeros(())), "best must be values of"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_checkpoint_is_refused(resume, name):
    change, message = FORGERIES[name]
    forge(resume.path, lambda found: change(found["state"]))
    with pytest.raises(ValueError, match=f"checkpoint cannot be read: .*{message}.*{REMOVE}"):
        resume()
