"""Nothing trains a loss, and half precision does not count rows."""

import copy
import pickle

import pytest
import torch
from torch import nn

from legendretron import CanonicalLoss
from legendretron.links import CanonicalLink, load_link, save_link
from legendretron.losses import CompositeLoss, LogLoss, load_loss, save_loss
from legendretron.nn import init_weights
from tests.catalogue import make_link, normal, proba


@pytest.mark.parametrize("kind", [CanonicalLoss, CompositeLoss])
def test_the_link_inside_is_a_frozen_copy(kind):
    """Nothing of it is a parameter, whatever is asked of the network that it is in, or done to the link."""
    link, z, y = make_link("canonical", 3), normal(4, 2, key="z"), torch.tensor([0, 1, 2, 0])
    model = nn.Sequential(nn.Linear(4, 2), kind(link)).requires_grad_(True).train()
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias"]
    assert not any(buffer.requires_grad for buffer in model.buffers())
    assert all(p.requires_grad for p in link.parameters())
    assert not model[1]._link.training
    before = model[1](z, y)
    with torch.no_grad():
        link.nests.offsets.add_(1.0)
    assert torch.equal(model[1](z, y), before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_more_rows_than_half_precision_can_count(dtype):
    rows = 70_000  # float16 ends at 65,504
    y = torch.arange(rows) % 3
    weight = torch.tensor([0.5, 1.0, 2.0])
    z = normal(rows, 2, key="z", dtype=torch.float32).to(dtype)
    for given in (None, weight.to(dtype)):
        for loss in (CanonicalLoss(make_link("canonical", 3, dtype=torch.float32), weight=given, label_smoothing=0.1),
                     CompositeLoss(make_link("composite_ficnn", 3, dtype=torch.float32), weight=given)):  # fmt: skip
            torch.testing.assert_close(loss(z, y), loss(z.float(), y))
        half = CanonicalLoss(make_link("canonical", 3, dtype=dtype), weight=given)
        assert half(z, y).isfinite()
        assert half(z, y) > 0.1
    logits = normal(rows, 3, key="logits", dtype=torch.float32).to(dtype)
    torch.testing.assert_close(LogLoss()(logits, y), LogLoss()(logits.float(), y))
    p, ones = proba(rows, 3, key="p", dtype=torch.float32).to(dtype), torch.ones(rows, dtype=dtype)
    p32 = p.float() / p.float().sum(-1, keepdim=True)
    torch.testing.assert_close(LogLoss().mean_loss(p, y, ones), LogLoss().mean_loss(p32, y), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(LogLoss().mean_loss(p, y, ones), LogLoss().mean_loss(p, y), rtol=1e-5, atol=1e-5)


LOSSES = {
    "canonical": lambda: CanonicalLoss(make_link("canonical", 3, dtype=torch.float32), normalized=True),
    "composite": lambda: CompositeLoss(
        make_link("composite_cpflow", 3, dtype=torch.float32), weight=torch.arange(1.0, 4)
    ),
    "bfloat16": lambda: CompositeLoss(make_link("composite_ficnn", 3, dtype=torch.bfloat16)),
    "log": lambda: LogLoss(weight=torch.tensor([1.0, 2.0, 5.0])),
}
ROUTES = {
    "itself": lambda loss: loss,
    "deepcopy": copy.deepcopy,
    "pickle": lambda loss: pickle.loads(pickle.dumps(loss)),
    "meta": lambda loss: spoil(loss.to("meta").to_empty(device="cpu")),
}


def spoil(module):
    for tensor in module.buffers():
        tensor.fill_(True if tensor.dtype == torch.bool else 7000.0)
    return module


def reset_all(module):
    return module.apply(lambda m: m.reset_parameters() if hasattr(m, "reset_parameters") else None)


def assert_same(found, expected):
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0, msg=name, check_dtype=False)


RESETS = {"apply": reset_all, "init_weights": lambda net: net.apply(init_weights)}


@pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
@pytest.mark.parametrize("reset", RESETS.values(), ids=RESETS)
def test_resetting_a_network_restores_its_loss(make, route, reset):
    loss = make()
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    net = nn.Sequential(nn.Linear(4, 2), route(loss))
    reset(net)
    assert_same(net[1].state_dict(), before)
    reset(spoil(net[1]))
    assert_same(net[1].state_dict(), before)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_loss_made_or_loaded_where_networks_are_built_without_memory(tmp_path, n_classes):
    link = make_link("canonical", n_classes, dtype=torch.float32)
    expected = CanonicalLoss(link, normalized=True)
    save_loss(expected, tmp_path / "loss")
    save_link(link, tmp_path / "link")
    with torch.device("meta"):
        made, loaded, again = (
            CanonicalLoss(link, normalized=True),
            load_loss(tmp_path / "loss"),
            load_link(tmp_path / "link"),
        )
    for loss in (made, loaded):
        assert_same(loss.state_dict(), expected.state_dict())
        assert_same(reset_all(spoil(loss)).state_dict(), expected.state_dict())
    assert_same(again.state_dict(), link.state_dict())
    made.load_state_dict(CanonicalLoss(CanonicalLink(n_classes, init="random"), normalized=True).state_dict())
    brought = {name: value.clone() for name, value in made.state_dict().items()}
    assert_same(reset_all(spoil(made)).state_dict(), brought)  # what a state dict brought is kept, too
