"""What is to be trained: data, settings, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

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
    generators: list[
        torch.Generator
    ]  #: one per run, for the order of the batches; to resume, as they were at the start
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
