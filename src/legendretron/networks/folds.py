"""A network for each fold of a table, all side by side, and what they say of the rows that they have not seen.

Training is measured in steps, not in passes over the rows: few rows need as many steps as some thousand do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.links import LabelNoise
from legendretron.networks.inputs import NetworkInputs
from legendretron.networks.model import FoldSettings, NetworkModel
from legendretron.training import Sample, TrainingResult, TrainingSettings, train
from legendretron.training.engine import ROUNDS
from legendretron.training.features import Features
from legendretron.tuning.folds import Fold

#: Moments of Adam.
_BETAS = (0.9, 0.95)
#: Of the fifty times that held-out rows are looked at, those without an improvement after which a fold ends.
_PATIENCE = 20
#: Numbers of all logits of held-out rows that are kept at most: 256 MiB.
_MOST_KEPT = 2**26


class LabeledTable(NamedTuple):
    """Rows to train on."""

    features: Features  #: inputs of the networks, ``N`` rows
    inputs: NetworkInputs  #: what they are made of
    labels: Tensor  #: classes from 0, (N,)
    weight: Tensor  #: of the rows, (N,)
    n_classes: int  #: ``C``

    def sample(self, parts: list[np.ndarray]) -> Sample:
        """Some rows for each run; those that have fewer are filled up with rows that do not count."""
        device, longest = self.labels.device, max(map(len, parts))
        filled = np.stack([np.concatenate([part, np.full(longest - len(part), part[0])]) for part in parts])
        rows = torch.as_tensor(filled, device=device)
        lengths = [len(part) for part in parts]
        inside = torch.arange(longest, device=device) < torch.tensor(lengths, device=device).unsqueeze(1)
        return Sample(self.features, rows, self.labels[rows], self.weight[rows] * inside, lengths=lengths)


class FoldNetworks(NamedTuple):
    """Trained networks, and their logits of rows that they have not seen; NaN for rows that were never held out."""

    model: NetworkModel
    result: TrainingResult
    each: np.ndarray  #: in every repeat, (k, N, C)

    @property
    def logits(self) -> np.ndarray:
        """Means over the repeats, (N, C)."""
        mean: np.ndarray = self.each.mean(0)
        return mean


def train_folds(
    table: LabeledTable, repeats: list[list[Fold]], settings: FoldSettings, noise: LabelNoise | None = None
) -> FoldNetworks:
    """Train a network on each fold of every repeat, and keep its best step by the log-loss of the rows that are held out."""
    folds = [fold for one in repeats for fold in one]
    generators = [torch.Generator().manual_seed(settings.seed + number) for number in range(len(folds))]
    model = NetworkModel(table.n_classes, settings, table.inputs.units(len(folds)).to(table.weight), generators, noise)
    none = torch.zeros(len(folds), dtype=table.weight.dtype)
    how = TrainingSettings(
        none,
        none,
        torch.full_like(none, settings.learning_rate),
        generators,
        schedule="waves",
        max_steps=settings.n_steps,
        batch_size=settings.batch_size,
        betas=_BETAS,
        tol=0.0,
        n_iter_no_change=_PATIENCE,
        verbose=settings.verbose,
        label="networks",
    )
    sample, held_out = (table.sample([fold[part] for fold in folds]) for part in (0, 1))
    if ROUNDS * held_out.rows.numel() * table.n_classes <= _MOST_KEPT:
        model.trail = []
    result = train(model, sample, how, held_out)
    return FoldNetworks(model, result, held_out_logits(model, result, table, repeats))


def logits_of(model: NetworkModel, table: LabeledTable, parts: list[np.ndarray]) -> np.ndarray:
    """Mean logits ``(N, C)`` of rows by the networks whose part they are in; NaN for rows in no part."""
    total = np.zeros((table.features.n_rows, table.n_classes))
    times = np.zeros(len(total))
    sample = table.sample(parts)
    for chunk in model.row_chunks(sample.rows.shape[1]):
        logits = model.logits(table.features, sample.rows[:, chunk]).double().cpu().numpy()
        for run, part in enumerate(parts):
            here = part[chunk]
            total[here] += logits[run, : len(here)]  # a row is in a part once
            times[here] += 1.0
    with np.errstate(invalid="ignore"):
        mean: np.ndarray = total / times[:, None]
    return mean


def held_out_logits(
    model: NetworkModel, result: TrainingResult, table: LabeledTable, repeats: list[list[Fold]]
) -> np.ndarray:
    """Logits ``(len(repeats), N, C)`` of rows by networks that have not seen them; NaN for rows that were not held out.

    A network keeps the step at which the rows that it holds out are predicted best, so its predictions for just these rows
    are too good. Here they are those of the step that is best for the other folds. With very many rows that makes no
    difference, and would take much memory.
    """
    if model.trail is None:  # of so many rows that there is one repeat
        return logits_of(model, table, [held for one in repeats for _, held in one])[None]
    curves = result.history["validation_loss"].reshape(-1, model.n_runs)
    logits = np.full((len(repeats), table.features.n_rows, table.n_classes), np.nan)
    first = 0
    for number, one in enumerate(repeats):
        runs = np.arange(first, first + len(one))
        for run, (_, held) in zip(runs, one, strict=True):
            others = runs[runs != run] if len(runs) > 1 else runs
            best = int(np.argmin(curves[:, others].mean(1)))
            logits[number, held] = model.trail[best][run, : len(held)].double().numpy()
        first += len(one)
    return logits
