"""The compiled pass over the data equals plain operations, for any shape, precision, weights and runs."""

import numpy as np
import pytest
import scipy.sparse
import torch

from legendretron.accelerate.support import has_numba
from legendretron.training import as_features
from legendretron.training.logistic_objective import Objective

CPU = torch.device("cpu")
NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="needs Numba")

#: Rows, features, classes, runs: one of each, widths that are no multiple of a vector, more rows than are taken at once.
SHAPES = [(1, 1, 2, 1), (5, 1, 2, 3), (7, 9, 3, 1), (300, 4, 2, 2), (270, 6, 20, 1), (64, 3, 41, 2), (129, 33, 5, 4)]


def problem(n, d, c, runs, *, sparse, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    x = scipy.sparse.csr_array(x) if sparse else x
    weights = torch.as_tensor(rng.random((n, runs)) * (rng.random((n, runs)) < 0.8), dtype=dtype)
    alpha = torch.as_tensor(rng.random(runs), dtype=dtype)
    return as_features(x, dtype, CPU), torch.as_tensor(rng.integers(0, c, n)), c, weights, alpha


@NEEDS_NUMBA
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_equals_plain(shape, sparse, dtype):
    given = problem(*shape, sparse=sparse, dtype=dtype)
    runs, tolerance = shape[-1], 1e-4 if dtype == torch.float32 else 1e-11
    rates = torch.linspace(0.1, 0.6, runs, dtype=dtype)
    for rate, learned in ((None, False), (rates, False), (rates, True)):
        for every_class in (True, False):
            fast, plain = (
                Objective(*given, True, True, rate, learned, every_class=every_class, compiled=compiled)
                for compiled in (True, False)
            )
            assert fast.compiled
            assert not plain.compiled
            x = torch.randn(fast.flat(None, None).shape, generator=torch.Generator().manual_seed(1)).to(dtype)
            for found, expected in zip(fast(x), plain(x), strict=True):
                torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@NEEDS_NUMBA
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("every_class", [True, False])
def test_extreme_log_odds_give_finite_losses(dtype, every_class):
    given = problem(40, 3, 4, 2, sparse=False, dtype=dtype)
    fast, plain = (Objective(*given, True, False, every_class=every_class, compiled=c) for c in (True, False))
    for scale in (1e4, 1e-6):
        x = scale * torch.randn(fast.flat(None, None).shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        for found, expected in zip(fast(x), plain(x), strict=True):
            assert found.isfinite().all()
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
