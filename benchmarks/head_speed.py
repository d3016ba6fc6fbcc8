"""Time of a network's training step with a LegendreHead, beside a linear layer with log-softmax in the same run.

    python benchmarks/head_speed.py --device cuda --out docs/results/head_speed.json

A step is everything: forward, log-loss, backward, Adam (torch's fused one). Batches of 256, three networks:

- VGG-5 on 28 x 28 images, ten classes;
- the last layer alone, 1000 classes on 2048 features, as behind a ResNet-50, the features' gradient included;
- a whole ResNet-50 on 224 x 224 images.

Each as a plain loop, where the processor's time to launch kernels counts as well; captured as a CUDA graph, which is the
time of the GPU alone; and compiled, where torch.compile makes kernels of its own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import nll_loss

from legendretron._internal.files import write_atomically
from legendretron._internal.provenance import provenance
from legendretron.nn import LegendreHead
from legendretron.paper.vgg.network import VGG5, VGGTron
from timing import best_times

BATCH = 256
LINKS = {
    "composite, ficnn": {"link": "composite"},
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


def training_step(
    model: nn.Module, shape: tuple[int, ...], n_classes: int, device: str, mode: str
) -> Callable[[], None]:
    """A step as a function to call; the input requires a gradient if it stands for features of a network in front."""
    model = model.to(device).train()
    x = torch.randn(BATCH, *shape, device=device, requires_grad=len(shape) == 1)
    y = torch.randint(n_classes, (BATCH,), device=device)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each contestant in each round")
    parser.add_argument("--modes", default="eager,graph,compiled")
    parser.add_argument("--networks", default="vgg5,head,resnet50")
    options = parser.parse_args()
    torch.manual_seed(0)
    networks: dict[str, tuple[Callable[[], nn.Module], Callable[[dict], nn.Module], tuple[int, ...], int]] = {
        "vgg5": (VGG5, lambda settings: VGGTron(**settings), (1, 28, 28), 10),
        "head": (lambda: Plain(2048, 1000), lambda settings: LegendreHead(2048, 1000, **settings), (2048,), 1000),
        "resnet50": (
            lambda: nn.Sequential(resnet50(), Plain(2048, 1000)),
            lambda settings: nn.Sequential(resnet50(), LegendreHead(2048, 1000, **settings)),
            (3, 224, 224),
            1000,
        ),
    }
    modes = [mode for mode in options.modes.split(",") if options.device != "cpu" or mode != "graph"]
    rows = []
    for network in options.networks.split(","):
        plain, headed, shape, n_classes = networks[network]
        for mode in modes:
            if network == "resnet50" and mode == "compiled":
                continue  # minutes to compile, and the head is a thousandth of it
            torch.compiler.reset()
            contestants = {"linear, log-softmax": training_step(plain(), shape, n_classes, options.device, mode)}
            for name, settings in LINKS.items():
                if (network != "resnet50" and mode != "compiled") or name == "composite, ficnn":
                    contestants[name] = training_step(headed(settings), shape, n_classes, options.device, mode)
            best = best_times(contestants, options.rounds, options.seconds, options.device)
            base = best["linear, log-softmax"]
            for name, ms in best.items():
                extra = 100.0 * (ms / base - 1.0)
                rows.append({"network": network, "mode": mode, "last layer": name, "ms": round(ms, 4)})
                rows[-1]["extra_percent"] = round(extra, 2)
                print(f"{network:9} {mode:9} {name:20} {ms:9.4f} ms a step  {extra:+7.1f} %", flush=True)
            del contestants
    if options.out:
        record = {
            "command": f"python benchmarks/head_speed.py --device {options.device} --modes {options.modes} --networks "
            f"{options.networks} --rounds {options.rounds} --seconds {options.seconds}",
            "batch": BATCH,
            "precision": "float32, torch's defaults: TF32 in convolutions, not in matrix products",
            "rows": rows,
            **provenance(options.device),
        }
        write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
