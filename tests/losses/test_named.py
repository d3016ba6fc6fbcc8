"""The paper's binary table, and what is particular to single losses."""

import pytest
import torch

from legendretron.losses import (
    AsymmetricBinaryLoss,
    CostLoss,
    LogLoss,
    MatsushitaLoss,
    SphericalLoss,
    SquareLoss,
    ZeroOneLoss,
)
from legendretron.simplex import lift
from tests.catalogue import proba

q = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)


@pytest.mark.parametrize(
    ("loss", "formula"),
    [
        (SquareLoss(), (1 - q) ** 2),
        (LogLoss(), -torch.log(q)),
        (MatsushitaLoss(), torch.sqrt((1 - q) / q) / 2),
        (ZeroOneLoss(), torch.where(q == 0.5, 0.5, (q < 0.5).double())),
    ],
)
def test_partial_losses_of_the_papers_table(loss, formula):
    assert torch.allclose(loss.partial_losses(lift(q.unsqueeze(-1)))[..., 0], formula, rtol=1e-12, atol=1e-15)


def test_closed_forms_of_bayes_risks():
    p = proba(50, 5, key="p")
    assert torch.allclose(SquareLoss().bayes_risk(p), (1 - p.square().sum(-1)) / 2)
    assert torch.allclose(SquareLoss(scale_by_half=False).bayes_risk(p), 1 - p.square().sum(-1))
    assert torch.allclose(SphericalLoss().bayes_risk(p), 1 - p.norm(dim=-1))
    assert torch.allclose(MatsushitaLoss().bayes_risk(p), (p.sqrt().sum(-1) ** 2 - 1) / 2)
    assert torch.allclose(ZeroOneLoss().bayes_risk(p), 1 - p.amax(-1))


def test_losses_and_regrets_keep_their_digits():
    sure = torch.tensor([1 - 1e-12, 1e-12], dtype=torch.float64)
    assert SquareLoss().partial_losses(sure)[0].item() == pytest.approx(1e-24, rel=1e-12, abs=0)
    p = proba(5, key="p")
    step = 1e-9 * torch.tensor([1.0, -1.0, 2.0, -2.0, 0.0], dtype=torch.float64)
    assert SquareLoss().regret(p, p + step).item() == pytest.approx(0.5 * step.square().sum().item(), rel=1e-6, abs=0)
    assert SphericalLoss().regret(p, p + step).item() > 0
    single = torch.tensor([1.0, 1e-5, 1e-6])
    exact = single.double() / single.double().sum()
    for loss in (SquareLoss(), SphericalLoss()):
        torch.testing.assert_close(loss.partial_losses(single).double(), loss.partial_losses(exact), rtol=1e-3, atol=0)
        torch.testing.assert_close(loss.bayes_risk(single).double(), loss.bayes_risk(exact), rtol=1e-3, atol=0)
    assert LogLoss().regret(p, p).item() == 0


@pytest.mark.parametrize("loss", [LogLoss(), SquareLoss(), SphericalLoss(), MatsushitaLoss()], ids=repr)
def test_regret_of_close_predictions_is_not_negative_in_float32(loss):
    p = proba(500, 5, key="p", dtype=torch.float32)
    q = torch.softmax(torch.log(p) + 1e-6 * torch.randn(500, 5, generator=torch.Generator().manual_seed(0)), -1)
    assert (loss.regret(p, q) >= 0).all()


def test_log_loss_has_gradients_at_the_boundary():
    p = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([0.9, 0.1, 0.0], dtype=torch.float64, requires_grad=True)
    for value in (LogLoss().expected_loss(p, q), LogLoss().regret(p, q)):
        (gradient,) = torch.autograd.grad(value, q, retain_graph=True)
        assert torch.isfinite(gradient).all()
    (gradient,) = torch.autograd.grad(LogLoss().bayes_risk(p), p)
    assert gradient.tolist() == [-1.0, float("inf"), float("inf")]


def test_costs():
    p, zero_one = proba(50, 4, key="p"), ZeroOneLoss()
    cost = CostLoss(1.0 - torch.eye(4, dtype=torch.float64))
    assert torch.allclose(cost.partial_losses(p), zero_one.partial_losses(p))
    loss, p = AsymmetricBinaryLoss(0.3), proba(50, 2, key="p")
    cost = CostLoss(torch.tensor([[0.0, 0.7], [0.3, 0.0]], dtype=torch.float64))
    assert torch.allclose(loss.partial_losses(p), cost.partial_losses(p))
    assert torch.allclose(loss.bayes_risk(p), torch.minimum(0.7 * p[:, 0], 0.3 * p[:, 1]))
    tie = torch.tensor([0.3, 0.7], dtype=torch.float64)
    assert torch.allclose(loss.partial_losses(tie), torch.tensor([0.35, 0.15], dtype=torch.float64))


@pytest.mark.parametrize("cost", [0, 1.5, float("nan"), True])
def test_asymmetric_cost_out_of_range(cost):
    with pytest.raises(ValueError, match="cost must be a number strictly between 0 and 1, got"):
        AsymmetricBinaryLoss(cost)


@pytest.mark.parametrize(("dtype", "logit"), [(torch.float32, 80.0), (torch.float64, 600.0)])
def test_gradients_of_matsushitas_loss_are_exact_as_long_as_they_are_no_larger_than_the_limit(dtype, logit):
    x = torch.tensor([[0.0, logit, 1.0]], dtype=dtype, requires_grad=True)
    for y in range(3):
        (gradient,) = torch.autograd.grad(MatsushitaLoss()(x, torch.tensor([y])), x)
        ratios = torch.exp(0.5 * (x - x[:, y]).detach()) / 4
        ratios[0, y] -= ratios.sum()
        torch.testing.assert_close(gradient, ratios, rtol=1e-4 if dtype == torch.float32 else 1e-12, atol=0.0)
    x = torch.tensor([[0.0, 4 * logit, -torch.inf]], dtype=dtype, requires_grad=True)
    right, wrong = (torch.autograd.grad(MatsushitaLoss()(x, torch.tensor([y])), x)[0] for y in (1, 0))
    assert right.abs().max() < 1e-30  # a confident right answer
    largest = torch.finfo(dtype).max ** 0.5 / 4
    torch.testing.assert_close(wrong, torch.tensor([[-largest, largest, 0.0]], dtype=dtype), rtol=1e-4, atol=0.0)
    assert MatsushitaLoss()(x, torch.tensor([0])).isinf()
