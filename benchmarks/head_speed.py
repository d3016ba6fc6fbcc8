"""Time of a network's training step with a LegendreHead, beside a linear layer with log-softmax in the same run.

    python benchmarks/head_speed.py --device cuda --out docs/results/head_speed.json
    OMP_NUM_THREADS=1 python benchmarks/head_speed.py --device cpu --out docs/results/head_speed_cpu.json

A step is everything: forward, log-loss, backward, Adam (torch's fused one). Medians of rounds in which contestants take
turns, with quartiles. On CUDA, batches of 256:

- VGG-5 on 28 x 28 images, ten classes;
- the last layer alone, 1000 classes on 2048 features, as behind a ResNet-50, the features' gradient included;
- with ``--networks resnet50`` a whole ResNet-50 on 224 x 224 images.

Each as a plain loop, where the processor's time to launch kernels counts as well; captured as a CUDA graph, which is the
time of the GPU alone; and compiled, where torch.compile makes kernels of its own.

On the CPU, one thread, batches of 64: the last layer alone, of the shape of letter (26 classes, 16 features) and of aloi
(1000 classes, 128 features), with the plain implementation of ``naive.py`` beside it, which is in float64.

Numbers that a layer saves for its backward pass are counted as well, without its parameters.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import nll_loss

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.nn import LegendreHead
from legendretron.paper.vgg.network import VGG5, VGGTron
from naive import naive_step
from timing import median_times

BATCHES = {"cuda": 256, "cpu": 64}
PLAIN, NAIVE = "linear, log-softmax", "naive"
LINKS = {
    "composite, ficnn": {"link": "composite"},
    "composite, hidden=8": {"link": "composite", "hidden": 8},
    "composite, cpflow": {"link": "composite", "network": "cpflow"},
    "canonical": {"link": "canonical"},
}


class Bottleneck(nn.Module):
    """A residual block of ResNet-50: 1 x 1, 3 x 3, 1 x 1 convolutions around a sum."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        same = channels == 4 * width and stride == 1
        self.side = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.side(x))


def resnet50() -> nn.Sequential:
    """Up to its 2048 features."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    channels = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, 2 if stage and not block else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Plain(nn.Sequential):
    """What a LegendreHead replaces."""

    def __init__(self, in_features: int, n_classes: int) -> None:
        super().__init__(nn.Linear(in_features, n_classes), nn.LogSoftmax(dim=-1))


def saved_numbers(model: nn.Module, x: torch.Tensor) -> int:
    """How many numbers a forward pass keeps for the backward pass, parameters not counted."""
    own = {parameter.data_ptr() for parameter in model.parameters()}
    sizes: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in own:
            sizes[tensor.data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return sum(sizes.values())


def training_step(
    model: nn.Module, shape: tuple[int, ...], n_classes: int, device: str, mode: str
) -> Callable[[], None]:
    """A step as a function to call; on CUDA the input requires a gradient if it stands for features of a network."""
    model = model.to(device).train()
    batch = BATCHES[device]
    x = torch.randn(batch, *shape, device=device, requires_grad=len(shape) == 1 and device == "cuda")
    y = torch.randint(n_classes, (batch,), device=device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=mode == "graph")
    forward = torch.compile(model, fullgraph=True) if mode == "compiled" else model

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        x.grad = None
        nll_loss(forward(x), y).backward()
        optimiser.step()

    if mode != "graph":
        for _ in range(3):
            step()
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(keep: object = step) -> None:  # what the graph reads must not be freed
        graph.replay()

    return replay


def last_layer(features: int, n_classes: int) -> tuple[Any, ...]:
    """What :func:`compare` takes, for the last layer alone."""
    return (
        lambda: Plain(features, n_classes),
        lambda settings: LegendreHead(features, n_classes, **settings),
        (features,),
        n_classes,
    )


NETWORKS: dict[str, tuple[Any, ...]] = {
    "vgg5": (VGG5, lambda settings: VGGTron(**settings), (1, 28, 28), 10),
    "head": last_layer(2048, 1000),
    "resnet50": (
        lambda: nn.Sequential(resnet50(), Plain(2048, 1000)),
        lambda settings: nn.Sequential(resnet50(), LegendreHead(2048, 1000, **settings)),
        (3, 224, 224),
        1000,
    ),
    "letter": last_layer(16, 26),
    "aloi": last_layer(128, 1000),
}


def compare(network: str, mode: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Steps of one network with each of the last layers."""
    plain, headed, shape, n_classes = NETWORKS[network]
    device = options.device
    torch.compiler.reset()
    models = {PLAIN: plain()}
    for name, settings in LINKS.items():
        if (network != "resnet50" and mode != "compiled") or name == "composite, ficnn":
            models[name] = headed(settings)
    contestants = {name: training_step(model, shape, n_classes, device, mode) for name, model in models.items()}
    saved = {}
    if mode == "eager" and len(shape) == 1:
        x = torch.randn(BATCHES[device], *shape, device=device)
        saved = {name: saved_numbers(model, x) for name, model in models.items()}
    if device == "cpu" and mode == "eager":
        contestants[NAIVE] = naive_step(*shape, n_classes, BATCHES[device])
    rows = []
    found = median_times(contestants, options.rounds, options.seconds, device)
    for name, times in found.items():
        row: dict[str, Any] = {"network": network, "mode": mode, "last layer": name}
        row |= {key: round(value, 4) for key, value in zip(("ms", "lower", "upper"), times, strict=True)}
        row["to plain"] = round(times.median / found[PLAIN].median, 3)
        if NAIVE in found:
            row["of naive"] = round(found[NAIVE].median / times.median, 3)
        if name in saved:
            row["saved to plain"] = round(saved[name] / saved[PLAIN], 3)
        rows.append(row)
        print(
            f"{network:9} {mode:9} {name:20} {times.median:9.4f} ms a step ({times.lower:.4f} to {times.upper:.4f})",
            *(f"{key} {row[key]:.2f}" for key in ("to plain", "of naive", "saved to plain") if key in row),
            sep="  ",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--device", default="cpu", choices=tuple(BATCHES))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.15, help="of each contestant in each round")
    parser.add_argument("--modes", help="by default eager on the CPU, eager,graph,compiled on CUDA")
    parser.add_argument("--networks", help="by default letter,aloi on the CPU, vgg5,head on CUDA")
    options = parser.parse_args()
    cuda = options.device == "cuda"
    options.modes = options.modes or ("eager,graph,compiled" if cuda else "eager")
    options.networks = options.networks or ("vgg5,head" if cuda else "letter,aloi")
    torch.manual_seed(0)
    rows = []
    for network in options.networks.split(","):
        for mode in options.modes.split(","):
            if network == "resnet50" and mode == "compiled":
                continue  # minutes to compile, and the head is a thousandth of it
            rows += compare(network, mode, options)
    if options.out:
        record = {
            "command": f"python benchmarks/head_speed.py --device {options.device} --modes {options.modes} --networks "
            f"{options.networks} --rounds {options.rounds} --seconds {options.seconds}",
            "batch": BATCHES[options.device],
            "threads": torch.get_num_threads(),
            "seed": 0,
            "precision": "float32, torch's defaults: TF32 in convolutions, not in matrix products",
            "rows": rows,
            **provenance(options.device),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
