"""The Triton kernels against plain operations: on the CPU by Triton's interpreter, on a GPU as they are."""

import copy
import math

import pytest
import torch

from legendretron.accelerate.forms import link_parts
from legendretron.accelerate.log_proba import _functions, _OneNode, _plain_chain, _plain_nests, log_proba
from legendretron.links import CanonicalLink, CompositeLink

pytest.importorskip("triton")
from legendretron.accelerate.cuda import nests

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make(n_classes, n_blocks, hidden, depth, network, dtype):
    generator = torch.Generator().manual_seed(0)
    link = CompositeLink(n_classes, n_blocks, hidden, depth, network, init="paper", generator=generator, dtype=dtype)
    z = 3.0 * torch.randn(5, n_classes - 1, generator=generator, dtype=dtype)
    if link.needs_batch:
        link.initialize(z)
    return link.to(DEVICE), z.to(DEVICE).requires_grad_()


def make_canonical(n_classes, n_nests, dtype, n_rows=5):
    generator = torch.Generator().manual_seed(0)
    link = CanonicalLink(n_classes, n_nests, init="random", generator=generator, dtype=dtype)
    z = 3.0 * torch.randn(n_rows, n_classes - 1, generator=generator, dtype=dtype)
    return link.to(DEVICE), z.to(DEVICE).requires_grad_()


def fused(link, z, all_classes=False):
    parts = link_parts(link)
    functions = _functions(parts.form, all_classes, on_cuda=True)
    plain = _plain_chain(parts) if isinstance(link, CompositeLink) else _plain_nests(link, all_classes)
    return _OneNode.apply(functions, plain, z.contiguous(), *parts.tensors)


def plain(link, z, all_classes=False):
    return link._log_proba_of_logits(z) if all_classes else link._log_proba(z)


def assert_same_gradients(link, z, result, expected, tolerance):
    g = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=z.dtype).to(DEVICE)
    inputs = [z, *link.parameters()]
    ours = torch.autograd.grad(result, inputs, g)
    theirs = torch.autograd.grad(expected, inputs, g, allow_unused=True, materialize_grads=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * float(1.0 + b.abs().sum()))


every_precision = pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])


def assert_same(link, z, tolerance, all_classes=False):
    expected, result = plain(link, z, all_classes), fused(link, z, all_classes)
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
    assert_same_gradients(link, z, result, expected, tolerance)


@every_precision
@pytest.mark.parametrize("network", ["ficnn", "cpflow"])
@pytest.mark.parametrize("sizes", [
    (10, 2, 2, 4), (2, 1, 3, 1),
    pytest.param((70, 3, 8, 4), marks=pytest.mark.exhaustive),  # more units than a single row holds
    pytest.param((1100, 2, 2, 4), marks=pytest.mark.exhaustive),  # more classes than a tile holds
])  # fmt: skip
def test_values_and_gradients_are_those_of_plain_operations(network, dtype, tolerance, sizes):
    assert_same(*make(*sizes, network, dtype), tolerance)


@every_precision
@pytest.mark.parametrize(("n_classes", "n_nests", "n_rows"), [(2, 1, 1), (7, 3, 6)])
def test_canonical_values_and_gradients(dtype, tolerance, n_classes, n_nests, n_rows, monkeypatch):
    monkeypatch.setattr(nests, "_PROGRAMS", 4)  # so that some have several rows
    assert_same(*make_canonical(n_classes, n_nests, dtype, n_rows), tolerance)


@every_precision
def test_canonical_with_masked_classes(dtype, tolerance):
    link, _ = make_canonical(6, 3, dtype)
    logits = torch.randn(5, 6, generator=torch.Generator().manual_seed(2), dtype=dtype)
    logits[0, 0] = logits[2, -1] = -math.inf
    logits[1, 3] = -(torch.finfo(dtype).max ** 0.6)
    assert_same(link, logits.to(DEVICE).requires_grad_(), tolerance, all_classes=True)


@pytest.mark.parametrize("kind", ["composite", pytest.param("canonical", marks=pytest.mark.exhaustive)])
def test_extreme_predictors_and_parameters(kind):
    link, z = make(4, 2, 2, 2, "ficnn", torch.float32) if kind == "composite" else make_canonical(4, 3, torch.float32)
    with torch.no_grad():
        z.mul_(1e4)
        for block in getattr(link, "blocks", ()):
            block.raw_mixing.fill_(-30.0)  # a softplus of 1e-13
    result, expected = fused(link, z), plain(link, z)
    assert torch.isfinite(result).all()
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    for a, b in zip(torch.autograd.grad(result.sum(), [z, *link.parameters()]),
                    torch.autograd.grad(expected.sum(), [z, *link.parameters()]), strict=True):  # fmt: skip
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(1.0 + b.abs().max()))


def test_second_derivatives():
    link, z = make(3, 2, 2, 2, "ficnn", torch.float64)

    def norm_of_gradient(function):
        (dz,) = torch.autograd.grad(function(link, z.reshape(2, 5).T)[:, 0].sum(), z, create_graph=True)
        return torch.autograd.grad(dz.square().sum(), [z, *link.parameters()])

    torch.testing.assert_close(norm_of_gradient(fused), norm_of_gradient(plain))


@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")  # of the interpreter
@pytest.mark.parametrize("kind", ["composite", "canonical"])
def test_rows_of_nan_stay_rows_of_nan(kind):
    link, z = make(4, 2, 2, 4, "ficnn", torch.float32) if kind == "composite" else make_canonical(4, 3, torch.float32)
    with torch.no_grad():
        z[1, 0] = torch.nan
    result = fused(link, z)
    assert torch.isnan(result[1]).all()
    assert torch.isfinite(result[[0, 2, 3, 4]]).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="chooses by device")
@pytest.mark.parametrize("kind", ["composite", "canonical"])
def test_links_use_the_kernels_where_they_apply(kind):
    link, z = make(4, 2, 2, 4, "ficnn", torch.float32) if kind == "composite" else make_canonical(4, 3, torch.float32)
    z = z.detach()
    assert "OneNode" in type(log_proba(link, z).grad_fn).__name__
    assert log_proba(link, z[:0]).shape == (0, 4)
    assert torch.func.vmap(lambda row: log_proba(link, row[None]))(z).shape == (5, 1, 4)
    jvp = torch.func.jvp(lambda rows: log_proba(link, rows), (z,), (torch.ones_like(z),))[1]
    exact = copy.deepcopy(link).double().cpu()
    expected = torch.func.jvp(exact, (z.double().cpu(),), (torch.ones(z.shape, dtype=torch.float64),))[1]
    torch.testing.assert_close(jvp.double().cpu(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compiles")
@pytest.mark.parametrize("kind", ["composite", "canonical"])
def test_kernels_are_launched_again_for_other_values_shapes_and_addresses(kind):
    link, z = make(4, 2, 2, 4, "ficnn", torch.float32) if kind == "composite" else make_canonical(4, 3, torch.float32)
    wide = torch.randn(64, 3, device=DEVICE)
    for rows in (z.detach(), 2.0 * z.detach(), wide, wide[1:], wide[:1], wide[:32], wide[1:33], wide[:48]):
        leaf = rows.clone().requires_grad_() if rows.data_ptr() % 16 == 0 else rows.requires_grad_()
        for _ in range(2):
            result, expected = log_proba(link, leaf), plain(link, leaf)
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
            assert_same_gradients(link, leaf, result, expected, 1e-5)
        with torch.no_grad():
            for parameter in link.parameters():
                parameter.mul_(0.9)
        wide = wide.detach()
