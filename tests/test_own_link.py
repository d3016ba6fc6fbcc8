"""A link of a user's own, from a module outside the package, goes wherever the library's links go, by its name alone.

The property tests have it by `tests/catalogue.py`, processes split by class by `tests/nn/worker.py`.
"""

import copy
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris
from torch import nn
from torch.distributed.tensor.parallel import ParallelStyle

from legendretron import LegendreTronClassifier
from legendretron.links import CanonicalLink, Link, SoftmaxLink, register_link, registry
from legendretron.nn import ClassParallel, LegendreHead, LegendreLink
from tests.given import GIVEN
from tests.leaky_link import LeakyLink

ROOT = Path(__file__).parents[1]
X, y = load_iris(return_X_y=True)
X2, y2 = X[y > 0], y[y > 0]


@pytest.fixture(autouse=True)
def only_for_this_test(monkeypatch):
    """Names that a test gives to links."""
    monkeypatch.setattr("legendretron.links.registry._LINKS", dict(registry._LINKS))


def fitted(link, X=X, y=y, **parameters):
    settings = {**GIVEN, "max_epochs": 20, "learning_rate": 0.1, "random_state": 0, **parameters}
    return LegendreTronClassifier(link, **settings).fit(X, y)


def test_estimator_by_name_by_settings_and_as_an_object(tmp_path):
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
    shared.save(tmp_path / "m")
    again = LegendreTronClassifier.load(tmp_path / "m")
    assert again.get_params() == shared.get_params()
    assert isinstance(again.link_, LeakyLink)
    assert np.array_equal(again.predict_proba(X), shared.predict_proba(X))


@pytest.mark.exhaustive
def test_another_process_has_to_import_the_module_first(tmp_path):
    fitted("leaky").save(tmp_path / "model.safetensors")
    code = f"""
from legendretron import LegendreTronClassifier
path = {str(tmp_path / "model.safetensors")!r}
try:
    LegendreTronClassifier.load(path)
except ValueError as error:
    print(error)
import tests.leaky_link
print(LegendreTronClassifier.load(path).link_)
"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    error, link = done.stdout.splitlines()
    assert "got 'leaky'. A link of your own gets its name by @register_link when its module is imported" in error
    assert link.startswith("LeakyLink(")


def test_head_and_adapter():
    head = LegendreHead(4, 3, "leaky", per_class=False)
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
        ({"link": "canonical", "link_params": {"hidden": 50}}, "holds 'hidden'.* there it can hold n_nests"),
        ({"link": CanonicalLink(3), "link_params": {"a": 1}}, "holds 'a', which does not apply to a link that is"),
        ({"link": "piecewise_linear"}, "link 'piecewise_linear' needs the setting n_knots"),
        ({"link": "leaky", "link_params": {"per_class": torch.ones(2)}}, "link 'leaky' cannot be built with"),
        ({"link": "logit"}, "link must be one of 'canonical'"),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", ["estimator", "head", "adapter"])
def test_a_setting_that_does_not_apply_is_refused(make, parameters, message):
    link, settings = parameters["link"], parameters.get("link_params", {})
    makers = {
        "estimator": lambda: LegendreTronClassifier(**parameters).fit(X, y),
        "head": lambda: LegendreHead(4, 3, link, **settings),
        "adapter": lambda: LegendreLink(3, link, **settings),
    }
    with pytest.raises(ValueError, match=message):
        makers[make]()


def test_command_line(tmp_path, capsys):
    from legendretron.cli import main

    np.savetxt(tmp_path / "iris.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,d,y", comments="", fmt="%g")
    words = ["fit", tmp_path / "iris.csv", "-t", "y", "-o", tmp_path / "m", "--link", "leaky"]
    words += ["--link-param", "per_class=false"]
    strengths = ["--alpha", "1e-4", "--link-alpha", "1e-4"]  # a link is learned in any case
    assert main([*map(str, words), *strengths, "--epochs", "5", "--seed", "0"]) == 0
    model = LegendreTronClassifier.load(tmp_path / "m")
    assert model.link_params == {"per_class": False}
    assert isinstance(model.link_, LeakyLink)
    assert main(["evaluate", str(tmp_path / "m"), str(tmp_path / "iris.csv"), "-t", "y"]) == 0


@register_link("plain_scale")
class PlainScale(Link):
    """No argument but the classes and a setting with the name of a parameter of the estimators; a buffer; no dtype."""

    starts = ("zero", "one")

    def __init__(self, n_classes, alpha=1.5, hidden=16, init="zero", *, run_shape=()):
        super().__init__(n_classes, run_shape)
        self.alpha, self.hidden = alpha, hidden
        self.log_scale = nn.Parameter(torch.full((*self.run_shape, 1), float(init == "one")))
        self.register_buffer("shift", torch.linspace(-1.0, 1.0, self.n_classes - 1))
        self.unused = nn.Parameter(torch.zeros(*self.run_shape, 2))

    def _log_proba(self, z):
        z = self.alpha * self.log_scale.exp().unsqueeze(-2) * z + self.shift
        return torch.log_softmax(torch.cat([z, torch.zeros_like(z[..., :1])], -1), -1)

    def _from_log_odds(self, log_odds):
        return (log_odds - self.shift) / (self.alpha * self.log_scale.exp().unsqueeze(-2))


def test_a_link_without_dtype_follows_the_data(tmp_path):
    model = fitted("plain_scale")
    assert model.link_.hidden == 16  # its own default, not that of the estimator
    assert model.link_.log_scale.dtype == torch.float64
    model.save(tmp_path / "m")
    assert np.array_equal(LegendreTronClassifier.load(tmp_path / "m").predict_proba(X), model.predict_proba(X))
    assert LegendreHead(4, 3, "plain_scale", dtype=torch.float64)(torch.randn(2, 4).double()).dtype == torch.float64


def test_settings_with_the_name_of_a_parameter_and_starts_of_its_own(tmp_path):
    settings = {"alpha": np.float64(2.0), "hidden": np.int64(2), "init": "one"}
    model = fitted("plain_scale", link_params=settings)
    assert (model.link_.alpha, model.link_.hidden) == (2.0, 2)
    model.save(tmp_path / "m")
    assert LegendreTronClassifier.load(tmp_path / "m").link_params == settings
    assert LegendreHead(4, 3, "plain_scale").link.log_scale.item() == 0.0
    assert LegendreHead(4, 3, "plain_scale", init="one").link.log_scale.item() == 1.0
    assert fitted("plain_scale", link_params={"hidden": 3}).link_.hidden == 3


def test_the_penalty_pulls_to_the_center_of_a_link_from_each_of_its_starts(monkeypatch):
    monkeypatch.setattr(PlainScale, "penalty_centre", lambda self: {"log_scale": 0.5})
    for init in ("zero", "one"):
        model = fitted(
            "plain_scale", link_params={"init": init}, solver="lbfgs", alpha=0.1, link_alpha=1e3, max_epochs=200
        )
        assert model.link_.log_scale.item() == pytest.approx(0.5, abs=0.01)


def test_a_setting_that_was_not_kept_is_noticed_before_training():
    @register_link("forgetful")
    class Forgetful(SoftmaxLink):
        def __init__(self, n_classes, kept_not=1, *args, **kwargs):
            super().__init__(n_classes)

    with pytest.raises(ValueError, match="Forgetful must keep its setting 'kept_not' as an attribute"):
        fitted("forgetful")


def test_a_constructor_that_reads_values_makes_them_on_the_cpu(tmp_path):
    @register_link("reader")
    class Reader(SoftmaxLink):
        def __init__(self, n_classes):
            super().__init__(n_classes)
            self.gap = float(torch.arange(3.0).diff()[0])

    with pytest.raises(ValueError, match=r"cannot be saved.*on the device 'meta'.*under torch.device\('cpu'\)"):
        fitted("reader").save(tmp_path / "m")

    @register_link("careful_reader")
    class CarefulReader(SoftmaxLink):
        def __init__(self, n_classes):
            super().__init__(n_classes)
            with torch.device("cpu"):
                self.gap = float(torch.arange(3.0).diff()[0])

    fitted("careful_reader").save(tmp_path / "m")
    assert LegendreTronClassifier.load(tmp_path / "m").link_.gap == 1.0


@pytest.mark.parametrize("change", [{"link": "softmax"}, {"link_params": {"n_nests": 3}}], ids=str)
def test_training_goes_on_with_the_link_of_the_first_fit(change):
    model = fitted("canonical", warm_start=True)
    model.fit(X, y)
    with pytest.raises(ValueError, match="link"):
        model.set_params(**change).fit(X, y)
    with pytest.raises(ValueError, match="link"):
        model.partial_fit(X, y)


class NoRowAxis(LeakyLink):
    def _slope(self):
        return self.log_slope.exp()


class NoRunShape(LeakyLink):
    def __init__(self, n_classes):
        super().__init__(n_classes, per_class=False)

    def _slope(self):
        return self.log_slope.exp()[0]


class TooWide(LeakyLink):
    def _log_odds(self, z):
        return torch.cat([z, z[..., :1]], dim=-1)


class NarrowProba(LeakyLink):
    def _log_proba(self, z):
        return torch.log_softmax(z, dim=-1)


@pytest.mark.parametrize("link", [NoRowAxis, NoRunShape])
@pytest.mark.parametrize("strengths", [GIVEN, {}], ids=["given", "chosen"])
def test_a_link_that_forgets_the_run_axes_is_refused_before_training(link, strengths):
    model = LegendreTronClassifier(link(3), max_epochs=5, random_state=0, **strengths)
    with pytest.raises(ValueError, match=rf"{link.__name__} does not compute several runs at once.*unsqueeze\(-2\)"):
        model.fit(X, y)


@pytest.mark.parametrize("link", [TooWide, NarrowProba])
def test_a_link_of_the_wrong_width_is_refused(link):
    match = rf"{link.__name__} gives [24] log-probabilities for n_classes=3: its _log_odds must return 2 entries"
    z = torch.zeros(5, 2)
    for use in (
        lambda: fitted(link(3)),
        lambda: link(3)(z),
        lambda: link(3).inverse(z),
        lambda: LegendreHead(2, 3, link=link(3))(z),
        lambda: LegendreLink(3, link=link(3))(torch.zeros(5, 3)),
    ):
        with pytest.raises(ValueError, match=match):
            use()
