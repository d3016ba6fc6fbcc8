import bz2
import dataclasses
import gzip
import hashlib
import lzma
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from legendretron.datasets import DATASETS, dataset_info, load_dataset, load_images
from legendretron.datasets.registry import RemoteFile, cache_folder, find_dataset

from .test_idx import idx_bytes


def text(rows, features, classes, first=1):
    """LIBSVM text with the given shape, of values that tell row and column."""
    lines = []
    for row in range(rows):
        values = " ".join(f"{column}:{row + column / 1000}" for column in range(1, features + 1))
        lines.append(f"{row % classes + first} {values}\n")
    return "".join(lines).encode()


IRIS = text(150, 4, 3)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("LEGENDRETRON_DATA", str(folder))
    return folder


@pytest.mark.parametrize(("folder", "name", "pack"), [
    ("", "iris.scale", bytes), ("libsvm", "iris.scale.bz2", bz2.compress), ("iris", "iris.scale.xz", lzma.compress),
    ("libsvm", "iris.scale.gz", gzip.compress), ("iris", "IRIS.scale", bytes),
])  # fmt: skip
def test_any_spelling_in_any_place(tmp_path, folder, name, pack):
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / name).write_bytes(pack(IRIS))
    iris = load_dataset("iris", tmp_path)
    assert iris.path == tmp_path / folder / name
    assert iris.complete
    assert (iris.name, iris.label) == ("iris", "iris")
    assert (iris.n_rows, iris.n_features, iris.n_classes) == (150, 4, 3)
    assert iris.info is DATASETS["iris"]
    assert isinstance(iris.X, np.ndarray)
    assert iris.X[7, 2] == 7.003
    assert iris.y.dtype == np.int64
    np.testing.assert_array_equal(iris.y, np.arange(150) % 3)
    np.testing.assert_array_equal(iris.classes, [1, 2, 3])


def test_gaps_in_labels_are_closed(tmp_path):
    lines = text(214, 9, 6).decode().splitlines()
    gaps = ["".join([str(int(line[0]) + (line[0] > "3")), line[1:], "\n"]) for line in lines]
    (tmp_path / "glass.scale").write_text("".join(gaps))
    glass = load_dataset("glass", tmp_path)
    np.testing.assert_array_equal(glass.classes, [1, 2, 3, 5, 6, 7])
    np.testing.assert_array_equal(glass.y, np.arange(214) % 6)


def test_labels_may_begin_at_zero_where_they_do(tmp_path):
    (tmp_path / "vowel.scale").write_bytes(text(528, 10, 11, first=0))
    np.testing.assert_array_equal(load_dataset("vowel", tmp_path).classes, np.arange(11))


def test_sparse_sets_stay_sparse(tmp_path):
    (tmp_path / "news20.subset40.scale").write_bytes(text(40, 5, 20))
    news = load_dataset("news20", tmp_path)
    assert scipy.sparse.issparse(news.X)
    assert news.X.shape == (40, 62_061)  # columns that no row of the subset uses are there


def test_a_declared_subset(tmp_path):
    (tmp_path / "Sensorless.subset22.scale.bz2").write_bytes(bz2.compress(text(22, 48, 11)))
    (tmp_path / "Sensorless.subset11.scale").write_bytes(text(11, 48, 11))
    sensorless = load_dataset("sensorless", tmp_path)
    assert not sensorless.complete
    assert sensorless.label == "Sensorless (22 of 58,509 rows)"
    assert sensorless.X.shape == (22, 48)


def test_a_whole_file_goes_before_a_subset(tmp_path):
    (tmp_path / "libsvm").mkdir()
    (tmp_path / "libsvm" / "iris.scale").write_bytes(IRIS)
    (tmp_path / "iris.subset3.scale").write_bytes(text(3, 4, 3))
    assert load_dataset("iris", tmp_path).complete


@pytest.mark.parametrize(("name", "content", "message"), [
    ("iris.scale", text(149, 4, 3), r"has 149 rows, but iris has 150.*'iris.subset149.scale'.*150 rows x 4 features, 3 classes.*https://"),
    ("iris.scale", text(151, 4, 3), r"has 151 rows, more than the 150"),
    ("iris.subset6.scale", text(5, 4, 3), r"has 5 rows, but its name declares a subset of 6"),
    ("iris.subset151.scale", text(151, 4, 3), r"has 151 rows, more than the 150"),
    ("iris.scale", text(150, 3, 3), r"has 3 features, but iris has 4"),
    ("iris.scale", text(150, 5, 3), "line 1: .*n_features was set to 4, but"),
    ("iris.scale", text(150, 4, 2), r"labels of 2 classes, but iris has 3"),
    ("iris.scale", text(150, 4, 4), r"has the label 4 in row 4, but those of iris are from 1 to 3"),
    ("iris.scale", text(150, 4, 3, first=0), r"has the label 0 in row 1"),
    ("iris.scale", b"<html>404</html>\n", "line 1: .*<html>404"),
    ("iris.scale.bz2", bz2.compress(IRIS)[:-9], r"damaged or breaks off"),
])  # fmt: skip
def test_files_that_are_not_what_they_say(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_dataset("iris", tmp_path)
    assert str(tmp_path / name) in str(caught.value)
    assert (tmp_path / name).exists()  # a user's file is not ours to remove


@pytest.mark.parametrize("download", [True, False])
def test_a_missing_file_is_not_downloaded_into_a_users_folder(tmp_path, download):
    with pytest.raises(ValueError, match=r"sector .6,412 rows x 55,197 features, 105 classes. is missing in") as caught:
        load_dataset("sector", tmp_path, download=download)
    for part in (str(tmp_path), "sector.scale.bz2, sector.scale,", dataset_info("sector").addresses[0]):
        assert part in str(caught.value)


def test_wrong_names_kinds_and_folders(tmp_path):
    with pytest.raises(ValueError, match="name must be one of"):
        load_dataset("cifar", tmp_path)
    with pytest.raises(ValueError, match=r"use load_images\('mnist'\)"):
        load_dataset("mnist", tmp_path)
    with pytest.raises(ValueError, match=r"use load_dataset\('iris'\)"):
        load_images("iris", tmp_path)
    with pytest.raises(ValueError, match="data must be a folder that exists"):
        load_dataset("iris", tmp_path / "nowhere")


def published_at(monkeypatch, name, *files):
    monkeypatch.setitem(DATASETS, name, dataclasses.replace(DATASETS[name], remote_files=files))


def test_a_download_into_the_cache(server, cache, monkeypatch):
    published_at(monkeypatch, "iris", RemoteFile("iris.scale", server.add("/iris.scale", IRIS)))
    seen = []
    iris = load_dataset("iris", progress=lambda *state: seen.append(state))
    assert iris.path == cache / "libsvm" / "iris.scale"
    assert iris.complete
    assert seen == [(len(IRIS), len(IRIS))]
    np.testing.assert_array_equal(load_dataset("iris", download=False).X, iris.X)
    assert server.asked == ["/iris.scale"]  # the second time it was there


def test_a_download_of_something_else_is_not_kept(server, cache, monkeypatch):
    url = server.add("/iris.scale", b"<html>log in first</html>\n", IRIS)
    published_at(monkeypatch, "iris", RemoteFile("iris.scale", url))
    with pytest.raises(ValueError, match=r"line 1: .*<html>log.*was not kept"):
        load_dataset("iris")
    assert list((cache / "libsvm").iterdir()) == []
    assert load_dataset("iris").complete


def test_no_download_unless_wanted(server, cache, monkeypatch):
    published_at(monkeypatch, "iris", RemoteFile("iris.scale", server.add("/iris.scale", IRIS)))
    with pytest.raises(ValueError, match=r"iris .* is missing in"):
        load_dataset("iris", download=False)
    assert server.asked == []
    assert not cache.exists()


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LEGENDRETRON_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == tmp_path
    monkeypatch.delenv("LEGENDRETRON_DATA")
    assert cache_folder() == Path("/caches/legendretron")
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert cache_folder() == Path.home() / ".cache" / "legendretron"


def test_status_of_a_folder(tmp_path, monkeypatch):
    (tmp_path / "iris.scale").touch()
    (tmp_path / "libsvm").mkdir()
    (tmp_path / "libsvm" / "usps.subset100.bz2").touch()
    (tmp_path / "libsvm" / "svmguide2.subset9").touch()
    (tmp_path / "libsvm" / "letter.scale.zip").touch()
    (tmp_path / "wine.scale").mkdir()  # a folder is no file
    (tmp_path / "FashionMNIST" / "raw").mkdir(parents=True)
    (tmp_path / "FashionMNIST" / "raw" / "train-images-idx3-ubyte.gz").touch()
    for name in dataset_info("mnist").files:
        (tmp_path / "mnist").mkdir(exist_ok=True)
        (tmp_path / "mnist" / name).touch()
    (tmp_path / "kmnist").mkdir()
    for name in dataset_info("kmnist").files:
        (tmp_path / "kmnist" / name.replace("train-", "train7011-")).touch()
    states = {name: find_dataset(name, tmp_path).state for name in DATASETS}
    states = {name: state for name, state in states.items() if state != "missing"}
    assert states == {
        "iris": "complete", "usps": "subset", "svmguide2": "subset", "mnist": "complete", "fashion-mnist": "incomplete",
        "kmnist": "subset",
    }  # fmt: skip
    found = find_dataset("usps", tmp_path)
    assert (found.path, found.declared_rows) == (tmp_path / "libsvm" / "usps.subset100.bz2", 100)
    assert find_dataset("letter", tmp_path).path is None
    monkeypatch.setenv("LEGENDRETRON_DATA", str(tmp_path / "nowhere"))
    assert find_dataset("iris").state == "missing"


def write_images(folder, train=60_000, test=10_000, names=("train", "t10k"), size=28, classes=10):
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(names, (train, test), strict=True):
        images, labels = np.zeros((rows, size, size), np.uint8), np.arange(rows) % classes
        images[:, 0, 0] = labels
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(array), 1))
    return folder


@pytest.fixture
def small_images(monkeypatch):
    """Sets of images of 60 and 20 rows, so that complete ones are quick to write."""
    for name in ("mnist", "kmnist"):
        monkeypatch.setitem(DATASETS, name, dataclasses.replace(DATASETS[name], rows=60, test_rows=20))


@pytest.mark.parametrize("inner", ["mnist", "MNIST/raw", ""])
def test_images_in_a_folder_of_their_name(tmp_path, small_images, inner):
    data = tmp_path / "mnist" if inner == "" else tmp_path
    write_images(data / inner, 60, 20)
    images = load_images("mnist", data)
    assert images.complete
    assert images.train_images.shape == (60, 28, 28)
    np.testing.assert_array_equal(images.test_labels, np.arange(20) % 10)
    with pytest.raises(ValueError, match=r"kmnist .* is missing"):
        load_images("kmnist", data)


def test_declared_parts_of_images(tmp_path, small_images):
    write_images(tmp_path / "kmnist", 30, 20, ("train30", "t10k"))
    assert not load_images("kmnist", tmp_path).complete
    write_images(tmp_path / "mnist", 60, 10, ("train", "t10k10"))
    assert not load_images("mnist", tmp_path).complete


@pytest.mark.parametrize(("settings", "message"), [
    ({"train": 50}, r"has 50 rows, but kmnist has 60.*'train50-images-idx3-ubyte.gz'"),
    ({"test": 10}, r"has 10 rows, but kmnist has 20"),
    ({"train": 70}, r"has 70 rows, more than the 60"),
    ({"train": 50, "names": ("train40", "t10k")}, r"has 50 rows, but its name declares a subset of 40"),
    ({"size": 27}, r"28 x 28 pixels, got \(27, 27\)"),
    ({"classes": 9}, r"train-labels-idx1-ubyte.gz' has labels of 9 classes"),
    ({"classes": 11}, r"train-labels-idx1-ubyte.gz' has the label 10 in row 11"),
])  # fmt: skip
def test_images_that_are_not_what_they_say(tmp_path, small_images, settings, message):
    write_images(tmp_path / "kmnist", **{"train": 60, "test": 20} | settings)
    with pytest.raises(ValueError, match=message):
        load_images("kmnist", tmp_path)


def test_images_of_which_a_file_is_missing(tmp_path, small_images):
    (write_images(tmp_path / "kmnist", 60, 20) / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(ValueError, match=r"kmnist .* is incomplete in .* t10k-labels-idx1-ubyte.gz"):
        load_images("kmnist", tmp_path)


def test_images_without_a_label_each(tmp_path, small_images):
    folder = write_images(tmp_path / "kmnist", 60, 20)
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(np.arange(50) % 10)))
    with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte.gz' must contain a label for each of 60 images"):
        load_images("kmnist", tmp_path)


def test_images_are_downloaded_where_they_are_missing(server, tmp_path, cache, small_images, monkeypatch):
    served = write_images(tmp_path / "served", 60, 20)
    files = []
    for name in dataset_info("mnist").files:
        content = (served / name).read_bytes()
        files.append(RemoteFile(name, server.add(f"/{name}", content), hashlib.sha256(content).hexdigest()))
    published_at(monkeypatch, "mnist", *files)
    assert load_images("mnist").complete
    (cache / "mnist" / files[2].name).unlink()
    server.asked.clear()
    assert load_images("mnist").complete
    assert server.asked == [f"/{files[2].name}"]  # only the one that was missing


@pytest.mark.parametrize("name", DATASETS)
def test_every_entry_is_whole(name):
    info = dataset_info(name)
    assert len(info.remote_files) == (4 if info.kind == "images" else 1)
    for file in info.remote_files:
        assert file.address.startswith("https://")
        assert file.address.endswith("/" + file.name)
        # only the publishers of images have files whose checksums are known
        assert (file.sha256 is None) == (info.kind == "libsvm")
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
    assert info.licence
    assert info.origin
    assert info.labels[1] - info.labels[0] + 1 >= info.classes
    assert info.addresses[0] in info.how_to_get


@pytest.mark.parametrize(("spelt", "name"), [
    ("SENSORLESS", "Sensorless"), ("fashion_mnist", "fashion-mnist"), ("FashionMNIST", "fashion-mnist"), ("KMNIST", "kmnist"),
])  # fmt: skip
def test_spellings(spelt, name):
    assert dataset_info(spelt).name == name
