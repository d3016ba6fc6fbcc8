"""The compiled pass over the data equals plain operations, for any shape, precision, weights and runs."""

import numpy as np
import pytest
import scipy.sparse
import torch

from legendretron.accelerate import support
from legendretron.training import as_features
from legendretron.training.logistic_objective import Objective

CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(not support.has_numba(), reason="needs Numba")

#: Rows, features, classes, runs: one of each, widths that are no multiple of a vector, more rows than are taken at once.
SHAPES = [(1, 1, 2, 1), (5, 1, 2, 3), (7, 9, 3, 1), (300, 4, 2, 2), (270, 6, 20, 1), (64, 3, 41, 2), (129, 33, 5, 4)]


def problem(n, d, c, runs, *, sparse, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    x = scipy.sparse.csr_array(x) if sparse else x
    weights = torch.as_tensor(rng.random((n, runs)) * (rng.random((n, runs)) < 0.8), dtype=dtype)
    alpha = torch.as_tensor(rng.random(runs), dtype=dtype)
    return as_features(x, dtype, CPU), torch.as_tensor(rng.integers(0, c, n)), c, weights, alpha


def evaluate_both(monkeypatch, scale, *given, **settings):
    """Value and gradient at a random point, by compiled functions and by plain operations."""
    both = []
    for compiled in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(support, "has_numba", lambda compiled=compiled: compiled)
            objective = Objective(*given, **settings)
            assert objective.compiled == compiled
            start = objective.flat(None, None)
            x = scale * torch.randn(start.shape, generator=torch.Generator().manual_seed(1)).to(start)
            both.append(objective(x))
    return zip(*both, strict=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_equals_plain(monkeypatch, shape, sparse, dtype):
    given = problem(*shape, sparse=sparse, dtype=dtype)
    runs, tolerance = shape[-1], 1e-4 if dtype == torch.float32 else 1e-11
    rates = torch.linspace(0.1, 0.6, runs, dtype=dtype)
    for rate, learned in ((None, False), (rates, False), (rates, True)):
        for every_class in (True, False):
            settings = *given, True, True, rate, learned
            for found, expected in evaluate_both(monkeypatch, 1.0, *settings, every_class=every_class):
                torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("every_class", [True, False])
def test_extreme_log_odds_give_finite_losses(monkeypatch, dtype, every_class):
    given = problem(40, 3, 4, 2, sparse=False, dtype=dtype)
    for scale in (1e4, 1e-6):
        for found, expected in evaluate_both(monkeypatch, scale, *given, True, False, every_class=every_class):
            assert found.isfinite().all()
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
