"""What strengths are chosen for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from legendretron.links import LabelNoise, Link
from legendretron.training.features import Features
from legendretron.tuning.folds import Fold
from legendretron.tuning.scores import DOUBTED_ROWS, HeldOut
from legendretron.tuning.trees import Trees, grow_trees

__all__ = ["TuningProblem"]


@dataclass(frozen=True)
class TuningProblem:
    """Data and model, as they will be trained in the end.

    Attributes
    ----------
    features : Features
        ``N`` rows, standardised if they are to be.
    labels : Tensor of shape (N,)
        Classes from 0; the last is the reference.
    n_classes : int
        ``C``.
    weight : ndarray of shape (N,)
        Weights of the rows.
    folds : list of tuple of ndarray
        Rows to train on and to hold out.
    between_folds : bool
        See :class:`~legendretron.tuning.scores.HeldOut`.
    make_link : callable
        Returns the start of a link, given a generator and a dtype.
    penalize_intercept, centred : bool
        See :class:`~legendretron.training.penalty.Penalty`.
    symmetric_logistic : bool
        Whether the penalty of logistic regression is symmetric, see there too.
    batch_size : int
        Rows in a step.
    steps : int
        Steps to train for.
    learning_rate : float
        Initial rate.
    seed : int
        Of starts and batches.
    link_folds : int, optional
        On how many of the folds, the first ones, learned links are tried; all if not given.
    verbose : int
        See :class:`~legendretron.training.progress.Progress`.
    known_noise : LabelNoise, optional
        Noise in the labels that is known.
    find_noise : {"never", "if it helps", "always", "matrix"}
        Whether to look for symmetric noise in the labels, and to take what was found; or for a transition matrix.
    fixed_link : Link, optional
        Canonical link that is not learned, in the place of softmax+: then only the strength on ``W`` is chosen. No
        noise is assumed then.
    """

    features: Features
    labels: Tensor
    n_classes: int
    weight: np.ndarray
    folds: list[Fold]
    between_folds: bool
    make_link: Callable[[torch.Generator, torch.dtype], Link]
    batch_size: int
    steps: int
    learning_rate: float
    seed: int
    penalize_intercept: bool = False
    symmetric_logistic: bool = True
    centred: bool = True
    link_folds: int | None = None
    verbose: int = 0
    known_noise: LabelNoise | None = None
    find_noise: str = "never"
    fixed_link: Link | None = None

    @cached_property
    def held_out(self) -> HeldOut:
        """All held-out rows."""
        return HeldOut.of(self.folds, self.weight, self.between_folds)

    @property
    def n_link_folds(self) -> int:
        """How many of the folds learned links are tried on."""
        return len(self.folds) if self.link_folds is None else min(self.link_folds, len(self.folds))

    @property
    def n_path_folds(self) -> int:
        """How many of the folds a path of logistic regression is fitted to; where links have one, so has the path."""
        return 1 if self.link_folds == 1 else len(self.folds)

    @cached_property
    def doubt(self) -> float:
        """Share of the held-out labels that are doubted at most, see :func:`~legendretron.tuning.scores.held_out_loss`."""
        return DOUBTED_ROWS / self.held_out.n_rows

    @property
    def device(self) -> torch.device:
        """Where the data are."""
        return self.labels.device

    @property
    def is_wide(self) -> bool:
        """Whether a linear model has as many coefficients per class as training rows: it can explain any labels."""
        return self.features.n_features + 1 >= min(len(train) for train, _ in self.folds)

    @cached_property
    def single_precision(self) -> Features:
        """The features in float32: enough to compare candidates, and faster."""
        return self.features.single()

    @cached_property
    def trees(self) -> Trees:
        """A second opinion on the labels, by rows of positive weight."""
        return grow_trees(self.features, self.labels, self.n_classes, np.flatnonzero(self.weight > 0))
