import gzip

import numpy as np
import pytest

from legendretron.datasets import load_image_set, read_idx


def idx_bytes(array, code=0x08):
    header = bytes([0, 0, code, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return header + array.astype({0x08: ">u1", 0x0C: ">i4", 0x0E: ">f8"}[code]).tobytes()


def write_set(folder, n=6, prefix="train"):
    generator = np.random.default_rng(0)
    for part, rows in ((prefix, n), ("t10k", 4)):
        images = generator.integers(256, size=(rows, 28, 28))
        labels = generator.integers(10, size=rows)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images)))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))


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


def test_image_set(tmp_path):
    write_set(tmp_path)
    images = load_image_set(tmp_path)
    assert images.train_images.shape == (6, 28, 28)
    assert images.test_labels.shape == (4,)
    assert images.test_labels.dtype == np.int64
    assert not images.complete  # six are not 60,000


def test_a_set_with_a_missing_or_wrong_part(tmp_path):
    write_set(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(np.zeros(5))))
    with pytest.raises(ValueError, match="6 images but 5 labels"):
        load_image_set(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(ValueError, match="train-labels-idx1-ubyte"):
        load_image_set(tmp_path)
