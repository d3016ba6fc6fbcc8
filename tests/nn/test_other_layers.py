"""Other layers in the place of a head's own, and other criteria after it."""

import platform

import numpy as np
import pytest
import torch
from tests import heads
from tests.heads import features, make_head
from torch import nn

from legendretron.nn import LegendreHead, parameter_groups

LINKS = {
    **{name: heads.LINKS[name] for name in ("softmax", "composite", "canonical")},
    "noise": {"label_noise": "learn"},
}


@pytest.fixture(params=list(LINKS))
def settings(request):
    return LINKS[request.param]


class LowRank(nn.Module):
    """A frozen layer and an update of low rank, as in adapters; without a weight of its own."""

    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, 2, bias=False)
        self.up = nn.Linear(2, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of torch.ao itself
def test_dynamic_quantization_keeps_the_link(settings, monkeypatch):
    # torch names an engine for other processors by default
    engine = "qnnpack" if platform.machine() in ("aarch64", "arm64") else torch.backends.quantized.engine
    if engine not in torch.backends.quantized.supported_engines or engine == "none":
        pytest.skip("torch cannot quantize on this processor")
    monkeypatch.setattr(torch.backends.quantized, "engine", engine)
    net = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), make_head(settings)).eval()
    small = torch.ao.quantization.quantize_dynamic(net, {nn.Linear})
    assert type(small[2].linear) is not nn.Linear
    x, y = features(50), torch.arange(50) % 5
    torch.testing.assert_close(small(x), small[2].link(small[2].linear(small[:2](x))))
    # eight bits are good for about two digits
    torch.testing.assert_close(small(x).exp(), net(x).exp(), atol=0.03, rtol=0)
    torch.testing.assert_close(small[2].loss(small[:2](x), y), net[2].loss(net[:2](x), y), atol=0.1, rtol=0)
    with pytest.raises(ValueError, match=r"features must have shape \(..., 6\), got \(7, 4\)"):
        small[2](torch.randn(7, 4))
    assert "LegendreHead" in repr(small)


def test_adapters_train_with_the_link(settings):
    head = make_head(settings)
    x, y = features(60), torch.arange(60) % 5
    before = head(x).detach()
    head.linear = LowRank(head.linear)
    torch.testing.assert_close(head(x), before)
    frozen = head.linear.base.weight.clone()
    optimizer = torch.optim.Adam(parameter_groups(head, link={"lr": 0.01}), lr=0.05)
    first = head.loss(x, y)
    for _ in range(20):
        optimizer.zero_grad()
        head.loss(x, y).backward()
        optimizer.step()
    assert head.loss(x, y) < first
    assert torch.equal(head.linear.base.weight, frozen)
    again = LegendreHead(6, 5, **settings)
    again.linear = LowRank(again.linear)
    again.load_state_dict(head.state_dict())
    torch.testing.assert_close(again(x), head(x))


def test_another_linear_layer(settings):
    head = make_head(settings)
    head.linear = nn.Linear(9, 4)
    x = features(d=9)
    torch.testing.assert_close(head.eval()(x), head.link(head.linear(x)))
    with pytest.raises(ValueError, match=r"features must have shape \(..., 9\), got \(7, 6\)"):
        head(features())
    with pytest.raises(ValueError, match=r"float64, but the head's weights are torch.float32"):
        head(x.double())
    head.linear = nn.Linear(6, 5)
    with pytest.raises(ValueError, match=r"n_classes - 1 = 4 predictors, got 5 from Linear.*put a LegendreLink"):
        head(features())
    head.linear = nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 4))
    torch.testing.assert_close(head(features()), head.link(head.linear(features())))


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_parameters_that_are_elsewhere_between_forward_passes(settings, place, tmp_path):
    """By hooks of modules that are called, which the parts of a link are not."""
    accelerate = pytest.importorskip("accelerate")
    net = nn.Sequential(nn.Linear(6, 6), make_head(settings))
    x, y = features(), torch.arange(7) % 5
    expected = net(x).detach(), net.eval()(x).detach(), net[1].loss(net[0](x), y).detach(), net[1].noise_rate
    to = {"execution_device": torch.device("cpu"), "offload_buffers": True}
    if place == "memory":
        accelerate.cpu_offload(net, **to)
    else:
        accelerate.disk_offload(net, tmp_path, **to)
    assert all(parameter.is_meta for parameter in net.parameters())
    torch.testing.assert_close(net.train()(x), expected[0])
    torch.testing.assert_close(net.eval()(x), expected[1])
    torch.testing.assert_close(net[1].loss(net[0](x), y), expected[2])
    assert net[1].noise_rate == pytest.approx(expected[3])
    torch.testing.assert_close(net[1].link(torch.zeros(2, 4)).exp().sum(-1), torch.ones(2))
    assert all(parameter.is_meta for parameter in net.parameters())
    with pytest.raises(ValueError, match=r"z must have shape \(\.\.\., 4\)"):
        net[1].link(torch.zeros(2, 3))
    assert all(parameter.is_meta for parameter in net.parameters())


def test_skorch_takes_a_head_for_a_network_with_logits():
    skorch = pytest.importorskip("skorch")
    x, y = features(60).numpy(), np.arange(60) % 5
    torch.manual_seed(0)
    net = skorch.NeuralNetClassifier(
        LegendreHead(6, 5), criterion=nn.CrossEntropyLoss, max_epochs=3, lr=0.1, train_split=None, verbose=0
    ).fit(x, y)
    p = net.predict_proba(x)
    expected = net.module_.eval()(torch.as_tensor(x)).exp().detach().numpy()
    np.testing.assert_allclose(p, expected, rtol=1e-5, atol=1e-6)
    assert net.history[-1, "train_loss"] < net.history[0, "train_loss"]
