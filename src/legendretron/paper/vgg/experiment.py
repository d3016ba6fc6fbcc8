"""The paper's table of VGG against VGGTron: the same network, recipe and seeds, with and without a learned loss."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from legendretron.datasets import ImageSet, load_images
from legendretron.diagnostics import expected_calibration_error
from legendretron.experiments.experiment import Batch, Experiment, Outcome, Resources
from legendretron.paper.data import facts_of, find_data
from legendretron.paper.vgg.network import VGG5, VGGTron
from legendretron.paper.vgg.report import report
from legendretron.paper.vgg.training import log_probabilities, train_network

#: The final weights are tested: nothing is chosen on test data.
RECIPE = {
    "epochs": 20,
    "batch": 256,
    "optimiser": "AdamW",
    "rate": 1e-3,
    "schedule": "cosine",
    "weight_decay": 0.01,
    "precision": "float32, TF32 in convolutions where there is",
    "pixels": "centred and scaled by mean and deviation of all training pixels; no augmentation",
}
#: Class and options of each network.
NETWORKS: dict[str, dict[str, Any]] = {
    "VGG": {"network": "VGG5", "options": {}},
    "VGGTron": {"network": "VGGTron", "options": {}},
    "VGGTron, canonical": {"network": "VGGTron", "options": {"link": "canonical"}},
}


def recipe(model: str, dataset: str) -> dict[str, Any]:
    """Settings of a network and its training."""
    return {**NETWORKS[model], **RECIPE}


def network_of(settings: Mapping[str, Any], seed: int) -> VGG5:
    """A new network. The convolutions are initialised first, so all networks of a seed start with the same ones."""
    torch.manual_seed(seed)
    kind = {"VGG5": VGG5, "VGGTron": VGGTron}[settings["network"]]
    return kind(**settings["options"])


def centred_images(images: ImageSet, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels to train on, and to test on, with pixels centred and scaled; test labels stay on the CPU."""
    mean, deviation = float(images.train_images.mean()), float(images.train_images.std())

    def on_device(pixels: np.ndarray) -> Tensor:
        return ((torch.as_tensor(pixels, device=device).float() - mean) / deviation).unsqueeze(1)

    x, x_test = on_device(images.train_images), on_device(images.test_images)
    return x, torch.as_tensor(images.train_labels, device=device), x_test, torch.as_tensor(images.test_labels)


@contextlib.contextmanager
def _fastest_convolutions() -> Iterator[None]:
    """Let cuDNN find the fastest algorithm, which pays off since all batches have the same shape."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def execute_networks(batch: Batch, resources: Resources) -> Outcome:
    """Train each run's network on all training images, and test it on all test images."""
    images = load_images(batch.dataset, resources.data)
    x, y, x_test, y_test = centred_images(images, resources.device)
    runs = []
    for run in batch.runs:
        network = network_of(batch.settings, run.seed)
        with _fastest_convolutions():
            seconds = train_network(network, x, y, batch.settings, run.seed)
            log_p = log_probabilities(network, x_test)
        log_loss = float(nll_loss(log_p, y_test))
        if not math.isfinite(log_loss):
            raise ArithmeticError(f"log-loss of {batch.model} on {batch.dataset} with seed {run.seed} is {log_loss}.")
        error = float(expected_calibration_error(y_test.numpy(), log_p.exp().numpy()))
        runs.append(
            {
                "accuracy": round(100.0 * float((log_p.argmax(-1) == y_test).double().mean()), 6),
                "log_loss": round(log_loss, 8),
                "calibration_error": round(error, 8),
                "training_seconds": round(seconds, 3),
            }
        )
    facts = facts_of(batch.dataset, images)
    counts = np.bincount(images.train_labels, minlength=facts["classes"]).tolist()
    return Outcome({**facts, "train_counts": counts, "fitted_on": resources.device}, runs)


TABLE_VGG = Experiment(
    name="table_vgg",
    title="Test accuracy of a small convolutional network with and without a learned loss",
    datasets=("mnist", "fashion-mnist", "kmnist"),
    models=tuple(NETWORKS),
    settings=recipe,
    execute=execute_networks,
    report=report,
    seeds=5,
    find_data=find_data,
)
