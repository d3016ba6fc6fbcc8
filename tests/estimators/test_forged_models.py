"""Files of models that somebody has changed on purpose and signed again: refused with a ValueError, or harmless.

LEGENDRETRON_FUZZ=5000 in the environment tries that many random changes of every kind of model, instead of a few.
"""

import copy
import json
import os
import resource
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legendretron import LegendreTronClassifier
from legendretron._internal.artifacts import _checksum
from legendretron.estimators.loading import load_any_estimator
from legendretron.estimators.persistence import _KIND
from tests.estimators.tiny_models import FITTED, X, contents, sign


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Tensors and header of every kind of model."""
    path = tmp_path_factory.mktemp("models") / "m"
    found = {}
    for name, fitted in FITTED.items():
        fitted().save(path)
        found[name] = contents(path)
    return found


@pytest.fixture
def forge(originals, tmp_path):
    """Write a kind of model after a function has changed its tensors and its header; return the path."""

    def write(kind, change):
        tensors, header = copy.deepcopy(originals[kind])
        change(tensors, header)
        sign(tmp_path / "m", tensors, header)
        return tmp_path / "m"

    return write


def setting(*place, to):
    """Set a field of the header, by the keys that lead to it."""

    def change(tensors, header):
        for key in place[:-1]:
            header = header[key]
        header[place[-1]] = to

    return change


def filling(name, value):
    """Set the first entry of a tensor."""

    def change(tensors, header):
        tensors[name].view(-1)[0] = value

    return change


def tensor(name, of):
    """Replace a tensor by a function of it, or take it away."""

    def change(tensors, header):
        found = of(tensors.get(name))
        if found is None:
            del tensors[name]
        else:
            tensors[name] = found

    return change


def removing(field):
    return lambda tensors, header: header.pop(field)


def nested(depth=900):
    value = []
    for _ in range(depth):
        value = [value]
    return value


FORGERIES = {
    # settings that the tensors do not back
    "too many blocks": ("ficnn", setting("link", "n_blocks", to=10**5), "'link.blocks.2.weight', which is missing"),
    "too few blocks": ("ficnn", setting("link", "n_blocks", to=1), "does not ask for the tensors .*link.blocks.1"),
    "too wide": ("ficnn", setting("link", "hidden", to=2000), "link.blocks.0.weight must be of shape"),
    "too deep": ("cpflow", setting("link", "depth", to=3), "link.blocks.0.weight must be of shape"),
    "other network": ("ficnn", setting("link", "network", to="cpflow"), "link.blocks.0.raw_mixing must be of shape"),
    "more nests": ("canonical", setting("link", "n_nests", to=3), "link.nests.log_mu must be of shape"),
    "more classes of the link": ("canonical", setting("link", "n_classes", to=4), "n_classes of link must be 3"),
    "more features": ("softmax", setting("n_features_in", to=3), "coef must be of shape"),
    "given blocks": ("given composite", setting("given_link", "n_blocks", to=10**5), "given_link.blocks.2.weight"),
    "given nests": ("given canonical", setting("given_link", "n_nests", to=10**5), "given_link.nests.log_mu"),
    "given classes": ("given softmax", setting("given_link", "n_classes", to=10**9), "n_classes of given_link must be 3"),
    "given dtype": ("given canonical", setting("given_link", "dtype", to="int8"), "dtype of given_link must be one of"),
    "no given link": ("given canonical", setting("given_link", to=None), "given_link must be there if, and only if"),
    "a given link too many": ("given canonical", setting("parameters", "link", to="softmax"), "given_link must be there"),
    "moments that are not there": ("ficnn", setting("has_moments", to=True), "'moments.0', which is missing"),
    "a link in logistic regression": (
        *("logistic", setting("link", to={"kind": "canonical", "n_classes": 3, "n_nests": 2})),
        "link must be of kind 'softmax'",
    ),
    # fields of the header
    "n_iter of words": ("softmax", setting("n_iter", to="many"), "n_iter must be an integer"),
    "n_iter negative": ("softmax", setting("n_iter", to=-1), "n_iter must be an integer"),
    "n_iter true": ("softmax", setting("n_iter", to=True), "n_iter must be an integer"),
    "n_features_in of 0": ("softmax", setting("n_features_in", to=0), "n_features_in must be an integer of at least 1"),
    "names too few": ("softmax", setting("feature_names_in", to=["a"]), "feature_names_in must be 2 names, got 1"),
    "names of numbers": ("softmax", setting("feature_names_in", to=["a", 1]), "must be a list of different strings"),
    "names twice": ("softmax", setting("feature_names_in", to=["a", "a"]), "must be a list of different strings"),
    "one field too many": ("softmax", setting("extra", to=1), "the header must have the fields"),
    "one field too few": ("softmax", removing("n_iter"), "the header must have the fields"),
    "no estimator": ("softmax", removing("estimator"), "names no estimator"),
    "estimator nested": ("softmax", setting("estimator", to=nested()), "names no estimator"),
    "history of words": ("softmax", setting("history", to="none"), "history must be an object of columns"),
    "history column too short": ("softmax", setting("history", "epoch", to=[]), "columns must be of the same length"),
    "history column of words": ("softmax", setting("history", "accuracy", to=["x"]), "'accuracy' must be a list of numbers"),
    "history column of objects": ("softmax", setting("history", "seconds", to={}), "'seconds' must be a list of numbers"),
    "history epoch of NaN": ("softmax", setting("history", "epoch", to=[float("nan")]), "'epoch' must be a list of integers"),
    "history column unknown": ("softmax", setting("history", "other", to=[0]), "columns must be epoch"),
    # classes
    "classes twice": ("softmax", setting("classes", "values", to=[0, 1, 1]), "values must be sorted and different"),
    "classes unsorted": ("softmax", setting("classes", "values", to=[0, 2, 1]), "values must be sorted and different"),
    "classes too few": ("softmax", setting("classes", "values", to=[0, 1]), "n_classes of link must be 2"),
    "one class": ("softmax", setting("classes", "values", to=[0]), "values must be a list of at least two"),
    "classes nested": ("softmax", setting("classes", to={"dtype": "object", "values": [[0]] * 3}), "values must be a list"),
    "classes of dtype O": ("softmax", setting("classes", "dtype", to="O"), "dtype must be one of"),
    "classes of a gigabyte": ("canonical", setting("classes", "dtype", to="<U1000000000"), "dtype must be one of"),
    "classes of mixed types": (
        *("softmax", setting("classes", to={"dtype": "object", "values": [0, "a", "b"]})),
        "values must be labels of dtype object",
    ),
    "classes too large": ("softmax", setting("classes", to={"dtype": "int8", "values": [0, 1, 300]}), "int8 can hold"),
    "classes not finite": (
        *("given softmax", setting("classes", "values", to=[0.0, 1.0, float("nan")])),
        "values must be a list",
    ),
    "classes infinite in their dtype": (
        *("given softmax", setting("classes", to={"dtype": "float16", "values": [0.0, 1.0, 1e9]})),
        "values must be sorted and different labels of dtype float16",
    ),
    # parameters
    "parameter unknown": ("softmax", setting("parameters", "other", to=1), "unknown are other"),
    "parameter of a wrong type": ("softmax", setting("parameters", "alpha", to="strong"), "'alpha' parameter"),
    "parameter nested": ("softmax", setting("parameters", "alpha", to=nested()), "not a model that can be loaded"),
    "parameter not finite": ("softmax", setting("parameters", "alpha", to=float("nan")), "'alpha' parameter"),
    "parameter enormous": ("softmax", setting("parameters", "max_epochs", to=10**400), "max_epochs must be a number of"),
    "parameters of nothing": ("softmax", setting("parameters", to=None), "parameters must be an object"),
    "class_weight of a dict": ("softmax", setting("parameters", "class_weight", to={"0": 1}), "class_weight must be a list"),
    "class_weight of numbers": ("softmax", setting("parameters", "class_weight", to=[1, 2]), "class_weight must be a list"),
    "class_weight negative": ("softmax", setting("parameters", "class_weight", to=[[0, -1.0]]), "class_weight must be"),
    "class_weight of lists": ("softmax", setting("parameters", "class_weight", to=[[[0], 1.0]]), "class_weight must be"),
    "class_weight twice": ("softmax", setting("parameters", "class_weight", to=[[0, 1], [0, 2]]), "name every label once"),
    "class_weight of words": ("softmax", setting("parameters", "class_weight", to="all"), "'class_weight' parameter"),
    # the link's settings
    "link of no kind": ("softmax", setting("link", to={"n_classes": 3}), "kind must be one of"),
    "link of an unknown kind": ("softmax", setting("link", "kind", to="probit"), "kind must be one of"),
    "link with another setting": ("softmax", setting("link", "hidden", to=2), "must have the settings n_classes"),
    "hidden of a float": ("ficnn", setting("link", "hidden", to=2.0), "hidden must be an integer"),
    # tensors
    "no coefficients": ("softmax", tensor("coef", lambda t: None), "coef must be there"),
    "no intercept": ("softmax", tensor("intercept", lambda t: None), "'intercept', which is missing"),
    "no bias of a block": ("ficnn", tensor("link.blocks.1.bias", lambda t: None), "'link.blocks.1.bias', which is missing"),
    "one tensor too many": ("softmax", tensor("extra", lambda t: torch.zeros(1)), "does not ask for .*'extra'"),
    "coefficients of integers": ("softmax", tensor("coef", torch.Tensor.long), "coef must be there, in float32 or float64"),
    "intercepts of another dtype": ("softmax", tensor("intercept", torch.Tensor.float), "intercept must be of shape"),
    "coefficients of another shape": ("softmax", tensor("coef", lambda t: t.reshape(4, 1)), "coef must be of shape"),
    "moments of another shape": ("online", tensor("moments.1", lambda t: t[:, :-1].clone()), "moments.1 must be of shape"),
    **{
        f"{name} not finite": (kind, filling(name, value), f"{name} holds values that are not finite")
        for kind, name, value in (
            ("softmax", "coef", float("nan")),
            ("softmax", "intercept", float("inf")),
            ("softmax", "standardized.mean", float("nan")),
            ("softmax", "standardized.scale", float("inf")),
            ("cpflow", "link.blocks.0.log_scale", float("nan")),
            ("given canonical", "given_link.nests.log_mu", float("inf")),
            ("online", "moments.0", float("nan")),
        )
    },
    "scale of 0": ("softmax", filling("standardized.scale", 0.0), "standardized.scale must be positive"),
    "moment negative": ("online", filling("moments.1", -1.0), "moments.1 must not be negative"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_model_is_refused_by_file_and_field(name, forge):
    kind, change, message = FORGERIES[name]
    path = forge(kind, change)
    with pytest.raises(ValueError, match=message) as caught:
        load_any_estimator(path)
    assert repr(str(path)) in str(caught.value)


def test_what_a_file_asks_for_takes_no_memory(forge):
    load_any_estimator(forge("cpflow", lambda tensors, header: None))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind, link in (("ficnn", "link"), ("cpflow", "link"), ("canonical", "link"), ("given composite", "given_link")):
        # first what would be built slowly, then what could not be
        for size in (3000, 10**9, 10**30):
            for name in ("hidden", "depth", "n_nests", "n_classes", "n_blocks"):
                path = forge(kind, setting(link, name, to=size))
                with pytest.raises(ValueError, match="not a model that can be loaded"):
                    load_any_estimator(path)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < 50_000 * (1 if os.uname().sysname == "Linux" else 1024)  # in kilobytes there, else in bytes


def test_loading_leaves_random_numbers_alone(forge):
    path = forge("ficnn", lambda tensors, header: None)
    before = torch.get_rng_state()
    load_any_estimator(path)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_parameter_that_a_file_does_not_know_has_its_default(forge):
    def forget(tensors, header):
        del header["parameters"]["verbose"], header["parameters"]["class_weight"]

    assert load_any_estimator(forge("ficnn", forget)).get_params()["verbose"] == 0


# --- the container ---


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


# --- random changes ---


def places(value, way=()):
    """The keys that lead to every value in a header."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, part in entries for place in ((*way, key), *places(part, (*way, key)))]


NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 1000, 10**9, 2**63, 10**40, 0.5, -0.5, 1e308, float("nan"), float("inf")])
WORDS = st.sampled_from(["", "a", "object", "softmax", "canonical", "cpflow", "float64", "O", "<U9999999", "\ud800"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool]
RESHAPED = [
    lambda t: t.reshape(-1),
    lambda t: t.reshape(*t.shape, 1),
    lambda t: t.reshape(-1)[:-1].clone(),
    lambda t: torch.cat([t.reshape(-1), t.reshape(-1)]),
    lambda t: t.mT.contiguous() if t.dim() > 1 else t,
    lambda t: t.new_zeros(0),
]


def change_header(draw, header):
    place = draw(st.sampled_from(places(header)))
    where = header
    for key in place[:-1]:
        where = where[key]
    match draw(st.sampled_from(["set", "remove", "add"])):
        case "set":
            where[place[-1]] = draw(ANYTHING)
        case "remove":
            del where[place[-1]]
        case _ if isinstance(where, dict):
            where[draw(WORDS)] = draw(ANYTHING)
        case _:
            where.append(draw(ANYTHING))


def change_tensors(draw, tensors):
    name = draw(st.sampled_from(sorted(tensors)))
    found = tensors[name]
    match draw(st.sampled_from(["fill", "dtype", "shape", "remove", "rename"])):
        case "fill":
            value = draw(st.sampled_from([0.0, -1.0, 700.0, 1e5, -1e300, 1e308, float("nan"), float("-inf")]))
            if found.numel() and found.is_floating_point():
                found.view(-1)[draw(st.integers(0, found.numel() - 1))] = torch.tensor(value, dtype=torch.float64).to(
                    found.dtype
                )
        case "dtype":
            tensors[name] = found.to(draw(st.sampled_from(DTYPES)))
        case "shape":
            tensors[name] = draw(st.sampled_from(RESHAPED))(found)
        case "remove":
            del tensors[name]
        case "rename":
            tensors[draw(st.sampled_from([*sorted(tensors), "other", "link.", "given_link.blocks.9.bias"]))] = (
                found.clone()
            )


def tried(function, argument):
    """The result, or the message of a ValueError; any other error is none that a user should see."""
    try:
        return function(argument), None
    except ValueError as error:
        return None, str(error)


@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # a change may have given some
def test_any_change_is_refused_or_harmless(kind, originals, tmp_path_factory):
    path = tmp_path_factory.mktemp("forged") / "m"

    @settings(max_examples=int(os.environ.get("LEGENDRETRON_FUZZ", "25")))
    @given(st.data())
    def try_one(data):
        tensors, header = copy.deepcopy(originals[kind])
        for _ in range(data.draw(st.integers(1, 2))):
            if data.draw(st.booleans()):
                change_header(data.draw, header)
            elif tensors:
                change_tensors(data.draw, tensors)
        sign(path, tensors, header)
        clf, refused = tried(load_any_estimator, path)
        if refused is not None:
            assert repr(str(path)) in refused
            return
        assert len(repr(clf)) + len(repr(clf.history_)) > 0
        features = np.ones((4, clf.n_features_in_), dtype=clf.coef_.dtype)
        features[:, : X.shape[1]] = X[:4]
        p, refused = tried(clf.predict_proba, features)
        if refused is not None:
            assert "not finite" in refused  # weights so large that nothing can be said
            return
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-5)
        assert set(clf.predict(features)) <= set(clf.classes_)

    try_one()
