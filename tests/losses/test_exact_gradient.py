"""The gradient of a canonical loss is p - e_y: exactly, at any size of the predictors, and to any order."""

import pytest
import torch
from torch.func import grad, hessian, jacrev, jvp, vmap
from torch.nn.functional import one_hot

from legendretron import CanonicalLoss, SoftmaxLink
from legendretron.links import NoisyLink, SymmetricNoise
from tests.catalogue import LINKS_OF_TWO, make_link, normal

LINKS = {
    "softmax": lambda dtype: SoftmaxLink(4),
    "canonical": lambda dtype: make_link("canonical", 4, dtype=dtype),
    "noisy": lambda dtype: _noisy("canonical", 4, dtype),
    "leaky_of_two": lambda dtype: make_link("leaky", 2, dtype=dtype),
    "canonical_of_two": lambda dtype: make_link("canonical", 2, dtype=dtype),
    "composite_of_two": lambda dtype: make_link("composite_ficnn", 2, dtype=dtype),
    "cpflow_of_two": lambda dtype: make_link("composite_cpflow", 2, dtype=dtype),
    "noisy_of_two": lambda dtype: _noisy("composite_ficnn", 2, dtype),
    "table": lambda dtype: LINKS_OF_TWO["table"]().to(dtype),
    "cosines": lambda dtype: LINKS_OF_TWO["cosines"]().to(dtype),
}
every_link = pytest.mark.parametrize("name", LINKS)


def _noisy(name, c, dtype):
    return NoisyLink(make_link(name, c, dtype=dtype), SymmetricNoise(c, 0.2, learned=False, dtype=dtype))


def batch(c, scale, dtype=torch.float32):
    """Predictors far apart, and large ones that are close to each other."""
    far = normal(40, c - 1, key="far", scale=scale, dtype=dtype)
    close = (scale + normal(40, c - 1, key="close").to(dtype)).to(dtype)
    y = torch.arange(80) % c
    return torch.cat([far, close]), y


def gradient(loss, z, y):
    z = z.clone().requires_grad_()
    return torch.autograd.grad(loss(z, y), z)[0]


@every_link
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_single_precision_against_double(name, scale):
    single = CanonicalLoss(LINKS[name](torch.float32), reduction="sum")
    double = CanonicalLoss(LINKS[name](torch.float32).double(), reduction="sum")
    c = single.n_classes
    z, y = batch(c, scale)
    exact = (double.predict_proba(z.double()) - one_hot(y, c))[:, :-1]
    torch.testing.assert_close(gradient(double, z.double(), y), exact, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gradient(single, z, y).double(), exact, rtol=0, atol=3e-6)
    torch.testing.assert_close(single(z, y).double(), double(z.double(), y), rtol=1e-5, atol=1e-4)


@every_link
def test_logits_and_compiled_graphs(name):
    loss = CanonicalLoss(LINKS[name](torch.float64))
    c = loss.n_classes
    z, y = batch(c, 3.0, torch.float64)
    logits = torch.cat([z, torch.zeros_like(z[:, :1])], -1) + normal(80, 1, key="shift", scale=5.0)
    torch.testing.assert_close(loss(logits, y), loss(z, y))
    torch.testing.assert_close(loss.predict_proba(logits), loss.predict_proba(z))
    torch.testing.assert_close(80 * gradient(loss, logits, y), loss.predict_proba(z) - one_hot(y, c))
    if name == "table":
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(z, y), loss(z, y))
        torch.testing.assert_close(gradient(compiled, z, y), gradient(loss, z, y))


@pytest.mark.parametrize("name", ["softmax", "canonical"])
def test_a_large_last_logit_takes_no_digits(name):
    single, double = (
        CanonicalLoss(LINKS[name](torch.float32).to(d), reduction="sum") for d in (torch.float32, torch.float64)
    )
    logits = torch.tensor([[0.3, 0.5, -0.1, -1e6], [1e6, 1e6 + 0.5, 3.0, 1e6 - 1]])
    y = torch.tensor([1, 0])
    torch.testing.assert_close(
        gradient(single, logits, y).double(), gradient(double, logits.double(), y), rtol=0, atol=2e-6
    )


@every_link
def test_first_and_second_derivatives(name):
    loss = CanonicalLoss(LINKS[name](torch.float64))
    c = loss.n_classes
    z, y = normal(3, c - 1, key="z").requires_grad_(), torch.arange(3) % c
    assert torch.autograd.gradcheck(lambda z: loss(z, y), z)
    if name != "table":  # whose second derivative has jumps
        assert torch.autograd.gradgradcheck(lambda z: loss(z, y), z)
    assert torch.autograd.gradcheck(loss.losses_at, z)


@every_link
def test_function_transforms(name):
    loss = CanonicalLoss(LINKS[name](torch.float64))
    c = loss.n_classes
    z, y = normal(4, c - 1, key="z"), torch.arange(4) % c
    residual = (loss.predict_proba(z) - one_hot(y, c))[:, :-1]
    jacobian = loss.canonical_link.jacobian(z)

    def one(z, y):
        return loss(z.unsqueeze(0), y.unsqueeze(0))

    torch.testing.assert_close(vmap(one)(z, y).mean(), loss(z, y))
    torch.testing.assert_close(vmap(grad(one))(z, y), residual)
    torch.testing.assert_close(vmap(hessian(one))(z, y), jacobian, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(vmap(jacrev(jacrev(one)))(z, y), jacobian, rtol=1e-6, atol=1e-9)
    direction = normal(4, c - 1, key="direction")
    tangent = jvp(lambda z: loss(z, y), (z,), (direction,))[1]
    torch.testing.assert_close(tangent, (residual * direction).sum() / 4)
