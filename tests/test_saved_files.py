"""What holds for saved files of every kind.

They are loaded as they were saved, and do not depend on their file any more; a file that is damaged, forged, or of another
kind or format is refused with a ValueError that names it, and takes no memory.

When the format changes, raise the number in ``legendretron/_internal/artifacts.py``.
"""

import json
import os
import pickle
import resource
import stat
import struct

import numpy as np
import pandas as pd
import pytest
import torch

import legendretron
from legendretron import LegendreCalibrator, MultinomialLogisticClassifier, TableClassifier
from legendretron._internal import artifacts
from legendretron._internal.artifacts import FORMAT, _checksum, load_state, read_kind, save_state
from legendretron._internal.files import write_atomically
from legendretron.estimators.resuming import ChosenStrengths
from legendretron.links import load_link, save_link
from legendretron.losses import CanonicalLoss, load_loss, save_loss
from legendretron.training.checkpoint import load_checkpoint, save_checkpoint
from legendretron.tuning.noise import FoundNoise
from legendretron.tuning.problem import Candidate
from legendretron.tuning.table import Tuning
from tests.catalogue import make_link, normal
from tests.estimators.tiny_models import FITTED
from tests.saved_files import forge, read

Z = normal(5, 2, key="files")
X = normal(12, 2, key="files").numpy()
Y = np.arange(12) % 3
FRAME = pd.DataFrame({"number": X[:, 0], "word": np.array(["a", "b", "c"])[Y]})
MATRIX = np.array([[0.8, 0.2], [0.3, 0.7]])


def model_kind(name, make, rows=X):
    return lambda path: make().save(path), getattr(legendretron, name).load, lambda model: model.predict_proba(rows)


def strengths_in(path):
    return ChosenStrengths(path.with_suffix(""), "this fit")


#: how a file is made, how it is loaded, and what is asked of what was loaded
KINDS = {
    "link": (
        lambda path: save_link(make_link("composite_ficnn", 3), path),
        load_link,
        lambda link: link.inverse(Z).detach(),
    ),
    "loss": (
        lambda path: save_loss(CanonicalLoss(make_link("canonical", 3), normalized=True, weight=torch.ones(3)), path),
        load_loss,
        lambda loss: loss(Z, torch.zeros(5, dtype=torch.int64)),
    ),
    "LegendreTronClassifier": model_kind("LegendreTronClassifier", FITTED["ficnn"]),
    "MultinomialLogisticClassifier": model_kind("MultinomialLogisticClassifier", FITTED["matrix"]),
    "TableClassifier": model_kind(
        "TableClassifier", lambda: TableClassifier(MultinomialLogisticClassifier(alpha=0.1)).fit(FRAME, Y), FRAME
    ),
    "LegendreCalibrator": model_kind("LegendreCalibrator", lambda: LegendreCalibrator().fit(X, Y > 0)),
    "checkpoint": (
        lambda path: save_checkpoint(path, "checkpoint", "this fit", {"weight": Z}),
        lambda path: load_checkpoint(path, "checkpoint", "this fit", lambda state: state["weight"]),
        lambda weight: weight.clone(),
    ),
    "choice of strengths": (
        lambda path: strengths_in(path).save(
            Tuning(
                Candidate(0.1, np.inf), [], noise=FoundNoise(len(MATRIX), rate=0.15, low=0.1, high=0.2, matrix=MATRIX)
            )
        ),
        lambda path: strengths_in(path).load_or(None),
        lambda tuning: tuning.noise.matrix.copy(),
    ),
}
#: These belong to a fit, which says in its own words what is wrong with them.
OF_A_FIT = ("checkpoint", "choice of strengths")
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The bytes of a file of every kind."""
    folder = tmp_path_factory.mktemp("files")
    for kind, (save, _, _) in KINDS.items():
        save(folder / f"{kind}.strengths")
    return {kind: (folder / f"{kind}.strengths").read_bytes() for kind in KINDS}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.strengths"


def refused(kind, path, message):
    """Check that a file is refused with a message that names it."""
    with pytest.raises(ValueError, match=message) as caught:
        KINDS[kind][1](path)
    assert repr(str(path)) in str(caught.value)
    assert "\x1b" not in str(caught.value)


def pack(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def unpack(content):
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


# --- what was saved ---


@every_kind
def test_what_was_loaded_stays_when_its_file_is_overwritten_or_cut_short(kind, contents, path):
    _, load, ask = KINDS[kind]
    path.write_bytes(contents[kind])
    assert read_kind(path) == kind
    loaded = load(path)
    before = np.asarray(ask(loaded))
    with open(path, "r+b") as file:  # in place, as cp does
        file.write(bytes(255 - byte for byte in path.read_bytes()))
    assert np.array_equal(ask(loaded), before)
    os.truncate(path, 0)
    assert np.array_equal(ask(loaded), before)


@every_kind
def test_a_file_is_whole_or_not_there(kind, path, monkeypatch):
    def fail(*arguments):
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="the disk is full"):
            KINDS[kind][0](path)
    assert list(path.parent.iterdir()) == []
    KINDS[kind][0](path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[0].isupper()])
def test_models_of_any_class_are_loaded_by_one_function(kind, contents, path):
    path.write_bytes(contents[kind])
    _, load, ask = KINDS[kind]
    assert np.array_equal(ask(legendretron.load(path)), ask(load(path)))
    path.write_bytes(contents["link"])
    with pytest.raises(ValueError, match=f"holds a link, but .*{kind}.* is needed"):
        legendretron.load(path)


def test_a_tree_is_read_as_it_was_written(path):
    tree = {
        "text": "ä\ud800", "none": None, "numbers": [1, 2.5, float("inf"), True], "empty": {}, "deep": {"er": {"x": [[]]}},
        "arrays": {
            "a.b": np.arange(3), "scalar": torch.tensor(2.0), "none": np.zeros((0, 2), dtype=np.float32), "no": np.array([]),
        },
    }  # fmt: skip
    save_state(path, "tree", {**tree, "numpy": np.float32(0.5), "tuple": (1, 2)})
    for framework in ("torch", "numpy"):
        again = load_state(path, {"tree": lambda state: state}, framework)
        assert again.pop("numpy") == 0.5
        assert again.pop("tuple") == [1, 2]
        arrays = again.pop("arrays")
        assert again == {name: value for name, value in tree.items() if name != "arrays"}
        for name, array in tree["arrays"].items():
            assert np.array_equal(arrays[name], array)
            assert str(arrays[name].dtype).removeprefix("torch.") == str(array.dtype).removeprefix("torch.")
    assert sorted(artifacts._safetensors("numpy").numpy.load(path.read_bytes())) == [
        "arrays/a.b", "arrays/no", "arrays/none", "arrays/scalar",
    ]  # fmt: skip


@pytest.mark.parametrize(("value", "message"), [
    (object(), "x is of type object, which a file cannot hold"),
    ({1: 2}, "x has the key 1, but keys must be text"),
    ([[{1, 2}]], "x.0.0 is of type set"),
])  # fmt: skip
def test_what_a_file_cannot_hold_is_not_written(value, message, path):
    with pytest.raises(ValueError, match=f"the thing cannot be saved: {message}"):
        save_state(path, "thing", {"x": value})
    assert not path.exists()


# --- what is refused ---


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in OF_A_FIT])
def test_a_file_that_is_not_there_is_said_as_python_says_it(kind, tmp_path):
    load = KINDS[kind][1]
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: .*nothing"):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        load(tmp_path)


@every_kind
def test_every_flipped_byte_is_noticed(kind, contents, path):
    content = contents[kind]
    for position in np.random.default_rng(0).integers(0, len(content), 40):
        damaged = bytearray(content)
        damaged[position] ^= 0x01
        path.write_bytes(bytes(damaged))
        refused(kind, path, r"damaged|is needed|checksum|must have the metadata|in the format|of legendretron; choose")


@every_kind
def test_truncated_and_tampered_files_are_noticed(kind, contents, path):
    for keep in (5, 200, -1):
        path.write_bytes(contents[kind][:keep])
        refused(kind, path, "damaged or not a file of legendretron|of legendretron; choose another path")
    header, data = unpack(contents[kind])
    header["__metadata__"]["state"] = header["__metadata__"]["state"].replace("{", '{"more": 1, ', 1)
    path.write_bytes(pack(header, data))
    refused(kind, path, "checksum does not match")


@every_kind
def test_files_of_something_else_are_refused(kind, contents, path):
    from safetensors.numpy import save_file

    words = f"damaged or not a file of legendretron|not a {kind} of legendretron; choose another path"
    path.write_bytes(pickle.dumps({"a": 1}))
    refused(kind, path, words)
    save_file({"a": np.zeros(3)}, path)
    refused(kind, path, "holds 'something else', but .* is needed|; choose another path")
    for other in ("link", "LegendreCalibrator"):
        if other != kind:
            path.write_bytes(contents[other])
            refused(kind, path, f"holds a {other}, but .*{kind}.* is needed|; choose another path")


@every_kind
@pytest.mark.parametrize(("written", "library"), [("legendretron-99", " 7.8.9"), ("legendretron-link-1", "")])
def test_a_file_in_another_format_tells_what_to_do(kind, written, library, contents, path):
    header, data = unpack(contents[kind])
    header["__metadata__"] = {"format": written, "kind": kind}
    if library:
        header["__metadata__"]["library"] = library.strip()
    path.write_bytes(pack(header, data))
    refused(kind, path, f"is in the format {written} of legendretron{library}, but this version reads {FORMAT}")


@every_kind
def test_a_field_or_a_tensor_too_many_or_too_few(kind, contents, path):
    path.write_bytes(contents[kind])
    changes = [lambda state, name=name: state.pop(name) for name in read(path)]
    changes += [lambda state, value=value: state.update({"more\x1b": value}) for value in (1, torch.zeros(1))]
    for change in changes:
        path.write_bytes(contents[kind])
        forge(path, change)
        refused(kind, path, "must have the fields")


def test_permissions_are_those_of_any_new_file(tmp_path, monkeypatch):
    """The umask belongs to all threads: for a moment, new files of others would have other permissions."""
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")
            write_atomically(tmp_path / "model", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def signed(state, kind="link", arrays=()):
    """A file with this text as its state, signed truly."""
    tensors = {name: torch.zeros(1) for name in arrays}
    metadata = {"format": FORMAT, "kind": kind, "library": "0.1", "state": state}
    metadata["sha256"] = _checksum(tensors, metadata)
    places = {
        name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(tensors)
    }
    return pack({"__metadata__": metadata, **places}, bytes(4 * len(tensors)))


def one_tensor(dtype, shape, size, **metadata):
    tensors = {"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}
    known = {"format": FORMAT, "kind": "link", "library": "", "state": "{}", "sha256": ""}
    return pack({"__metadata__": {**known, **metadata}, **tensors}, bytes(size))


CONTAINERS = {
    "empty": (b"", "damaged or not a file of legendretron"),
    "header too long": (struct.pack("<Q", 2**62) + b"{}", "damaged or not a file of legendretron"),
    "header not JSON": (pack(b"nonsense"), "damaged or not a file of legendretron"),
    "header nested": (pack(b"[" * 100_000), "damaged or not a file of legendretron"),
    "tensors over the end": (one_tensor("F32", [2**40], 4), "damaged or not a file of legendretron"),
    "a dtype of 4 bits": (one_tensor("F4", [2], 1), "of dtype F4, which legendretron does not write|InvalidHeader"),
    "no metadata": (pack({}), "holds 'something else'"),
    "metadata unknown": (one_tensor("F32", [1], 4, more="x"), "must have the metadata"),
    "unsigned": (one_tensor("F32", [1], 4), "checksum does not match"),
    "another kind": (signed("{}", "some\x1bthing"), r"holds a some\?thing, but link is needed"),
    "state not JSON": (signed("nonsense"), "its state is not JSON"),
    "state nested": (signed('{"a": ' * 100 + "1" + "}" * 100), "its state is nested too deeply"),
    "state with an endless number": (signed('{"kind": ' + "9" * 10_000 + "}"), "its state is not JSON"),
    "state with a large number": (signed('{"kind": [' + "9" * 30 + "]}"), "an integer of more than 64 bits"),
    "a tensor beside nothing": (signed("{}", arrays=["a/b"]), "the tensor 'a/b' is not used"),
    "a tensor in text": (signed('{"a": "b"}', arrays=["a/b"]), "the tensor 'a/b' is not used"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_another_container_is_refused(name, path):
    content, message = CONTAINERS[name]
    path.write_bytes(content)
    refused("link", path, message)


def test_nothing_is_read_of_a_file_of_something_else(path):
    # a sparse file of 8 GiB: reading it would take as much memory
    size = 8 * 2**30
    header = pack({"other": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(len(header) + size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused("link", path, "holds 'something else'")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**30
