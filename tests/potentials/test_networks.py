"""What is particular to single potentials."""

import pytest
import torch

from legendretron.potentials import FICNN, CPFlowNetwork
from legendretron.potentials.ficnn import softplus
from legendretron.simplex import append_reference
from tests.catalogue import generator, make_potential, normal


def test_ficnn_is_the_formula_of_the_paper():
    g = FICNN(3, hidden=2, depth=4, init="paper", dtype=torch.float64, generator=generator("formula"))
    x = normal(6, 3, key="x")
    rows = [slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 8), slice(8, 9)]
    mixing = [slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 7)]
    z = x @ g.weight[rows[0]].T + g.bias[rows[0]]
    for k in range(1, 5):
        positive = softplus(g.raw_mixing[mixing[k - 1]]) / 2
        z = x @ g.weight[rows[k]].T + g.bias[rows[k]] + softplus(z) @ positive.T
    h = softplus(z).squeeze(-1)
    expected = softplus(g.raw_gamma) * h + softplus(g.raw_alpha) * x.square().sum(-1) / 2
    assert torch.allclose(g.value(x), expected, rtol=1e-13)


def test_cpflow_is_the_network_behind_the_tables():
    g = make_potential("cpflow", 3)  # H = 4, M = 3
    x = normal(6, 3, key="x")

    def linear(rows):
        return x @ g.weight[rows].T + g.bias[rows]

    def actnorm(t, rows):
        shift = g.shift[rows] if rows.stop <= 4 else 0.0
        return (t + shift) * (torch.exp(g.log_scale[rows]) + 0.001)

    positive = softplus(g.raw_mixing) / 4
    s = softplus(linear(slice(0, 4)))
    for first, rows in ((4, slice(0, 2)), (8, slice(2, 4))):
        u = actnorm(linear(slice(first, first + 2)) + s @ positive[rows].T + g.mixing_bias[rows] / 4, rows)
        s = torch.cat([softplus(u), softplus(linear(slice(first + 2, first + 4)))], -1)
    h = actnorm(linear(slice(12, 13)) + s @ positive[4:].T, slice(4, 5)).squeeze(-1)
    expected = softplus(g.raw_gamma) * h + softplus(g.raw_alpha) * x.square().sum(-1) / 2
    assert torch.allclose(g.value(x), expected, rtol=1e-13)


def test_cpflow_first_batch_gives_zero_mean_and_unit_variance():
    g = CPFlowNetwork(3, hidden=4, depth=3, init="paper", dtype=torch.float64, run_shape=(2,))
    assert not g.initialized
    assert g.needs_batch
    x = normal(2, 200, 3, key="x", scale=5.0) + 1.0
    g.initialize(x)
    assert g.initialized
    assert not g.needs_batch
    z = g._preactivations(g.ridge(), x)
    for layer in z[1:-1]:
        assert torch.allclose(layer[..., :2].mean(-2), torch.zeros(2, 2, dtype=torch.float64), atol=1e-12)
        # the scale is (1/std + 0.001), so the standard deviation is one up to 0.001 std
        assert torch.allclose(layer[..., :2].std(-2, unbiased=False), torch.ones(2, 2, dtype=torch.float64), atol=0.05)
    assert torch.allclose(z[-1].std(-2, unbiased=False), torch.ones(2, 1, dtype=torch.float64), atol=0.05)


@pytest.mark.parametrize("network", [FICNN, CPFlowNetwork])
def test_identity_start_is_near_the_identity(network):
    g = network(9, init="identity", dtype=torch.float64, generator=generator("identity"))
    x = normal(100, 9, key="x", scale=3.0)
    if network is CPFlowNetwork:
        g.initialize(x)
    assert (g.gradient(x) - x).norm(dim=-1).max() < 0.05


def test_paper_start_draws_the_scales():
    g = FICNN(2, init="paper", run_shape=(4000,), generator=generator("paper"))
    for raw in (g.raw_alpha, g.raw_gamma):
        assert abs(raw.mean().item()) < 0.1
        assert raw.std().item() == pytest.approx(1.0, abs=0.1)
    assert g.weight.abs().max().item() <= 2**-0.5
    assert g.raw_mixing.abs().max().item() <= 2**-0.5


def test_nests_are_the_formula():
    g = make_potential("nested", 3)
    z = normal(8, 3, key="z", scale=3.0)
    mu, beta = g.log_mu.exp(), g.log_beta.exp()
    offsets = torch.cat([g.offsets, g.reference_offset.unsqueeze(-1)], -1)
    nests = torch.logsumexp(mu[:, None] * append_reference(z).unsqueeze(1) + offsets, -1) / mu
    expected = torch.logsumexp(beta * nests + g.gate_bias, -1) / beta
    assert torch.allclose(g.value(z), expected, rtol=1e-12)


@pytest.mark.parametrize("z", [0.0, -20.0, 39.0, 41.0, -700.0, 1e4])
def test_softplus_to_full_accuracy(z):
    x = torch.tensor(z, dtype=torch.float64)
    assert softplus(x).item() == pytest.approx(torch.logaddexp(x, torch.zeros_like(x)).item(), rel=1e-15, abs=0)


@pytest.mark.parametrize("network", [FICNN, CPFlowNetwork])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "dim must be an integer of at least 1, got 0"),
        ({"dim": 2, "hidden": 0}, "hidden must be an integer of at least 1, got 0"),
        ({"dim": 2, "depth": True}, "depth must be an integer of at least 1, got True"),
        ({"dim": 2, "init": "zeros"}, "init must be one of 'identity', 'centred', 'paper', got 'zeros'"),
        ({"dim": 2, "run_shape": (0,)}, "each entry of run_shape must be an integer of at least 1, got 0"),
    ],
)
def test_bad_settings(network, settings, message):
    with pytest.raises(ValueError, match=message):
        network(**settings)
