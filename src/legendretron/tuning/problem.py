"""What strengths are chosen for, and the strengths to choose from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.calibration.prediction_sets import some_rows
from legendretron.links import LabelNoise, Link
from legendretron.training.features import Features
from legendretron.tuning.folds import Fold
from legendretron.tuning.scores import DOUBTED_ROWS, HeldOut

#: Penalties on ``W`` with a learned link. They are far stronger than without one, because the link can rescale ``W``.
ALPHAS = (0.03, 0.1, 0.3, 1.0)
#: Strength on the link: nearly free. Stronger ones come close to softmax, which logistic regression fits in less time.
LINK_ALPHA = 1e-4


class Candidate(NamedTuple):
    """Strengths on ``W`` and on the link; an infinite one leaves nothing of the link: logistic regression."""

    alpha: float
    link_alpha: float

    @property
    def is_logistic(self) -> bool:
        """Whether it is logistic regression."""
        return math.isinf(self.link_alpha)


def link_candidates(alpha: float | None, link_alpha: float | None, tied: bool = False) -> list[Candidate]:
    """Pairs with the strengths that are given; ``tied`` if that on the link is to be that on ``W``."""
    alphas = ALPHAS if alpha is None else (alpha,)
    if tied:
        return [Candidate(a, a) for a in (LINK_ALPHA, 1e-2, *alphas)]
    return [Candidate(a, LINK_ALPHA if link_alpha is None else link_alpha) for a in alphas]


class LabeledRows(NamedTuple):
    """Predictions for rows, and what was observed."""

    log_p: Tensor  #: log-probabilities of the true classes, (n, C)
    labels: Tensor  #: observed labels, (n,)
    weight: Tensor  #: of each row, (n,); any scale

    def to_power(self, power: float | Tensor) -> LabeledRows:
        """The same rows, with a power of the probabilities."""
        return self._replace(log_p=torch.log_softmax(self.log_p * power, dim=-1))

    def select(self, rows: slice | Tensor) -> LabeledRows:
        """Some of the rows."""
        return LabeledRows(*(tensor[rows] for tensor in self))

    @property
    def label_log_p(self) -> Tensor:
        """Log-probability of each label."""
        return self.log_p[..., torch.arange(len(self.labels), device=self.labels.device), self.labels]

    def losses(self, doubt: float) -> Tensor:
        r"""Log-losses :math:`-(1 - \epsilon) \log p_y - \frac{\epsilon}{C} \sum_k \log p_k` with doubt about the labels.

        Where all of a few rows are predicted well, the log-loss alone would favor ever more confidence.
        """
        return -((1.0 - doubt) * self.label_log_p + doubt * self.log_p.mean(-1))


def average_repeats(rows: LabeledRows, numbers: np.ndarray) -> LabeledRows:
    """Rows with these numbers, each once: those that were held out several times have the mean of their log-probabilities.

    Several predictions for a row are not several rows: they would make any estimate look more certain than it is.
    """
    _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    if len(first) == len(numbers):
        return rows
    where = torch.as_tensor(place, device=rows.labels.device)
    total = rows.log_p.new_zeros(len(first), rows.log_p.shape[1]).index_add_(0, where, rows.log_p)
    times = torch.bincount(where).unsqueeze(1)
    once = rows.select(torch.as_tensor(first, device=rows.labels.device))
    return once._replace(log_p=torch.log_softmax(total / times, -1))


@dataclass(frozen=True)
class TuningProblem:
    """Data and model, as they will be trained in the end."""

    features: Features
    labels: Tensor  #: classes from 0, (N,); the last is the reference
    n_classes: int
    weight: np.ndarray  #: of the rows, (N,)
    folds: list[Fold]  #: rows to train on and to hold out
    between_folds: bool  #: see :class:`~legendretron.tuning.scores.HeldOut`
    make_link: Callable[[torch.Generator, torch.dtype], Link]  #: returns the start of a link
    batch_size: int  #: rows in a step
    steps: int  #: to train links for
    learning_rate: float  #: initial rate
    seed: int  #: of starts and batches
    penalize_intercept: bool = False  #: this and the next two: see :class:`~legendretron.training.model.Penalty`
    symmetric_logistic: bool = True  #: about logistic regression
    centred: bool = True
    link_folds: int | None = None  #: on how many of the folds, the first ones, links are tried; all if not given
    standardized: bool = False  #: whether the features are, by the mean and variance of all rows
    verbose: int = 0
    known_noise: LabelNoise | None = None  #: noise in the labels that is known
    #: noise in the labels to look for: "symmetric", "class-conditional", or "auto" if predictions are of recorded labels
    find_noise: str | None = None
    #: canonical link that is not learned, in the place of softmax+; then only the strength on ``W`` is chosen, without noise
    fixed_link: Link | None = None
    copies: np.ndarray | None = None  #: row that each is a copy of, where labels are soft

    @cached_property
    def held_out(self) -> HeldOut:
        """All held-out rows."""
        return HeldOut.of(self.folds, self.weight, self.between_folds, self.copies)

    @property
    def n_link_folds(self) -> int:
        """How many of the folds learned links are tried on."""
        return len(self.folds) if self.link_folds is None else min(self.link_folds, len(self.folds))

    @cached_property
    def doubt(self) -> float:
        """Share of the held-out labels that are doubted at most, see :meth:`LabeledRows.losses`."""
        return DOUBTED_ROWS / self.held_out.n_rows

    @property
    def device(self) -> torch.device:
        """Where the data are."""
        return self.labels.device

    @cached_property
    def single_precision(self) -> Features:
        """The features in float32: enough to compare candidates, and faster."""
        return self.features.single()

    def seen_rows(self, which: slice) -> list[np.ndarray]:
        """Rows that each of some folds is trained on, spread evenly."""
        parts = [train for train, _ in self.folds[which]]
        some = some_rows(sum(map(len, parts)), self.n_classes)
        return [part[some] for part in parts]

    def label(self, log_p: Tensor, rows: np.ndarray) -> LabeledRows:
        """Predictions (n, C) for rows, with their labels and weights."""
        weight = torch.as_tensor(self.weight[rows], dtype=torch.float64, device=self.device)
        return LabeledRows(log_p, self.labels[torch.as_tensor(rows, device=self.device)], weight)
