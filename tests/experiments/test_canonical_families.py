"""The prototypes of the comparison of canonical families are canonical."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))
import canonical_families as benchmark  # noqa: E402


@pytest.mark.parametrize("family", ["network", "infimal convolution"])
def test_probabilities_are_the_gradient_of_a_convex_function(family):
    torch.manual_seed(0)
    if family == "network":
        link = benchmark.LogSumExpNetwork(1, (4, 5, 3), 1.0)
    else:
        link = benchmark.InfimalConvolution(1, 3, 5)
    z = (2.0 * torch.randn(1, 6, 3)).requires_grad_()
    p = link(torch.cat([z, torch.zeros(1, 6, 1)], -1)).exp()
    torch.testing.assert_close(p.sum(-1), torch.ones(1, 6))
    rows = [torch.autograd.grad(p[..., k].sum(), z, retain_graph=True)[0] for k in range(3)]
    jacobian = torch.stack(rows, -2)
    torch.testing.assert_close(jacobian, jacobian.mT, atol=1e-5, rtol=1e-4)
    assert torch.linalg.eigvalsh(jacobian.double()).min() > 0.0
    if family == "infimal convolution":
        u = (p[..., :-1] / p[..., -1:]).log()
        torch.testing.assert_close(link._at(u)[0], z, atol=1e-4, rtol=1e-4)
