"""Against a generic solver, and against the conditions of optimality."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from legendretron.links import SoftmaxLink
from legendretron.trons import (
    BregmanGenerator,
    PiecewiseLinearLink,
    bregman_projection,
    clip_slopes,
    lipschitz_isotonic,
)
from tests.catalogue import make_link
from tests.trons.test_lipschitz_isotonic import violation

GRID = np.linspace(-3, 3, 200)
GENERATORS = {
    "square": BregmanGenerator.square(),
    "entropy": BregmanGenerator.entropy(),
    "table": BregmanGenerator.of_link(PiecewiseLinearLink(GRID, expit(GRID))),
    "staircase": BregmanGenerator.of_link(
        PiecewiseLinearLink(np.arange(12.0), 0.02 + np.cumsum(np.tile([0.001, 0.15], 6)))
    ),
}
every_generator = pytest.mark.parametrize("name", GENERATORS)
SLOPES = [(0.0, 0.3), (0.01, 0.1), (0.0, 1e3)]


def generic(x, v, generator, w, lower, upper, low, high):
    order = np.argsort(x)
    x, v, w = x[order], v[order], w[order]
    D, run, pull = np.diff(np.eye(len(x)), axis=0), np.diff(x), generator.slope(v)
    found = minimize(
        lambda u: (w * (generator.value(u) - pull * u)).sum(),
        0.5 + lower * (x - x.mean()),
        jac=lambda u: w * (generator.slope(u) - pull),
        method="SLSQP",
        bounds=[(low, high)] * len(x),
        constraints=[
            {"type": "ineq", "fun": lambda u: D @ u - lower * run, "jac": lambda u: D},
            {"type": "ineq", "fun": lambda u: upper * run - D @ u, "jac": lambda u: -D},
        ],
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return order, found.x, found.fun


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # of the generic solver, in older scipy
@every_generator
@pytest.mark.parametrize("seed", range(6))
def test_equals_a_generic_solver(name, seed):
    rng = np.random.default_rng(seed)
    generator, (lower, upper) = GENERATORS[name], SLOPES[seed % 3]
    n = 25
    x, v, w = rng.normal(size=n) * 3, rng.uniform(0.01, 0.99, n), rng.uniform(0.5, 2, n)
    u = bregman_projection(x, v, generator, w, lower=lower, upper=upper, y_min=0.02, y_max=0.98)
    order, expected, value = generic(x, v, generator, w, lower, upper, 0.02, 0.98)
    ours = (w * (generator.value(u) - generator.slope(v) * u)).sum()
    assert ours <= value + 1e-9  # the generic one stops at about 1e-8, ours must not be worse
    if name != "staircase":  # whose kinks it does not get over
        assert np.allclose(u[order], expected, rtol=0, atol=1e-5)


@every_generator
@pytest.mark.parametrize("n", [500, pytest.param(5000, marks=pytest.mark.exhaustive)])
def test_conditions_of_optimality(name, n):
    rng = np.random.default_rng(n)
    generator = GENERATORS[name]
    for lower, upper in SLOPES:
        x = np.sort(rng.normal(size=n)) * 3
        v = np.clip(expit(x) + 0.2 * rng.normal(size=n), 0.021, 0.979)
        u = bregman_projection(x, v, generator, lower=lower, upper=upper, y_min=0.001, y_max=0.999)
        derivative = generator.slope(u) - generator.slope(v)
        breach, wrong = violation(x, derivative, u, lower, upper, 0.001, 0.999)
        assert breach < 1e-12
        assert wrong < 1e-7 * np.abs(derivative).sum()


def test_the_square_is_lipschitz_isotonic_regression():
    rng = np.random.default_rng(0)
    x, v, w = rng.normal(size=400), rng.normal(size=400), rng.uniform(0.5, 2, 400)
    expected = lipschitz_isotonic(x, v, w, lower=0.1, upper=0.7)
    u = bregman_projection(x, v, BregmanGenerator.square(), w, lower=0.1, upper=0.7)
    assert np.allclose(u, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("link", [SoftmaxLink(2), make_link("composite_ficnn", 2), make_link("canonical", 2)])
def test_generator_of_a_link_is_consistent(link):
    generator = BregmanGenerator.of_link(link)
    u, h = np.linspace(0.05, 0.95, 19), 1e-6
    assert np.allclose(
        (generator.value(u + h) - generator.value(u - h)) / (2 * h), generator.slope(u), rtol=1e-6, atol=1e-6
    )
    assert np.allclose((generator.slope(u + h) - generator.slope(u - h)) / (2 * h), generator.curvature(u), rtol=1e-5)
    assert (generator.divergence(u, u[::-1]) >= -1e-12).all()


def test_cheap_pass_obeys_all_bounds_and_leaves_good_values_alone():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = np.sort(rng.normal(size=300))
        u = clip_slopes(x, rng.random(300), lower=0.01, upper=0.4)
        run, rise = np.diff(x), np.diff(u)
        assert (rise >= 0.01 * run - 1e-12).all()
        assert (rise <= 0.4 * run + 1e-12).all()
        assert u[0] >= -1e-12
        assert u[-1] <= 1 + 1e-12
    x = np.linspace(-2, 2, 50)
    assert np.allclose(clip_slopes(x, expit(x), upper=0.3), expit(x))


def test_cheap_pass_without_bounds_on_values():
    x, v = [0.0, 1.0, 2.0], [-3.0, -2.5, 4.0]
    assert clip_slopes(x, v, upper=10.0, y_min=None, y_max=None).tolist() == v
    assert clip_slopes(x, v, upper=10.0, y_min=None).tolist() == [-3.0, -2.5, 1.0]


@pytest.mark.parametrize(("change", "message"), [
    ({"lower": 0.6}, "asks for a rise of 1.2 over the range of x, which does not fit between the bounds on values"),
    ({"y_min": 2.0, "y_max": 3.0}, r"must lie in the generator's domain, \(0.0, 1.0\), got "),
    ({"y_min": -1.0}, "must lie in the generator's domain"),
    ({"y_max": 1.5}, "must lie in the generator's domain"),
    ({"y_min": 1.0, "y_max": 1.0}, "leave no values inside the generator's domain"),
    ({"v": [0.2, 0.5, 1.0]}, "v must lie where the generator's derivative is finite"),
])  # fmt: skip
def test_what_is_refused(change, message):
    given = {"x": [0.0, 1.0, 2.0], "v": [0.2, 0.5, 0.6], "generator": BregmanGenerator.entropy()}
    u = bregman_projection(**given, lower=0.4)  # what comes back is inside the domain, or an error
    assert 0 < u[0] < u[-1] < 1
    assert (np.diff(u) >= 0.4 - 1e-12).all()
    with pytest.raises(ValueError, match=message):
        bregman_projection(**{**given, **change})


def test_other_errors():
    with pytest.raises(ValueError, match="link must be of two classes, got n_classes=3"):
        BregmanGenerator.of_link(SoftmaxLink(3))
    with pytest.raises(ValueError, match="asks for a rise of 5"):
        clip_slopes([0.0, 10.0], [0.5, 0.6], lower=0.5)
