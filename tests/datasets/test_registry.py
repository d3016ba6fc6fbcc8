import re

import pytest

from legendretron.datasets import DATASETS, dataset_info

PAPER = {
    "aloi": (108_000, 128, 1000), "sector": (6412, 55_197, 105), "letter": (15_000, 16, 26), "news20": (15_935, 62_061, 20),
    "Sensorless": (58_509, 48, 11), "vowel": (528, 10, 11), "usps": (7291, 256, 10), "segment": (2310, 19, 7),
    "satimage": (4435, 36, 6), "glass": (214, 9, 6), "vehicle": (846, 18, 4), "dna": (2000, 180, 3),
    "svmguide2": (391, 20, 3), "wine": (178, 13, 3), "iris": (150, 4, 3),
    "mnist": (60_000, 784, 10), "fashion-mnist": (60_000, 784, 10), "kmnist": (60_000, 784, 10),
}  # fmt: skip


def test_the_data_sets_of_the_paper():
    assert {name: (info.rows, info.features, info.classes) for name, info in DATASETS.items()} == PAPER


@pytest.mark.parametrize("name", PAPER)
def test_every_entry_is_whole(name):
    info = dataset_info(name)
    assert len(info.remote_files) == (4 if info.kind == "images" else 1)
    for file in info.remote_files:
        for address in file.addresses:
            assert address.startswith("https://")
            assert address.endswith("/" + file.name)
        # only the publishers of images have files whose checksums are known
        assert (file.sha256 is None) == (info.kind == "libsvm")
        assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
    assert info.licence
    assert info.origin
    assert info.labels[1] - info.labels[0] + 1 >= info.classes
    assert info.addresses[0] in info.how_to_get


def test_checksums_are_of_one_file_each():
    checksums = [file.sha256 for info in DATASETS.values() for file in info.remote_files if file.sha256]
    assert len(set(checksums)) == len(checksums) == 12


def test_names_looked_for():
    assert dataset_info("aloi").files == ("aloi.scale.bz2", "aloi.scale", "aloi.scale.xz", "aloi.scale.gz")
    assert dataset_info("svmguide2").files == ("svmguide2", "svmguide2.bz2", "svmguide2.xz", "svmguide2.gz")
    assert len(dataset_info("mnist").files) == 4


@pytest.mark.parametrize(("spelt", "name"), [
    ("SENSORLESS", "Sensorless"), ("fashion_mnist", "fashion-mnist"), ("FashionMNIST", "fashion-mnist"), ("KMNIST", "kmnist"),
])  # fmt: skip
def test_spellings(spelt, name):
    assert dataset_info(spelt).name == name


@pytest.mark.parametrize("name", ["cifar", "", None, 3])
def test_unknown_names(name):
    with pytest.raises(ValueError, match=r"name must be one of aloi, sector.*read_libsvm"):
        dataset_info(name)


def test_the_registry_cannot_be_changed_by_accident():
    with pytest.raises(AttributeError):
        dataset_info("iris").rows = 3
