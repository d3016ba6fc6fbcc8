"""Losses within torch's modes: the same values in autocast and in inference mode as without, and after them."""

import pytest
import torch

from legendretron import CanonicalLoss
from legendretron.losses import CompositeLoss
from tests.catalogue import EXISTING_LOSSES, LINKS_OF_TWO, LOSSES, make_link, normal, possible, proba
from tests.modes import assert_nothing_changes, every_mode

CASES = {
    **{f"{name}-{c}": (lambda name=name, c=c: (LOSSES[name](c).float(), c)) for name, c in EXISTING_LOSSES if c < 10},
    "canonical_table": lambda: (CanonicalLoss(LINKS_OF_TWO["table"]()).float(), 2),
    "canonical_cosines": lambda: (CanonicalLoss(LINKS_OF_TWO["cosines"]()).float(), 2),
}
every_case = pytest.mark.parametrize("make", [
    pytest.param(make, id=name, marks=pytest.mark.exhaustive if name == "canonical_cosines" else ())  # as sines
    for name, make in CASES.items()
])  # fmt: skip


def values(loss, c):
    """What every public method gives."""
    p, q = (possible("canonical_noisy", proba(7, c, key=key, dtype=torch.float32)) for key in "pq")
    y = torch.arange(7) % c
    found = [loss.partial_losses(p), loss.expected_loss(p, q), loss.bayes_risk(p), loss.regret(p, q), loss.link(p)]
    found.append(loss.mean_loss(p, y))
    if isinstance(loss, CanonicalLoss | CompositeLoss):
        z = normal(7, c - 1, key="z", dtype=torch.float32)
        found += [loss(z, y), loss(z, q), loss.losses_at(z)]
    return found


@every_case
@every_mode
def test_nothing_changes(make, mode):
    _, c = make()
    assert_nothing_changes(lambda: make()[0], lambda loss: values(loss, c), mode)


@pytest.mark.parametrize(
    "link", [make_link("composite_ficnn", 2), LINKS_OF_TWO["cosines"]()], ids=["composite", "cosines"]
)
def test_made_and_used_in_inference_mode_then_trained_with(link):
    z, y = normal(7, 1, key="z"), torch.arange(7) % 2
    with torch.inference_mode():
        criterion = CanonicalLoss(link, weight=torch.tensor([1.0, 2.0], dtype=torch.float64), reduction="sum")
        criterion(z, y)
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(criterion(z, y), z)
    residual = link.inverse(z).detach()[:, :1] - (y == 0).double()[:, None]
    torch.testing.assert_close(gradient, residual * (1.0 + y.double()[:, None]), rtol=1e-8, atol=1e-10)
