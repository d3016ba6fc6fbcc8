"""The paper's table of VGG against VGGTron: the same network, recipe and seeds, with and without a learned loss."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from legendretron.datasets import ImageSet, load_images
from legendretron.diagnostics import expected_calibration_error
from legendretron.experiments.experiment import Batch, Experiment, Outcome, Record, Resources
from legendretron.experiments.rendering import (
    as_text,
    described,
    draw_dots,
    markdown_table,
    report_of,
)
from legendretron.experiments.results import Mean, Results, add_holm, verdict
from legendretron.experiments.store import round_difference
from legendretron.paper.data import facts_of, find_data
from legendretron.paper.published import published
from legendretron.paper.vgg_network import VGG5, VGGTron, log_probabilities, train_network

#: The network that others are compared with.
PLAIN = "VGG"
LEVEL = 0.01
MEASURES = ("accuracy", "log_loss", "calibration_error", "training_seconds")


def comparison(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row for each data set and network: means, the paper's accuracy, differences to VGG of the same seeds, and tests.

    ``paired`` takes runs of the same seed together, which start from the same convolutions; ``welch`` takes all runs as
    independent. Holm's correction is over all rows of the table.
    """
    paper = {(dataset, model): found.value for (dataset, _, model), found in published("vgg").items()}
    results = Results(records, "dataset", "model")
    rows: list[dict[str, Any]] = []
    for (dataset, model), own in results.cells.items():
        data = results.facts(dataset)
        row: dict[str, Any] = {"dataset": dataset, **{name: data[name] for name in ("label", "source", "rows")}}
        row |= {"model": model, "seeds": len(own)}
        row |= {name: results.mean((dataset, model), name) for name in MEASURES}
        row |= {"paper": paper.get((dataset, model)), "paired": float("nan"), "welch": float("nan")}
        if model != PLAIN and results.records(dataset, PLAIN):
            found = {name: results.compare((dataset, model), (dataset, PLAIN), name) for name in MEASURES}
            for name, compared in found.items():
                if compared is not None:
                    row[f"{name} minus VGG"] = compared.difference
            if (accuracy := found["accuracy"]) is not None:
                row |= {"paired": accuracy.p, "welch": accuracy.welch}
            if row["paper"] is not None:
                row["paper minus VGG"] = round_difference(row["paper"] - paper[dataset, PLAIN])
        rows.append(row)
    for test in ("paired", "welch"):
        add_holm(rows, [test])
    return rows


def _verdict(row: dict[str, Any], test: str) -> str:
    gap = row.get("accuracy minus VGG")
    return verdict(gap.value if gap else float("nan"), row[test], row[f"{test}, Holm"], level=LEVEL)


def _line(row: dict[str, Any]) -> list[str]:
    complete = row["source"] == "complete"
    theirs = "" if row["paper"] is None else f"{row['paper']:.2f}"
    off = "" if row["paper"] is None else (f"{row['accuracy'].value - row['paper']:+.2f}" if complete else "subset")
    return [
        row["label"],
        row["model"],
        as_text(row["accuracy"]),
        theirs,
        off,
        as_text(row.get("accuracy minus VGG"), 3, "+"),
        f"{row['paper minus VGG']:+.2f}" if "paper minus VGG" in row else "",
        _verdict(row, "paired"),
        _verdict(row, "welch"),
        as_text(row["log_loss"], 4),
        as_text(row["calibration_error"], 4),
        as_text(row["training_seconds"], 1),
    ]


def markdown(rows: list[dict[str, Any]], records: Sequence[Record]) -> list[str]:
    """The table in Markdown, with an explanation of the columns."""
    head = [
        "data set", "network", "ours", "paper", "Δ", "ours - VGG", "paper - VGG", "paired", "Welch", "log-loss",
        "expected calibration error", "seconds",
    ]  # fmt: skip
    settings = records[0]["settings"]
    tested = [row for row in rows if not np.isnan(row["paired"])]
    said = [_verdict(row, "paired") for row in tested]
    parts = [
        "# VGG with and without a learned loss",
        f"Test accuracy in %, mean ± standard error over seeds; {settings['epochs']} epochs of {settings['optimiser']} on "
        f"batches of {settings['batch']}, no augmentation, the last weights. The paper gives one number a cell, without "
        "error, and neither layout nor recipe of its network. Δ is ours minus the paper's in points. Ours - VGG is the mean "
        "difference to VGG of the same seed, which starts from the same convolutions; better or worse at 99 % in a paired "
        "and in Welch's t-test, in brackets where it does not survive Holm's correction over the table, = for no "
        "difference. Log-loss and expected calibration error are on the test images; seconds are those of training.",
        markdown_table(head, [_line(row) for row in rows]),
    ]
    if tested:
        parts.append(
            "The paper says that a learned loss can improve the network. By the paired test with Holm's correction, it is "
            f"better than VGG in {said.count('better')} and worse in {said.count('worse')} of {len(tested)} comparisons."
        )
    return [*parts, described(records)]


def picture(rows: list[dict[str, Any]], path: Path) -> Path:
    """Mean accuracies and, of complete data sets, the paper's; a panel for every data set."""
    dots: dict[str, dict[str, dict[str, Mean]]] = {}
    for row in rows:
        panel = dots.setdefault(row["label"], {"ours": {}})
        panel["ours"][row["model"]] = row["accuracy"]
        if row["paper"] is not None and row["source"] == "complete":  # a part of the images is another problem
            panel.setdefault("paper", {})[row["model"]] = Mean(row["paper"], math.nan, 1)
    return draw_dots(dots, path, "test accuracy (%)")


#: The final weights are tested: nothing is chosen on test data.
RECIPE = {
    "epochs": 20,
    "batch": 256,
    "optimiser": "AdamW",
    "rate": 1e-3,
    "schedule": "cosine",
    "weight_decay": 0.01,
    "precision": "float32, TF32 in convolutions where there is",
    # as records have it
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
    """A new network. The convolutions are initialized first, so all networks of a seed start with the same ones."""
    torch.manual_seed(seed)
    kind = {"VGG5": VGG5, "VGGTron": VGGTron}[settings["network"]]
    return kind(**settings["options"])


def centered_images(images: ImageSet, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels to train on, and to test on, with pixels centered and scaled; test labels stay on the CPU."""
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
    x, y, x_test, y_test = centered_images(images, resources.device)
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
    report=report_of("table_vgg", comparison, markdown, picture),
    seeds=5,
    find_data=find_data,
)
