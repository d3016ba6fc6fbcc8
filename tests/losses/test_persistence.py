"""Losses and links in files."""

import copy
import resource
import sys

import pytest
import torch

from legendretron import CanonicalLoss, SoftmaxLink
from legendretron.links import NoisyLink, SymmetricNoise, load_link, save_link
from legendretron.links.persistence import link_to_state
from legendretron.losses import (
    CompositeLoss,
    LogLoss,
    MatsushitaLoss,
    SphericalLoss,
    SquareLoss,
    ZeroOneLoss,
    load_loss,
    save_loss,
)
from tests.catalogue import LINKS_OF_TWO, links_with, make_link, normal
from tests.saved_files import forge, write

LOSSES = {
    "canonical": lambda: CanonicalLoss(
        make_link("canonical", 3), weight=torch.tensor([1.0, 2.0, 3.0]), normalized=True
    ),
    "softmax": lambda: CanonicalLoss(SoftmaxLink(3), reduction="sum", ignore_index=7),
    "composite": lambda: CompositeLoss(make_link("composite_cpflow", 3, dtype=torch.float32), label_smoothing=0.1),
    "two": lambda: CanonicalLoss(make_link("composite_ficnn", 2), dim=-1),
    "table": lambda: CanonicalLoss(LINKS_OF_TWO["table"]()),
    "noisy": lambda: CanonicalLoss(NoisyLink(SoftmaxLink(3), SymmetricNoise(3, 0.0, learned=False))),
    "log": lambda: LogLoss(weight=torch.ones(3), reduction="none"),
    "square": lambda: SquareLoss(scale_by_half=False, dim=-1),
    "spherical": SphericalLoss,
    "matsushita": MatsushitaLoss,
}


@pytest.mark.parametrize("name", LOSSES)
def test_round_trip_of_a_loss(name, tmp_path):
    loss = LOSSES[name]()
    save_loss(loss, tmp_path / "folder" / "loss")
    again = load_loss(tmp_path / "folder" / "loss")
    assert type(again) is type(loss)
    assert again._settings() == loss._settings()
    assert not list(again.parameters())
    c = loss.n_classes or 3
    z, y = normal(8, c, key="z", dtype=torch.float32), torch.arange(8) % c
    assert torch.equal(again(z, y), loss(z, y))
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["loss"]


@pytest.mark.parametrize(("name", "c"), links_with(2, 3))
def test_round_trip_of_a_link(name, c, tmp_path):
    link = make_link(name, c)
    before = torch.random.get_rng_state()
    save_link(link, tmp_path / "link")
    again = load_link(tmp_path / "link")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert [n for n, _ in again.named_parameters()] == [n for n, _ in link.named_parameters()]
    z = normal(8, c - 1, key="z")
    assert torch.equal(again(z), link.eval()(z))
    assert torch.equal(copy.deepcopy(link)(z), link(z))


FORGERIES = {
    "class": (lambda s: s.update(loss="CostLoss"), "loss must be one of CanonicalLoss, .*, got 'CostLoss'"),
    "no link": (lambda s: s.update(link=None), "link must be present for a CanonicalLoss"),
    "setting": (
        lambda s: s["settings"].update(reduction="avg"),
        "reduction must be one of 'mean', 'sum', 'none', got 'avg'",
    ),
    "unknown": (lambda s: s["settings"].update(color=1), "settings must be those of a CanonicalLoss"),
    "huge": (lambda s: s["link"].update(n_classes=10**12), "need more or larger tensors than there are"),
    "weight": (lambda s: s.update(weight=torch.ones(5)), r"weight must have shape \(3,\)"),
    "weight not finite": (lambda s: s.update(weight=torch.tensor([1.0, 1.0, torch.nan])), "weight must be finite"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_files_are_refused(name, tmp_path):
    change, why = FORGERIES[name]
    path = tmp_path / "loss"
    save_loss(CanonicalLoss(make_link("canonical", 3)), path)
    forge(path, change)
    with pytest.raises(ValueError, match=f"is not a loss that can be loaded: .*{why}"):
        load_loss(path)


@pytest.mark.parametrize("link", [
    lambda: make_link("composite_cpflow", 3),
    lambda: make_link("canonical", 3),
    *LINKS_OF_TWO.values(),
])  # fmt: skip
def test_what_a_file_asks_for_takes_no_memory(link, tmp_path):
    state = link_to_state(link())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in ("n_classes", *state["settings"]):
        for size in (3000, 10**9, 2**62):
            forged = {**state, "settings": dict(state["settings"])}
            (forged if name == "n_classes" else forged["settings"])[name] = size
            write(tmp_path / "link", "link", forged)
            with pytest.raises(ValueError, match="is not a link that can be loaded"):
                load_link(tmp_path / "link")
    assert torch.is_grad_enabled()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000 * (
        1 if sys.platform == "linux" else 1024
    )


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match=r"loss must be a CanonicalLoss, .* to be saved, got ZeroOneLoss"):
        save_loss(ZeroOneLoss(), tmp_path / "loss")
    with pytest.raises(ValueError, match="link must have no run axes"):
        save_link(SoftmaxLink(3, run_shape=(2,)), tmp_path / "link")
    link = make_link("canonical", 3)
    with torch.no_grad():
        link.nests.log_mu.fill_(float("nan"))
    with pytest.raises(ValueError, match=r"the link cannot be saved: nests\.log_mu holds values that are not finite"):
        save_link(link, tmp_path / "link")
    assert list(tmp_path.iterdir()) == []
