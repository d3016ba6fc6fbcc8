"""The streamed fit by several processes: their group, a model whose classes they divide, and what each of them runs."""

from __future__ import annotations

import copy
import json
import math
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module

from legendretron._internal.process_groups import whole
from legendretron._internal.sklearn_compat import restore_on_error
from legendretron.datasets.streams import source_of
from legendretron.estimators.stream_fit import fit_source
from legendretron.links import Link, NoisyLink
from legendretron.nn.class_parallel import ClassParallel
from legendretron.nn.head import LegendreHead
from legendretron.nn.split import sharded_nll_and_hits
from legendretron.training.features import DenseFeatures, Features
from legendretron.training.layout import Layout
from legendretron.training.model import LinearModel
from legendretron.training.problem import Sample

if TYPE_CHECKING:
    from legendretron.estimators.base import LinearLinkClassifier

AnyClassifier = TypeVar("AnyClassifier", bound="LinearLinkClassifier")


class SplitModel(LinearModel):
    """One model of which this process holds its classes' part: ``W``, ``b`` and the link's parameters, in one row of memory.

    The forward pass is that of a :class:`~legendretron.nn.LegendreHead` under
    :class:`~legendretron.nn.class_parallel.ClassParallel`, whose parameters are views of :attr:`flat`. So the optimizer, the
    penalty and checkpoints work on it as on a model that is whole. It starts from ``weight`` (d, K) and ``bias`` (K,).
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
        views = self.flat[0].split(self.sizes)
        for (name, parameter), view, shape in zip(list(head.named_parameters()), views, self.shapes, strict=True):
            assert isinstance(parameter, DTensor)
            part = DTensor.from_local(
                view.view(shape), parameter.device_mesh, parameter.placements, run_check=False, shape=parameter.shape,
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
    def initialize_link(self, batch: Sample, n_rows: int, *, across_ranks: bool = False) -> None:
        """See :meth:`LinearModel.initialize_link`."""
        if n_rows < 2:
            self.link.keep_start()
            return
        predictor = self.head._predictor(_matrix(batch.features, batch.rows))
        self.link.initialize(predictor, batch.weights[0], across_ranks=across_ranks)

    def loss_gradient(self, batch: Sample, gradient: Tensor, *, cleared: bool = False) -> tuple[Tensor, Tensor]:
        """See :meth:`LinearModel.loss_gradient`."""
        with torch.enable_grad():
            nll, hit = self._scores(batch)
            parts = torch.autograd.grad((nll * batch.weights[0]).sum(), self.parameters, materialize_grads=True)
        placed = [_as_placed(part, like).reshape(1, -1) for part, like in zip(parts, self.parameters, strict=True)]
        torch.cat(placed, dim=1, out=gradient)
        return nll.detach()[None], hit[None]

    @torch.no_grad()
    def score_sums(self, sample: Sample) -> Tensor:
        """See :meth:`LinearModel.score_sums`."""
        if not sample.rows.shape[1]:
            return sample.weights.new_zeros(3, 1)
        nll, hit = self._scores(sample)
        return torch.stack([(value * sample.weights[0]).sum() for value in (nll, hit, torch.ones_like(nll))])[:, None]

    def _scores(self, sample: Sample) -> tuple[Tensor, Tensor]:
        predictor = self.head._predictor(_matrix(sample.features, sample.rows))
        return sharded_nll_and_hits(self.head.link, predictor, sample.labels[0], self.head.noise)

    @torch.no_grad()
    def take(self, run: int) -> tuple[Tensor, Tensor, Link]:
        """Weight ``(d, K)``, bias ``(K,)`` and link, whole on every process."""
        weight, bias, *of_link = (whole(parameter.detach()).clone() for parameter in self.parameters)
        for parameter, value in zip(self._template.parameters(), of_link, strict=True):
            parameter.copy_(value)
        buffers = dict(self._template.named_buffers())
        for name, buffer in self.link.named_buffers():
            buffers[name].copy_(whole(buffer))
        self._template.load_state_dict(self._template.state_dict())  # so that modules notice what has been initialized
        return weight.T.contiguous(), bias, self._template


def _local(parameter: Any) -> Tensor:
    return parameter.to_local().detach()


def _as_placed(gradient: Tensor, parameter: DTensor) -> Tensor:
    """The part of a gradient that belongs to this process's part of the parameter."""
    assert isinstance(gradient, DTensor)
    return gradient.redistribute(placements=parameter.placements).to_local()


def _matrix(features: Features, rows: Tensor) -> Tensor:
    if not isinstance(features, DenseFeatures):
        raise ValueError("class_parallel needs dense features, got a sparse matrix; leave it out, or make X dense.")
    return features.x[rows[0]]


_NAME = "legendretron"
_POLL = 0.05  # seconds


def fresh_store(store: Any, rank: int, size: int) -> Any:
    """Agree on a prefix that no earlier processes have used, and return the store below it.

    Processes that ``torchrun`` starts again find the store of those before them, with the addresses of processes that are no
    more, and would try to connect to these. How often each has been started again does not tell them apart either, since
    machines count for themselves. So each process leaves a new word under its rank. The first one shows a list of these words
    and a prefix, as often as it takes, and the others answer below the prefix once the list has their own word in it.
    """
    word = uuid.uuid4().hex
    store.set(f"{_NAME}/word/{rank}", word)
    if rank == 0:
        prefix = f"{_NAME}/{uuid.uuid4().hex}"
        answers = [f"{prefix}/{other}" for other in range(1, size)]
        while True:
            words = [_read(store, f"{_NAME}/word/{other}") for other in range(size)]
            store.set(f"{_NAME}/list", json.dumps([prefix, words]))
            if not answers or store.check(answers):
                break
            time.sleep(_POLL)
    else:
        while True:
            prefix, words = json.loads(_read(store, f"{_NAME}/list") or '["", []]')
            if rank < len(words) and words[rank] == word:
                store.set(f"{prefix}/{rank}", "here")
                break
            time.sleep(_POLL)
    return PrefixStore(prefix, store)


def _read(store: Any, key: str) -> str:
    return store.get(key).decode() if store.check([key]) else ""


#: How long a process waits for the others, that may still read or choose penalties, before it takes them for lost.
PATIENCE = timedelta(hours=2)


def started_by_torchrun() -> bool:
    """Whether ``torchrun``, or a launcher like it, has started this process as one of a group."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ


@contextmanager
def join_group(device: str, class_parallel: int = 1) -> Iterator[Layout]:
    """Join the group of processes that ``torchrun`` describes in the environment; leave it at the end.

    With a GPU for each process, ``device="cuda"``, messages go through NCCL; on the CPU through Gloo.
    """
    kind = torch.device(device).type
    if kind == "cuda":
        target = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(target)
    else:
        target = torch.device(device)
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo",
        store=fresh_store(store, rank, size),
        rank=rank,
        world_size=size,
        timeout=PATIENCE,
    )
    try:
        yield Layout.join(target, class_parallel)
    finally:
        distributed.destroy_process_group()


def fit_shards(
    estimator: LinearLinkClassifier,
    data: Any,
    layout: Layout,
    *,
    columns: dict[str, Any] | None = None,
    skip_bad_rows: int = 0,
    **how: Any,
) -> None:
    """Fit an estimator as :func:`~legendretron.estimators.stream_fit.fit_source` does, also with classes that are divided."""

    def make_model(weight: Tensor, bias: Tensor, link: Link) -> LinearModel:
        if layout.classes is None:
            return LinearModel(weight.unsqueeze(0), bias.unsqueeze(0), [link])
        return SplitModel(weight, bias, link, layout)

    source = layout.call(lambda: source_of(data, **(columns or {}), skip_bad_rows=skip_bad_rows, dtype=estimator.dtype))
    with restore_on_error(estimator):
        fit_source(estimator, source, layout, make_model=make_model, skip_bad_rows=skip_bad_rows, **how)
