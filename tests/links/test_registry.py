"""Links by name: what there is, what each can be set to, and the tensors it asks for, known without building it."""

import pytest
import torch

from legendretron.links import (
    Link,
    SoftmaxLink,
    link_class,
    link_config,
    link_names,
    make_link,
    register_link,
    registry,
)
from legendretron.links.persistence import link_from_state
from tests.leaky_link import LeakyLink


@pytest.fixture(autouse=True)
def only_for_this_test(monkeypatch):
    """Names that a test gives to links."""
    monkeypatch.setattr("legendretron.links.registry._LINKS", dict(registry._LINKS))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "a link must have the fields kind"),
        ({"kind": ["softmax"]}, "kind must be text"),
        ({"kind": "object"}, "link must be one of .*'canonical', 'composite'"),
        ({"settings": {"n_nests": 2}}, "must have the settings"),
        ({"n_classes": 1}, "n_classes must be an integer of at least 2"),
        ({"kind": "canonical", "settings": {"n_nests": 2.0}}, "n_nests must be an integer"),
        ({"kind": "piecewise_linear", "settings": {"n_knots": 4}}, "is for n_classes=2 only, got 3"),
        (
            {"kind": "piecewise_linear", "n_classes": 2, "settings": {"n_knots": 10**9}},
            "n_knots must be at most 1,048,576",
        ),
        ({"kind": "trigonometric", "n_classes": 2, "settings": {"series": "other", "waves": 1}}, "kind must be one of"),
    ],
)
def test_other_states_are_refused(change, message):
    state = {"kind": "softmax", "n_classes": 3, "settings": {}, "tensors": {}, **change} if change else {}
    with pytest.raises(ValueError, match=message):
        link_from_state(state)


def test_names():
    assert {"softmax", "composite", "canonical", "piecewise_linear", "trigonometric", "leaky"} <= set(link_names())
    assert link_class("leaky") is LeakyLink
    assert LeakyLink.setting_names() == ("per_class",)
    with pytest.raises(ValueError, match=r"link must be one of .*'canonical'.*got 'leeky'.*import that first"):
        link_class("leeky")


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("softmax", {"nonsense": 1}, "nonsense is not a setting of link 'softmax', which has none"),
        ("canonical", {"hidden": 50}, "hidden is not a setting of link 'canonical', which has n_nests"),
        ("leaky", {"init": "identity"}, "init='identity' is not valid for link 'leaky', which accepts none"),
        ("piecewise_linear", {}, "link 'piecewise_linear' needs the setting n_knots"),
        ("trigonometric", {"waves": 2}, "link 'trigonometric' needs the setting series"),
        ("trigonometric", {"waves": 2, "series": "x"}, "kind must be one of 'sine', 'cosine'"),
    ],
)
def test_settings_that_do_not_apply(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        make_link(kind, 2, **settings)


def test_what_cannot_be_registered():
    with pytest.raises(ValueError, match=r"the name 'softmax' is taken by legendretron\.links\.softmax\.SoftmaxLink"):
        register_link("softmax")(type("Mine", (SoftmaxLink,), {}))
    for name in ("", "my link", "class"):
        with pytest.raises(ValueError, match="name must be a Python identifier"):
            register_link(name)
    with pytest.raises(ValueError, match="is for subclasses of Link"):
        register_link("mine")(torch.nn.Linear)
    with pytest.raises(ValueError, match="does not define _from_log_odds"):
        register_link("mine")(type("Mine", (Link,), {}))

    class Kinded(SoftmaxLink):
        def __init__(self, n_classes, kind="x"):
            super().__init__(n_classes)

    with pytest.raises(ValueError, match="has a setting 'kind'"):
        register_link("mine")(Kinded)
    with pytest.raises(ValueError, match="Kinded has no name, so it cannot be saved"):
        link_config(Kinded(3))
    assert "mine" not in link_names()
    link = LeakyLink(3)
    link.per_class = object()
    with pytest.raises(ValueError, match="settings of LeakyLink cannot be saved: per_class is of type object"):
        link_config(link)


def test_links_of_installed_packages_are_found_by_their_entry_point(tmp_path, monkeypatch):
    (tmp_path / "installed_links.py").write_text(
        "from legendretron.links import SoftmaxLink\n\n\nclass InstalledLink(SoftmaxLink):\n    pass\n"
    )
    info = tmp_path / "installed_links-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-links\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[legendretron.links]\ninstalled = installed_links:InstalledLink\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "installed" in link_names()
    assert type(make_link("installed", 3)).__name__ == "InstalledLink"
    assert link_config(make_link("installed", 3)) == {"kind": "installed", "n_classes": 3}
