"""What is to be trained: data, settings, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from legendretron.training.checkpoint import CheckpointStore
from legendretron.training.features import Features
from legendretron.training.history import History

__all__ = ["DivergedError", "Sample", "TrainingResult", "TrainingSettings"]


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

    Attributes
    ----------
    features : Features
        ``N`` rows, shared by all runs.
    rows : Tensor of shape (R, n)
        Which of them each run uses.
    labels : Tensor of shape (R, n)
        Classes, from 0.
    weights : Tensor of shape (R, n)
        What each row counts; non-negative, not all zero.
    normalise : bool
        Whether only their ratios matter.
    lengths : list of int, optional
        How many rows each run has; the others, up to the ``n`` of the longest, are not used and have weight zero.

    Examples
    --------
    >>> import numpy as np
    >>> from legendretron.training import as_features
    >>> features = as_features(np.ones((4, 2)), torch.float64, torch.device("cpu"))
    >>> labels = torch.tensor([[0, 1, 2]])
    >>> Sample(features, torch.tensor([[0, 1, 3]]), labels, torch.ones(1, 3, dtype=torch.float64)).rows.shape
    torch.Size([1, 3])
    """

    features: Features
    rows: Tensor
    labels: Tensor
    weights: Tensor
    normalise: bool = True
    lengths: list[int] | None = None

    def normalised_weights(self) -> Tensor:
        """Weights with a mean of one in every run, or unchanged if they are not to be normalised."""
        if not self.normalise:
            return self.weights
        relative = self.weights / self.weights.amax(1, keepdim=True)  # first, so that no sum overflows
        lengths = torch.tensor(self.lengths or [relative.shape[1]]).to(relative).unsqueeze(1)
        return relative * (lengths / relative.sum(1, keepdim=True))

    def class_weight(self, n_classes: int) -> Tensor:
        """Sum of the weights of each class's rows, shape (R, C)."""
        total = torch.zeros(len(self.labels), n_classes, dtype=torch.float64, device=self.labels.device)
        return total.scatter_add_(1, self.labels, self.weights.double())

    def select_run(self, run: int) -> Sample:
        """Return the sample of one run, with a run axis of size 1."""
        rows = slice(None) if self.lengths is None else slice(0, self.lengths[run])
        row_numbers, labels, weights = (part[run : run + 1, rows] for part in (self.rows, self.labels, self.weights))
        return Sample(self.features, row_numbers, labels, weights, self.normalise)


@dataclass(frozen=True)
class TrainingSettings:
    """How to train; tensors of shape (R,) hold one value per run.

    Attributes
    ----------
    alpha, link_alpha : Tensor of shape (R,)
        Strength of the penalties on ``W`` and on the link's parameters, beside a *mean* log-loss.
    learning_rate : Tensor of shape (R,)
        Rate of Adam, which the schedule multiplies.
    generators : list of torch.Generator
        One per run, on the CPU, for the order of the batches. Training advances them. To resume
        from a checkpoint, they must be as they were at the start.
    solver : {"adam", "lbfgs"}
        Minibatches, or full-batch quasi-Newton.
    schedule, decay, decay_every
        See :func:`~legendretron.training.schedule.rate_factor`.
    max_epochs, batch_size : int
        Passes over the data (iterations of L-BFGS), and rows per step.
    penalize_intercept, symmetric, centred : bool
        See :class:`~legendretron.training.penalty.Penalty`.
    n_iter_no_change : int
        Early stopping patience: epochs without improvement on the validation sample after which a run stops.
    tol : float
        Least improvement that counts; for L-BFGS, the gradient that counts as zero.
    verbose : int
        See :class:`~legendretron.training.progress.Progress`.
    checkpoint : path or CheckpointStore, optional
        File to write the state of training to, and to resume from if it exists.
    checkpoint_every : int
        Epochs between two checkpoints.
    checkpoint_steps : int, optional
        Steps between two checkpoints, in place of epochs.
    fingerprint : str
        What identifies data and settings, so that a checkpoint of something else is refused.
    max_steps : int, optional
        Steps of Adam in place of ``max_epochs``; the rate then changes from step to step, along half a cosine or in waves.
    may_diverge : bool
        Whether runs that diverge are left without a warning, also if all of them do.
    label : str
        What the progress bar says first.
    betas : tuple of float
        Decay of the two moments of Adam.
    compiled : bool
        Whether compiled steps may take the place of plain operations, which they equal to rounding.

    Examples
    --------
    Of a single run:

    >>> one = torch.ones(1)
    >>> TrainingSettings(1e-3 * one, 1e-3 * one, 0.01 * one, [torch.Generator().manual_seed(0)], max_epochs=20).solver
    'adam'
    """

    alpha: Tensor
    link_alpha: Tensor
    learning_rate: Tensor
    generators: list[torch.Generator]
    solver: str = "adam"
    schedule: str = "cosine"
    decay: float = 0.95
    decay_every: int = 4
    max_epochs: int = 100
    batch_size: int = 64
    penalize_intercept: bool = False
    symmetric: bool = False
    centred: bool = False
    n_iter_no_change: int = 10
    tol: float = 1e-6
    verbose: int = 0
    checkpoint: Path | CheckpointStore | None = None
    checkpoint_every: int = 10
    checkpoint_steps: int | None = None
    fingerprint: str = ""
    max_steps: int | None = None
    may_diverge: bool = False
    label: str = ""
    betas: tuple[float, float] = (0.9, 0.999)
    compiled: bool = True


@dataclass
class TrainingResult:
    """What training returns beside the trained model.

    Attributes
    ----------
    history : History
        Epoch by epoch.
    n_iter : Tensor of shape (R,)
        Epochs each run was trained for.
    converged : Tensor of shape (R,)
        For L-BFGS, whether the gradient vanished; for Adam, true.
    diverged : Tensor of shape (R,)
        For Adam, whether the loss has risen far above where it began and ended no better than that of a constant.
    moments : tuple of Tensor, optional
        State of Adam, to resume from.
    largest_gradient : Tensor of shape (R,), optional
        Of a convex problem, the largest entry of the gradient where the solver ended.

    Examples
    --------
    >>> TrainingResult().moments is None
    True
    """

    history: History = field(default_factory=History)
    n_iter: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    converged: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    diverged: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    moments: tuple[Tensor, ...] | None = None
    largest_gradient: Tensor | None = None
