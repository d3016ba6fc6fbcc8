"""Files of models that somebody has changed on purpose and signed again: refused with a ValueError, by field."""

import copy

import pytest
import torch

from legendretron import CanonicalLink, load
from legendretron.links.persistence import link_to_state
from tests.saved_files import write


@pytest.fixture
def forge(originals, tmp_path):
    """Write a kind of model after a function has changed its state; return the path."""

    def forged(kind, change):
        name, state = copy.deepcopy(originals[kind])
        change(state)
        write(tmp_path / "m", name, state)
        return tmp_path / "m"

    return forged


def entry(state, place):
    for key in place:
        state = state[key]
    return state


def setting(*place, to):
    """Set an entry of the state, by the keys that lead to it."""

    def change(state):
        entry(state, place[:-1])[place[-1]] = to

    return change


def filling(*place, value):
    """Set the first entry of a tensor."""
    return lambda state: entry(state, place).view(-1).__setitem__(0, value)


def tensor(*place, of):
    """Replace a tensor by a function of it, or take it away."""

    def change(state):
        found = of(entry(state, place[:-1]).pop(place[-1], None))
        if found is not None:
            entry(state, place[:-1])[place[-1]] = found

    return change


def nested(depth=100):
    value = []
    for _ in range(depth):
        value = [value]
    return value


FORGERIES = {
    # settings that the tensors do not back
    "too many blocks": ("ficnn", setting("link", "settings", "n_blocks", to=10**5), "need more or larger tensors"),
    "too wide": ("ficnn", setting("link", "settings", "hidden", to=20), "blocks.0.weight must be of shape"),
    "more nests": ("canonical", setting("link", "settings", "n_nests", to=3), "nests.log_mu must be of shape"),
    "given nests": ("given canonical", setting("given_link", "settings", "n_nests", to=10**5), "nests.log_mu must be"),
    "no given link": ("given canonical", setting("given_link", to=None), "given_link must be present if, and only if"),
    "sets of other classes": ("tuned", filling("sets", "labels", value=3), "labels of prediction sets must be classes from"),
    "sets of other rows": ("tuned", tensor("sets", "weight", of=lambda w: w[:3]), "weight must be finite values"),
    "sets of negative rows": ("tuned", filling("sets", "weight", value=-1.0), "weight and proba of prediction sets must"),
    "sets without an inverse": (
        "doubted",
        tensor("sets", "noise", of=lambda m: torch.full_like(m, 1 / 3)),
        "noise of prediction sets must be a matrix that has",
    ),
    "moments that are not there": ("ficnn", setting("moments", to={}), "moments must have the fields first"),
    "a link in logistic regression": (
        *("logistic", lambda state: state.update(link=link_to_state(CanonicalLink(3).double()))),
        "link must be softmax in a MultinomialLogisticClassifier, got CanonicalLink",
    ),
    "a link in another precision": (
        *("canonical", lambda state: state.update(link=link_to_state(CanonicalLink(3).double()))),
        "link must have parameters of torch.float32, as coef",
    ),
    # fields of the state
    "names too few": ("softmax", setting("feature_names_in", to=["a"]), "feature_names_in must be 2 names, got 1"),
    "usual ranges upside down": ("logistic", filling("usual", "low", value=9.0), "low of usual must not be above high"),
    "usual ranges of other features": ("logistic", tensor("usual", "high", of=lambda t: t[:1]), "high must be values of"),
    "a baseline of other features": ("doubted", tensor("baseline", "coef", of=lambda t: t[:, :1]), "coef must be finite"),
    "a baseline not finite": ("doubted", filling("baseline", "intercept", value=float("nan")), "intercept must be finite"),
    "converged without a norm": ("fixed", setting("gradient_norm", to=None), "gradient_norm and converged must both be"),
    "history column too short": ("softmax", setting("history", "run", to=torch.zeros(0).long()), "run must be values of"),
    # strengths and how they were chosen
    **{
        f"strengths {value}": ("tuned", setting("strengths", to=value), "strengths must be")
        for value in ([0.1, 0.1, 0.1], [-0.1, 0.1], [float("inf"), 0.1])
    },
    "tuning": ("tuned", setting("tuning", to={}), "tuning must have the fields"),
    "candidates": ("tuned", setting("tuning", "rows", to=[{}]), "a candidate must have"),
    **{
        f"{name} of a candidate": ("tuned", setting("tuning", "rows", 0, name, to=value), f"{name} must be")
        for name, value in (("alpha", None), ("link_alpha", True), ("model", "probit"), ("steps", 0), ("chosen", 1))
    },
    # noise
    "a floor of everything": ("rate", setting("label_noise", "floor", to=1.0), "shares below 1"),
    "an interval upside down": ("rate", setting("label_noise", "low", to=1.5), "must have an interval"),
    "a matrix of no probabilities": ("matrix", filling("label_noise", "matrix", value=-1.0), "must contain probabilities"),
    # classes
    "classes twice": ("softmax", setting("classes", "values", to=[0, 1, 1]), "values must be sorted and different"),
    "classes nested": ("softmax", setting("classes", to={"dtype": "object", "values": [[0]] * 3}), "values must be a list"),
    "classes too large": ("softmax", setting("classes", to={"dtype": "int8", "values": [0, 1, 300]}), "int8 can hold"),
    "classes not finite": (
        *("given softmax", setting("classes", "values", to=[0.0, 1.0, float("nan")])),
        "values must be a list",
    ),
    # parameters
    "parameter unknown": ("softmax", setting("parameters", "other", to=1), "unknown are other"),
    "parameter of a wrong type": ("softmax", setting("parameters", "alpha", to="strong"), "alpha must be"),
    "parameter nested": ("softmax", setting("parameters", "alpha", to=nested()), "nested too deeply"),
    "parameter enormous": ("softmax", setting("parameters", "max_epochs", to=10**400), "an integer of more than 64 bits"),
    "class_weight negative": ("softmax", setting("parameters", "class_weight", to=[[0, -1.0]]), "class_weight must be"),
    # the link's settings
    "link of an unknown kind": ("softmax", setting("link", "kind", to="probit"), "link must be one of"),
    "link with another setting": ("softmax", setting("link", "settings", "hidden", to=2), "must have the settings"),
    # tensors
    "no intercept of a block": (
        *("ficnn", tensor("link", "tensors", "blocks.1.bias", of=lambda t: None)),
        "by its settings, the link has the tensors .*'blocks.1.bias'",
    ),
    "one tensor too many": ("softmax", setting("link", "tensors", "extra", to=torch.zeros(1)), "has the tensors .*'extra'"),
    "coefficients of integers": ("softmax", tensor("coef", of=torch.Tensor.long), "coef must be finite values of float32 or"),
    "moments of another shape": (
        *("online", tensor("moments", "second", of=lambda t: t[:, :-1].clone())),
        r"second must be finite values of float64 and of shape \(1, 52\)",
    ),
    **{
        f"{place[-1]} not finite": (kind, filling(*place, value=value), f"{place[-1]} .*not finite")
        for kind, place, value in (
            ("softmax", ("coef",), float("nan")),
            ("softmax", ("intercept",), float("inf")),
            ("softmax", ("units", "mean"), float("nan")),
            ("softmax", ("units", "scale"), float("inf")),
            ("cpflow", ("link", "tensors", "blocks.0.log_scale"), float("nan")),
            ("given canonical", ("given_link", "tensors", "nests.log_mu"), float("inf")),
            ("online", ("moments", "first"), float("nan")),
        )
    },
    "scale of 0": ("softmax", filling("units", "scale", value=0.0), "scale must be positive"),
    "moment negative": ("online", filling("moments", "second", value=-1.0), "second and count of moments must not"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_model_is_refused_by_file_and_field(name, forge):
    kind, change, message = FORGERIES[name]
    path = forge(kind, change)
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert repr(str(path)) in str(caught.value)


def test_a_parameter_that_a_file_does_not_know_has_its_default(forge):
    def forget(state):
        del state["parameters"]["verbose"], state["parameters"]["class_weight"]

    assert load(forge("ficnn", forget)).get_params()["verbose"] == 0
