"""Losses on a CUDA device: the values of the CPU, and nothing waits for the device."""

import pytest
import torch

from legendretron.losses import CanonicalLoss, LogLoss
from tests.accelerate.test_losses import LINKS, logits
from tests.catalogue import make_link, normal

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
every_link = pytest.mark.parametrize("name", LINKS)
TOLERANCES = {torch.float64: {"rtol": 1e-9, "atol": 1e-11}, torch.float32: {"rtol": 1e-5, "atol": 2e-5}}


def value_and_gradient(of, x, y):
    leaf = x.clone().requires_grad_()
    value = of(leaf, y)
    return value.detach(), *torch.autograd.grad(value.sum(), leaf)


@every_link
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_as_on_the_cpu(name, dtype, reduction, weighted):
    link = LINKS[name]().to(dtype)
    weight = torch.linspace(0.0, 2.0, link.n_classes, dtype=dtype) if weighted else None
    loss = CanonicalLoss(link, weight=weight, reduction=reduction, ignore_index=-1)
    x, y = logits(link.n_classes, dtype=dtype)
    y[::7] = -1
    expected = value_and_gradient(loss, x, y)
    loss.cuda()
    for of in (loss._fused_loss, loss._loss_of_logits, loss):
        found = [t.cpu() for t in value_and_gradient(of, x.cuda(), y.cuda())]
        torch.testing.assert_close(found, [*expected], **TOLERANCES[dtype])


@pytest.mark.parametrize("c", [5000, 20_000])
def test_many_classes(c):
    loss = CanonicalLoss(make_link("canonical", c, dtype=torch.float32), reduction="sum")
    x, y = normal(20, c, key="x", dtype=torch.float32), torch.arange(20)
    expected = value_and_gradient(loss, x, y)
    found = value_and_gradient(loss.cuda(), x.cuda(), y.cuda())
    torch.testing.assert_close([t.cpu() for t in found], [*expected], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("name", ["canonical", "composite_of_two", "noisy", "table"])
def test_nothing_waits(name):
    loss = CanonicalLoss(LINKS[name]().float()).cuda()
    x, y = (t.cuda() for t in logits(loss.n_classes, dtype=torch.float32))
    x.requires_grad_()
    for criterion in (loss, LogLoss()):
        criterion(x, y).backward()
        try:
            torch.cuda.set_sync_debug_mode("error")
            criterion(x, y).backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", ["canonical", "composite_of_two"])
def test_captured_as_a_cuda_graph(name):
    loss = CanonicalLoss(LINKS[name]().float()).cuda()
    x, y = (t.cuda() for t in logits(loss.n_classes, dtype=torch.float32))
    leaf = torch.zeros_like(x).requires_grad_()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        loss(leaf, y).backward()
    torch.cuda.current_stream().wait_stream(side)
    leaf.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value = loss(leaf, y)
        value.backward()
    with torch.no_grad():
        leaf.copy_(x)
    graph.replay()
    torch.testing.assert_close((value, leaf.grad), value_and_gradient(loss, x, y))


@pytest.mark.parametrize("name", ["canonical", "composite_of_two"])
def test_wrong_labels_masked_classes_and_second_derivatives(name):
    loss = CanonicalLoss(LINKS[name](), reduction="none").cuda()
    c = loss.n_classes
    x, y = (t.cuda() for t in logits(c, 6))
    bad = y.clone()
    bad[2] = c
    value = loss(x, bad)
    assert value.isnan().tolist() == [False, False, True, False, False, False]
    x.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: loss(x, y), x)
    if name == "canonical":
        masked = x.detach().clone()
        masked[:, 3] = -torch.inf
        assert loss(masked, y).isfinite().tolist() == (y != 3).tolist()
