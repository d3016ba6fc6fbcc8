"""Links as one node of autograd's graph, by compiled functions on the CPU, against plain operations."""

import math

import pytest
import torch

from legendretron.accelerate.cpu import links as compiled
from legendretron.accelerate.log_proba import log_proba
from legendretron.links import CanonicalLink, CompositeLink
from legendretron.nn import LegendreHead

pytest.importorskip("numba")

PRECISIONS = [(torch.float64, 1e-11), (torch.float32, 2e-5)]
LINKS = {
    "ficnn": lambda c, **how: CompositeLink(c, init="paper", **how),
    "cpflow": lambda c, **how: CompositeLink(c, init="paper", network="cpflow", **how),
    "three wide blocks": lambda c, **how: CompositeLink(c, 3, 3, 2, init="paper", **how),
    "eight units": lambda c, **how: CompositeLink(c, hidden=8, init="paper", **how),
    "one odd block": lambda c, **how: CompositeLink(c, 1, 3, 1, network="cpflow", init="paper", **how),
    "canonical": lambda c, **how: CanonicalLink(c, init="random", **how),
    "one nest": lambda c, **how: CanonicalLink(c, 1, init="random", **how),
}
every_link = pytest.mark.parametrize("name", LINKS)


def make(name, c, dtype=torch.float64):
    link = LINKS[name](c, generator=torch.Generator().manual_seed(0), dtype=dtype)
    if link.needs_batch:
        link.initialize(rows(20, c, dtype))
    return link.eval()


def rows(n, c, dtype=torch.float64, size=2.0):
    return size * torch.randn(n, c - 1, generator=torch.Generator().manual_seed(1), dtype=dtype)


def fast(link, z, **how):
    return link(z, by=log_proba, **how)


def plain(link, z):
    return link(z)


def is_one_node(log_p):
    node = log_p.grad_fn
    while node is not None and "OneNode" not in type(node).__name__:
        node = node.next_functions[0][0] if node.next_functions else None
    return node is not None


def assert_same(link, z, tolerance):
    z = z.detach().requires_grad_()
    result, expected = fast(link, z), plain(link, z)
    assert is_one_node(result)
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
    g = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2), dtype=z.dtype)
    inputs = [z, *link.parameters()]
    ours = torch.autograd.grad(result, inputs, g)
    theirs = torch.autograd.grad(expected, inputs, g, allow_unused=True, materialize_grads=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * float(1.0 + b.abs().sum() + g.abs().sum()))


@every_link
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize(("n", "c"), [(1, 2), (16, 16), (45, 37), (70, 26), (3, 300)])
def test_values_and_gradients_are_those_of_plain_operations(name, dtype, tolerance, n, c):
    assert_same(make(name, c, dtype), rows(n, c, dtype), tolerance)


@every_link
def test_other_shapes(name):
    link = make(name, 4)
    assert_same(link, rows(12, 4).reshape(2, 3, 2, 3), 1e-11)
    assert_same(link, rows(3, 6).T, 1e-11)  # not contiguous
    assert_same(link, rows(1, 4)[0].expand(5, 3), 1e-11)
    assert_same(link, rows(0, 4), 1e-11)


@pytest.mark.parametrize("name", ["ficnn", "cpflow", "canonical"])
def test_second_derivatives(name):
    link, z = make(name, 3), rows(4, 3).requires_grad_()

    def norm_of_gradient(function):
        (dz,) = torch.autograd.grad(function(z)[:, 0].sum(), z, create_graph=True)
        return torch.autograd.grad(
            dz.square().sum(), [z, *link.parameters()], allow_unused=True, materialize_grads=True
        )

    for a, b in zip(norm_of_gradient(lambda z: fast(link, z)), norm_of_gradient(lambda z: plain(link, z)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ["ficnn", "cpflow", "canonical"])
def test_frozen_parameters(name):
    link, z = make(name, 5), rows(6, 5).requires_grad_()
    parameters = list(link.parameters())
    every = torch.autograd.grad(fast(link, z)[:, 0].sum(), parameters)
    for parameter in parameters[::2]:
        parameter.requires_grad_(False)
    fast(link, z)[:, 0].sum().backward()
    for parameter, gradient in zip(parameters, every, strict=True):
        if parameter.requires_grad:
            torch.testing.assert_close(parameter.grad, gradient)
        else:
            assert parameter.grad is None
    for parameter in parameters:
        parameter.requires_grad_(True)
    fast(link, z.detach())[:, 0].sum().backward()  # parameters alone
    for i, (parameter, gradient) in enumerate(zip(parameters, every, strict=True)):
        torch.testing.assert_close(parameter.grad, gradient * (1 + i % 2))


@pytest.mark.parametrize("name", ["ficnn", "canonical"])
@pytest.mark.parametrize("size", [1e-3, 1e2, 1e4, 1e8])
def test_extreme_predictors(name, size):
    link, z = make(name, 20, torch.float32), rows(9, 20, torch.float32, size).requires_grad_()
    result, expected = fast(link, z), plain(link, z)
    assert torch.isfinite(result).all()
    # differences of predictors have lost the digits that these do not have
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5 + 1e-6 * size)
    (ours,), (theirs,) = (torch.autograd.grad(log_p[:, 3].sum(), z) for log_p in (result, expected))
    if size < 1e4:
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert torch.isfinite(ours).all()


@pytest.mark.parametrize("name", ["ficnn", "canonical"])
def test_rows_of_nan_stay_rows_of_nan(name):
    link, z = make(name, 5), rows(70, 5)
    z[3, 1] = math.nan
    with torch.no_grad():
        result = fast(link, z)
    assert torch.isnan(result[3]).all()
    others = [i for i in range(70) if i != 3]
    assert torch.isfinite(result[others]).all()
    leaf = z.requires_grad_()
    fast(link, leaf).nan_to_num().sum().backward()
    assert torch.isfinite(leaf.grad[others]).all()


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_masked_classes_of_the_canonical_link(dtype, tolerance):
    link = make("canonical", 5, dtype)
    logits = rows(6, 6, dtype)
    logits[0, 0] = logits[1, -1] = -math.inf
    logits[2, 1] = -(torch.finfo(dtype).max ** 0.6)
    logits.requires_grad_()
    result, expected = fast(link, logits, all_classes=True), link.nests._log_proba_of_logits(logits)
    assert is_one_node(result)
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
    g = torch.randn(6, 5, generator=torch.Generator().manual_seed(2), dtype=dtype)
    inputs = [logits, *link.parameters()]
    for a, b in zip(torch.autograd.grad(result, inputs, g), torch.autograd.grad(expected, inputs, g), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * float(1.0 + b.abs().sum()))


@pytest.mark.parametrize("name", ["ficnn", "cpflow", "canonical"])
def test_threads_share_rows(name, monkeypatch):
    monkeypatch.setattr(compiled, "_PART", 100)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert_same(make(name, 6), rows(200, 6), 1e-11)
        assert_same(make(name, 400), rows(70, 400), 1e-11)  # keeps products
    finally:
        torch.set_num_threads(before)


def test_what_plain_operations_are_for():
    link, z = make("ficnn", 4), rows(5, 4)
    stacked = CompositeLink(4, run_shape=(2,), dtype=torch.float64)
    assert not is_one_node(fast(stacked, z.expand(2, 5, 3)))
    assert not is_one_node(fast(CompositeLink(4).bfloat16(), z.bfloat16()))
    torch.testing.assert_close(torch.func.vmap(lambda z: fast(link, z))(z), fast(link, z))
    expected = torch.autograd.functional.jvp(lambda z: plain(link, z), z, torch.ones_like(z))[1]
    torch.testing.assert_close(torch.func.jvp(lambda z: fast(link, z), (z,), (torch.ones_like(z),))[1], expected)


def test_compilers_see_an_operator():
    head, x = LegendreHead(6, 5), torch.randn(7, 6)
    seen = []

    def backend(graph, inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    torch.testing.assert_close(torch.compile(head, fullgraph=True, backend=backend)(x), head(x))
    assert "legendretron.link.default" in seen
    torch.compiler.reset()
    expected = torch.autograd.grad(head(x)[:, 1].sum(), list(head.parameters()))
    found = torch.compile(head, fullgraph=True, backend="aot_eager", dynamic=True)(x)
    for a, b in zip(torch.autograd.grad(found[:, 1].sum(), list(head.parameters())), expected, strict=True):
        torch.testing.assert_close(a, b)
    torch.compiler.reset()
