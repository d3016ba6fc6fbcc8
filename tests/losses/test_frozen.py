"""Nothing trains a loss, and half precision does not count rows."""

import pytest
import torch
from torch import nn

from legendretron import CanonicalLoss
from legendretron.losses import CompositeLoss, LogLoss
from tests.catalogue import make_link, normal, proba


@pytest.mark.parametrize(
    "make",
    [lambda: CanonicalLoss(make_link("canonical", 3, dtype=torch.float32)),
     lambda: CompositeLoss(make_link("composite_ficnn", 3, dtype=torch.float32))],
    ids=["canonical", "composite"],
)  # fmt: skip
def test_an_optimiser_of_everything_leaves_the_loss_alone(make):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 2)
            self.criterion = make()

    torch.manual_seed(0)
    model = Model().requires_grad_(True)
    assert not list(model.criterion.parameters())
    before = {name: value.clone() for name, value in model.criterion.state_dict().items()}
    x, y = torch.randn(50, 4), torch.arange(50) % 3
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(50):
        optimiser.zero_grad()
        loss = model.criterion(model.linear(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert model.criterion.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in model.criterion.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_more_rows_than_half_precision_can_count(dtype):
    rows = 70_000
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
