"""Heads on a CUDA device: starts in memory without values, masked classes, and losses that do not wait."""

import pytest
import torch

from legendretron.nn import LegendreHead, LegendreLink

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
PROTOTYPE = pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
every_link = pytest.mark.parametrize("link", ["softmax", "canonical", "composite"])


@every_link
@pytest.mark.parametrize("label_noise", [None, "learn"])
def test_reset_after_meta(link, label_noise):
    with torch.device("meta"):
        head = LegendreHead(6, 5, link=link, label_noise=label_noise)
    head.to_empty(device="cuda").reset_parameters()
    x, y = torch.randn(40, 6, device="cuda"), torch.arange(40, device="cuda") % 5
    loss = head.loss(x, y)
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() and p.detach().abs().max() < 100 for p in head.parameters())


@pytest.mark.parametrize("link", ["softmax", "canonical"])
def test_masked_classes(link):
    torch.manual_seed(0)
    module = LegendreLink(4, link)
    logits = torch.tensor([[1.0, 2.0, 3.0, -1e9], [1.0, -torch.inf, 0.0, 2.0]])
    torch.testing.assert_close(module.cuda()(logits.cuda()).cpu(), module.cpu()(logits))


@PROTOTYPE
def test_a_composite_link_marks_masked_rows_without_waiting():
    module = LegendreLink(4, "composite").cuda()
    logits = torch.tensor([[1.0, 2.0, 3.0, -1e9], [1.0, 2.0, 3.0, 4.0]], device="cuda")
    module(logits)
    try:
        torch.cuda.set_sync_debug_mode("error")
        found = module(logits)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert found.isnan().all(-1).tolist() == [True, False]


@PROTOTYPE
@every_link
def test_the_loss_of_a_head_does_not_wait(link):
    head = LegendreHead(6, 5, link=link).cuda()
    x, y = torch.randn(40, 6, device="cuda"), torch.arange(40, device="cuda") % 5
    head.loss(x, y, label_smoothing=0.1).backward()
    try:
        torch.cuda.set_sync_debug_mode("error")
        head.loss(x, y, label_smoothing=0.1).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
