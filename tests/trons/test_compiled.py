"""Compiled parts of the trons against their plain versions."""

import importlib.util

import numpy as np
import pytest

from legendretron.accelerate import support
from legendretron.trons import compiled_bounded_steps, linkgistic
from legendretron.trons.link_prior import GaussianLogOdds, IntegratedSquare
from legendretron.trons.lipschitz_isotonic import solve_steps


@pytest.mark.parametrize("seed", range(15))
def test_bounded_steps(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 300))
    target = rng.normal(size=n) if seed % 2 else (rng.random(n) < np.linspace(0, 1, n)).astype(float)
    slack = rng.exponential(10.0 ** rng.uniform(-3, 1), size=n - 1)
    if seed % 5 == 0:
        slack[:] = np.inf
    low, top = ((-np.inf, np.inf), (0.0, 1.0))[seed % 3 == 0]
    given = target, rng.uniform(0.1, 2.0, n), slack, low, top
    compiled = solve_steps(*given)
    monkeypatch.setattr(support, "has_numba", lambda: False)
    spec = importlib.util.spec_from_file_location("plain_steps", compiled_bounded_steps.__file__)
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    for name in ("roots", "backtrack"):
        monkeypatch.setattr(compiled_bounded_steps, name, getattr(plain, name))
    assert np.allclose(compiled[0], solve_steps(*given)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("prior", [
    IntegratedSquare((-2.0, 3.0), 5, 0.8, 0.1), GaussianLogOdds((-1.0, 1.0), 4, 2.0, 0.2),
])  # fmt: skip
@pytest.mark.parametrize("n", [1, 64, 150])
def test_expected_likelihoods(monkeypatch, prior, n):
    rng = np.random.default_rng(n)
    c = prior.coefficients(rng.normal(size=(6, prior.n_latent)))
    z, y, counts = 3 * rng.normal(size=n), (rng.random(n) < 0.4).astype(float), rng.uniform(0.5, 2.0, n)
    links = linkgistic.Links(prior.interval, c, prior.kind)
    values, slopes = links.with_slopes(z, y, counts)
    alone = links.log_likelihood(z, y, counts)
    monkeypatch.setattr(linkgistic, "has_numba", lambda: False)
    expected, of_z = links.with_slopes(z, y, counts)
    assert np.allclose(values, expected, rtol=1e-12)
    assert np.allclose(alone, links.log_likelihood(z, y, counts), rtol=1e-12)
    assert np.allclose(slopes, of_z, rtol=1e-10, atol=1e-12)
