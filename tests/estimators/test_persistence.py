"""Saved and loaded: the same predictions, and nothing but what was saved is accepted."""

import json
import struct

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from legendretron import CanonicalLink, LegendreTronClassifier, MultinomialLogisticClassifier

X, y = load_iris(return_X_y=True)
FAST = {"max_epochs": 10, "random_state": 0}
FITTED = {
    "composite": lambda: LegendreTronClassifier(**FAST).fit(X, y),
    "cpflow": lambda: LegendreTronClassifier(network="cpflow", init="paper", **FAST).fit(X, y),
    "canonical": lambda: LegendreTronClassifier(link="canonical", **FAST).fit(X, y),
    "object": lambda: LegendreTronClassifier(link=CanonicalLink(3).double(), **FAST).fit(X, y),
    "strings": lambda: LegendreTronClassifier(class_weight={"a": 2.0, "b": 1.0, "c": 1.0}, **FAST).fit(
        X.astype(np.float32), np.array(list("abc"))[y]
    ),
    "two": lambda: LegendreTronClassifier(**FAST).fit(*load_breast_cancer(return_X_y=True)),
    "logistic": lambda: MultinomialLogisticClassifier().fit(X, y),
}


@pytest.mark.parametrize("name", FITTED)
def test_round_trip(name, tmp_path):
    clf = FITTED[name]()
    path = tmp_path / "model.safetensors"
    clf.save(path)
    again = type(clf).load(path)
    features = load_breast_cancer().data if name == "two" else X.astype(clf.coef_.dtype)
    assert np.array_equal(again.predict_proba(features), clf.predict_proba(features))
    assert np.array_equal(again.predict(features), clf.predict(features))
    assert again.classes_.dtype.kind == clf.classes_.dtype.kind
    assert again.history_.to_dict().keys() == clf.history_.to_dict().keys()
    assert again.n_iter_ == clf.n_iter_
    if name != "object":
        assert again.get_params() == clf.get_params()
    again.set_params(warm_start=True).fit(features, clf.classes_[np.arange(len(features)) % len(clf.classes_)])
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    FITTED["composite"]().save(path)
    return path


def test_every_flipped_byte_is_noticed(tmp_path):
    path = saved(tmp_path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(content), 60):
        damaged = bytearray(content)
        damaged[position] ^= 0x01
        path.write_bytes(bytes(damaged))
        with pytest.raises(ValueError, match=r"damaged|not a saved estimator|version|checksum"):
            LegendreTronClassifier.load(path)


@pytest.mark.parametrize("keep", [0, 5, 100, 1000, -1])
def test_truncated(tmp_path, keep):
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="damaged or not a saved estimator"):
        LegendreTronClassifier.load(path)


def test_tampered_settings_are_noticed(tmp_path):
    path = saved(tmp_path)
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"]["settings"] = header["__metadata__"]["settings"].replace('"n_iter": 10', '"n_iter": 99')
    new = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(new)) + new + content[8 + size :])
    with pytest.raises(ValueError, match="checksum does not match"):
        LegendreTronClassifier.load(path)


def test_other_files_are_refused(tmp_path):
    path = saved(tmp_path)
    with pytest.raises(ValueError, match="holds a LegendreTronClassifier, not a MultinomialLogisticClassifier"):
        MultinomialLogisticClassifier.load(path)
    with pytest.raises(ValueError, match="there is none at"):
        LegendreTronClassifier.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match="there is none at"):
        LegendreTronClassifier.load(tmp_path)
    import pickle

    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match="damaged or not a saved estimator"):
        LegendreTronClassifier.load(path)
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(3)}, path)
    with pytest.raises(ValueError, match="is not a saved estimator of legendretron"):
        LegendreTronClassifier.load(path)
