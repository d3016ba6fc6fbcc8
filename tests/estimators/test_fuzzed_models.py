"""Models with random changes, signed again: refused with a ValueError, or harmless.

LEGENDRETRON_FUZZ=5000 in the environment tries that many random changes of every kind of model, instead of a few.
"""

import copy
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from legendretron import load
from tests.estimators.tiny_models import FITTED, X
from tests.saved_files import write


def places(value, way=()):
    """The keys that lead to every value in a state."""
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


def change_value(draw, where, key):
    match draw(st.sampled_from(["set", "remove", "add"])):
        case "set":
            where[key] = draw(ANYTHING)
        case "remove":
            del where[key]
        case _ if isinstance(where, dict):
            where[draw(WORDS)] = draw(ANYTHING)
        case _:
            where.append(draw(ANYTHING))


def change_tensor(draw, where, key):
    found = where[key]
    match draw(st.sampled_from(["fill", "dtype", "shape", "rename"])):
        case "fill":
            value = draw(st.sampled_from([0.0, -1.0, 700.0, 1e5, -1e300, 1e308, float("nan"), float("-inf")]))
            if found.numel() and found.is_floating_point():
                found.view(-1)[draw(st.integers(0, found.numel() - 1))] = torch.tensor(value, dtype=torch.float64).to(
                    found.dtype
                )
        case "dtype":
            where[key] = found.to(draw(st.sampled_from(DTYPES)))
        case "shape":
            where[key] = draw(st.sampled_from(RESHAPED))(found)
        case "rename":
            where[draw(st.sampled_from([*sorted(where), "other", "blocks.9.bias"]))] = found.clone()


def change(draw, state):
    *way, key = draw(st.sampled_from(places(state)))
    where = state
    for step in way:
        where = where[step]
    if isinstance(where[key], torch.Tensor) and draw(st.booleans()):
        change_tensor(draw, where, key)
    else:
        change_value(draw, where, key)


def tried(function, argument):
    """The result, or the message of a ValueError; any other error is none that a user should see."""
    try:
        return function(argument), None
    except ValueError as error:
        return None, str(error)


@pytest.mark.parametrize("examples", [8, pytest.param(50, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # a change may have given some
def test_any_change_is_refused_or_harmless(kind, examples, originals, tmp_path_factory):
    path = tmp_path_factory.mktemp("forged") / "m"

    @settings(max_examples=int(os.environ.get("LEGENDRETRON_FUZZ", examples)))
    @given(st.data())
    def try_one(data):
        name, state = copy.deepcopy(originals[kind])
        for _ in range(data.draw(st.integers(1, 2))):
            change(data.draw, state)
        write(path, name, state)
        clf, refused = tried(load, path)
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
