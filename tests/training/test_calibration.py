"""The convex problem of calibration: its gradient, its minimum, and runs that do not disturb each other."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from legendretron.nn.calibration import with_floor
from legendretron.training.calibration import CalibrationMetric, CalibrationRuns


def problem(pairs=True, strengths=(0.3, 5.0, float("inf")), shaped=(1.0, 1.0, 0.0), replaced=0.0, n=80, c=4):
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(c, (n,), generator=generator)
    scores = torch.randn(n, c, generator=generator, dtype=torch.float64) + 2 * torch.eye(c)[labels].double()
    s = with_floor(scores, 1.3, 0.01)
    share = torch.full((n,), 1 / n, dtype=torch.float64)
    metric = CalibrationMetric(s, share, n, pairs=pairs)
    weights = share.unsqueeze(1).repeat(1, len(strengths))
    weights[::5, 1] = 0.0
    g = torch.tensor(strengths, dtype=torch.float64)
    runs = CalibrationRuns(s, labels, weights, g, torch.tensor(shaped).double(), metric, pairs=pairs, replaced=replaced)
    return runs, s, labels, weights


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("replaced", [0.0, 0.3])
def test_gradient_against_differences(pairs, replaced):
    runs, *_ = problem(pairs, replaced=replaced)
    x = 0.3 * torch.randn(3, 2 + runs.lengths[0].numel(), generator=torch.Generator().manual_seed(1)).double()
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(2)).double()
    _, gradient = runs(x)
    h = 1e-5
    difference = (runs(x + h * direction)[0] - runs(x - h * direction)[0]) / (2 * h)
    torch.testing.assert_close((gradient * direction).sum(1), difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("pairs", [True, False])
def test_minimum_is_that_of_the_formula(pairs):
    """Against an optimiser that knows only the formula in the docstring of the module."""
    g, n, c = 0.7, 60, 3
    runs, s, labels, _ = problem(pairs, (g, g), (1.0, 1.0), n=n, c=c)
    found = runs.parameters(runs.fit(tol=1e-8, max_iter=500))
    s, y = s.numpy(), labels.numpy()
    p, off = np.exp(s), 1 - np.eye(c)
    mask = np.ones((c, c)) if pairs else np.eye(c)

    def formula(x):
        a, beta, b = x[0], x[1], x[2 : 2 + c]
        m, r = (part.reshape(c, c) * mask for part in np.split(x[2 + c :], 2))
        z = (1 + a) * s + beta * p + b + s @ m + p @ r
        nll = np.log(np.exp(z).sum(1)) - z[np.arange(n), y]
        ridge = (b**2).sum() + (np.diag(m) ** 2).sum() + (c - 1) * ((m * off) ** 2).sum() + 0.2 * (r**2).sum()
        return nll.mean() + (a**2 / 100 + beta**2) / n + g * c / n * ridge

    best = minimize(formula, np.zeros(2 + c + 2 * c * c), method="BFGS", options={"gtol": 1e-7}).x
    slope, rise = ((part[0] if pairs else torch.diag(part[0])).numpy() for part in (found.slope, found.rise))
    ours = np.concatenate([found.shared[0], found.bias[0], slope.ravel(), rise.ravel()])
    assert formula(ours) <= formula(best) + 1e-9
    assert np.allclose(found.bias[0], best[2 : 2 + c], atol=1e-3)


def test_infinite_strength_leaves_the_scores_alone():
    runs, *_ = problem()
    found = runs.parameters(runs.fit(tol=1e-6))
    for part in found:
        assert not bool(part[2].any())
    assert bool(found.slope[0].any())


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
