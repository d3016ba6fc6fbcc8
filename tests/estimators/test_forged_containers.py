"""Files that are no container of a model, or a damaged one: refused with a ValueError, and not read."""

import json
import resource
import struct

import pytest
import torch

from legendretron import LegendreTronClassifier
from legendretron._internal.artifacts import _checksum
from legendretron.estimators.loading import load_any_estimator
from legendretron.estimators.persistence import _KIND


def pack(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def signed(notes, **more):
    """A file of one tensor with these notes, which need not be JSON, signed truly."""
    metadata = {"format": _KIND, "library": "0.1", "notes": notes, **more}
    metadata["sha256"] = _checksum({"a": torch.zeros(1)}, metadata)
    return pack({"__metadata__": metadata, "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4))


def one_tensor(dtype, shape, size, **metadata):
    tensors = {"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}
    known = {"format": _KIND, "library": "", "notes": "{}", "sha256": ""}
    return pack({"__metadata__": {**known, **metadata}, **tensors}, bytes(size))


CONTAINERS = {
    "empty": (b"", "damaged or not a file of legendretron"),
    "short": (b"1234", "damaged or not a file of legendretron"),
    "no header": (struct.pack("<Q", 0), "damaged or not a file of legendretron"),
    "header too long": (struct.pack("<Q", 2**62) + b"{}", "damaged or not a file of legendretron"),
    "header longer than the file": (struct.pack("<Q", 1000) + b"{}", "damaged or not a file of legendretron"),
    "header not JSON": (pack(b"nonsense"), "damaged or not a file of legendretron"),
    "header nested": (pack(b"[" * 100_000), "damaged or not a file of legendretron"),
    "tensors missing": (one_tensor("F32", [1], 4)[:-4], "damaged or not a file of legendretron"),
    "tensors over the end": (one_tensor("F32", [2**40], 4), "damaged or not a file of legendretron"),
    "a dtype of 4 bits": (one_tensor("F4", [2], 1), "of dtype F4, which legendretron does not write|InvalidHeader"),
    "complex numbers": (one_tensor("C64", [1], 8), "of dtype C64, which legendretron does not write|InvalidHeader"),
    "no metadata": (pack({}), "holds 'something else'"),
    "metadata unknown": (one_tensor("F32", [1], 4, more="x"), "must have the metadata"),
    "unsigned": (one_tensor("F32", [1], 4), "checksum does not match"),
    "without entries": (one_tensor("F32", [0, 2**62], 0), "checksum does not match"),
    "notes not JSON": (signed("nonsense"), "notes that are not JSON"),
    "notes a list": (signed("[]"), "must be a JSON object, not a list"),
    "notes nested": (signed("[" * 100_000), "notes that are not JSON"),
    "notes with an endless number": (signed('{"estimator": ' + "9" * 10_000 + "}"), "notes that are not JSON"),
    "notes of nothing": (signed("{}"), "names no estimator"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_another_container_is_refused(name, tmp_path):
    content, message = CONTAINERS[name]
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_any_estimator(tmp_path / "m")
    assert repr(str(tmp_path / "m")) in str(caught.value)


def test_nothing_is_read_of_a_file_of_something_else(tmp_path):
    # a sparse file of 8 GiB: reading it would take as much memory
    size = 8 * 2**30
    header = pack({"other": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    with open(tmp_path / "m", "wb") as file:
        file.write(header)
        file.truncate(len(header) + size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="holds 'something else'"):
        LegendreTronClassifier.load(tmp_path / "m")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**30
