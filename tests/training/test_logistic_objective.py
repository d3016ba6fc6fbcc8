"""The compiled pass over the data equals plain operations, for any shape, precision, weights and runs."""

import numpy as np
import pytest
import scipy.sparse
import torch

from legendretron.accelerate.support import has_numba
from legendretron.training import as_features
from legendretron.training.logistic import fit_logistic
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


def test_a_column_for_every_class_is_the_same_problem():
    given = problem(60, 5, 4, 2, sparse=False, dtype=torch.float64)
    one, all_classes = (Objective(*given, True, True, every_class=e) for e in (False, True))
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(2, 5, 3, dtype=torch.float64, generator=generator)
    bias = torch.randn(2, 3, dtype=torch.float64, generator=generator)
    x, wide = one.flat(weight, bias), all_classes.flat(weight, bias)
    for part, given_part in zip(all_classes.solution(wide), (weight, bias), strict=True):
        torch.testing.assert_close(part, given_part, rtol=1e-12, atol=1e-12)
    (value, gradient), (same, of_all) = one(x), all_classes(wide)
    torch.testing.assert_close(value, same, rtol=1e-12, atol=1e-12)
    for part, columns in zip(one.split(gradient), all_classes.split(of_all), strict=True):
        torch.testing.assert_close(columns[..., :3], part, rtol=1e-11, atol=1e-12)
        assert columns.sum(-1).abs().max() < 1e-12


@NEEDS_NUMBA
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 3, 4, 16, 19, 20, 37])
def test_sparse_products(dtype, width):
    features, *_ = problem(23, 11, 2, 1, sparse=True, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    of_rows, whole = torch.randn(23, width, generator=generator).to(dtype), slice(0, 23)
    matrix = torch.randn(11, width, generator=generator).to(dtype)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(features.multiply(whole, matrix, True), features.multiply(whole, matrix, False), **close)
    mine, theirs = torch.ones(11, width, dtype=dtype), torch.zeros(11, width, dtype=dtype)
    features.add_transposed(whole, of_rows, mine, True)
    features.add_transposed(whole, of_rows, theirs, False)
    torch.testing.assert_close(mine, theirs, **close)


def test_the_hessian_of_some_rows_saves_iterations(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 6)) @ rng.normal(size=(6, 6)) * np.logspace(-1, 1, 6)
    y = (x @ rng.normal(size=(6, 3)) + rng.gumbel(size=(4000, 3))).argmax(1)
    given = as_features(x, torch.float64, CPU), torch.as_tensor(y), 3
    shares, alpha = torch.full((4000, 1), 1 / 4000, dtype=torch.float64), torch.tensor([1e-5], dtype=torch.float64)
    monkeypatch.setattr("legendretron.training.logistic._NEWTON_PARAMETERS", 0)
    monkeypatch.setattr("legendretron.training.logistic._draw_rows", lambda n, d, k: None)
    plain = fit_logistic(*given, shares, alpha, tol=1e-8, max_iter=1000)
    monkeypatch.setattr("legendretron.training.logistic._draw_rows", lambda n, d, k: torch.arange(0, n, 10))
    fast = fit_logistic(*given, shares, alpha, tol=1e-8, max_iter=1000)
    assert plain.converged.all()
    assert fast.converged.all()
    assert 2 * int(fast.n_iter) < int(plain.n_iter)
    torch.testing.assert_close(fast.weight, plain.weight, rtol=1e-4, atol=1e-4)
