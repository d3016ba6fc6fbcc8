"""Against a generic solver, and against the conditions of optimality where no generic solver reaches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from sklearn.isotonic import IsotonicRegression

from legendretron.trons import lipschitz_isotonic


def problem(seed, n):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n) * 10.0 ** rng.uniform(-3, 2)
    if seed % 3 == 0:
        x = np.round(x, 1)  # ties
    y = (rng.random(n) < 0.5).astype(float) if seed % 2 else rng.normal(size=n)
    lower = float(rng.choice([0.0, 0.05, 0.3]))
    return x, y, rng.uniform(0.1, 3.0, n), lower, lower + float(rng.choice([0.05, 0.5, 2.0, 1e5]))


def generic(x, y, w, lower, upper):
    """The same least squares in the increments, with bounds on them: an active-set solver is exact."""
    points, place = np.unique(x, return_inverse=True)
    steps = np.diff(points)
    A = np.tril(np.ones((len(points), len(points))))[place]
    low = np.concatenate([[-1e6], lower * steps])
    high = np.maximum(np.concatenate([[1e6], upper * steps]), np.nextafter(low, np.inf))
    root = np.sqrt(w)
    found = lsq_linear(A * root[:, None], y * root, bounds=(low, high), method="bvls", tol=1e-14, max_iter=5000)
    return A @ found.x


@pytest.mark.parametrize("seed", range(40))
def test_equals_a_generic_solver(seed):
    x, y, w, lower, upper = problem(seed, 1 + 3 * seed)
    u = lipschitz_isotonic(x, y, w, lower=lower, upper=upper)
    assert np.allclose(u, generic(x, y, w, lower, upper), rtol=0, atol=1e-10)


def violation(x, derivative, u, lower, upper, y_min=-np.inf, y_max=np.inf, slack=1e-12):
    """Largest breach of feasibility, and largest push along a feasible direction, of sorted distinct points.

    The multiplier of a step is minus the sum of derivatives before it. Free steps must have none, steps at the lower bound
    one that is not negative, at the upper one that is not positive.
    """
    run, rise = np.diff(x), np.diff(u)
    breach = max((lower * run - rise).max(initial=0), (rise - upper * run).max(initial=0), y_min - u[0], u[-1] - y_max)
    before = np.cumsum(derivative)
    if u[0] <= y_min + slack:  # the bound may take up a push downwards
        assert before[-1] >= -1e-9 or u[-1] >= y_max - slack
        before = before - before[-1]
    at_low, at_high = rise <= lower * run + slack, rise >= upper * run - slack
    push = before[:-1]
    wrong = np.where(at_low & at_high, 0.0, np.where(at_low, push, np.where(at_high, -push, np.abs(push))))
    if u[-1] >= y_max - slack and u[0] > y_min + slack:
        assert before[-1] <= 1e-9
    return breach, wrong.max(initial=0.0)


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1.0, 30.0])
def test_conditions_of_optimality_on_many_points(scale):
    rng = np.random.default_rng(0)
    n = 20_000
    x = np.sort(rng.normal(size=n)) * scale
    y = (rng.random(n) < 1 / (1 + np.exp(-x))).astype(float)
    u = lipschitz_isotonic(x, y)
    breach, wrong = violation(x, u - y, u, 0.0, 1.0, slack=1e-14)
    assert breach < 1e-12
    assert wrong < 1e-8
    assert u.min() >= 0.0
    assert u.max() <= 1.0


@pytest.mark.parametrize("seed", range(20))
def test_bounds_on_values(seed):
    rng = np.random.default_rng(seed)
    n = 200
    x = np.sort(rng.normal(size=n))
    y = rng.normal(size=n)
    lower, upper = 0.02, float(rng.choice([0.05, 0.3, 3.0]))
    bounds = [(-0.1, 0.1), (0.0, 1.0), (-3.0, 0.05)][seed % 3]
    u = lipschitz_isotonic(
        x, y, lower=lower, upper=upper, y_min=bounds[0], y_max=bounds[0] + (bounds[1] - bounds[0]) + 0.2
    )
    top = bounds[1] + 0.2
    breach, wrong = violation(x, u - y, u, lower, upper, bounds[0], top)
    assert breach < 1e-12
    if u[0] > bounds[0] + 1e-12 or u[-1] < top - 1e-12:  # with both bounds active the multipliers are not unique
        assert wrong < 1e-10


def test_without_an_upper_bound_it_is_isotonic_regression():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=3000), rng.uniform(0.5, 2, 3000)
    y = np.sin(x) + rng.normal(size=3000)
    expected = IsotonicRegression().fit(x, y, w).predict(x)
    assert np.allclose(lipschitz_isotonic(x, y, w, upper=np.inf), expected, rtol=0, atol=1e-12)


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=40), st.floats(0.01, 100))
def test_feasible_and_no_better_in_random_directions(points, upper):
    x, y = np.array(points).T
    u = lipschitz_isotonic(x, y, upper=upper)
    order = np.argsort(x, kind="stable")
    run, rise = np.diff(x[order]), np.diff(u[order])
    size = 1 + np.abs(u).max()
    assert (rise >= -1e-12 * size).all()
    assert (rise <= upper * run + 1e-12 * size).all()
    # any constant, any slope in between and any other solution's neighbor is feasible and not better
    error = ((u - y) ** 2).sum()
    for slope in (0.0, upper / 2, upper):
        other = slope * x
        other = other + (y - other).mean()
        for share in (1e-3, 0.5):
            assert ((u + share * (other - u) - y) ** 2).sum() >= error - 1e-9 * (1 + error)


def test_weights_are_repetitions_and_zero_is_absence():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=60), rng.normal(size=60)
    w = rng.integers(0, 4, 60)
    w[[x.argmin(), x.argmax()]] = 0
    kept = w > 0
    fit = lipschitz_isotonic(x, y, w, lower=0.1)
    assert np.allclose(fit[kept], lipschitz_isotonic(np.repeat(x, w), np.repeat(y, w), lower=0.1)[
        np.cumsum(w[kept]) - 1
    ])  # fmt: skip
    slopes = np.diff(fit[np.argsort(x)]) / np.diff(np.sort(x))
    assert slopes.min() >= 0.1 - 1e-9
    assert slopes.max() <= 1 + 1e-9


def test_points_without_weight_have_room_before_the_bounds():
    slopes = {"lower": 0.5, "upper": 1.0}
    above = lipschitz_isotonic([0.0, 1.0, 2.0], [0.0, 5.0, 9.0], [1.0, 1.0, 0.0], y_max=1.0, **slopes)
    np.testing.assert_allclose(above, [0.0, 0.5, 1.0], atol=1e-12)
    below = lipschitz_isotonic([-2.0, -1.0, 0.0], [-9.0, -5.0, 0.0], [0.0, 1.0, 1.0], y_min=-1.0, **slopes)
    np.testing.assert_allclose(below, [-1.0, -0.5, 0.0], atol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e-8, 1e8, 1e200])
def test_units_do_not_matter(unit):
    x, y, w, lower, upper = problem(7, 80)
    u = lipschitz_isotonic(x, y, w, lower=lower, upper=upper)
    scaled = lipschitz_isotonic(x, unit * y, w, lower=unit * lower, upper=unit * upper)
    assert np.allclose(scaled / unit, u, rtol=1e-9, atol=1e-12)


def test_single_precision_ties_and_infinite_bounds():
    assert lipschitz_isotonic(np.zeros(4, np.float32), np.array([0, 1, 1, 1], np.float32)).tolist() == [0.75] * 4
    assert lipschitz_isotonic([1.0], [3.0], y_max=2.0).tolist() == [2.0]
    assert lipschitz_isotonic([0.0, 1.0], [0.0, 1.0], y_min=-np.inf, y_max=np.inf).tolist() == [0.0, 1.0]
    assert lipschitz_isotonic([0.0, 1e300], [0.0, 1.0], upper=np.inf).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(("change", "message"), [
    ({"x": [[1.0]]}, r"must have one shape \(n,\) with n >= 1, got \(1, 1\), \(2,\) and \(1, 1\)"),
    ({"y": [1.0]}, r"got \(2,\), \(1,\) and \(2,\)"),
    ({"y": [1.0, np.nan]}, "y must be finite"),
    ({"sample_weight": [0.0, 0.0]}, "sample_weight must not be negative, nor zero"),
    ({"lower": 2.0}, "lower=2.0, upper=1.0"),
    ({"upper": 0.0}, "upper > 0"),
    ({"y_min": 1.0, "y_max": 0.0}, "y_min and y_max must leave finite values"),
    ({"lower": 0.9, "y_min": 0.0, "y_max": 0.5}, "asks for a rise of 0.9 over the range of x"),
    ({"y_min": np.inf}, "y_min and y_max must leave finite values"),
    ({"y_max": -np.inf}, "y_min and y_max must leave finite values"),
    ({"x": [-1e308, 1e308]}, "x spans inf, over which a slope of 1.0 overflows"),
    ({"x": [0.0, 1e300], "upper": 1e10}, r"x spans 1e\+300, over which"),
])  # fmt: skip
def test_errors_name_argument_and_value(change, message):
    with pytest.raises(ValueError, match=message):
        lipschitz_isotonic(**{"x": [0.0, 1.0], "y": [0.0, 1.0], **change})
