import pytest
import torch
from torch import nn

from legendretron.nn import LegendreHead
from legendretron.paper.vgg.network import VGG5, VGGTron


def test_five_weight_layers():
    for model in (VGG5(), VGGTron()):
        layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        assert [type(m).__name__ for m in layers] == ["Conv2d"] * 4 + ["Linear"]
    assert isinstance(VGGTron().head, LegendreHead)


def test_the_two_differ_in_the_head_alone():
    torch.manual_seed(0)
    vgg = VGG5()
    torch.manual_seed(0)
    tron = VGGTron()
    for a, b in zip(vgg.features.parameters(), tron.features.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("make", [VGG5, VGGTron])
def test_other_images(make):
    model = make(n_classes=3, in_channels=2, image_size=10, width=4, dropout=0.2)
    log_proba = model(torch.randn(5, 2, 10, 10))
    assert log_proba.shape == (5, 3)
    torch.testing.assert_close(log_proba.exp().sum(-1), torch.ones(5))
    nn.functional.nll_loss(log_proba, torch.arange(5) % 3).backward()


@pytest.mark.parametrize("shape", [(2, 28, 28), (2, 3, 28, 28), (2, 1, 32, 28), (2, 1, 28, 32)])
def test_wrong_images(shape):
    with pytest.raises(ValueError, match="images must have shape"):
        VGG5()(torch.zeros(shape))
