"""The learned loss as a torch criterion."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from legendretron import CanonicalLoss, CompositeLink, NotCanonicalError, SoftmaxLink
from legendretron.simplex import append_reference
from tests.catalogue import CLASSES, make_link, normal

CANONICAL = ["softmax", "canonical", "composite_ficnn"]


def cases():
    return [(name, c) for name in CANONICAL for c in CLASSES if name != "composite_ficnn" or c == 2]


every_case = pytest.mark.parametrize(("name", "c"), cases())


@every_case
def test_losses_on_predictors_and_on_probabilities_agree(name, c):
    link = make_link(name, c)
    criterion = CanonicalLoss(link)
    z = normal(10, c - 1, key="z")
    assert torch.allclose(criterion.losses_at(z), criterion.partial_losses(link.inverse(z)), rtol=1e-8, atol=1e-9)


def test_an_ignored_row_may_hold_anything():
    criterion = CanonicalLoss(make_link("canonical", 3))
    z = normal(4, 2, key="z")
    y = torch.tensor([0, -100, 2, 1])
    clean = criterion(z, y)
    z[1] = float("nan")
    assert torch.equal(criterion(z, y), clean)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_without_any_row_that_counts_are_zero(smoothing):
    """As those of cross_entropy, whose mean over no rows is NaN."""
    criterion = CanonicalLoss(make_link("canonical", 4), label_smoothing=smoothing)
    logits = normal(3, 4, key="logits").requires_grad_()
    loss = criterion(logits, torch.full((3,), -100))
    loss.backward()
    assert loss.isnan()
    assert not logits.grad.any()


def test_small_losses_keep_their_digits_in_float32():
    for z, y in ((torch.tensor([[12.0]]), 0), (torch.tensor([[1e4, 1e4 - 1]]), 0), (torch.tensor([[-30.0, -40.0]]), 2)):
        ours = CanonicalLoss(SoftmaxLink(z.shape[1] + 1))(z, torch.tensor([y]))
        assert ours.item() == pytest.approx(
            cross_entropy(append_reference(z), torch.tensor([y])).item(), rel=1e-6, abs=0
        )
    link = make_link("canonical", 4)
    z = normal(50, 3, key="z", scale=10.0)
    exact = CanonicalLoss(link).losses_at(z)
    subtracted = link.potential(z).unsqueeze(-1) - append_reference(z)
    assert torch.allclose(exact, subtracted, rtol=1e-12, atol=1e-12)


def test_a_label_that_was_ruled_out_costs_without_bound():
    loss = CanonicalLoss(make_link("canonical", 3))
    losses = loss.partial_losses(torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64))
    assert losses[2] == float("inf")
    assert torch.isfinite(losses[:2]).all()


@pytest.mark.parametrize(("settings", "named"), [
    ({"reduction": "avg"}, "reduction must be one of 'mean', 'sum', 'none', got 'avg'"),
    ({"weight": torch.ones(2)}, "weight"),
    ({"weight": torch.tensor([1.0, -1.0, 1.0])}, "weight"),
    ({"label_smoothing": 1.5}, "label_smoothing"),
    ({"dim": 0.5}, "dim"),
    ({"normalized": "yes"}, "normalized"),
    ({"link": SoftmaxLink(3, run_shape=(2,))}, "link"),
    ({"link": CompositeLink(3)}, "use CanonicalLink"),
])  # fmt: skip
def test_settings_that_are_refused(settings, named):
    with pytest.raises(ValueError, match=named) as caught:
        CanonicalLoss(**{"link": SoftmaxLink(3), **settings})
    assert isinstance(caught.value, NotCanonicalError) == (named == "use CanonicalLink")


@pytest.mark.parametrize(("z", "y", "named"), [
    (torch.zeros(4, 2), torch.tensor([156, 1, 2, 0], dtype=torch.uint8), r"y .*got 156"),
    (torch.zeros(4, 2), torch.tensor([0, 1, 7, 2]), r"y .*got 7"),
    (torch.zeros(4, 2), torch.tensor([0, 1, -1, 2]), r"y .*got -1"),
    (torch.zeros(4, 2), torch.tensor([0, 1, 2]), r"y .*got \(3,\)"),
    (torch.zeros(4, 2), torch.full((2, 3), 1 / 3), r"y .*got \(2, 3\)"),
    (torch.zeros(4, 2), torch.ones(4, 3), "y must sum to 1"),
    (torch.zeros(4, 4), torch.zeros(4, dtype=torch.int64), r"z must have 3 logits, or 2 predictors.*got shape \(4, 4\)"),
])  # fmt: skip
def test_rows_that_are_refused(z, y, named):
    with pytest.raises(ValueError, match=named):
        CanonicalLoss(SoftmaxLink(3))(z, y)
