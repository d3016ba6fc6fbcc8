import gzip

import numpy as np
import pytest

from legendretron.datasets import read_idx


def idx_bytes(array, code=0x08):
    header = bytes([0, 0, code, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return header + array.astype({0x08: ">u1", 0x0C: ">i4", 0x0E: ">f8"}[code]).tobytes()


@pytest.mark.parametrize("code", [0x08, 0x0C, 0x0E])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_round_trip(tmp_path, code, suffix):
    array = np.arange(24).reshape(2, 3, 4)
    content = idx_bytes(array, code)
    (tmp_path / f"file{suffix}").write_bytes(gzip.compress(content) if suffix else content)
    read = read_idx(tmp_path / f"file{suffix}")
    np.testing.assert_array_equal(read, array)
    assert read.dtype.isnative


@pytest.mark.parametrize(("content", "message"), [
    (gzip.compress(idx_bytes(np.zeros((50, 50))))[:-20], "damaged"),
    (b"not gzip", "damaged"),
    (gzip.compress(b"\0\0"), "not an idx file"),
    (gzip.compress(b"PK\3\4" * 10), "not an idx file"),
    (gzip.compress(bytes([0, 0, 8, 3, 0, 0])), "within its header"),
    (gzip.compress(idx_bytes(np.zeros((5, 5)))[:-1]), r"shape \(5, 5\)"),
    (gzip.compress(idx_bytes(np.zeros((5, 5))) + b"\0"), r"shape \(5, 5\)"),
], ids=["cut", "plain", "short", "zip", "header", "one byte less", "one byte more"])  # fmt: skip
def test_damaged_files_are_refused(tmp_path, content, message):
    (tmp_path / "file.gz").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_idx(tmp_path / "file.gz")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere.gz' does not exist"):
        read_idx(tmp_path / "nowhere.gz")
