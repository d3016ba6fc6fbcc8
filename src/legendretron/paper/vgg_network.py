"""The small convolutional network of the paper's table, with and without a learned loss, and its training on images."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from legendretron.nn import parameter_groups
from legendretron.nn.head import LegendreHead
from legendretron.training.step import capture_graph


class VGG5(nn.Module):
    r"""A VGG with five weight layers: four 3 x 3 convolutions in two stages, then a linear layer.

    ========  ==============================================================
    stage     layers
    ========  ==============================================================
    1         conv 64, batch norm, ReLU, conv 64, batch norm, ReLU, max-pool 2
    2         conv 128, batch norm, ReLU, conv 128, batch norm, ReLU, max-pool 2
    head      flatten, dropout, linear (and log-softmax)
    ========  ==============================================================

    The paper names a VGG-5 without its layout; the widths and the positions of dropout are ours. ``forward`` returns
    log-probabilities, for ``torch.nn.NLLLoss``, as that of :class:`VGGTron` does.
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.features = nn.Sequential(*_stage(1, width), *_stage(width, 2 * width), nn.Flatten(), nn.Dropout(0.5))
        self.head = self._make_head(2 * width * 7 * 7)

    def _make_head(self, n_features: int) -> nn.Module:
        return nn.Sequential(nn.Linear(n_features, 10), nn.LogSoftmax(dim=-1))

    def forward(self, images: Tensor) -> Tensor:
        """Log-probabilities of ten classes: ``(n, 1, 28, 28) -> (n, 10)``."""
        return self.head(self.features(images))


class VGGTron(VGG5):
    """:class:`VGG5` with a :class:`~legendretron.nn.LegendreHead`, which has these options, for its last layer."""

    def __init__(self, width: int = 64, **head: Any) -> None:
        self._head_options = head  # before the base builds the head
        super().__init__(width)

    def _make_head(self, n_features: int) -> nn.Module:
        return LegendreHead(n_features, 10, **self._head_options)


def _stage(channels: int, width: int) -> list[nn.Module]:
    """Two convolutions and a max-pool."""
    layers: list[nn.Module] = []
    for inputs in (channels, width):
        layers += [nn.Conv2d(inputs, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return [*layers, nn.MaxPool2d(2), nn.Dropout(0.25)]


#: Training loss of a network, from its log-probabilities and labels.
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


class _Trainer:
    """Steps of AdamW on batches that are copied into one buffer."""

    def __init__(
        self, network: nn.Module, images: Tensor, labels: Tensor, settings: Mapping[str, Any], loss: Loss
    ) -> None:
        device = images.device
        self.network, self.loss = network.to(device).train(), loss
        self.images, self.labels = (
            images.new_zeros(settings["batch"], *images.shape[1:]),
            labels.new_zeros(settings["batch"]),
        )
        captured = device.type == "cuda"
        groups = parameter_groups(network, network={"weight_decay": settings["weight_decay"]})
        self.rates = [settings.get(f"{group['name']}_rate", settings["rate"]) for group in groups]
        for group, rate in zip(groups, self.rates, strict=True):
            # a graph reads tensors, which the schedule writes into
            group["lr"] = torch.tensor(rate, device=device) if captured else rate
        self.optimizer = torch.optim.AdamW(groups, capturable=captured)
        self.graph = None
        if captured:
            start = {name: value.clone() for name, value in self.network.state_dict().items()}
            self.graph = capture_graph(self._step, device)
            # undo the warm-up steps
            self.network.load_state_dict(start)
            for state in self.optimizer.state.values():
                for value in state.values():
                    value.zero_()

    def _step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.network, self.network(self.images), self.labels).backward()
        self.optimizer.step()

    def step(self, images: Tensor, labels: Tensor, decay: float) -> None:
        self.images.copy_(images)
        self.labels.copy_(labels)
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            if self.graph is None:
                group["lr"] = rate * decay
            else:
                group["lr"].fill_(rate * decay)
        if self.graph is None:
            self._step()
        else:
            self.graph.replay()


def train_network(
    network: nn.Module,
    images: Tensor,
    labels: Tensor,
    settings: Mapping[str, Any],
    seed: int,
    *,
    loss: Loss = lambda network, log_p, labels: nll_loss(log_p, labels),
    on_epoch: Callable[[], None] = lambda: None,
) -> float:
    """Train a network in place, and return the seconds it took."""
    batch, epochs = settings["batch"], settings["epochs"]
    steps = len(images) // batch
    if steps == 0:
        raise ValueError(f"batch must be at most the number of training images, {len(images)}, got {batch}.")
    trainer = _Trainer(network, images, labels, settings, loss)
    torch.manual_seed(seed)  # dropout
    order = torch.Generator().manual_seed(seed)
    began = time.perf_counter()
    for epoch in range(epochs):
        shuffled = torch.randperm(len(images), generator=order).to(images.device)
        for step in range(steps):
            rows = shuffled[step * batch : (step + 1) * batch]
            done = (epoch * steps + step) / (epochs * steps)
            trainer.step(images[rows], labels[rows], 0.5 * (1.0 + math.cos(math.pi * done)))
        on_epoch()
    if images.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


@torch.no_grad()
def log_probabilities(network: nn.Module, images: Tensor) -> Tensor:
    """Log-probabilities by a trained network, in double precision on the CPU."""
    network.eval()
    return torch.cat([network(part) for part in images.split(1000)]).double().cpu()
