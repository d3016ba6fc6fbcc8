"""A network for each fold of a table, all side by side, and what they say of the rows that they have not seen.

Training is measured in steps, not in passes over the rows: few rows need as many steps as some thousand do.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from legendretron._internal.parameters import spell
from legendretron.links import LabelNoise
from legendretron.networks.inputs import NetworkInputs
from legendretron.networks.model import FoldSettings, NetworkModel
from legendretron.training import Sample, TrainingResult, TrainingSettings, train
from legendretron.training.engine import ROUNDS
from legendretron.training.features import Features
from legendretron.training.problem import DivergedError
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
    """Trained networks, and their logits of rows that they have not seen; NaN where there are none."""

    model: NetworkModel
    result: TrainingResult
    each: np.ndarray  #: in every repeat, (k, N, C)

    @property
    def logits(self) -> np.ndarray:
        """Means over the repeats in which a row was held out, (N, C)."""
        return mean_where_known(self.each)


def mean_where_known(each: np.ndarray) -> np.ndarray:
    """Mean over the first axis of what is not NaN; NaN if nothing is known.

    Examples
    --------
    >>> mean_where_known(np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan]]))
    array([ 2.,  2., nan])
    """
    known = ~np.isnan(each)
    with np.errstate(invalid="ignore"):
        mean: np.ndarray = np.where(known, each, 0.0).sum(0) / known.sum(0)
    return mean


def train_folds(
    table: LabeledTable, repeats: list[list[Fold]], settings: FoldSettings, noise: LabelNoise | None = None
) -> FoldNetworks:
    """Train a network on each fold of every repeat, and keep its best step by the log-loss of the rows that are held out."""
    folds = [fold for one in repeats for fold in one]
    # seeds that follow each other would give the next seed's model all networks of this one but the first
    seeds = np.random.SeedSequence(settings.seed).generate_state(len(folds), np.uint64)
    generators = [torch.Generator().manual_seed(int(seed)) for seed in seeds]
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
        may_diverge=True,
    )
    sample, held_out = (table.sample([fold[part] for fold in folds]) for part in (0, 1))
    if ROUNDS * held_out.rows.numel() * table.n_classes <= _MOST_KEPT:
        model.trail = []
    result = train(model, sample, how, held_out)
    leave_out_diverged(model, result)
    return FoldNetworks(model, result, held_out_logits(model, result, table, repeats))


def leave_out_diverged(model: NetworkModel, result: TrainingResult) -> None:
    """Set the weights of networks that have diverged to NaN, unless all have; one of them would make any mean worthless."""
    diverged = result.diverged.to(model.flat.device)
    if len(model.usable_runs()) == 0:
        raise DivergedError(
            f"training diverged: the losses of all networks are infinite; lower {spell('learning_rate')}, got "
            f"{model.settings.learning_rate:g}, or scale the features."
        )
    if not bool(diverged.all()):
        model.flat[diverged] = torch.nan
    if bool(diverged.any()):
        warnings.warn(
            f"{int(diverged.sum())} of {len(diverged)} networks have diverged, and do not count unless all have; lower "
            f"{spell('learning_rate')}, got {model.settings.learning_rate:g}, or scale the features.",
            ConvergenceWarning,
            stacklevel=6,  # where fit is called
        )


def logits_of(model: NetworkModel, table: LabeledTable, parts: list[np.ndarray]) -> np.ndarray:
    """Mean logits ``(N, C)`` of rows by the networks whose part they are in; NaN for rows in no part.

    Networks that have diverged are left out.
    """
    total = np.zeros((table.features.n_rows, table.n_classes))
    times, usable = np.zeros(len(total)), model.usable_runs()
    sample = table.sample(parts)
    for chunk in model.row_chunks(sample.rows.shape[1]):
        logits = model.logits(table.features, sample.rows[:, chunk]).double().cpu().numpy()
        for run in usable:
            here = parts[run][chunk]
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
    difference, and would take much memory. If a network has stopped before that step, its predictions are those of the
    weights that it keeps.
    """
    if model.trail is None:  # of so many rows that there is one repeat
        return logits_of(model, table, [held for one in repeats for _, held in one])[None]
    curves = result.history["validation_loss"].reshape(-1, model.n_runs)
    curves = np.where(np.isfinite(curves), curves, np.finfo(np.float64).max / curves.size)  # so that means are finite
    logits = np.full((len(repeats), table.features.n_rows, table.n_classes), np.nan)
    first, usable = 0, model.usable_runs()
    for number, one in enumerate(repeats):
        runs = np.arange(first, first + len(one))
        for run, (_, held) in zip(runs, one, strict=True):
            others = np.intersect1d(runs[runs != run], usable)
            best = int(curves[:, others if len(others) else [run]].mean(1).argmin())
            n_active = int(result.n_iter[run])
            if best >= n_active:
                best = int(curves[:n_active, run].argmin())
            if run in usable:
                logits[number, held] = model.trail[best][run, : len(held)].double().numpy()
        first += len(one)
    return np.where(np.isfinite(logits), logits, np.nan)
