"""The paper's table of VGG against VGGTron: the same network, recipe and seeds, with and without a learned loss.

    python benchmarks/paper_vgg.py --data DIR --paper table_vgg.csv --device cuda --out docs/results/paper_vgg.json

``DIR`` holds a folder for each set with its four gzipped idx files. Pixels are centred and scaled by the training part's
mean and deviation; no augmentation. AdamW, cosine schedule, the last weights are tested: no choice is made on test data.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import nll_loss

from legendretron.datasets import ImageSet, load_image_set
from legendretron.diagnostics import expected_calibration_error
from legendretron.files import write_atomically
from legendretron.nn import VGG5, VGGTron, parameter_groups
from legendretron.provenance import provenance

MODELS: dict[str, Callable[[], VGG5]] = {
    "VGG": VGG5,
    "VGGTron": VGGTron,
    "VGGTron, canonical": lambda: VGGTron(link="canonical"),
}
RECIPE = {"batch": 256, "rate": 1e-3, "weight_decay": 0.01, "schedule": "cosine", "optimiser": "AdamW"}
COLUMNS = {"mnist": "mnist_accuracy", "fashion-mnist": "fmnist_accuracy", "kmnist": "kmnist_accuracy"}


class Trainer:
    """Steps on batches copied into one place; on CUDA a step is captured once and replayed."""

    def __init__(self, model: nn.Module, device: str) -> None:
        self.model = model.to(device).train()
        self.x = torch.zeros(RECIPE["batch"], 1, 28, 28, device=device)
        self.y = torch.zeros(RECIPE["batch"], dtype=torch.int64, device=device)
        self.rate = torch.tensor(RECIPE["rate"], device=device)
        captured = device != "cpu"
        # both groups share one tensor for the rate, which the schedule writes into
        groups = parameter_groups(model, network={"weight_decay": RECIPE["weight_decay"]})
        self.optimiser = torch.optim.AdamW(groups, lr=self.rate if captured else RECIPE["rate"], capturable=captured)
        self.graph = self._capture() if captured else None

    def _step(self) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        nll_loss(self.model(self.x), self.y).backward()
        self.optimiser.step()

    def _capture(self) -> torch.cuda.CUDAGraph:
        start = {name: value.clone() for name, value in self.model.state_dict().items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        # as if the steps to warm up had not been
        self.model.load_state_dict(start)
        for state in self.optimiser.state.values():
            for value in state.values():
                value.zero_()
        return graph

    def step(self, x: torch.Tensor, y: torch.Tensor, rate: float) -> None:
        self.x.copy_(x)
        self.y.copy_(y)
        if self.graph is not None:
            self.rate.fill_(rate)
            self.graph.replay()
            return
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self._step()


def run(make: Callable[[], VGG5], images: ImageSet, seed: int, epochs: int, device: str) -> dict[str, float]:
    mean, std = images.train_images.mean(), images.train_images.std()

    def on_device(pixels: np.ndarray) -> torch.Tensor:
        return ((torch.as_tensor(pixels, device=device).float() - float(mean)) / float(std)).unsqueeze(1)

    x, y = on_device(images.train_images), torch.as_tensor(images.train_labels, device=device)
    torch.manual_seed(seed)  # the convolutions are drawn first, so both networks start from the same ones
    trainer = Trainer(make(), device)
    torch.manual_seed(seed)  # dropout
    order = torch.Generator().manual_seed(seed)
    batch = RECIPE["batch"]
    steps = len(x) // batch
    began = time.perf_counter()
    for epoch in range(epochs):
        shuffled = torch.randperm(len(x), generator=order).to(device)
        for step in range(steps):
            rows = shuffled[step * batch : (step + 1) * batch]
            done = (epoch * steps + step) / (epochs * steps)
            trainer.step(x[rows], y[rows], RECIPE["rate"] * 0.5 * (1.0 + math.cos(math.pi * done)))
    if device != "cpu":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    trainer.model.eval()
    test = on_device(images.test_images)
    with torch.no_grad():
        log_proba = torch.cat([trainer.model(part) for part in test.split(1000)]).double().cpu()
    labels = torch.as_tensor(images.test_labels)
    return {
        "accuracy": 100.0 * float((log_proba.argmax(-1) == labels).double().mean()),
        "log_loss": float(nll_loss(log_proba, labels)),
        "calibration_error": float(expected_calibration_error(labels.numpy(), log_proba.exp().numpy())),
        "seconds": seconds,
    }


def summary(rows: list[dict], dataset: str, paper: dict[str, dict[str, str]]) -> list[dict]:
    """Means with standard errors, and the mean difference to VGG of the same seed."""
    lines = []
    for model in MODELS:
        own = [row for row in rows if row["dataset"] == dataset and row["model"] == model]
        plain = [row for row in rows if row["dataset"] == dataset and row["model"] == "VGG"]
        line: dict[str, object] = {"dataset": dataset, "model": model, "seeds": len(own)}
        for name in ("accuracy", "log_loss", "calibration_error", "seconds"):
            values = np.array([row[name] for row in own])
            gaps = values - np.array([row[name] for row in plain])
            line[name] = round(float(values.mean()), 5)
            line[f"{name}_standard_error"] = round(float(values.std(ddof=1) / len(values) ** 0.5), 5)
            line[f"{name}_minus_vgg"] = round(float(gaps.mean()), 5)
            line[f"{name}_minus_vgg_standard_error"] = round(float(gaps.std(ddof=1) / len(gaps) ** 0.5), 5)
        line["paper_accuracy"] = float(paper[model][COLUMNS[dataset]]) if model in paper else None
        lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the sets' folders")
    parser.add_argument("--paper", type=Path, required=True, help="the paper's table as CSV")
    parser.add_argument("--datasets", default="mnist,fashion-mnist")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", type=int, help="use only so many training images, to try the script")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    paper = {row["method"]: row for row in csv.DictReader(options.paper.open())}
    torch.backends.cudnn.benchmark = True
    rows, lines = [], []
    for dataset in options.datasets.split(","):
        images = load_image_set(options.data / dataset)
        if options.rows:
            images = images._replace(
                train_images=images.train_images[: options.rows],
                train_labels=images.train_labels[: options.rows],
                complete=False,
            )
        for seed in range(options.seeds):
            for model, make in MODELS.items():
                row = {"dataset": dataset, "model": model, "seed": seed, "training_images": len(images.train_images)}
                row |= run(make, images, seed, options.epochs, options.device)
                rows.append(row)
                print(json.dumps(row), flush=True)
        lines += summary(rows, dataset, paper)
        for line in lines[-len(MODELS) :]:
            line["complete"] = images.complete
            print(json.dumps(line), flush=True)
        if options.out:  # after each set, so that a run that is cut short leaves what it has
            record = {
                "command": f"python benchmarks/paper_vgg.py --data DIR --paper table_vgg.csv --datasets {options.datasets}"
                f" --seeds {options.seeds} --epochs {options.epochs} --device {options.device}",
                "recipe": {**RECIPE, "epochs": options.epochs, "precision": "float32, TF32 in convolutions"},
                "rows": rows,
                "summary": lines,
                **provenance(options.device),
            }
            write_atomically(options.out, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
