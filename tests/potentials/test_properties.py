"""What every potential must satisfy, over the whole catalogue."""

import pytest
import scipy.optimize
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.catalogue import CLASSES, POTENTIALS, RUNS, SHAPES, make_potential, normal, proba

FILLS_SIMPLEX = ("nested", "nested_one", "nested_identity")
every_potential = pytest.mark.parametrize("name", POTENTIALS)
every_dimension = pytest.mark.parametrize("dim", [c - 1 for c in CLASSES])


@every_potential
@every_dimension
@pytest.mark.parametrize(("leading", "runs"), SHAPES)
def test_closed_forms_agree_with_autograd(name, dim, leading, runs):
    g = make_potential(name, dim, runs)
    x = normal(*runs, *leading, dim, key="x", scale=2.0).requires_grad_()
    v = normal(*runs, *leading, dim, key="v")
    value = g.value(x)
    assert value.shape == x.shape[:-1]
    assert torch.equal(g(x), value)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    assert torch.allclose(g.gradient(x), gradient, rtol=1e-11, atol=1e-13)
    (product,) = torch.autograd.grad(g.gradient(x), x, v)
    hessian = g.hessian(x)
    assert hessian.shape == (*x.shape, dim)
    assert torch.allclose((hessian @ v.unsqueeze(-1)).squeeze(-1), product, rtol=1e-10, atol=1e-12)


@every_potential
@every_dimension
def test_hessian_is_symmetric_and_positive_definite(name, dim):
    g = make_potential(name, dim)
    x = normal(8, dim, key="x", scale=2.0)
    hessian = g.hessian(x)
    size = hessian.abs().amax((-1, -2))
    assert ((hessian - hessian.mT).abs().amax((-1, -2)) <= 1e-14 * size).all()
    assert (torch.linalg.eigvalsh(hessian)[:, 0] > -1e-15 * dim * size).all()
    v = normal(100, 8, dim, key="v")
    assert ((v * (hessian @ v.unsqueeze(-1)).squeeze(-1)).sum(-1) > 0).all()


@every_potential
@every_dimension
@pytest.mark.parametrize("runs", RUNS)
def test_hessian_solve_inverts_the_hessian(name, dim, runs):
    g = make_potential(name, dim, runs)
    x, v = normal(*runs, 4, dim, key="x"), normal(*runs, 4, dim, key="v")
    solution = g.hessian_solve(x, v)
    rounding = 1e-14 * solution.abs().amax(-1, keepdim=True)
    product = (g.hessian(x) @ solution.unsqueeze(-1)).squeeze(-1)
    assert ((product - v).abs() <= 1e-10 + rounding).all()


@every_potential
@every_dimension
@pytest.mark.parametrize(("leading", "runs"), SHAPES)
def test_inverse_gradient(name, dim, leading, runs):
    g = make_potential(name, dim, runs)
    x = normal(*runs, *leading, dim, key="x", scale=2.0)
    y = g.gradient(x)
    # a point of the projected simplex has lost digits of the last class: eps / p_C is what is left to know
    lost = 1e-15 / (1 - y.sum(-1, keepdim=True)).clamp(min=1e-15) if name in FILLS_SIMPLEX else torch.zeros(1)
    assert ((g.inverse_gradient(y) - x).abs() <= 1e-10 * (1 + x.abs()) + 20 * lost).all()


@every_potential
@pytest.mark.parametrize("dim", [1, 2, 9])
def test_conjugate_is_the_supremum(name, dim):
    g = make_potential(name, dim)
    if name in FILLS_SIMPLEX:
        y = proba(dim + 1, key="y")[:-1]
    else:
        y = normal(dim, key="y", scale=2.0)

    def negative(x):
        x = torch.as_tensor(x)
        return (g.value(x) - x @ y).item(), (g.gradient(x) - y).detach().numpy()

    found = scipy.optimize.minimize(negative, torch.zeros(dim).double().numpy(), jac=True, method="BFGS", tol=1e-12)
    assert g.conjugate(y).item() == pytest.approx(-found.fun, rel=1e-8, abs=1e-8)
    # Fenchel-Young: no point does better
    x = normal(200, dim, key="x", scale=3.0)
    assert (g.conjugate(y) >= x @ y - g.value(x) - 1e-12).all()


@every_potential
def test_gradcheck(name):
    g = make_potential(name, 2)
    x = normal(2, 2, key="x").requires_grad_()
    assert torch.autograd.gradcheck(g.value, x)
    assert torch.autograd.gradcheck(g.gradient, x)
    assert torch.autograd.gradcheck(g.hessian, x)
    y = g.gradient(x).detach().requires_grad_()
    assert torch.autograd.gradcheck(g.inverse_gradient, y)
    assert torch.autograd.gradgradcheck(g.inverse_gradient, y, fast_mode=True)
    assert torch.autograd.gradcheck(g.conjugate, y)
    assert torch.autograd.gradgradcheck(g.conjugate, y, fast_mode=True)


@every_potential
def test_parameter_gradients(name):
    g = make_potential(name, 2)
    names = [n for n, _ in g.named_parameters()]
    x = normal(3, 2, key="x")
    y = g.gradient(x).detach()
    for method, at in (("value", x), ("gradient", x), ("inverse_gradient", y)):

        def function(*parameters, method=method, at=at):
            replaced = {f"g.{n}": p for n, p in zip(names, parameters, strict=True)}
            return torch.func.functional_call(_Calls(g, method), replaced, (at,))

        parameters = tuple(p.detach().clone().requires_grad_() for p in g.parameters())
        if parameters:
            assert torch.autograd.gradcheck(function, parameters, fast_mode=True)  # along one random direction


class _Calls(torch.nn.Module):
    """Makes a method callable through ``functional_call``."""

    def __init__(self, g, method):
        super().__init__()
        self.g, self.method = g, method

    def forward(self, x):
        return getattr(self.g, self.method)(x)


@every_potential
@given(data=st.data())
def test_convex_along_every_segment(name, data):
    dim = data.draw(st.integers(1, 5))
    g = make_potential(name, dim)
    numbers = st.lists(st.floats(-50, 50), min_size=dim, max_size=dim)
    x, y = (torch.tensor(data.draw(numbers), dtype=torch.float64) for _ in range(2))
    t = data.draw(st.floats(0, 1))
    between, chord = g.value(t * x + (1 - t) * y), t * g.value(x) + (1 - t) * g.value(y)
    assert between <= chord + 1e-12 * (1 + chord.abs())
    # monotone gradient, up to rounding
    product = (g.gradient(x) - g.gradient(y)) @ (x - y)
    assert product >= -1e-12 * (1 + (x - y).norm())


@every_potential
def test_two_run_axes_and_empty_batches(name):
    g = make_potential(name, 2, (2, 3))
    x = normal(2, 3, 5, 2, key="x")
    assert g.gradient(x).shape == (2, 3, 5, 2)
    assert g.value(normal(2, 3, 2, key="x")).shape == (2, 3)
    single = make_potential(name, 2)
    empty = torch.empty(0, 2, dtype=torch.float64)
    assert single.gradient(empty).shape == (0, 2)
    assert single.hessian(empty).shape == (0, 2, 2)
    assert single.inverse_gradient(empty).shape == (0, 2)


@every_potential
@every_dimension
def test_extreme_inputs_in_float32(name, dim):
    g = make_potential(name, dim, dtype=torch.float32)
    corners = torch.stack([torch.full((dim,), 1e4), torch.full((dim,), -1e4), torch.zeros(dim)])
    mixed = 1e4 * torch.sign(normal(5, dim, key="signs", dtype=torch.float32))
    x = torch.cat([corners, mixed]).requires_grad_()
    value, gradient = g.value(x), g.gradient(x)
    assert torch.isfinite(value).all()
    assert torch.isfinite(gradient).all()
    leaves = [x, *g.parameters()]
    for out in (value.sum(), gradient.sum()):
        for leaf in torch.autograd.grad(out, leaves, retain_graph=True, allow_unused=True):
            assert leaf is None or torch.isfinite(leaf).all()


@every_potential
def test_nan_in_one_row_stays_there(name):
    g = make_potential(name, 3)
    x = normal(4, 3, key="x")
    y = g.gradient(x).detach()
    clean = g.inverse_gradient(y)
    y[1, 0] = float("nan")
    back = g.inverse_gradient(y)
    assert back[1].isnan().any()
    assert torch.equal(back[[0, 2, 3]], clean[[0, 2, 3]])


@every_potential
def test_float32_is_close_to_float64(name):
    x = normal(10, 9, key="x", scale=3.0)
    exact, single = make_potential(name, 9), make_potential(name, 9, dtype=torch.float32)
    assert torch.allclose(single.gradient(x.float()).double(), exact.gradient(x), rtol=1e-4, atol=1e-5)
    assert torch.allclose(single.hessian(x.float()).double(), exact.hessian(x), rtol=1e-3, atol=1e-5)


@every_potential
def test_wrong_shapes(name):
    g = make_potential(name, 3)
    with pytest.raises(ValueError, match=r"v must have the shape of x"):
        g.hessian_solve(torch.zeros(5, 3), torch.zeros(4, 3))
    with pytest.raises(ValueError, match="x must have a floating-point dtype"):
        g.gradient(torch.zeros(5, 3, dtype=torch.int64))
    runs = make_potential(name, 3, (2,))
    with pytest.raises(ValueError, match=r"x must have shape \(2, \.\.\., 3\), got \(4, 3\)"):
        runs.value(torch.zeros(4, 3))
