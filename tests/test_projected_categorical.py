import math

import pytest
import torch
from torch.distributions import Bernoulli, Categorical, kl_divergence

from legendretron import ProjectedCategorical
from legendretron.simplex import lift
from tests.catalogue import CLASSES, LEADING, normal, proba


def pair(*shape):
    """The same distribution from its two parametrizations."""
    logits = normal(*shape, key="d", scale=2.0)
    return ProjectedCategorical(logits=logits), ProjectedCategorical(probs=ProjectedCategorical(logits=logits).probs)


@pytest.mark.parametrize("leading", LEADING)
@pytest.mark.parametrize("c", CLASSES)
def test_shapes_and_parametrizations_agree(c, leading):
    by_logits, by_probs = pair(*leading, c - 1)
    for d in (by_logits, by_probs):
        assert d.batch_shape == leading
        assert d.event_shape == (c - 1,)
        assert d.sample((4,)).shape == (4, *leading, c - 1)
        assert d.covariance_matrix.shape == (*leading, c - 1, c - 1)
    assert torch.allclose(by_logits.logits, by_probs.logits, atol=1e-8)
    assert torch.allclose(by_logits.entropy(), by_probs.entropy(), atol=1e-10)


@pytest.mark.parametrize("c", CLASSES)
def test_moments_equal_sums_over_the_support(c):
    d, _ = pair(3, c - 1)
    support = d.enumerate_support()
    weight = d.log_prob(support).exp()
    assert torch.allclose(weight.sum(0), torch.ones(3, dtype=torch.float64))
    mean = (weight.unsqueeze(-1) * support).sum(0)
    assert torch.allclose(d.mean, mean, atol=1e-15)
    centred = support - mean
    covariance = (weight[..., None, None] * centred.unsqueeze(-1) * centred.unsqueeze(-2)).sum(0)
    assert torch.allclose(d.covariance_matrix, covariance, atol=1e-14)
    assert torch.allclose(d.variance, torch.diagonal(covariance, dim1=-2, dim2=-1), atol=1e-14)
    assert torch.allclose(d.entropy(), -(weight * d.log_prob(support)).sum(0))
    assert torch.equal(d.mode, support[weight.argmax(0), torch.arange(3)])


@pytest.mark.parametrize("c", CLASSES)
def test_equals_categorical_with_the_last_class_as_reference(c):
    p, q = proba(4, c, key="p"), proba(4, c, key="q")
    ours, theirs = ProjectedCategorical(probs=p[..., :-1]), Categorical(probs=p)
    assert torch.allclose(ours.log_prob(ours.enumerate_support()), theirs.log_prob(theirs.enumerate_support()))
    kl = kl_divergence(ours, ProjectedCategorical(probs=q[..., :-1]))
    assert torch.allclose(kl, kl_divergence(theirs, Categorical(probs=q)), rtol=1e-8)


def test_certain_outcomes_stay_finite():
    d = ProjectedCategorical(probs=torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
    assert torch.isfinite(d.logits).all()
    assert torch.isfinite(d.entropy()).all()
    assert torch.equal(lift(d.mode), torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))


def test_what_is_impossible_is_not_drawn_and_infinitely_far():
    never = ProjectedCategorical(probs=torch.zeros(999))
    torch.manual_seed(0)
    assert never.sample((2000,)).sum() == 0
    assert never.entropy().item() < 1e-6
    half, zero = (ProjectedCategorical(probs=torch.tensor([p])) for p in (0.5, 0.0))
    assert kl_divergence(half, zero).item() == kl_divergence(Bernoulli(0.5), Bernoulli(0.0)).item() == float("inf")
    assert kl_divergence(zero, half).item() == pytest.approx(kl_divergence(Bernoulli(0.0), Bernoulli(0.5)).item())
    far = ProjectedCategorical(logits=torch.tensor([-200.0]))  # underflows, but is possible
    assert kl_divergence(half, far).item() == pytest.approx(100 - math.log(2))  # torch's Bernoulli says infinite


def test_digits_are_kept():
    d = ProjectedCategorical(logits=torch.tensor([20.0]))
    assert d.covariance_matrix.item() == pytest.approx(2.0611536e-9, rel=1e-6)
    assert d.variance.item() == pytest.approx(2.0611536e-9, rel=1e-6)
    near = ProjectedCategorical(logits=torch.tensor([1e4, 1e4 - 1]))
    assert near.log_prob(torch.tensor([1.0, 0.0])).item() == pytest.approx(-0.3132617, rel=1e-6)
    assert ProjectedCategorical(probs=torch.softmax(torch.ones(10), -1)[:-1].double()).batch_shape == ()


def test_gradients_reach_the_parameters():
    logits = normal(3, 2, key="g").requires_grad_()
    value = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda t: ProjectedCategorical(logits=t).log_prob(value), logits)
    assert torch.autograd.gradcheck(lambda t: ProjectedCategorical(logits=t).entropy(), logits)


def test_bad_arguments():
    with pytest.raises(ValueError, match="exactly one of probs and logits"):
        ProjectedCategorical()
    with pytest.raises(ValueError, match="exactly one of probs and logits"):
        ProjectedCategorical(probs=torch.tensor([0.5]), logits=torch.tensor([0.0]))
    with pytest.raises(ValueError, match="probs"):
        ProjectedCategorical(probs=torch.tensor([0.8, 0.8]), validate_args=True)
    with pytest.raises(ValueError, match=r"logits must have shape \(..., K\)"):
        ProjectedCategorical(logits=torch.tensor(0.0))
    d = ProjectedCategorical(probs=torch.tensor([0.5, 0.2]), validate_args=True)
    with pytest.raises(ValueError, match="support"):
        d.log_prob(torch.tensor([1.0, 1.0]))
    with pytest.raises(ValueError, match="same classes"):
        kl_divergence(d, ProjectedCategorical(probs=torch.tensor([0.5])))
