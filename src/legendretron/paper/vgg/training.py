"""Training of a small network on images; on CUDA a step is captured once and replayed."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from legendretron.nn import parameter_groups
from legendretron.training.cuda_graph import capture_graph

__all__ = ["log_probabilities", "train_network"]


class _Trainer:
    """Steps of AdamW on batches that are copied into one buffer."""

    def __init__(self, network: nn.Module, images: Tensor, labels: Tensor, settings: Mapping[str, Any]) -> None:
        device = images.device
        self.network = network.to(device).train()
        self.images, self.labels = (
            images.new_zeros(settings["batch"], *images.shape[1:]),
            labels.new_zeros(settings["batch"]),
        )
        self.rate = torch.tensor(settings["rate"], device=device)
        captured = device.type == "cuda"
        # both groups share one tensor for the rate, which the schedule writes into
        groups = parameter_groups(network, network={"weight_decay": settings["weight_decay"]})
        self.optimiser = torch.optim.AdamW(groups, lr=self.rate if captured else settings["rate"], capturable=captured)
        self.graph = None
        if captured:
            start = {name: value.clone() for name, value in self.network.state_dict().items()}
            self.graph = capture_graph(self._step, device)
            # undo the warm-up steps
            self.network.load_state_dict(start)
            for state in self.optimiser.state.values():
                for value in state.values():
                    value.zero_()

    def _step(self) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        nll_loss(self.network(self.images), self.labels).backward()
        self.optimiser.step()

    def step(self, images: Tensor, labels: Tensor, rate: float) -> None:
        self.images.copy_(images)
        self.labels.copy_(labels)
        if self.graph is not None:
            self.rate.fill_(rate)
            self.graph.replay()
            return
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self._step()


def train_network(network: nn.Module, images: Tensor, labels: Tensor, settings: Mapping[str, Any], seed: int) -> float:
    """Train a network in place, and return the seconds it took.

    Parameters
    ----------
    network : Module
        Gives log-probabilities; moved to the device of the images.
    images, labels : Tensor
        To train on.
    settings : mapping
        ``batch``, ``epochs``, ``rate`` and ``weight_decay`` of AdamW; the learning rate follows a cosine to zero. An epoch
        drops the last incomplete batch.
    seed : int
        Seed of dropout and of the order of images.
    """
    batch, epochs = settings["batch"], settings["epochs"]
    steps = len(images) // batch
    if steps == 0:
        raise ValueError(f"batch must be at most the number of training images, {len(images)}, got {batch}.")
    trainer = _Trainer(network, images, labels, settings)
    torch.manual_seed(seed)  # dropout
    order = torch.Generator().manual_seed(seed)
    began = time.perf_counter()
    for epoch in range(epochs):
        shuffled = torch.randperm(len(images), generator=order).to(images.device)
        for step in range(steps):
            rows = shuffled[step * batch : (step + 1) * batch]
            done = (epoch * steps + step) / (epochs * steps)
            trainer.step(images[rows], labels[rows], settings["rate"] * 0.5 * (1.0 + math.cos(math.pi * done)))
    if images.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


@torch.no_grad()
def log_probabilities(network: nn.Module, images: Tensor) -> Tensor:
    """Log-probabilities by a trained network, in double precision on the CPU."""
    network.eval()
    return torch.cat([network(part) for part in images.split(1000)]).double().cpu()
