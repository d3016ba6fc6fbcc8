"""The Triton kernels against plain operations: on the CPU by Triton's interpreter, on a GPU as they are."""

import copy

import pytest
import torch

from legendretron.links import CompositeLink
from legendretron.links.composite import _kernels

pytest.importorskip("triton")
from legendretron._triton.link import fused_log_proba

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make(n_classes, n_blocks, hidden, depth, network, dtype):
    generator = torch.Generator().manual_seed(0)
    link = CompositeLink(n_classes, n_blocks, hidden, depth, network, init="paper", generator=generator, dtype=dtype)
    z = 3.0 * torch.randn(5, n_classes - 1, generator=generator, dtype=dtype)
    if link.needs_batch:
        link.initialize(z)
    return link.to(DEVICE), z.to(DEVICE).requires_grad_()


def fused(link, z):
    return link._log_proba_by(fused_log_proba, z)


def plain(link, z):
    return link._log_proba_of(z, [tensor for block in link._chain() for tensor in block._kernel_tensors()])


@pytest.mark.parametrize("network", ["ficnn", "cpflow"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("n_classes", "n_blocks", "hidden", "depth"), [
    (10, 2, 2, 4),
    (2, 1, 3, 1),
    pytest.param(5, 3, 3, 2, marks=pytest.mark.exhaustive),
    pytest.param(1100, 2, 2, 4, marks=pytest.mark.exhaustive),  # more classes than a tile holds
])  # fmt: skip
def test_values_and_gradients_are_those_of_plain_operations(
    network, dtype, tolerance, n_classes, n_blocks, hidden, depth
):
    link, z = make(n_classes, n_blocks, hidden, depth, network, dtype)
    g = torch.randn(len(z), n_classes, generator=torch.Generator().manual_seed(1), dtype=dtype).to(DEVICE)
    expected, result = plain(link, z), fused(link, z)
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(result, link(z), rtol=tolerance, atol=tolerance)
    inputs = [z, *link.parameters()]
    ours = torch.autograd.grad(result, inputs, g)
    theirs = torch.autograd.grad(expected, inputs, g, allow_unused=True, materialize_grads=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * float(1.0 + b.abs().sum()))


@pytest.mark.parametrize("size", [1e-3, 1e2, 1e4])
def test_extreme_predictors_and_parameters(size):
    link, z = make(4, 2, 2, 4, "ficnn", torch.float32)
    with torch.no_grad():
        z.mul_(size)
        for block in link.blocks:
            block.raw_mixing.fill_(-30.0)  # a softplus of 1e-13
    result, expected = fused(link, z), plain(link, z)
    assert torch.isfinite(result).all()
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    for a, b in zip(torch.autograd.grad(result.sum(), [z, *link.parameters()]),
                    torch.autograd.grad(expected.sum(), [z, *link.parameters()]), strict=True):  # fmt: skip
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(1.0 + b.abs().max()))


@pytest.mark.parametrize("transposed", [False, True])
def test_second_derivatives(transposed):
    link, z = make(3, 2, 2, 2, "ficnn", torch.float64)

    def norm_of_gradient(function):
        rows = z.reshape(2, 5).T if transposed else z
        (dz,) = torch.autograd.grad(function(link, rows)[:, 0].sum(), z, create_graph=True)
        return torch.autograd.grad(dz.square().sum(), [z, *link.parameters()])

    for a, b in zip(norm_of_gradient(fused), norm_of_gradient(plain), strict=True):
        torch.testing.assert_close(a, b)


def test_rows_of_nan_stay_rows_of_nan():
    link, z = make(4, 2, 2, 4, "ficnn", torch.float32)
    with torch.no_grad():
        z[1, 0] = torch.nan
    result = fused(link, z)
    assert torch.isnan(result[1]).all()
    assert torch.isfinite(result[[0, 2, 3, 4]]).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="chooses by device")
def test_links_use_the_kernels_where_they_apply():
    link, z = make(4, 2, 2, 4, "ficnn", torch.float32)
    z = z.detach()
    assert _kernels(z, (), link._chain()) is fused_log_proba
    assert _kernels(z, (3,), link._chain()) is None
    assert _kernels(z.double(), (), link._chain()) is None
    assert _kernels(z[:0], (), link._chain()) is None
    assert torch.func.vmap(lambda row: link(row))(z).shape == (5, 4)
    jvp = torch.func.jvp(link, (z,), (torch.ones_like(z),))[1]
    exact = copy.deepcopy(link).double().cpu()
    expected = torch.func.jvp(exact, (z.double().cpu(),), (torch.ones(z.shape, dtype=torch.float64),))[1]
    torch.testing.assert_close(jvp.double().cpu(), expected, rtol=1e-4, atol=1e-5)


def test_links_on_the_cpu_do_without_kernels():
    link, z = make(4, 2, 2, 4, "ficnn", torch.float32)
    assert _kernels(z.detach().cpu(), (), link._chain()) is None
