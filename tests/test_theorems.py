"""The paper's statements as tests, the one that does not hold included. Numbers are those of the paper's text."""

import pytest
import torch

from legendretron import CanonicalLink, CompositeLink, canonicality
from legendretron.losses import LogLoss, MatsushitaLoss, SphericalLoss, SquareLoss
from legendretron.simplex import lift, log_softmax_plus, softmax_plus, softmax_plus_jacobian
from tests.catalogue import CLASSES, generator, normal, proba

every_c = pytest.mark.parametrize("c", CLASSES)


@every_c
def test_softmax_plus_is_strictly_monotone_with_the_stated_jacobian(c):
    x, y = normal(100, c - 1, key="x", scale=2.0), normal(100, c - 1, key="y", scale=2.0)
    assert (((softmax_plus(x) - softmax_plus(y)) * (x - y)).sum(-1) > 0).all()
    jacobian = softmax_plus_jacobian(log_softmax_plus(x).exp())
    # strictly diagonally dominant, by p_i p_C in row i: hence positive definite
    diagonal = torch.diagonal(jacobian, dim1=-2, dim2=-1)
    margin = 2 * diagonal - jacobian.abs().sum(-1)
    p = log_softmax_plus(x).exp()
    assert torch.allclose(margin, p[..., :-1] * p[..., -1:], rtol=1e-6, atol=1e-16)
    assert (margin > 0).all()


SMOOTH = [LogLoss(), SquareLoss(), SphericalLoss(), MatsushitaLoss()]


@pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("c", [2, 3, 10])
def test_stationarity_and_jacobian_of_a_proper_loss(loss, c):
    tilde = proba(c, key="p", spread=1.0)[:-1]
    p = lift(tilde)
    jacobian = torch.func.jacrev(lambda t: loss._partial_losses(lift(t)))(tilde)
    # J of the last partial loss follows from the others
    assert torch.allclose(jacobian[-1], -(tilde / p[-1]) @ jacobian[:-1], rtol=1e-9, atol=1e-12)
    hessian = torch.func.hessian(lambda t: loss._bayes_risk(lift(t)))(tilde)
    ones = torch.ones(c - 1, 1, dtype=torch.float64)
    eye = torch.eye(c - 1, dtype=torch.float64)
    assert torch.allclose(hessian, (eye + ones @ tilde.unsqueeze(0) / p[-1]) @ jacobian[:-1], rtol=1e-8, atol=1e-10)
    top = (eye - ones @ tilde.unsqueeze(0)) @ hessian
    bottom = -(tilde / p[-1]) @ top
    assert torch.allclose(jacobian, torch.cat([top, bottom.unsqueeze(0)]), rtol=1e-8, atol=1e-10)


def test_counterexample_a_composite_link_of_three_classes_is_not_canonical():
    """Random links of the published construction: some Jacobian has an indefinite symmetric part."""
    z = normal(200, 2, key="z", scale=2.0)
    worst = None
    for seed in range(20):
        link = CompositeLink(3, init="paper", dtype=torch.float64, generator=generator("search", seed))
        with torch.no_grad():
            for block in link.blocks:
                block.weight.mul_(4.0)
        # every block for itself is symmetric and positive definite, as the paper says
        for block in link.blocks:
            hessian = block.hessian(z)
            assert torch.allclose(hessian, hessian.mT, rtol=1e-13, atol=1e-15)
            assert (torch.linalg.eigvalsh(hessian)[:, 0] > 0).all()
        report = canonicality(link, z)
        if worst is None or report.least_eigenvalue_ratio < worst.least_eigenvalue_ratio:
            worst = report
    assert worst.indefinite_share > 0
    assert worst.least_eigenvalue_ratio < -0.01
    # the determinant is positive all the same: the link is invertible, and its log-loss strictly proper composite
    sign, _ = torch.linalg.slogdet(link.jacobian(z))
    assert (sign > 0).all()


@pytest.mark.parametrize("c", [2, 3, 1000])
@pytest.mark.parametrize("scale", [0.1, 4.0])
def test_canonical_link_is_symmetric_for_random_and_extreme_parameters(c, scale):
    """Scale 4 means temperatures and gates from about 1e-5 to 1e5."""
    link = CanonicalLink(c, n_nests=5, init="random", dtype=torch.float64, generator=generator("extreme", c, scale))
    with torch.no_grad():
        for parameter in link.parameters():
            parameter.mul_(scale)
    for spread in (0.1, 1.0, 30.0, 1e4):
        jacobian = link.jacobian(normal(3, c - 1, key=(c, spread), scale=spread))
        assert torch.isfinite(jacobian).all()
        norm = torch.linalg.matrix_norm(jacobian)
        asymmetry = torch.linalg.matrix_norm(jacobian - jacobian.mT)
        assert (asymmetry <= 1e-12 * norm).all()
        assert (torch.diagonal(jacobian, dim1=-2, dim2=-1) >= 0).all()
