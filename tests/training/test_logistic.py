"""Logistic regression to the minimum: both ways there, many runs at once, and data that are hard on it."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import torch
from sklearn.linear_model import LogisticRegression

from legendretron.accelerate import support
from legendretron.training import as_features, logistic
from legendretron.training.descent import _MEMORY, LBFGS
from legendretron.training.features import variances
from legendretron.training.logistic import fit_logistic, logistic_log_proba
from legendretron.training.logistic_objective import Objective

CPU = torch.device("cpu")
NEEDS_NUMBA = pytest.mark.skipif(not support.has_numba(), reason="needs Numba")


def data(n=90, d=4, c=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    scores = x @ rng.normal(size=(d, c)) + rng.gumbel(size=(n, c))
    y = scores.argmax(1)
    y[:c] = np.arange(c)
    return x, y


def noisy_data(n=300, d=4, c=3, rate=0.3, seed=0):
    """Labels of a linear model, of which a share is replaced at random."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = (4.0 * x @ rng.normal(size=(d, c)) + rng.gumbel(size=(n, c))).argmax(1)
    return x, np.where(rng.random(n) < rate, rng.integers(0, c, n), y)


def shares(weights, dtype=torch.float64):
    """Weights of rows, (n,) or (n, R), as shares of each run."""
    weights = torch.as_tensor(np.asarray(weights, dtype=float).reshape(len(weights), -1), dtype=dtype)
    return weights / weights.sum(0)


def fit(x, y, alpha, weights=None, c=None, dtype=torch.float64, start=None, **settings):
    """Fits of all runs; strengths may be a number or a list."""
    weights = shares(np.ones(len(y)) if weights is None else weights, dtype)
    strengths = torch.as_tensor(alpha, dtype=dtype).expand(weights.shape[1]).clone()
    c = int(y.max()) + 1 if c is None else c
    settings = {"tol": 1e-9, "max_iter": 2000, **settings}
    return fit_logistic(
        as_features(x, dtype, CPU), torch.as_tensor(y), c, weights, strengths, start, **settings
    )  # fmt: skip


def log_proba(x, fitted, dtype=torch.float64):
    parts = logistic_log_proba(as_features(x, dtype, CPU), fitted.bias.shape[1] + 1, fitted.weight, fitted.bias)
    return torch.cat([log_p for _, log_p in parts]).numpy()


@pytest.fixture(params=["newton", "lbfgs", "whitened"])
def way(request, monkeypatch):
    """All ways to the minimum."""
    if request.param == "lbfgs":
        monkeypatch.setattr(logistic, "_NEWTON_PARAMETERS", 0)
        monkeypatch.setattr(logistic, "_draw_rows", lambda n, d, k: None)
    elif request.param == "whitened":
        monkeypatch.setattr(logistic, "_NEWTON_PARAMETERS", 0)
        monkeypatch.setattr(logistic, "_draw_rows", lambda n, d, k: torch.arange(0, n, 2))
    else:
        monkeypatch.setattr(logistic, "_NEWTON_PARAMETERS", 10**6)
        monkeypatch.setattr(logistic, "_NEWTON_WORK", 1e12)
        monkeypatch.setattr(logistic, "LBFGS", None)  # would fail
    return request.param


@pytest.mark.parametrize("c", [2, 3, 5])
@pytest.mark.parametrize("alpha", [1.0, 1e-3])
def test_scikit_learn_finds_the_same(way, c, alpha):
    x, y = data(c=c)
    theirs = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-10, max_iter=10_000).fit(x, y)
    # with two classes, the first has no column in scikit-learn, and the last has none here
    fitted = fit(x, 1 - y if c == 2 else y, alpha)
    assert fitted.converged.all()
    p = np.exp(log_proba(x, fitted))[:, 0]
    np.testing.assert_allclose(p[:, ::-1] if c == 2 else p, theirs.predict_proba(x), atol=1e-5)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_what_is_minimized(way, symmetric, intercept):
    x, y = data(c=4)
    weights = np.random.default_rng(1).random(len(y))

    def objective(flat):
        w, b = flat[:12].reshape(4, 3), flat[12:]
        z = np.column_stack([x @ w + b, np.zeros(len(y))])
        log_p = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
        full = np.column_stack([w, np.zeros(4)])
        penalty = ((full - full.mean(1, keepdims=True)) ** 2).sum() if symmetric else (w**2).sum()
        penalty += (b**2).sum() * intercept
        return -(weights / weights.sum()) @ log_p[np.arange(len(y)), y] + 0.05 * penalty

    expected = scipy.optimize.minimize(objective, np.zeros(15), tol=1e-12)
    fitted = fit(x, y, 0.1, weights, symmetric=symmetric, penalize_intercept=intercept)
    found = np.concatenate([fitted.weight[0].numpy().ravel(), fitted.bias[0].numpy()])
    assert objective(found) <= expected.fun + 1e-12
    np.testing.assert_allclose(found, expected.x, atol=1e-4)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("noise", [{}, {"rate": torch.full((2,), 0.2, dtype=torch.float64)}], ids=["plain", "noise"])
def test_each_run_in_its_own_units(way, symmetric, noise):
    """With variances of the features, fits are those to features that each run has standardized by its own rows."""
    x, y = data(n=120, c=4)
    weights = np.random.default_rng(1).random((len(y), 2)) * (np.arange(len(y)) % 3 != np.arange(2)[:, None]).T
    variance = variances(as_features(x, torch.float64, CPU), shares(weights))
    fitted = fit(x, y, 0.05, weights, variance=variance, symmetric=symmetric, **noise)
    for run, scale in enumerate(variance.sqrt().numpy()):
        one = {name: value[:1] for name, value in noise.items()}
        own = fit(x / scale, y, 0.05, weights[:, run], symmetric=symmetric, **one)
        np.testing.assert_allclose(fitted.weight[run].numpy() * scale[:, None], own.weight[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_variances(dtype):
    x = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 0.1, 10.0] * (np.arange(50) % 2)[:, None]
    x = np.column_stack([x, np.full(50, 0.3), np.zeros(50)])  # constant features are left as they are
    weights = shares(np.random.default_rng(1).random((50, 2)), dtype)
    expected = np.array([np.cov(x.T, aweights=w.numpy(), ddof=0).diagonal() for w in weights.mT.double()])
    expected[:, 3:] = 1.0
    for table in (x, scipy.sparse.csr_matrix(x)):
        found = variances(as_features(table, dtype, CPU), weights)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("kind", ["rate", "matrix"])
def test_fits_with_noise_take_few_iterations(kind):
    """Newton's method by a bound of the Hessian would take dozens."""
    x, y = noisy_data(n=600, rate=0.4)
    matrix = 0.6 * torch.eye(3, dtype=torch.float64) + 0.4 / 3
    noise = {"rate": torch.tensor([0.4], dtype=torch.float64)} if kind == "rate" else {"transition": matrix}
    plain = fit(x, y, 1e-5)
    assert int(fit(x, y, 1e-5, start=(plain.weight, plain.bias), **noise).n_iter) <= 40


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=NEEDS_NUMBA), False])
@pytest.mark.parametrize("noise", ["none", "rate", "learned rate", "matrix"])
@pytest.mark.parametrize("kind", ["dense", "chunked", "sparse"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("c", [2, 4])
def test_gradient_of_the_objective_against_autograd(monkeypatch, kind, symmetric, c, noise, compiled):
    monkeypatch.setattr(support, "has_numba", lambda: compiled)
    x, y = noisy_data(n=30, c=c)
    if kind == "chunked":
        monkeypatch.setattr("legendretron._internal.chunks.ENTRIES_AT_ONCE", 50)
        monkeypatch.setattr("legendretron.training.features._FEWEST", 7)
        monkeypatch.setattr("legendretron.training.features._MOST", 7)
    features = as_features(scipy.sparse.csr_array(x) if kind == "sparse" else x, torch.float64, CPU)
    generator = torch.Generator().manual_seed(0)
    labels, alpha = torch.as_tensor(y), torch.tensor([0.3, 0.7], dtype=torch.float64)
    weights = shares(np.random.default_rng(0).random((30, 2)))
    known, learn = torch.tensor([0.1, 0.4], dtype=torch.float64), noise == "learned rate"
    matrix = torch.softmax(torch.randn(c, c, dtype=torch.float64, generator=generator), dim=1)
    given = {"rate": known if "rate" in noise else None, "transition": matrix if noise == "matrix" else None}
    objective = Objective(features, labels, c, weights, alpha, symmetric, True, learn_rate=learn, **given)
    assert (len(objective.parts) > 1) == (kind == "chunked")
    size = 5 * (c - 1)
    flat = torch.randn(2, size + learn, dtype=torch.float64, generator=generator).requires_grad_()
    w, b = flat[:, : 4 * (c - 1)].reshape(2, 4, c - 1), flat[:, 4 * (c - 1) : size]
    z = torch.einsum("nd,rdk->nrk", torch.as_tensor(x), w) + b
    q = torch.softmax(torch.cat([z, torch.zeros_like(z[..., :1])], -1), -1)
    if "rate" in noise:
        rate = (torch.sigmoid(flat[:, -1]) if learn else known).unsqueeze(1)
        q = (1 - rate) * q + rate / c
    elif noise == "matrix":
        q = q @ matrix
    penalty = w.square().sum((1, 2)) + b.square().sum(1)
    if symmetric and c > 2:
        penalty = penalty - w.sum(-1).square().sum(1) / c
    expected = -(q[torch.arange(30), :, labels].log() * weights).sum(0) + 0.5 * alpha * penalty
    (slope,) = torch.autograd.grad(expected.sum(), flat)
    with torch.no_grad():
        value, gradient = objective(flat)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(gradient, slope, rtol=1e-9, atol=1e-12)


def test_a_run_comes_out_as_if_it_were_alone(way):
    x, y = data()
    weights = np.random.default_rng(0).random((len(y), 3))
    weights[:30, 1] = 0.0
    alphas = [1.0, 1e-3, 0.1]
    together = fit(x, y, alphas, weights)
    for run, alpha in enumerate(alphas):
        alone = fit(x, y, alpha, weights[:, run])
        torch.testing.assert_close(together.weight[run], alone.weight[0], rtol=1e-6, atol=1e-6)
        assert abs(int(together.n_iter[run]) - int(alone.n_iter[0])) <= 1
    assert len(set(together.n_iter.tolist())) > 1  # none waits for another


def test_single_precision(way):
    x, y = data()
    fitted = fit(x, y, 0.01, dtype=torch.float32, tol=1e-5)
    assert fitted.weight.dtype == torch.float32
    assert fitted.converged.all()
    torch.testing.assert_close(fitted.weight.double(), fit(x, y, 0.01).weight, atol=5e-3, rtol=1e-2)


def test_a_start_near_the_minimum_saves_iterations(way):
    x, y = data()
    cold = fit(x, y, 0.001)
    near = fit(x, y, 0.0011)
    warm = fit(x, y, 0.001, start=(near.weight, near.bias))
    assert 1 <= int(warm.n_iter) < int(cold.n_iter)
    torch.testing.assert_close(warm.weight, cold.weight, rtol=1e-5, atol=1e-5)
    done = fit(x, y, 0.001, start=(cold.weight, cold.bias), tol=1e-8)
    assert int(done.n_iter) == 0
    # large problems are solved in other coordinates, and the way there and back rounds
    torch.testing.assert_close(done.weight, cold.weight, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_features_do_no_harm(way, dtype):
    x, y = data()
    for scale in (1e4, 1e-4):
        fitted = fit(x * scale, y, 1e-6, dtype=dtype, tol=1e-5, max_iter=200)
        assert fitted.weight.isfinite().all()
        losses = -log_proba(x * scale, fitted, dtype)[np.arange(len(y)), 0, y]
        assert losses.mean() < np.log(3)
    mixed = fit(x * np.array([1e4, 1.0, 1e-4, 1.0]), y, 1e-6, max_iter=100)
    assert mixed.weight.isfinite().all()


def test_classes_without_rows_a_constant_and_a_single_feature(way):
    x, y = data()
    fitted = fit(x, np.minimum(y, 1), 0.1, c=3, max_iter=50)  # the last class, the reference, is not there
    p = np.exp(log_proba(x, fitted))[:, 0]
    assert np.isfinite(p).all()
    assert p[:, 2].max() < 0.01
    weights = (y != 0).astype(float)
    assert np.isfinite(log_proba(x, fit(x, y, 0.1, weights, max_iter=50))).all()
    x[:, 1] = 0.0
    constant = fit(x, y, 0.1)
    assert constant.converged.all()
    assert constant.weight[0, 1].abs().max() == 0.0
    single = fit(x[:, :1], y, 0.0)  # no penalty at all
    assert single.converged.all()
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(x[:, :1], y)
    np.testing.assert_allclose(np.exp(log_proba(x[:, :1], single))[:, 0], theirs.predict_proba(x[:, :1]), atol=1e-4)


def test_tolerance_and_iterations_are_respected(way):
    x, y = data()
    rough, fine = fit(x, y, 1e-3, tol=1e-2), fit(x, y, 1e-3, tol=1e-10)
    assert int(rough.n_iter) < int(fine.n_iter)
    few = fit(x, y, 1e-3, max_iter=2)
    assert int(few.n_iter) == 2
    assert not few.converged.any()
    calls = []
    fit(x, y, 1e-3, max_iter=3, after_iteration=lambda number, _, value, __: calls.append((number, float(value))))
    assert [number for number, _ in calls] == [1, 2, 3]
    assert calls[0][1] > calls[1][1] > calls[2][1]
    nothing = fit(x, y, 1e-3, max_iter=0)
    assert int(nothing.n_iter) == 0
    assert nothing.weight.abs().max() == 0.0


def two_loops(pairs, gradient):
    """The direction of L-BFGS as in the books."""
    q, kept = gradient.clone(), []
    for s, y in reversed(pairs):
        a = (s @ q) / (s @ y)
        q -= a * y
        kept.append(a)
    s, y = pairs[-1]
    q *= (s @ y) / (y @ y)
    for (s, y), a in zip(pairs, reversed(kept), strict=True):
        q += s * (a - (y @ q) / (s @ y))
    return -q


def test_directions_are_those_of_the_two_loops():
    generator = torch.Generator().manual_seed(0)
    runs, size = 3, 8
    root = torch.randn(runs, size, size, generator=generator, dtype=torch.float64)
    hessian = root @ root.mT + torch.eye(size)
    curvature, pairs = LBFGS(root[:, 0]), [[] for _ in range(runs)]
    gradient = torch.randn(runs, size, generator=generator, dtype=torch.float64)
    first = curvature.direction(gradient)
    assert torch.allclose(first, -gradient / gradient.norm(dim=1, keepdim=True).clamp(min=1.0))
    for number in range(2 * _MEMORY + 3):
        step = torch.randn(runs, size, generator=generator, dtype=torch.float64)
        if number % 4 == 1:
            step[1] = 0.0  # a run that did not move
        change = (hessian @ step.unsqueeze(-1)).squeeze(-1)
        curvature.update(step, change)
        for run in range(runs):
            pairs[run].append((step[run], change[run]))
        found = curvature.direction(gradient)
        for run in range(runs):
            remembered = [pair for pair in pairs[run][-_MEMORY:] if pair[0].any()]
            torch.testing.assert_close(found[run], two_loops(remembered, gradient[run]), rtol=1e-7, atol=1e-9)


def test_steps_without_positive_curvature_are_not_remembered():
    curvature = LBFGS(torch.zeros(1, 3, dtype=torch.float64))
    step, gradient = torch.tensor([[1.0, 2.0, 0.5]]).double(), torch.tensor([[1.0, -1.0, 2.0]]).double()
    curvature.update(step, 2.0 * step)
    before = curvature.direction(gradient)
    curvature.update(step, -step)
    torch.testing.assert_close(curvature.direction(gradient), before)


@pytest.mark.parametrize("c", [2, 4])
def test_both_ways_learn_the_same_rate(way, c):
    x, y = noisy_data(n=1500, c=c)
    fitted = fit(x, y, 1e-4, rate=torch.tensor([0.1]).double(), learn_rate=True, tol=1e-7, max_iter=500)
    assert fitted.converged.all()
    assert abs(float(fitted.rate) - 0.3) < 0.05
    plain = fit(x, y, 1e-4)
    assert float(plain.rate) == 0.0
    assert (fitted.weight.abs().sum() > 1.5 * plain.weight.abs().sum()).item()


@pytest.mark.parametrize("c", [2, 3])
def test_a_symmetric_matrix_is_a_rate(way, c):
    x, y = noisy_data(c=c)
    matrix = 0.7 * torch.eye(c, dtype=torch.float64) + 0.3 / c
    by_rate = fit(x, y, 1e-2, rate=torch.tensor([0.3]).double(), tol=1e-7)
    by_matrix = fit(x, y, 1e-2, transition=matrix, tol=1e-7)
    assert by_matrix.converged.all()
    assert torch.allclose(by_rate.weight, by_matrix.weight, atol=1e-4)
    none = fit(x, y, 1e-2, transition=torch.eye(c, dtype=torch.float64), tol=1e-7)
    assert torch.allclose(none.weight, fit(x, y, 1e-2).weight, atol=1e-5)
