"""The convex problem of calibration: its gradient, its minimum, and runs that do not disturb each other."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from legendretron.calibration.map import with_floor
from legendretron.calibration.problem import CalibrationMetric, CalibrationRuns


def problem(rank=4, strengths=(0.3, 5.0, float("inf")), shaped=(1.0, 1.0, 0.0), replaced=0.0, n=80, c=4):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(c, (n,), generator=generator)
    scores = torch.randn(n, c, generator=generator, dtype=torch.float64) + 2 * torch.eye(c)[labels].double()
    s = with_floor(scores, 1.3, torch.tensor(0.01))
    share = torch.full((n,), 1 / n, dtype=torch.float64)
    metric = CalibrationMetric(s, share, n, rank)
    weights = share.unsqueeze(1).repeat(1, len(strengths))
    weights[::5, 1] = 0.0
    g = torch.tensor(strengths, dtype=torch.float64)
    runs = CalibrationRuns(s, labels, weights, g, torch.tensor(shaped).double(), metric, replaced=replaced)
    return runs, s, labels, weights


@pytest.mark.parametrize("rank", [4, 2, 0])
@pytest.mark.parametrize("replaced", [0.0, 0.3])
def test_gradient_against_differences(rank, replaced):
    runs, *_ = problem(rank, replaced=replaced)
    x = 0.3 * torch.randn(3, 2 + runs.lengths[0].numel(), generator=torch.Generator().manual_seed(1)).double()
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(2)).double()
    _, gradient = runs(x)
    h = 1e-5
    difference = (runs(x + h * direction)[0] - runs(x - h * direction)[0]) / (2 * h)
    torch.testing.assert_close((gradient * direction).sum(1), difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("rank", [3, 1, 0])
def test_minimum_is_that_of_the_formula(rank):
    """Against an optimizer that knows only the formula in the docstring of the module."""
    g, n, c = 0.7, 60, 3
    runs, s, labels, _ = problem(rank, (g, g), (1.0, 1.0), n=n, c=c)
    found = runs.parameters(runs.fit(tol=1e-8, max_iter=500))
    (v, w), s, y = runs.directions.numpy(), s.numpy(), labels.numpy()
    p = np.exp(s)

    def formula(x):
        a, beta = x[:2]
        b, d, e = x[2 : 2 + 3 * c].reshape(3, c)
        m, r = x[2 + 3 * c :].reshape(2, rank, c)
        z = (1 + a) * s + beta * p + b + d * s + e * p + s @ v @ m + p @ w @ r
        nll = np.log(np.exp(z).sum(1)) - z[np.arange(n), y]
        ridge = (b**2).sum() + (d**2).sum() + (c - 1) * (m**2).sum() + 0.05 * (e**2).sum() + 0.05 * (r**2).sum()
        return nll.mean() + (a**2 / 100 + beta**2) / n + g * c / n * ridge

    best = minimize(formula, np.zeros(2 + 3 * c + 2 * rank * c), method="BFGS", options={"gtol": 1e-7}).x
    ours = np.concatenate([part[0].numpy().ravel() for part in found])
    assert formula(ours) <= formula(best) + 1e-9
    assert np.allclose(found.bias[0], best[2 : 2 + c], atol=1e-3)


@pytest.mark.parametrize("rank", [1, 3])
def test_directions_are_the_main_ones(rank):
    """Against a singular value decomposition; rows that count twice are as two."""
    scores = torch.randn(300, 8, generator=torch.Generator().manual_seed(0)).double() * 2.0 ** -torch.arange(8)
    s = torch.log_softmax(4.0 * scores, dim=1)
    weight = torch.full((300,), 1 / 400, dtype=torch.float64)
    weight[:100] *= 2.0
    twice = torch.cat([s, s[:100]])
    found = CalibrationMetric(s, weight, 400, rank).directions
    for basis, values in zip(found, (twice, twice.exp()), strict=True):
        main = torch.linalg.svd(values - values.mean(0)).Vh[:rank]
        kept = (values - values.mean(0)) @ basis
        most = (values - values.mean(0)) @ main.mT
        assert float(kept.square().sum()) > 0.98 * float(most.square().sum())
        torch.testing.assert_close(basis.mT @ basis, torch.eye(rank, dtype=torch.float64))


def test_infinite_strength_leaves_the_scores_alone():
    runs, *_ = problem()
    found = runs.parameters(runs.fit(tol=1e-6))
    assert bool(found.slope[0].any())
    assert bool(found.shared[2, 0])  # the scale is that of a temperature
    found.shared[2, 0] = 0.0
    for part in found:
        assert not bool(part[2].any())


def test_rows_held_out_do_not_matter():
    runs, _, labels, _ = problem()
    x = runs.fit(tol=1e-7, max_iter=300)
    other = labels.clone()
    other[::5] = (other[::5] + 1) % 4
    runs.labels = other
    again = runs.fit(tol=1e-7, max_iter=300)
    torch.testing.assert_close(x[1], again[1], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(x[0], again[0], rtol=1e-2, atol=1e-2)


def test_parts_of_rows_are_the_same_as_all():
    runs, *_ = problem()
    x = runs.fit(tol=1e-3)
    value, gradient = runs(x)
    losses = runs.losses(x)
    runs.parts = [slice(0, 33), slice(33, 80)]
    torch.testing.assert_close(runs(x)[0], value)
    torch.testing.assert_close(runs(x)[1], gradient)
    torch.testing.assert_close(runs.losses(x), losses)
