"""What is to be trained: samples and their batches in random order, settings, and what comes back."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from legendretron.training.checkpoint import CheckpointStore
from legendretron.training.features import Features
from legendretron.training.history import History


class DivergedError(ValueError):
    """The loss of a run is no longer a number.

    Examples
    --------
    >>> raise DivergedError("lower learning_rate")
    Traceback (most recent call last):
    legendretron.training.problem.DivergedError: lower learning_rate
    """


@dataclass(frozen=True)
class Sample:
    """Rows of a feature matrix that belong to each run, with labels and weights.

    Examples
    --------
    >>> import numpy as np
    >>> from legendretron.training import as_features
    >>> features = as_features(np.ones((4, 2)), torch.float64, torch.device("cpu"))
    >>> labels = torch.tensor([[0, 1, 2]])
    >>> Sample(features, torch.tensor([[0, 1, 3]]), labels, torch.ones(1, 3, dtype=torch.float64)).rows.shape
    torch.Size([1, 3])
    """

    features: Features  #: ``N`` rows, shared by all runs
    rows: Tensor  #: which of them each run uses, shape (R, n)
    labels: Tensor  #: classes from 0, shape (R, n)
    weights: Tensor  #: non-negative, not all zero, shape (R, n)
    normalize: bool = True  #: whether only the ratios of weights matter
    lengths: list[int] | None = None  #: rows of each run; the others, up to the ``n`` of the longest, have weight zero

    def normalized_weights(self) -> Tensor:
        """Weights with a mean of one in every run, or unchanged if they are not to be normalized."""
        if not self.normalize:
            return self.weights
        relative = self.weights / self.weights.amax(1, keepdim=True)  # first, so that no sum overflows
        lengths = torch.tensor(self.lengths or [relative.shape[1]]).to(relative).unsqueeze(1)
        return relative * (lengths / relative.sum(1, keepdim=True))

    def select(self, columns: slice) -> Sample:
        """Some of the rows of every run."""
        rows, labels, weights = (part[:, columns] for part in (self.rows, self.labels, self.weights))
        return Sample(self.features, rows, labels, weights)

    def class_weight(self, n_classes: int) -> Tensor:
        """Sum of the weights of each class's rows, shape (R, C)."""
        total = torch.zeros(len(self.labels), n_classes, dtype=torch.float64, device=self.labels.device)
        return total.scatter_add_(1, self.labels, self.weights.double())


#: Batches drawn at once to skip those before a checkpoint.
_SKIPPED_AT_ONCE = 1000


def draw_order(n: int, generator: torch.Generator) -> Tensor:
    """Draw the order in which ``torch.utils.data.DataLoader(shuffle=True)`` goes through ``n`` rows.

    So a run sees the batches that the same seed gives to a training loop with torch's own loader.
    """

    def draw() -> int:
        return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())

    draw()  # a loader draws a seed for its workers first
    return torch.randperm(n, generator=torch.Generator().manual_seed(draw()))


class Block(NamedTuple):
    """``S`` batches of ``m`` rows for each of ``R`` runs."""

    rows: Tensor  #: rows of the features, shape (S, R, m)
    labels: Tensor  #: classes from 0, shape (S, R, m)
    weights: Tensor  #: shares of a batch, shape (S, R, m)
    n_rows: int  #: rows of a batch on all processes together


class Batches(ABC):
    """A source of batches."""

    n_rows: int  #: rows of a pass
    size: int  #: rows of a batch
    endless: bool  #: whether a batch can begin in one pass and end in the next; if not, the last one of a pass can be smaller

    @property
    @abstractmethod
    def features(self) -> Features:
        """The rows that the blocks refer to, until the next one is taken."""

    @property
    def n_steps(self) -> int:
        """Batches of a pass that is not endless."""
        return math.ceil(self.n_rows / self.size)

    @abstractmethod
    def take(self, most: int) -> Block:
        """The next batches, from one to ``most``."""

    def skip(self, n_batches: int) -> None:
        """Skip batches that were trained on before a checkpoint."""
        while n_batches:
            n_batches -= len(self.take(min(n_batches, _SKIPPED_AT_ONCE)).rows)

    def close(self) -> None:  # noqa: B027
        """End reading, if there is something to end."""


class SampleBatches(Batches):
    """Batches of rows in memory. Each run shuffles its rows with its own generator.

    If runs differ in length, batches must be endless. They are smaller than ``batch_size`` if a run has fewer rows.
    """

    def __init__(self, sample: Sample, batch_size: int, generators: list[torch.Generator], *, endless: bool) -> None:
        self._sample, self._weights = sample, sample.normalized_weights()
        self._generators, self.endless = generators, endless
        n_runs, self.n_rows = sample.rows.shape
        self._lengths = sample.lengths or [self.n_rows] * n_runs
        self.size = min([batch_size, *self._lengths])
        #: places in the sample that each run has drawn, but not trained on
        self._drawn = [torch.zeros(0, dtype=torch.int64)] * n_runs

    @property
    def features(self) -> Features:
        """See :class:`Batches`."""
        return self._sample.features

    def _draw(self, least: int) -> None:
        """Draw passes until each run has ``least`` places."""
        for run, (generator, length) in enumerate(zip(self._generators, self._lengths, strict=True)):
            parts = [self._drawn[run]]
            drawn = len(parts[0])
            while drawn < least:
                one_batch = self.size == length and not self.endless  # needs no order
                parts.append(torch.arange(length) if one_batch else draw_order(length, generator))
                drawn += length
            self._drawn[run] = torch.cat(parts)

    def take(self, most: int) -> Block:
        """See :class:`Batches`."""
        self._draw(most * self.size if self.endless else 1)
        left = len(self._drawn[0])
        count, size = min(most, left // self.size), self.size
        if self.endless:
            count = most
        elif count == 0:  # the rest of a pass
            count, size = 1, left
        places = torch.stack([places[: count * size] for places in self._drawn]).to(self._weights.device)
        self._drawn = [places[count * size :] for places in self._drawn]
        # batches first, so that each is contiguous
        rows, labels, weights = (
            torch.gather(part, 1, places).view(-1, count, size).transpose(0, 1).contiguous()
            for part in (self._sample.rows, self._sample.labels, self._weights)
        )
        return Block(rows, labels, weights / size, size)


@dataclass(frozen=True)
class TrainingSettings:
    """How to train; tensors of shape (R,) hold one value per run.

    Examples
    --------
    Of a single run:

    >>> one = torch.ones(1)
    >>> TrainingSettings(1e-3 * one, 1e-3 * one, 0.01 * one, [torch.Generator().manual_seed(0)], max_epochs=20).solver
    'adam'
    """

    alpha: Tensor  #: penalty on ``W`` beside a *mean* log-loss, shape (R,)
    link_alpha: Tensor  #: the same on the link's parameters
    learning_rate: Tensor  #: of Adam, shape (R,); the schedule multiplies it
    #: one per run, for the order of the batches; to resume, as they were at the start
    generators: list[torch.Generator]
    solver: str = "adam"  #: or ``"lbfgs"``: all rows at once
    schedule: str = "cosine"  #: see :func:`~legendretron.training.engine.rate_factor`
    decay: float = 0.95
    decay_every: int = 4
    max_epochs: int = 100  #: passes over the data, or iterations of L-BFGS
    batch_size: int = 64
    penalize_intercept: bool = False  #: this and the next two: see :class:`~legendretron.training.model.Penalty`
    symmetric: bool = False
    centred: bool = False
    n_iter_no_change: int = 10  #: epochs without improvement on the validation sample after which a run stops
    tol: float = 1e-6  #: least improvement that counts; for L-BFGS, the gradient that counts as zero
    verbose: int = 0  #: see :class:`~legendretron.training.history.Progress`
    checkpoint: Path | CheckpointStore | None = None  #: file of the state of training, to resume from if it exists
    checkpoint_every: int = 10  #: epochs between two checkpoints
    checkpoint_steps: int | None = None  #: steps between them, in place of epochs
    fingerprint: str = ""  #: identifies data and settings: a checkpoint of something else is refused
    max_steps: int | None = None  #: steps of Adam in place of ``max_epochs``; the rate then changes from step to step
    may_diverge: bool = False  #: whether runs that diverge are left without a warning, also if all of them do
    label: str = ""  #: what the progress bar says first
    betas: tuple[float, float] = (0.9, 0.999)  #: decay of the two moments of Adam


@dataclass
class TrainingResult:
    """What training returns beside the trained model.

    Examples
    --------
    >>> TrainingResult().moments is None
    True
    """

    history: History = field(default_factory=History)
    n_iter: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))  #: epochs of each run, shape (R,)
    #: for L-BFGS, whether the gradient vanished; for Adam, true
    converged: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    #: for Adam, whether the loss has risen far above where it began and ended no better than that of a constant
    diverged: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    moments: tuple[Tensor, ...] | None = None  #: state of Adam, to resume from
    largest_gradient: Tensor | None = None  #: of a convex problem, largest entry where the solver ended, shape (R,)
