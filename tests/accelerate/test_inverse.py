"""The inverse in the dimension of the rank, against Newton's method in that of the classes."""

import pytest
import torch

from legendretron.accelerate.inverse import check_roots, compiled_inverse, inverse_gradient, link_from_log
from legendretron.links import CompositeLink, NoisyLink, SoftmaxLink, SymmetricNoise
from legendretron.potentials import FICNN, CPFlowNetwork
from tests.catalogue import normal


def make(network, dim, hidden, depth, dtype, seed):
    g = network(dim, hidden, depth, init="paper", generator=torch.Generator().manual_seed(seed), dtype=dtype)
    if g.needs_batch:
        g.initialize(normal(40, dim, key="start", dtype=dtype))
    return g.requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("network", [FICNN, CPFlowNetwork])
@pytest.mark.parametrize(("dim", "hidden", "depth", "n"), [(1, 2, 4, 5), (4, 1, 1, 33), (30, 3, 2, 16), (200, 8, 4, 7)])
def test_equals_newton_in_all_dimensions(network, dim, hidden, depth, n, dtype):
    for seed in range(3):
        g = make(network, dim, hidden, depth, dtype, seed)
        y = normal(n, dim, key=("y", seed), scale=3.0, dtype=dtype)
        x = compiled_inverse(g, y)
        expected = g._polish(g._newton(y), y)
        scale = 1 + expected.abs().amax()
        assert (x - expected).abs().max() <= (1e-10 if dtype == torch.float64 else 1e-3) * scale
        assert torch.equal(inverse_gradient(g, y), check_roots(g, x, y))


def test_a_root_that_is_not_accurate_is_found_again():
    g = make(FICNN, 6, 2, 4, torch.float64, 0)
    y = normal(4, 6, key="y")
    wrong = g.inverse_gradient(y)
    expected = wrong.clone()
    wrong[1] += 1e-6
    wrong[2] = torch.nan
    assert torch.allclose(check_roots(g, wrong, y), expected, rtol=0, atol=1e-12)


def test_derivatives_are_those_of_the_plain_inverse():
    g = make(FICNN, 5, 2, 3, torch.float64, 1).requires_grad_(True)
    y = normal(3, 5, key="y").requires_grad_()
    compiled = torch.autograd.grad(inverse_gradient(g, y).square().sum(), [y, *g.parameters()])
    plain = torch.autograd.grad(g.inverse_gradient(y).square().sum(), [y, *g.parameters()])
    for a, b in zip(compiled, plain, strict=True):
        assert torch.allclose(a, b, rtol=1e-8, atol=1e-10)


def test_of_links():
    clean = CompositeLink(4, dtype=torch.float64)
    for link in (clean, NoisyLink(clean, SymmetricNoise(4, 0.1, learned=False)), SoftmaxLink(4)):
        z = normal(2, 3, 3, key="z")
        assert torch.allclose(link_from_log(link, link(z)), z, atol=1e-10)


def test_other_rows_go_through_plain_operations():
    y = torch.ones(2, 4, 3, dtype=torch.float64)
    runs = FICNN(3, run_shape=(2,), dtype=torch.float64).requires_grad_(False)
    assert torch.equal(inverse_gradient(runs, y), runs.inverse_gradient(y))
