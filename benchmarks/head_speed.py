"""Time of a network's training step with a LegendreHead, beside a linear layer with log-softmax in the same run.

    python benchmarks/head_speed.py --device cuda --out docs/results/head_speed.json
    OMP_NUM_THREADS=1 python benchmarks/head_speed.py --device cpu --out docs/results/head_speed_cpu.json

A step is everything: forward, log-loss, backward, Adam (torch's fused one). On CUDA, batches of 256: VGG-5 on 28 x 28 images,
ten classes; and the last layer alone, 1000 classes on 2048 features, as behind a ResNet-50, the features' gradient included.
Each as a plain loop, where the processor's time to launch kernels counts as well; captured as a CUDA graph, which is the
time of the GPU alone; and compiled, where torch.compile makes kernels of its own.

On the CPU, one thread, batches of 64: the last layer alone, of the shape of letter (26 classes, 16 features) and of aloi
(1000 classes, 128 features), with the plain implementation of ``naive.py`` beside it, which is in float64.

Numbers that a layer saves for its backward pass are counted as well, without its parameters.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import nll_loss

from harness import Benchmark, show, take_turns
from legendretron.nn import LegendreHead
from legendretron.paper.vgg.network import VGG5, VGGTron
from naive import naive_step

BATCHES = {"cuda": 256, "cpu": 64}
PLAIN, NAIVE = "linear, log-softmax", "naive"
LINKS = {
    "composite, ficnn": {"link": "composite"},
    "composite, hidden=8": {"link": "composite", "hidden": 8},
    "composite, cpflow": {"link": "composite", "network": "cpflow"},
    "canonical": {"link": "canonical"},
}


def last_layer(features: int, n_classes: int) -> tuple[Any, ...]:
    """A plain layer, a head, the shape of a row, and the classes."""
    return (
        lambda: nn.Sequential(nn.Linear(features, n_classes), nn.LogSoftmax(dim=-1)),
        lambda settings: LegendreHead(features, n_classes, **settings),
        (features,),
        n_classes,
    )


NETWORKS: dict[str, dict[str, tuple[Any, ...]]] = {
    "cuda": {"vgg5": (VGG5, lambda settings: VGGTron(**settings), (1, 28, 28), 10), "head": last_layer(2048, 1000)},
    "cpu": {"letter": last_layer(16, 26), "aloi": last_layer(128, 1000)},
}
MODES = {"cuda": "eager,graph,compiled", "cpu": "eager"}


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


def compare(network: str, mode: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Steps of one network with each of the last layers."""
    device = options.device
    plain, headed, shape, n_classes = NETWORKS[device][network]
    torch.compiler.reset()
    links = LINKS if mode != "compiled" else {"composite, ficnn": LINKS["composite, ficnn"]}
    models = {PLAIN: plain(), **{name: headed(settings) for name, settings in links.items()}}
    contestants = {name: training_step(model, shape, n_classes, device, mode) for name, model in models.items()}
    saved = {}
    if mode == "eager" and len(shape) == 1:
        x = torch.randn(BATCHES[device], *shape, device=device)
        saved = {name: saved_numbers(model, x) for name, model in models.items()}
    if device == "cpu":
        contestants[NAIVE] = naive_step(*shape, n_classes, BATCHES[device])
    found = take_turns(contestants, options.rounds, options.seconds, device)
    rows = []
    for name, times in found.items():
        row: dict[str, Any] = {"network": network, "mode": mode, "last layer": name, **times.columns()}
        row["to plain"] = round(times.median / found[PLAIN].median, 3)
        if NAIVE in found:
            row["of naive"] = round(found[NAIVE].median / times.median, 3)
        if name in saved:
            row["saved to plain"] = round(saved[name] / saved[PLAIN], 3)
        rows.append(show(row))
    return rows


def main() -> None:
    benchmark = Benchmark(__doc__, rounds=11, seconds=0.15, cuda=True)
    benchmark.add_argument("--modes", help="by default eager on the CPU, eager,graph,compiled on CUDA")
    benchmark.add_argument("--networks", help="by default letter,aloi on the CPU, vgg5,head on CUDA")
    options = benchmark.start()
    networks = options.networks.split(",") if options.networks else NETWORKS[options.device]
    modes = (options.modes or MODES[options.device]).split(",")
    rows = [row for network in networks for mode in modes for row in compare(network, mode, options)]
    precision = "float32, torch's defaults: TF32 in convolutions, not in matrix products"
    benchmark.write(batch=BATCHES[options.device], precision=precision, rows=rows)


if __name__ == "__main__":
    main()
