import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import given
from hypothesis import strategies as st

from legendretron import simplex
from tests.catalogue import CLASSES, LEADING, normal, proba


@pytest.mark.parametrize("leading", LEADING)
@pytest.mark.parametrize("c", CLASSES)
def test_agrees_with_scipy_on_any_leading_axes(c, leading):
    z = normal(*leading, c - 1, key="z", scale=5.0)
    full = np.concatenate([z.numpy(), np.zeros((*leading, 1))], -1)
    expected = scipy.special.log_softmax(full, axis=-1)
    assert torch.allclose(simplex.log_softmax_plus(z), torch.as_tensor(expected), rtol=1e-13, atol=1e-13)
    assert torch.allclose(simplex.softmax_plus(z), torch.as_tensor(np.exp(expected[..., :-1])), rtol=1e-13)
    lse = torch.as_tensor(scipy.special.logsumexp(full, axis=-1))
    assert torch.allclose(simplex.logsumexp_plus(z), lse, rtol=1e-14)


@pytest.mark.parametrize("leading", LEADING)
@pytest.mark.parametrize("c", CLASSES)
def test_lift_and_project_are_inverse(c, leading):
    p = proba(*leading, c, key="p")
    assert torch.allclose(simplex.lift(simplex.project(p)), p, atol=1e-15)
    assert torch.equal(simplex.project(simplex.lift(p[..., :-1])), p[..., :-1])


def test_lift_does_not_go_below_zero():
    assert simplex.lift(torch.full((10,), 0.1))[-1] >= 0
    assert simplex.lift(torch.tensor([0.7, 0.3 + 1e-7]))[-1] == 0


@pytest.mark.parametrize("c", CLASSES)
def test_softmax_plus_is_the_gradient_of_logsumexp_plus(c):
    z = normal(7, c - 1, key="z", scale=3.0).requires_grad_()
    (gradient,) = torch.autograd.grad(simplex.logsumexp_plus(z).sum(), z)
    assert torch.allclose(gradient, simplex.softmax_plus(z), rtol=1e-13)
    assert torch.autograd.gradcheck(simplex.logsumexp_plus, z[:2, :20])
    assert torch.autograd.gradcheck(simplex.softmax_plus, z[:2, :20])
    assert torch.autograd.gradcheck(simplex.log_softmax_plus, z[:2, :20])


@pytest.mark.parametrize("c", CLASSES)
def test_jacobian_formula_against_autograd(c):
    z = normal(c - 1, key="z", scale=2.0)
    jacobian = torch.func.jacrev(simplex.softmax_plus)(z)
    assert torch.allclose(simplex.softmax_plus_jacobian(simplex.log_softmax_plus(z).exp()), jacobian, atol=1e-15)


@pytest.mark.parametrize("c", CLASSES)
def test_inverse(c):
    z = normal(20, c - 1, key="z", scale=3.0)
    assert torch.allclose(simplex.softmax_plus_inverse(simplex.softmax_plus(z)), z, rtol=1e-8, atol=1e-8)
    assert torch.allclose(simplex.log_softmax_plus_inverse(simplex.log_softmax_plus(z)), z, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(data=st.data())
def test_stable_for_large_arguments(dtype, data):
    values = data.draw(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=6))
    z = torch.tensor(values, dtype=dtype, requires_grad=True)
    eps = torch.finfo(dtype).eps
    log_p = simplex.log_softmax_plus(z)
    assert torch.isfinite(log_p).all()
    assert abs(log_p.exp().sum().item() - 1) < 16 * eps
    assert (simplex.softmax_plus(z) >= 0).all()
    lse = simplex.logsumexp_plus(z)
    assert lse.item() >= max(0.0, *values) - 1e4 * eps
    for out in (log_p.sum(), simplex.softmax_plus(z).square().sum(), lse):
        (gradient,) = torch.autograd.grad(out, z, retain_graph=True)
        assert torch.isfinite(gradient).all()
    back = simplex.log_softmax_plus_inverse(log_p.detach())
    assert torch.allclose(back, z.detach(), rtol=4 * eps, atol=4e4 * eps)


def test_complement_keeps_its_digits():
    p = torch.tensor([1.0, 1e-30, 3e-30], dtype=torch.float64)
    assert torch.allclose(
        simplex.complement(p), torch.tensor([4e-30, 1.0, 1.0], dtype=torch.float64), rtol=1e-14, atol=0
    )


@pytest.mark.parametrize(
    "function", [simplex.softmax_plus, simplex.logsumexp_plus, simplex.log_softmax_plus, simplex.lift]
)
def test_bad_input_names_the_argument(function):
    with pytest.raises(ValueError, match=r"(z|p_tilde) must have shape"):
        function(torch.tensor(1.0))
    with pytest.raises(ValueError, match=r"(z|p_tilde) must have a floating-point dtype, got torch.int64"):
        function(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match=r"(z|p_tilde) must be a torch.Tensor, got list"):
        function([1.0, 2.0])


def test_project_needs_two_classes():
    with pytest.raises(ValueError, match=r"p must have shape \(..., C\) with C >= 2, got \(1,\)"):
        simplex.project(torch.ones(1))
