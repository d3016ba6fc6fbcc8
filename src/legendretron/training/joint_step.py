"""A training step of several processes, each with rows or classes of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron.training.adam import Adam
from legendretron.training.features import Features
from legendretron.training.layout import Layout
from legendretron.training.model import LinearModel
from legendretron.training.penalty import Penalty

__all__ = ["JointStep"]


class JointStep:
    """A step on a batch of which each process has a part: gradients are added up in one message, then all update alike.

    Parameters
    ----------
    model, features, penalty, optimiser, rate, totals
        As those of :class:`~legendretron.training.step.Step`; the totals are those of the rows of this process.
    n_rows : int
        Rows of the batch on all processes.
    layout : Layout
        Which processes there are.
    """

    def __init__(
        self,
        model: LinearModel,
        features: Features,
        penalty: Penalty,
        optimiser: Adam,
        rate: Tensor,
        totals: Tensor,
        n_rows: int,
        layout: Layout,
    ) -> None:
        self.model, self.features, self.penalty, self.optimiser = model, features, penalty, optimiser
        self.rate, self.totals, self.n_rows, self.layout = rate, totals, n_rows, layout

    def __call__(self, rows: Tensor, labels: Tensor, weight: Tensor) -> None:
        """Train on rows of shape (1, m), of which there may be none, with weights that are shares of the whole batch."""
        gradient = torch.zeros_like(self.model.flat)
        if rows.shape[1]:
            nll, hit = self.model.loss_gradient(self.features, rows, labels, weight, gradient, cleared=True)
            self.totals[0].add_((nll * weight).sum(-1), alpha=self.n_rows)
            self.totals[1].add_((hit * weight).sum(-1), alpha=self.n_rows)
        self.optimiser.step(self.layout.sum_over_rows(gradient), self.rate, self.penalty)
