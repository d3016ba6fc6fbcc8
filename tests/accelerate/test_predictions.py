"""Compiled probabilities against the links themselves."""

import numpy as np
import pytest
import torch

from legendretron.accelerate.predictions import row_probabilities
from legendretron.links import CanonicalLink, CompositeLink, NoisyLink, SoftmaxLink, SymmetricNoise
from tests.catalogue import normal

MAKERS = {
    "softmax": lambda c, **kw: SoftmaxLink(c),
    "canonical": lambda c, **kw: CanonicalLink(c, n_nests=3, init="random", **kw),
    "ficnn": lambda c, **kw: CompositeLink(c, init="paper", **kw),
    "ficnn, odd": lambda c, **kw: CompositeLink(c, n_blocks=3, hidden=5, depth=3, init="paper", **kw),
    "ficnn, one layer": lambda c, **kw: CompositeLink(c, n_blocks=1, hidden=1, depth=1, init="paper", **kw),
    "cpflow": lambda c, **kw: CompositeLink(c, hidden=3, network="cpflow", init="paper", **kw),
}


def make(name, c, dtype, seed=0):
    link = MAKERS[name](c, dtype=dtype, **({"generator": torch.Generator().manual_seed(seed)} if c else {}))
    if link.needs_batch:
        link.initialize(normal(50, c - 1, key="start", dtype=dtype))
    return link.eval().requires_grad_(False)


def both(link, z, log):
    out = np.empty((len(z), link.n_classes), z.numpy().dtype)
    rows = row_probabilities(link, z.dtype)
    assert rows(z.numpy(), log=log, out=out)
    expected = link(z)
    return out, (expected if log else expected.exp()).numpy()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", list(MAKERS))
@pytest.mark.parametrize(("n", "c"), [(1, 2), (70, 2), (17, 3), (130, 10), (33, 27), (5, 700)])
def test_equals_the_link(name, n, c, dtype):
    link = make(name, c, dtype)
    z = normal(n, c - 1, key=(name, n), scale=3.0, dtype=dtype)
    found, expected = both(link, z, log=True)
    # of both, exponents are rounded, as are the predictors they come from
    tolerance = 32 * torch.finfo(dtype).eps * (1 + np.abs(expected).max())
    assert np.abs(found - expected).max() <= tolerance
    found, expected = both(link, z, log=False)
    assert np.allclose(found, expected, rtol=tolerance, atol=1e-30)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", list(MAKERS))
def test_large_predictors(name, dtype):
    """Probabilities that underflow have logarithms; the largest numbers need not have, and then nothing is returned."""
    link = make(name, 4, dtype)
    z = torch.tensor([[900.0, -900.0, 3.0], [-2e3, -2e3, -2e3], [1e4, 1e4, 1e4], [0.0, 700.0, -60.0]], dtype=dtype)
    found, expected = both(link, z, log=True)
    assert np.abs(found - expected).max() <= 16 * torch.finfo(dtype).eps * np.abs(expected).max()
    rows, out = row_probabilities(link, dtype), np.empty((1, 4), z.numpy().dtype)
    for bad in (np.inf, -np.inf, np.nan):
        z = np.array([[1.0, bad, 0.0]], dtype=out.dtype)
        assert not rows(z, log=False, out=out)
        assert not rows(z, log=True, out=out)


@pytest.mark.parametrize("size", [1e10, 1e100])
def test_very_large_predictors_of_nests(size):
    """Exponents of that size must not be rounded in two ways."""
    link, z = make("canonical", 5, torch.float64), size * normal(40, 4, key="z")
    found, expected = both(link, z, log=True)
    assert found.max() <= 0.0
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("dtype", "below"), [(torch.float32, -95.0), (torch.float64, -800.0)], ids=str)
def test_nests_that_have_nearly_no_share(dtype, below):
    """Where a class is improbable in the likely nest, the other one decides."""
    link = CanonicalLink(3, n_nests=2)
    with torch.no_grad():
        link.nests.log_mu.copy_(torch.log(torch.tensor([5.0, 0.5])))
        link.nests.gate_bias.copy_(torch.tensor([0.0, below]))
    link = link.to(dtype).requires_grad_(False)
    found, expected = both(link, torch.tensor([[0.7 * below, 0.0]], dtype=dtype), log=True)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_threads_share_the_rows(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    found, expected = both(make("ficnn", 2, torch.float64), normal(90_000, 1, key="z"), log=False)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_made_again_when_a_parameter_changes():
    link, z = make("ficnn", 5, torch.float64), normal(3, 4, key="z")
    rows = row_probabilities(link, torch.float64)
    assert row_probabilities(link, torch.float64) is rows
    link.blocks[0].weight.mul_(2.0)
    found, expected = both(link, z, log=False)
    assert np.allclose(found, expected, rtol=1e-12)
    link.blocks[1].raw_gamma.fill_(torch.inf)
    assert not row_probabilities(link, torch.float64).finite


class OwnLink(CompositeLink):
    """May define another map."""


@pytest.mark.parametrize(
    "link",
    [
        OwnLink(3),
        CompositeLink(3, run_shape=(2,)),
        CompositeLink(3, dtype=torch.float64),
        NoisyLink(SoftmaxLink(3), SymmetricNoise(3, 0.1, learned=False)),
    ],
    ids=["subclass", "runs", "precision", "noise"],
)
def test_links_without_a_compiled_function(link):
    assert row_probabilities(link, torch.float32) is None
