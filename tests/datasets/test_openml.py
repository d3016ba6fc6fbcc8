"""OpenML through scikit-learn's own cache: answers lie where it keeps them, and the network is closed."""

import gzip
import hashlib
import json
from urllib.error import URLError

import numpy as np
import pytest

from legendretron.datasets import load_openml


@pytest.fixture
def closed(monkeypatch):
    def refuse(*_, **__):
        raise URLError("the network is closed")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", refuse)
    monkeypatch.setattr("sklearn.datasets._openml.time.sleep", lambda _: None)


def arff(labels, columns, missing=False):
    rows = [
        ",".join([*(str(row + column / 10) for column in range(columns)), label]) for row, label in enumerate(labels)
    ]
    if missing:
        rows[0] = "?" + rows[0][3:]
    names = sorted(set(labels))
    head = [
        "@RELATION set",
        *(f"@ATTRIBUTE c{i} REAL" for i in range(columns)),
        f"@ATTRIBUTE class {{{','.join(names)}}}",
    ]
    return "\n".join([*head, "@DATA", *rows]) + "\n"


def keep(home, number, content, columns):
    """Write the four answers that scikit-learn asks OpenML for."""
    features = [
        {"index": str(i), "name": f"c{i}" if i < columns else "class", "data_type": "numeric" if i < columns else "nominal",
         "is_target": str(i == columns).lower(), "is_ignore": "false", "is_row_identifier": "false",
         "number_of_missing_values": "0"}
        for i in range(columns + 1)
    ]  # fmt: skip
    description = {
        "id": str(number), "name": "set", "version": "1", "format": "ARFF", "file_id": "77", "status": "active",
        "url": "https://www.openml.org/data/v1/download/77/set.arff", "default_target_attribute": "class",
        "description": "a set", "licence": "Public", "visibility": "public",
        "md5_checksum": hashlib.md5(content.encode()).hexdigest(),
    }  # fmt: skip
    answers = {
        f"api/v1/json/data/{number}": json.dumps({"data_set_description": description}),
        f"api/v1/json/data/features/{number}": json.dumps({"data_features": {"feature": features}}),
        f"api/v1/json/data/qualities/{number}": json.dumps({"data_qualities": {"quality": []}}),
        "data/v1/download/77/set.arff": content,
        "data/v1/download/77": content,  # where scikit-learn 1.6 looks for it
    }
    for path, answer in answers.items():
        file = home / "openml" / "openml.org" / f"{path}.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(answer.encode()))


@pytest.mark.parametrize("asked", ["iris", "IRIS", 61])
def test_a_copy_says_that_it_is_one(tmp_path, closed, asked):
    labels = ["setosa", "virginica", "setosa", "versicolor", "virginica"] * 30
    keep(tmp_path, 61, arff(labels, 4), 4)
    iris = load_openml(asked, data_home=tmp_path)
    assert iris.X.shape == (150, 4)
    assert iris.X.dtype == np.float64
    assert iris.X[3, 2] == 3.2
    assert iris.y.dtype == np.int64
    assert list(iris.classes[iris.y]) == labels
    assert list(iris.classes) == ["setosa", "versicolor", "virginica"]
    assert not iris.complete  # although it has as many rows as the file of the paper
    assert iris.label == "iris (OpenML 61, not the published file, 150 rows)"
    assert iris.path is None


def test_another_data_set_under_the_id(tmp_path, closed):
    keep(tmp_path, 61, arff(["a", "b"] * 5, 4), 4)
    with pytest.raises(ValueError, match=r"OpenML 61\) has 2 classes, but 3 are expected"):
        load_openml("iris", data_home=tmp_path)


def test_missing_values_are_refused(tmp_path, closed):
    keep(tmp_path, 61, arff(["a", "b", "c"], 4, missing=True), 4)
    with pytest.raises(ValueError, match="missing or infinite values"):
        load_openml(61, data_home=tmp_path)


@pytest.mark.filterwarnings("ignore:A network error occurred:UserWarning")
def test_no_network(tmp_path, closed):
    with pytest.raises(ValueError, match=r"iris \(OpenML 61\) could not be downloaded.*iris.scale"):
        load_openml("iris", data_home=tmp_path, n_retries=1)


@pytest.mark.parametrize("asked", ["sector", "news20", "svmguide2", "Sensorless"])
def test_sets_without_a_copy(asked):
    with pytest.raises(ValueError, match="no known copy on OpenML"):
        load_openml(asked)


@pytest.mark.parametrize("asked", [0, 31])
def test_ids_of_other_sets(asked):
    with pytest.raises(ValueError, match=rf"61 \(iris\).*got {asked}"):
        load_openml(asked)


@pytest.mark.parametrize("asked", ["credit-g", True, None])
def test_names_of_other_sets(asked):
    with pytest.raises(ValueError, match="name must be one of"):
        load_openml(asked)
