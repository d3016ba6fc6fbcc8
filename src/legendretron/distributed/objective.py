"""The loss of a joint batch as a module, whose gradient ``DistributedDataParallel`` averages over processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from legendretron.accelerate.steps import nll_step
from legendretron.distributed.layout import Layout
from legendretron.simplex import predicted_class
from legendretron.training.features import Features
from legendretron.training.model import LinearModel
from legendretron.training.penalty import Penalty
from legendretron.training.step import objective_gradient

__all__ = ["JointObjective", "SharedGradient"]


class JointObjective(nn.Module):
    """The weighted log-loss of one process's rows, with all parameters of the model as one parameter.

    Wrapped in ``DistributedDataParallel``, a step sends one message: the gradient, in one piece. It is the closed form that
    training in one process uses, and not one that autograd derives.

    Parameters
    ----------
    model : LinearModel
        With one run.
    """

    def __init__(self, model: LinearModel) -> None:
        super().__init__()
        self.model = model
        self.flat = nn.Parameter(model.flat)  # the same memory
        self._nll_steps: dict[int, Any] = {}

    def forward(self, features: Features, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``sum_i weight_i * nll_i`` and the weighted sum of hits, both of shape ().

        Parameters
        ----------
        features : Features
            ``n`` rows, all of which count.
        labels, weight : Tensor of shape (1, n)
            Their classes and weights.
        """
        n_rows = labels.shape[1]
        hits = weight.new_zeros(())

        def loss_and_gradient() -> tuple[Tensor, Tensor]:
            gradient = torch.zeros_like(self.model.flat)
            if n_rows == 0:  # of a short shard: nothing to add
                return weight.new_zeros(()), gradient
            rows = torch.arange(n_rows, device=labels.device).unsqueeze(0)
            nll, hit = objective_gradient(
                self.model, features, rows, labels, weight, gradient, self._nll_step(n_rows), cleared=True
            )
            hits.copy_((hit * weight).sum())
            return (nll * weight).sum(), gradient

        loss: Tensor = _WithGradient.apply(self.flat, loss_and_gradient)  # type: ignore[no-untyped-call]
        return loss, hits

    def _nll_step(self, n_rows: int) -> Any:
        if n_rows not in self._nll_steps:
            like = self.model.flat.new_empty(1, n_rows, self.model.n_outputs)
            self._nll_steps[n_rows] = nll_step(self.model.link, like)
        return self._nll_steps[n_rows]


class _WithGradient(torch.autograd.Function):
    """A value whose gradient comes with it."""

    @staticmethod
    def forward(ctx: Any, flat: Tensor, loss_and_gradient: Callable[[], tuple[Tensor, Tensor]]) -> Tensor:
        value, gradient = loss_and_gradient()
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * cotangents[0], None


class SharedGradient:
    """The objective of processes that all hold the whole model, each with rows of its own.

    Parameters
    ----------
    model : LinearModel
        With one run; the start of the first process counts.
    layout : Layout
        Which processes there are.
    """

    penalty = Penalty

    def __init__(self, model: LinearModel, layout: Layout) -> None:
        self.model, self.layout = model, layout
        self.module = JointObjective(model)
        self.wrapped: nn.Module = self.module
        if layout.n_data > 1:
            self.wrapped = DistributedDataParallel(
                self.module, process_group=layout.data_group, gradient_as_bucket_view=True
            )

    @torch.no_grad()
    def initialize_link(self, features: Features, weight: Tensor, n_rows: int) -> None:
        """See :class:`~legendretron.distributed.training.Objective`."""
        model = self.model
        if n_rows < 2:  # no variance to take
            model.link.keep_start()
            return
        rows = torch.arange(weight.shape[1], device=weight.device).unsqueeze(0)
        z, _ = features.product(rows, model.weight, model.bias.unsqueeze(1))
        model.link.initialize(z, weight, across_ranks=self.layout.n_data > 1)

    def gradient(self, features: Features, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See :class:`~legendretron.distributed.training.Objective`."""
        self.module.flat.grad = None
        loss, hits = self.wrapped(features, labels, weight)
        (loss * self.layout.n_data).backward()  # what comes out is the mean over processes, and the sum is wanted
        assert self.module.flat.grad is not None
        return self.module.flat.grad, loss.detach(), hits

    @torch.no_grad()
    def scores(self, features: Features, labels: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`~legendretron.distributed.training.Objective`."""
        rows = torch.arange(labels.shape[1], device=labels.device).unsqueeze(0)
        log_p = self.model.log_proba(features, rows)[0]
        own = labels[0]
        return -log_p.gather(-1, own.unsqueeze(-1)).squeeze(-1), predicted_class(log_p) == own
