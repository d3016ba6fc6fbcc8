"""A link of a user's own, from a module outside the package, goes wherever the library's links go, by its name alone.

The property tests have it by `tests/catalogue.py`, processes split by class by `tests/nn/worker.py`.
"""

import copy
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale
from torch import nn
from torch.distributed.tensor.parallel import ParallelStyle

from legendretron import LegendreTronClassifier
from legendretron.estimators import fit_splits
from legendretron.links import CanonicalLink, PiecewiseLinearLink, SoftmaxLink, TrigonometricLink
from legendretron.nn import ClassParallel, LegendreHead, LegendreLink
from tests.leaky_link import LeakyLink

ROOT = Path(__file__).parents[1]
X, y = load_iris(return_X_y=True)
X2, y2 = X[y > 0], y[y > 0]


def fitted(link, X=X, y=y, **parameters):
    return LegendreTronClassifier(link, max_epochs=20, learning_rate=0.1, random_state=0, **parameters).fit(X, y)


def test_estimator_by_name_by_settings_and_as_an_object():
    named = fitted("leaky")
    assert isinstance(named.link_, LeakyLink)
    assert named.link_.log_slope.shape == (2,)
    assert named.link_.log_slope.abs().max() > 1e-3  # it has learned
    assert named.score(X, y) > 0.9
    shared = fitted("leaky", link_params={"per_class": False})
    assert shared.link_.log_slope.shape == (1,)
    given = LeakyLink(3, dtype=torch.float64)
    assert np.allclose(fitted(given).predict_proba(X), named.predict_proba(X), rtol=1e-12)
    assert given.log_slope.abs().max() == 0  # a copy was trained
    assert clone(shared).get_params()["link_params"] == {"per_class": False}


def test_many_splits_at_once():
    rows = np.stack([np.random.default_rng(seed).permutation(len(y))[:100] for seed in range(3)])
    model = LegendreTronClassifier("leaky", max_epochs=20, learning_rate=0.1, standardize=False)
    results = fit_splits(model, scale(X), y, rows, [0, 1, 2])
    assert (results.evaluate(rows)[1] > 0.8).all()


@pytest.mark.parametrize(
    "parameters", [{"link": "leaky"}, {"link": "leaky", "link_params": {"per_class": False}}], ids=str
)
def test_save_and_load(tmp_path, parameters):
    model = fitted(**parameters)
    model.save(tmp_path / "model.safetensors")
    again = LegendreTronClassifier.load(tmp_path / "model.safetensors")
    assert again.get_params() == model.get_params()
    assert isinstance(again.link_, LeakyLink)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    # also in another process, which has to import the module first
    load = f"LegendreTronClassifier.load({str(tmp_path / 'model.safetensors')!r}).link_"
    code = f"from legendretron import LegendreTronClassifier; print({load})"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    for imports, ends in (("import tests.leaky_link;", 0), ("", 1)):
        done = subprocess.run([sys.executable, "-c", imports + code], capture_output=True, text=True, env=environment)
        assert done.returncode == ends, done.stderr
    assert "got 'leaky'. A link of your own gets its name by @register_link when its module is imported" in done.stderr


@pytest.mark.parametrize(
    "link",
    [
        LeakyLink(2),
        PiecewiseLinearLink([-2.0, 0.0, 3.0], [0.1, 0.5, 0.95]),
        TrigonometricLink((-2.0, 2.0), [0.0, 1.0, 0.1, -0.2], "sine"),
    ],
    ids=lambda link: type(link).__name__,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_objects_are_saved_too(tmp_path, link, dtype):
    model = fitted(link, X2.astype(dtype), y2)
    model.save(tmp_path / "model.safetensors")
    again = LegendreTronClassifier.load(tmp_path / "model.safetensors")
    assert np.array_equal(again.predict_proba(X2.astype(dtype)), model.predict_proba(X2.astype(dtype)))
    assert type(again.link) is type(link)
    z = torch.linspace(-4.0, 4.0, 9).unsqueeze(-1)
    assert torch.equal(again.link(z), link(z))


def test_a_forged_link_of_ones_own_is_refused(tmp_path):
    from tests.estimators.tiny_models import contents, sign

    fitted("leaky").save(tmp_path / "model.safetensors")
    for config in ({"per_class": 3.5e300}, {"per_class": False}, {"n_classes": 10**12}, {"other": 1}):
        tensors, header = contents(tmp_path / "model.safetensors")
        header["link"] |= config
        sign(tmp_path / "forged", tensors, header)
        if config != {"per_class": 3.5e300}:  # a true value as any other
            with pytest.raises(ValueError, match="is not a model that can be loaded"):
                LegendreTronClassifier.load(tmp_path / "forged")


def test_onnx(tmp_path):
    model = fitted("leaky", X.astype(np.float32), y)
    model.to_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    labels, probabilities = session.run(None, {"X": X.astype(np.float32)})
    assert np.array_equal(labels, model.predict(X.astype(np.float32)))
    assert np.allclose(probabilities, model.predict_proba(X.astype(np.float32)), atol=1e-6)


def test_head_and_adapter():
    head = LegendreHead(4, 3, "leaky", link_params={"per_class": False})
    assert head.link.log_slope.shape == (1,)
    nn.NLLLoss()(head(torch.randn(8, 4)), torch.randint(3, (8,))).backward()
    assert head.link.log_slope.grad.abs() > 0
    adapter = LegendreLink(3, LeakyLink(3))
    assert torch.allclose(adapter(torch.randn(8, 3)).exp().sum(-1), torch.ones(8))
    again = copy.deepcopy(head)
    again.load_state_dict(head.state_dict())


def test_a_link_that_does_not_say_how_is_not_split():
    class Whole(SoftmaxLink):
        def class_axes(self):
            return None

    style = ClassParallel()
    assert isinstance(style, ParallelStyle)
    with pytest.raises(ValueError, match="Whole cannot be split by class, since its class_axes"):
        style._apply(LegendreHead(4, 3, Whole(3)), None)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"link": "canonical", "hidden": 50}, "hidden=50 does not apply to link='canonical'; leave it out"),
        ({"link": "softmax", "n_nests": 2}, "n_nests=2 does not apply to link='softmax'"),
        ({"link": "leaky", "network": "cpflow"}, "network='cpflow' does not apply to link='leaky'"),
        (
            {"link": CanonicalLink(3), "n_nests": 7},
            "n_nests=7 does not apply to a link that is an object, CanonicalLink",
        ),
        (
            {"link": CanonicalLink(3), "link_params": {"a": 1}},
            "link_params holds 'a', which does not apply to a link that is",
        ),
        ({"link": "leaky", "link_params": {"slope": 1}}, "link_params holds 'slope'.* there it can hold per_class"),
        ({"link_params": {"hidden": 3}}, "link_params must not hold 'hidden', a parameter of Legendre"),
        ({"link": "logit"}, "link must be one of 'canonical'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", ["estimator", "head", "adapter"])
def test_a_setting_that_does_not_apply_is_refused(make, parameters, message):
    makers = {
        "estimator": lambda: LegendreTronClassifier(**parameters).fit(X, y),
        "head": lambda: LegendreHead(4, 3, **parameters),
        "adapter": lambda: LegendreLink(3, **parameters),
    }
    with pytest.raises(ValueError, match=message):
        makers[make]()


@pytest.mark.parametrize(("link", "init"), [("canonical", "paper"), ("softmax", "paper"), ("leaky", "random")])
def test_a_start_that_a_link_does_not_have(link, init):
    with pytest.raises(ValueError, match=f"init={init!r}"):
        LegendreHead(4, 3, link, init=init)
    assert isinstance(LegendreHead(4, 3, "canonical", init="random").link, CanonicalLink)


def test_command_line(tmp_path, capsys):
    from legendretron.cli import main

    np.savetxt(tmp_path / "iris.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,d,y", comments="", fmt="%g")
    words = [
        "fit",
        tmp_path / "iris.csv",
        "-t",
        "y",
        "-o",
        tmp_path / "m",
        "--link",
        "leaky",
        "--link-param",
        "per_class=false",
    ]
    assert main([*map(str, words), "--epochs", "5", "--seed", "0"]) == 0
    model = LegendreTronClassifier.load(tmp_path / "m")
    assert model.link_params == {"per_class": False}
    assert isinstance(model.link_, LeakyLink)
    assert main(["evaluate", str(tmp_path / "m"), str(tmp_path / "iris.csv"), "-t", "y"]) == 0
