"""Networks on images whose training labels are partly wrong, by what the last layer and the loss make of it.

    python benchmarks/noisy_networks.py --data DIR --device cuda --out docs/results/noisy_networks

The training labels of MNIST and Fashion-MNIST are made wrong: none of them; 20 % or 50 % of them, replaced by any other
class alike; or 30 % of them, replaced by the next class. Test labels are right. All methods of a seed start from the same
convolutions and see the same wrong labels and the same batches.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss, one_hot

import study
from label_noise import PAIRS, accuracy_curves
from legendretron.datasets import flip_labels, load_images, pair_transition, symmetric_transition
from legendretron.experiments import Batch, Outcome, Record, Resources
from legendretron.experiments.rendering import as_text, draw_curves, markdown_table
from legendretron.experiments.results import Results, mean_of
from legendretron.paper.data import facts_of, find_data
from legendretron.paper.vgg import centered_images
from legendretron.paper.vgg_network import VGG5, VGGTron, log_probabilities, train_network

C = 10
#: Names and transition matrices of the shares of wrong labels.
NOISES: dict[float, tuple[str, np.ndarray]] = {
    0.0: ("none", np.eye(C)),
    0.2: ("symmetric 20 %", symmetric_transition(C, 0.2)),
    0.5: ("symmetric 50 %", symmetric_transition(C, 0.5)),
    PAIRS: ("pair flips 30 %", pair_transition(C, PAIRS)),
}
#: Options of the head, None for a plain layer; and the loss.
METHODS: dict[str, dict[str, Any]] = {
    "cross-entropy": {"head": None},
    "generalised cross-entropy": {"head": None, "loss": "generalised"},
    "forward correction, known noise": {"head": {"link": "softmax", "label_noise": "known"}},
    "softmax, learned rate": {"head": {"link": "softmax", "label_noise": "learn"}},
    "LegendreHead": {"head": {}},
    "LegendreHead, learned rate": {"head": {"label_noise": "learn"}},
    "LegendreHead, learned matrix": {"head": {"label_noise": "class-conditional"}},
}
LEARNED = [method for method in METHODS if "learned" in method]
SETTINGS = {
    "width": 32,
    "epochs": 15,
    "batch": 512,
    "optimiser": "AdamW",
    "rate": 1e-3,
    "noise_rate": 3e-2,  # learning rate of what is learned of wrong labels
    "schedule": "cosine",
    "weight_decay": 0.01,
    "generalised_q": 0.7,
    "precision": "bfloat16 by autocast on CUDA, float32 elsewhere; links in float32",
}


class MixedPrecision(nn.Module):
    """A network in bfloat16 on CUDA."""

    def __init__(self, network: VGG5) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        # without its cache, which a captured graph could not use again
        with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda, cache_enabled=False):
            return self.network(images).float()


def network_of(head: dict[str, Any] | None, noise: float, width: int, seed: int) -> VGG5:
    """A new network; its convolutions are initialized first, so that all methods of a seed start from the same ones."""
    torch.manual_seed(seed)
    if head is None:
        return VGG5(width=width)
    if head.get("label_noise") == "known":
        head = head | {"label_noise": NOISES[noise][1] if noise == PAIRS else noise}
    return VGGTron(width=width, **head)


def generalised_loss(q: float) -> Any:
    """(1 - p_y^q) / q, for :func:`train_network`."""
    return lambda network, log_p, y: (-torch.expm1(q * log_p.gather(1, y[:, None])) / q).mean()


def train(
    x: Tensor, true: np.ndarray, settings: dict[str, Any], noise: float, seed: int
) -> tuple[VGG5, dict[str, Any]]:
    """Train on labels of which some are wrong; the network, and what it has learned of them."""
    matrix = NOISES[noise][1]
    seen = flip_labels(true, matrix, random_state=seed)
    network = network_of(settings["head"], noise, settings["width"], seed)
    rates: list[float] = []  # before training, and after every epoch

    def keep_rate() -> None:
        if getattr(network.head, "noise", None) is not None:
            rates.append(network.head.noise_rate)

    keep_rate()
    options = {"loss": generalised_loss(settings["generalised_q"])} if settings.get("loss") == "generalised" else {}
    labels = torch.as_tensor(seen, device=x.device)
    train_network(MixedPrecision(network), x, labels, settings, seed, on_epoch=keep_rate, **options)
    found: dict[str, Any] = {"wrong_share": float((seen != true).mean())}
    if rates:
        off = network.head.noise_matrix.cpu().double() - torch.as_tensor(matrix)
        # mean over true classes of the total variation distance
        found |= {"rates": rates, "matrix_error": float(off.abs().sum(1).mean() / 2.0)}
    return network, found


def execute(batch: Batch, resources: Resources) -> Outcome:
    images = load_images(batch.dataset, resources.data)
    x, y, x_test, y_test = centered_images(images, resources.device)
    runs = []
    for run in batch.runs:
        network, found = train(x, y.cpu().numpy(), dict(batch.settings), run.noise, run.seed)
        log_p = log_probabilities(network, x_test)
        log_loss = float(nll_loss(log_p, y_test))
        if not math.isfinite(log_loss):
            raise ArithmeticError(f"log-loss of {batch.model} with {run.noise:g} wrong labels is {log_loss}.")
        accuracy = 100.0 * float((log_p.argmax(-1) == y_test).double().mean())
        brier = float((log_p.exp() - one_hot(y_test, C)).square().sum(-1).mean())
        runs.append({**found, "accuracy": accuracy, "log_loss": log_loss, "brier": brier})
    return Outcome(facts_of(batch.dataset, images), runs)


# --- the report ---


def _last_rate(results: Results, cell: tuple[Any, ...]) -> str:
    rates = [rates[-1] for rates in results.values(cell, "rates").values()]
    return as_text(mean_of(rates), 3) if rates else ""


def _scores_table(results: Results) -> str:
    """One row for each data set, noise and method; the best log-loss of each noise, known noise aside, is in bold."""
    lines = []
    for dataset, noise, method in results.cells:
        cell = (dataset, noise, method)
        rivals = [c for c in results.cells if c[:2] == cell[:2] and "known" not in c[2]]
        best = min(rivals, key=lambda rival: results.mean(rival, "log_loss").value, default=None)
        loss = as_text(results.mean(cell, "log_loss"), 4)
        learned = [_last_rate(results, cell), as_text(results.mean(cell, "matrix_error"), 3)]
        lines.append([
            results.facts(dataset)["label"], NOISES[noise][0], method, as_text(results.mean(cell, "accuracy")),
            f"**{loss}**" if cell == best else loss, as_text(results.mean(cell, "brier"), 4),
            *(learned if method in LEARNED else ["", ""]),
        ])  # fmt: skip
    scores = ["accuracy", "log-loss", "Brier score", "share of wrong labels", "matrix"]
    return markdown_table(["data set", "wrong labels", "method", *scores], lines)


def draw_accuracy(results: Results, path: Path) -> Path:
    """Accuracy against the share of wrong labels where they are symmetric, and beside it with pair flips."""
    found = accuracy_curves(results, {noise: 100 * noise for noise in NOISES if noise != PAIRS}, 75.0)
    curves = {results.facts(dataset)["label"]: panel for dataset, panel in found.items()}
    ticks = {0.0: "0 %", 20.0: "20 %", 50.0: "50 %", 75.0: "pair flips 30 %"}
    # bars of a method that sometimes fails are longer than the axis
    return draw_curves(curves, path, ("wrong labels in training", "test accuracy (%)"), ticks, ylim=(84.0, 100.3))


def draw_rates(results: Results, path: Path) -> Path:
    """Share of wrong labels that was learned, over the epochs, a panel for each data set and noise."""
    curves, most = {}, 1
    for dataset, noise, method in results.cells:
        rates = list(results.values((dataset, noise, method), "rates").values())
        if rates and method in LEARNED:
            panel, most = f"{results.facts(dataset)['label']}, {NOISES[noise][0]}", len(rates[0])
            points = [mean_of([100 * rate for rate in column]) for column in zip(*rates, strict=True)]
            curves.setdefault(panel, {})[method] = list(enumerate(points))
    ticks = {float(epoch): f"{epoch}" for epoch in range(0, most, 5)}
    return draw_curves(curves, path, ("epoch", "share of wrong labels (%)"), ticks)


def pictures(results: Results, folder: Path) -> list[Path]:
    return [draw_accuracy(results, folder / "accuracy.png"), draw_rates(results, folder / "rates.png")]


def sections(records: list[Record], results: Results) -> list[str]:
    """The report."""
    settings, seeds = records[0]["settings"], len({record["seed"] for record in records})
    return [
        f"VGG-5 of width {settings['width']}; {settings['epochs']} epochs of {settings['optimiser']} on batches of "
        f"{settings['batch']}, rate {settings['rate']:g} ({settings['noise_rate']:g} for what is learned of wrong labels), "
        f"cosine schedule, no augmentation, the last weights. Test labels are right. Mean ± standard error over {seeds} "
        "seeds, which draw the initial weights, the wrong labels and the batches; all methods of a seed share them. "
        "Accuracy is in %. The share of wrong labels is what was learned of it, and the last column is how far the learned "
        "matrix is from the true one: the total variation distance, averaged over true classes. The best log-loss of those "
        "that do not know the noise is in bold. Generalised cross-entropy is that of Zhang and Sabuncu (2018) with "
        f"q = {settings['generalised_q']:g}. Forward correction knows the true rate or matrix.",
        _scores_table(results),
        "![Test accuracy against the share of wrong labels](accuracy.png)",
        "![Learned share of wrong labels over the epochs](rates.png)",
    ]


EXPERIMENT = study.declare(
    "noisy_networks",
    "PyTorch networks and label noise",
    None,
    sections,
    lambda results: study.numbers(results, ("accuracy", "log_loss", "brier"), {}),
    pictures=pictures,
    execute=execute,
    datasets=("mnist", "fashion-mnist"),
    models=tuple(METHODS),
    settings=lambda model, dataset: {**SETTINGS, **METHODS[model]},
    seeds=3,
    noise=tuple(NOISES),
    find_data=find_data,
)

if __name__ == "__main__":
    study.main("noisy_networks")
