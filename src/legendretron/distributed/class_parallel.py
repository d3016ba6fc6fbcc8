"""A model whose classes are divided over processes, for training on shards of the rows."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module

from legendretron._internal.process_groups import whole
from legendretron.distributed.layout import Layout
from legendretron.links import Link, NoisyLink
from legendretron.nn.class_parallel import ClassParallel
from legendretron.nn.head import LegendreHead
from legendretron.nn.split import sharded_nll_and_hits
from legendretron.training.features import DenseFeatures, Features
from legendretron.training.model import LinearModel
from legendretron.training.penalty import Penalty

__all__ = ["SplitGradient", "SplitModel", "SplitPenalty"]


class SplitModel(LinearModel):
    """One model of which this process holds its classes' part: ``W``, ``b`` and the link's parameters, in one row of memory.

    The forward pass is that of a :class:`~legendretron.nn.LegendreHead` under
    :class:`~legendretron.nn.class_parallel.ClassParallel`, whose parameters are views of :attr:`flat`. So the optimiser, the
    penalty and checkpoints work on it as on a model that is whole.

    Parameters
    ----------
    weight : Tensor of shape (d, K)
        Start of ``W``.
    bias : Tensor of shape (K,)
        Start of ``b``.
    link : Link
        Start of the link.
    layout : Layout
        With classes that are divided.
    """

    def __init__(self, weight: Tensor, bias: Tensor, link: Link, layout: Layout) -> None:
        self._template, link = link, copy.deepcopy(link)
        noise, clean = (link.noise, link.clean) if isinstance(link, NoisyLink) else (None, link)
        self.n_runs = 1
        self.n_features, self.n_outputs = weight.shape
        self._group = layout.classes.get_group()
        head = LegendreHead(
            self.n_features, self.n_outputs + 1, clean, label_noise=noise, device=weight.device, dtype=weight.dtype
        )
        with torch.no_grad():
            head.linear.weight.copy_(weight.T)
            head.linear.bias.copy_(bias)
        parallelize_module(head, layout.classes, ClassParallel())
        self.head = head
        self.link = head.link if head.noise is None else NoisyLink(head.link, head.noise)
        self.parameters: list[DTensor] = []
        self.flat = torch.cat([_local(p).reshape(1, -1) for p in head.parameters()], dim=1)
        self.shapes = [tuple(_local(p).shape) for p in head.parameters()]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        start = 0
        for (name, parameter), shape, size in zip(list(head.named_parameters()), self.shapes, self.sizes, strict=True):
            own = self.flat[0, start : start + size].view(shape)
            start += size
            assert isinstance(parameter, DTensor)
            part = DTensor.from_local(
                own, parameter.device_mesh, parameter.placements, run_check=False, shape=parameter.shape,
                stride=parameter.stride(),
            )  # fmt: skip
            owner, _, last = name.rpartition(".")
            setattr(head.get_submodule(owner), last, nn.Parameter(part, requires_grad=True))
            self.parameters.append(getattr(head.get_submodule(owner), last))
        self.weight, self.bias, *_ = self.views(self.flat)

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return the tensors of this part as views of a matrix like :attr:`flat`; the first is of shape (1, d, k)."""
        parts = flat.split(self.sizes, dim=1)
        weight, *rest = (part.view(1, *shape) for part, shape in zip(parts, self.shapes, strict=True))
        return [weight.mT, *rest]

    def sum_over_classes(self, tensor: Tensor) -> Tensor:
        """Sum of what processes have found for their classes."""
        total = tensor.clone()
        distributed.all_reduce(total, group=self._group)
        return total

    @torch.no_grad()
    def take(self, run: int) -> tuple[Tensor, Tensor, Link]:
        """Weight ``(d, K)``, bias ``(K,)`` and link, whole on every process."""
        weight, bias, *of_link = (whole(parameter.detach()).clone() for parameter in self.parameters)
        for parameter, value in zip(self._template.parameters(), of_link, strict=True):
            parameter.copy_(value)
        kept = dict(self._template.named_buffers())
        for name, buffer in self.link.named_buffers():
            kept[name].copy_(whole(buffer))
        self._template.load_state_dict(self._template.state_dict())  # so that modules notice what has been initialised
        return weight.T.contiguous(), bias, self._template


def _local(parameter: Any) -> Tensor:
    return parameter.to_local().detach()


class SplitPenalty(Penalty):
    """The penalty of a model whose classes are divided: what it takes sums of all classes for is added up."""

    model: SplitModel

    def shared(self) -> Tensor | None:
        """See :meth:`Penalty.shared`."""
        own = super().shared()
        return None if own is None else self.model.sum_over_classes(own)


class SplitGradient:
    """The objective of processes that divide the classes, and perhaps the rows too.

    Parameters
    ----------
    model : SplitModel
        This process's part.
    layout : Layout
        Which processes there are.
    """

    penalty = SplitPenalty

    def __init__(self, model: SplitModel, layout: Layout) -> None:
        self.model, self.layout = model, layout

    def initialize_link(self, features: Features, weight: Tensor, n_rows: int) -> None:
        """See :class:`~legendretron.distributed.training.Objective`."""
        if n_rows < 2:
            self.model.link.keep_start()
            return
        with torch.no_grad():
            z = self.model.head._predictor(_matrix(features))
            self.model.link.initialize(z, weight[0], across_ranks=True)

    def gradient(self, features: Features, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See :class:`~legendretron.distributed.training.Objective`."""
        model = self.model
        gradient = torch.zeros_like(model.flat)
        loss = hits = weight.new_zeros(())
        if labels.shape[1]:
            nll, hit = self._scores(features, labels)
            total = (nll * weight[0]).sum()
            found = torch.autograd.grad(total, model.parameters, materialize_grads=True)
            parts = [_as_placed(part, like).reshape(1, -1) for part, like in zip(found, model.parameters, strict=True)]
            gradient = torch.cat(parts, dim=1)
            loss, hits = total.detach(), (hit * weight[0]).sum()
        return self.layout.sum_over_rows(gradient), loss, hits

    @torch.no_grad()
    def scores(self, features: Features, labels: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`~legendretron.distributed.training.Objective`."""
        return self._scores(features, labels)

    def _scores(self, features: Features, labels: Tensor) -> tuple[Tensor, Tensor]:
        head = self.model.head
        return sharded_nll_and_hits(head.link, head._predictor(_matrix(features)), labels[0], head.noise)


def _as_placed(gradient: Tensor, parameter: DTensor) -> Tensor:
    """The part of a gradient that belongs to this process's part of the parameter."""
    assert isinstance(gradient, DTensor)
    return gradient.redistribute(placements=parameter.placements).to_local()


def _matrix(features: Features) -> Tensor:
    if not isinstance(features, DenseFeatures):
        raise ValueError("class_parallel needs dense features, got a sparse matrix; leave it out, or make X dense.")
    return features.x
