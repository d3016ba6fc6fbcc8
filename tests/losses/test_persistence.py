"""Losses and links in files."""

import pytest
import torch

from legendretron import CanonicalLoss, SoftmaxLink
from legendretron._internal.artifacts import read_artifact, write_artifact
from legendretron.links import NoisyLink, SymmetricNoise, load_link, save_link
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
from tests.catalogue import LINKS, LINKS_OF_TWO, make_link, normal

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


@pytest.mark.parametrize("name", LINKS)
def test_round_trip_of_a_link(name, tmp_path):
    link = make_link(name, 2)
    before = torch.random.get_rng_state()
    save_link(link, tmp_path / "link")
    again = load_link(tmp_path / "link")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert [n for n, _ in again.named_parameters()] == [n for n, _ in link.named_parameters()]
    z = normal(8, 1, key="z")
    assert torch.equal(again(z), link.eval()(z))


def forged(path, change):
    kind = "legendretron-loss-1"
    tensors, header = read_artifact(path, kind)
    change(tensors, header)
    write_artifact(path, kind, tensors, header)


FORGERIES = {
    "class": (lambda t, h: h.update(loss="CostLoss"), "loss must be one of CanonicalLoss, .*, got 'CostLoss'"),
    "field": (lambda t, h: h.pop("link"), "the header must have the fields loss, settings, link, got loss, settings"),
    "no link": (lambda t, h: h.update(link=None), "link must be present for a CanonicalLoss"),
    "setting": (
        lambda t, h: h["settings"].update(reduction="avg"),
        "reduction must be one of 'mean', 'sum', 'none', got 'avg'",
    ),
    "unknown": (lambda t, h: h["settings"].update(color=1), "settings must be those of a CanonicalLoss"),
    "missing": (lambda t, h: h["settings"].pop("dim"), "settings must be reduction, .*, dim, normalized, got"),
    "tensor": (
        lambda t, h: t.pop("link.nests.log_mu"),
        "the header requires a tensor 'link.nests.log_mu', which is missing",
    ),
    "further": (lambda t, h: t.update(more=torch.ones(1)), "the header does not include the tensors"),
    "huge": (lambda t, h: h["link"].update(n_classes=10**12), "must be of shape"),
    "kind": (lambda t, h: h["link"].update(kind="pickle"), "link must be one of"),
    "dtype": (lambda t, h: h["link"].update(dtype="int8"), "dtype of link must be one of float32"),
    "nan": (
        lambda t, h: t["link.nests.log_mu"].fill_(float("nan")),
        "link.nests.log_mu holds values that are not finite",
    ),
    "weight": (lambda t, h: t.update(weight=torch.ones(5)), r"weight must have shape \(3,\)"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_files_are_refused(name, tmp_path):
    change, why = FORGERIES[name]
    path = tmp_path / "loss"
    save_loss(CanonicalLoss(make_link("canonical", 3)), path)
    forged(path, change)
    with pytest.raises(ValueError, match=f"is not a loss that can be loaded: .*{why}"):
        load_loss(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"no safetensors")
    for load in (load_loss, load_link):
        with pytest.raises(ValueError, match="damaged or not a file of legendretron"):
            load(path)
    save_link(SoftmaxLink(3), path)
    with pytest.raises(ValueError, match="holds 'legendretron-link-1', but 'legendretron-loss-1' is needed"):
        load_loss(path)


@pytest.mark.parametrize(
    ("load", "save", "made"), [(load_loss, save_loss, LogLoss), (load_link, save_link, lambda: SoftmaxLink(3))]
)
def test_a_newer_format_is_refused(load, save, made, tmp_path):
    path = tmp_path / "file"
    save(made(), path)
    kind = f"legendretron-{load.__name__.removeprefix('load_')}"
    tensors, header = read_artifact(path, f"{kind}-1")
    write_artifact(path, f"{kind}-99", tensors, header)
    with pytest.raises(ValueError, match=f"in format 99 of {kind}, but this version, .*, reads format 1. Use it with"):
        load(path)


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match=r"loss must be a CanonicalLoss, .* to be saved, got ZeroOneLoss"):
        save_loss(ZeroOneLoss(), tmp_path / "loss")
    with pytest.raises(ValueError, match="link must be a legendretron Link, got LogLoss"):
        save_link(LogLoss(), tmp_path / "link")
    with pytest.raises(ValueError, match="link must have no run axes to be saved"):
        save_link(SoftmaxLink(3, run_shape=(2,)), tmp_path / "link")
    link = make_link("canonical", 3)
    with torch.no_grad():
        link.nests.log_mu.fill_(float("nan"))
    with pytest.raises(
        ValueError, match=r"CanonicalLink cannot be saved: nests\.log_mu holds values that are not finite"
    ):
        save_link(link, tmp_path / "link")
    assert list(tmp_path.iterdir()) == []
