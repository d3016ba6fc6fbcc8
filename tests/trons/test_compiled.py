"""The compiled part of the trons against its plain version."""

import importlib.util

import numpy as np
import pytest

from legendretron.accelerate import support
from legendretron.trons import compiled_bounded_steps
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
    assert np.allclose(compiled, solve_steps(*given), rtol=0, atol=1e-12)
