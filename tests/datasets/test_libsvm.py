import bz2
import gzip
import lzma

import numpy as np
import pytest
import scipy.sparse

from legendretron.datasets import read_libsvm

TEXT = b"1 1:0.5 3:-1\n7 2:2\n# a remark\n\n-3 1:1e-3 # another\n5\n"
DENSE = np.array([[0.5, 0, -1], [0, 2, 0], [1e-3, 0, 0], [0, 0, 0]])
PACKED = {"plain": lambda text: text, "bz2": bz2.compress, "xz": lzma.compress, "gz": gzip.compress}


def written(folder, content, name="file.scale"):
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("name", ["file", "file.bz2", "file.gz"])
def test_the_first_bytes_tell_the_compression(tmp_path, packing, name):
    X, labels = read_libsvm(written(tmp_path, PACKED[packing](TEXT), name))
    np.testing.assert_array_equal(X, DENSE)
    np.testing.assert_array_equal(labels, [1, 7, -3, 5])
    assert X.dtype == np.float64
    assert labels.dtype == np.int64


def test_width_and_sparsity_as_asked(tmp_path):
    path = written(tmp_path, TEXT)
    X, _ = read_libsvm(path, n_features=5, dense=False)
    assert scipy.sparse.issparse(X)
    assert X.format == "csr"
    assert X.indices.dtype == np.int32
    np.testing.assert_array_equal(X.toarray(), np.hstack([DENSE, np.zeros((4, 2))]))


def test_sparse_where_dense_would_be_large(tmp_path):
    wide = written(tmp_path, b"1 1:1\n2 20000000:1\n")
    assert scipy.sparse.issparse(read_libsvm(wide)[0])
    with pytest.raises(ValueError, match=r"rows and 2000000000 features.*dense=False"):
        read_libsvm(written(tmp_path, b"1 1:1\n" + b"2 2000000000:1\n" * 100_000), dense=True)


def test_labels_are_whole_numbers_however_written(tmp_path):
    np.testing.assert_array_equal(read_libsvm(written(tmp_path, b"+1 1:1\n2.0 1:1\n1e1 1:1\r\n"))[1], [1, 2, 10])


@pytest.mark.parametrize(("content", "message"), [
    (b"", "is empty"),
    (b"\n# remark\n", "is empty"),
    (b"1\n2\n", "no feature values"),
    (b"<!DOCTYPE html>\n<html></html>\n", "is wrong in line 1: could not convert string to float: .*DOCTYPE"),
    (b"1 1:1\n5.1,3.5,1.4,0.2\n", "line 2"),
    (b"1 1:1\n1 2 3\n", "line 2"),
    (b"1 1:1\n1 2:x\n", "line 2"),
    (b"1 1:1\n\n1 1:nan\n", "line 3: a value is not finite"),
    (b"1 1:1e999\n", "line 1: a value is not finite"),
    (b"1 0:1\n", "line 1: Invalid index 0"),
    (b"1 1:1\n1 5:1\n", "line 2: .*n_features was set to 4, but input file contains 5 features"),
    (b"1 99999999999999999999:1\n", "line 1"),
    (b"1 2:1 1:1\n", "line 1: Feature indices .* should be sorted and unique"),
    (b"1 1:1\n1,3 1:2\n", "line 2"),
    (b"1:1 2:1\n", "line 1"),
    (b"1.5 1:1\n", "line 1: its label 1.5 is not a whole number"),
    (b"nan 1:1\n", "line 1: its label nan is not a whole number"),
    (bytes(range(256)), "line 1"),
    (bz2.compress(b""), "is empty"),
])  # fmt: skip
def test_what_is_not_libsvm_text_is_refused(tmp_path, content, message):
    path = written(tmp_path, content)
    with pytest.raises(ValueError, match=message) as caught:
        read_libsvm(path, n_features=4)
    assert str(path) in str(caught.value)
    assert "Get it again" in str(caught.value)


@pytest.mark.parametrize("packing", ["bz2", "xz", "gz"])
@pytest.mark.parametrize("kept", [3, 8, 40, -1])
def test_cut_compressed_files_are_refused(tmp_path, packing, kept):
    text = b"".join(b"%d 1:%d 2:%d\n" % (i % 7, i, i * i) for i in range(500))
    path = written(tmp_path, PACKED[packing](text)[: max(kept, 6) if packing == "xz" else kept])
    with pytest.raises(ValueError, match=r"damaged or breaks off.*Get it again"):
        read_libsvm(path)


@pytest.mark.parametrize("packing", ["bz2", "xz", "gz"])
def test_a_flipped_byte_is_noticed(tmp_path, packing):
    content = bytearray(PACKED[packing](TEXT * 200))
    content[len(content) // 2] ^= 0xFF
    with pytest.raises(ValueError, match="damaged or breaks off"):
        read_libsvm(written(tmp_path, bytes(content)))


@pytest.mark.parametrize("packing", ["bz2", "xz", "gz"])
def test_several_streams_are_read(tmp_path, packing, monkeypatch):
    monkeypatch.setattr("legendretron.datasets.compressed._BLOCK", 10)
    pack = PACKED[packing]
    X, labels = read_libsvm(written(tmp_path, pack(b"1 1:1\n") + pack(b"2 2:4\n") + pack(b"3 1:9\n")))
    np.testing.assert_array_equal(labels, [1, 2, 3])
    np.testing.assert_array_equal(X, [[1, 0], [0, 4], [9, 0]])


def test_missing_files_folders_and_widths(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere' does not exist"):
        read_libsvm(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="cannot be read"):
        read_libsvm(tmp_path)
    with pytest.raises(ValueError, match="n_features must be an integer"):
        read_libsvm(written(tmp_path, TEXT), n_features=0)
