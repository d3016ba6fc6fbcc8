"""Files of models that somebody has changed on purpose and signed again: refused with a ValueError, by field."""

import copy
import os
import resource

import pytest
import torch

from legendretron.estimators.loading import load_any_estimator
from tests.estimators.tiny_models import sign


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
    "too few blocks": ("ficnn", setting("link", "n_blocks", to=1), "does not include the tensors .*link.blocks.1"),
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
    "no given link": ("given canonical", setting("given_link", to=None), "given_link must be present if, and only if"),
    "a given link too many": ("given canonical", setting("parameters", "link", to="softmax"), "given_link must be present"),
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
    # strengths and how they were chosen
    **{
        f"strengths {value}": ("tuned", setting("strengths", to=value), "strengths must be a list of two numbers")
        for value in (None, 0.1, [0.1], [0.1, 0.1, 0.1], [-0.1, 0.1], [0.1, -0.1], ["inf", 0.1], [0.1, "nan"], [True, 0.1],
                      ["0.1", 0.1], [float("nan"), 0.1], [0.1, float("inf")], [[0.1], 0.1], [{}, 0.1], [10**400, 0.1])
    },
    **{
        f"tuning {value}": ("tuned", setting("tuning", to=value), "tuning must be a list of candidates, or null")
        for value in ("none", 3, {}, [3], [{}], [None], [[]])
    },
    **{
        f"{name} of a candidate {value}": ("tuned", setting("tuning", 0, name, to=value), "tuning must be a list")
        for name, value in (
            ("alpha", None), ("alpha", "1.0"), ("alpha", 10**400), ("link_alpha", True), ("log_loss", float("nan")),
            ("standard_error", []), ("difference", "infinity"), ("model", "probit"), ("model", []), ("steps", 0),
            ("steps", 2.0), ("steps", 2**63), ("steps", "many"), ("chosen", 1), ("chosen", None), ("more", 1),
        )
    },
    "a candidate too short": ("tuned", lambda t, h: h["tuning"][0].pop("steps"), "tuning must be a list of candidates"),
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
    "link of no kind": ("softmax", setting("link", to={"n_classes": 3}), "link must be one of"),
    "link of an unknown kind": ("softmax", setting("link", "kind", to="probit"), "link must be one of"),
    "link with another setting": ("softmax", setting("link", "hidden", to=2), "must have the settings n_classes"),
    "hidden of a float": ("ficnn", setting("link", "hidden", to=2.0), "hidden must be an integer"),
    # tensors
    "no coefficients": ("softmax", tensor("coef", lambda t: None), "coef must be present"),
    "no intercept": ("softmax", tensor("intercept", lambda t: None), "'intercept', which is missing"),
    "no bias of a block": ("ficnn", tensor("link.blocks.1.bias", lambda t: None), "'link.blocks.1.bias', which is missing"),
    "one tensor too many": ("softmax", tensor("extra", lambda t: torch.zeros(1)), "does not include .*'extra'"),
    "coefficients of integers": ("softmax", tensor("coef", torch.Tensor.long), "coef must be present, in float32 or float64"),
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
