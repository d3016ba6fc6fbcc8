"""Training of one model by several processes, each on its shards of the rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from legendretron._internal.process_groups import is_sharded
from legendretron.distributed.checkpoints import CheckpointStore
from legendretron.distributed.layout import Layout
from legendretron.distributed.shards import JointBatches, ShardedRows, ShardReader, joined_rows
from legendretron.training.features import DenseFeatures, Features, as_features
from legendretron.training.minibatch import rate_factor
from legendretron.training.model import LinearModel
from legendretron.training.penalty import Penalty
from legendretron.training.problem import Sample, TrainingResult, TrainingSettings
from legendretron.training.row_window import Rows
from legendretron.training.state import TrainingState
from legendretron.training.threads import threads_for

__all__ = ["Objective", "ShardedState", "train_shards"]


class Objective(Protocol):
    """The loss of this process's rows, and the gradient of all processes' rows."""

    @property
    def penalty(self) -> type[Penalty]:
        """Kind of the penalty."""
        ...

    def initialize_link(self, features: Features, weight: Tensor, n_rows: int) -> None:
        """Initialise what depends on a first batch, of ``n_rows`` on all processes."""
        ...

    def gradient(self, features: Features, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradient of the joint loss, like ``model.flat``, and the weighted sums of losses and hits of the own rows."""
        ...

    def scores(self, features: Features, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Log-loss and hit of each row, both of shape (n,)."""
        ...


class ShardedState(TrainingState):
    """The state of training on shards, the same on all processes after each step.

    Parameters
    ----------
    model : LinearModel
        With one run.
    rows : ShardedRows
        To train on.
    settings : TrainingSettings
        How. ``batch_size`` is that of the joint batch.
    objective : Objective
        What is minimised.
    layout : Layout
        Which part of the work is this process's.
    class_weight : ndarray of shape (C,)
        Sum of the weights of each class's rows.
    store : CheckpointStore, optional
        Where checkpoints go; there are none if it is not given.
    checkpoint_steps : int, optional
        Steps between two checkpoints; if not given, there is one after every ``settings.checkpoint_every`` epochs.
    """

    def __init__(
        self,
        model: LinearModel,
        rows: ShardedRows,
        settings: TrainingSettings,
        objective: Objective,
        layout: Layout,
        *,
        class_weight: np.ndarray,
        store: CheckpointStore | None = None,
        checkpoint_steps: int | None = None,
    ) -> None:
        self.rows, self.objective, self.layout, self.store = rows, objective, layout, store
        settings = replace(settings, checkpoint=None if store is None else store.path)
        self.batches = JointBatches(rows.sizes, settings.batch_size)
        self.n_steps = settings.max_steps or settings.max_epochs * self.batches.n_steps
        self.checkpoint_steps = checkpoint_steps
        #: steps taken in this epoch, and the sums of losses and hits of all processes up to the last checkpoint in it
        self._taken = torch.zeros((), dtype=torch.int64)
        self._settled = torch.zeros(2, 1, dtype=model.flat.dtype, device=model.flat.device)
        super().__init__(
            model, _stand_in(model, class_weight), settings, None, math.ceil(self.n_steps / self.batches.n_steps),
            {"taken": self._taken, "settled": self._settled},
        )  # fmt: skip

    def _make_penalty(self, kind: type[Penalty] = Penalty) -> Penalty:
        return super()._make_penalty(self.objective.penalty)

    @property
    def validates(self) -> bool:
        """Whether there are rows to stop early on."""
        return sum(self.rows.held_out) > 0

    def _link_buffers(self) -> dict[str, Tensor]:
        # those that are divided by class hold settings, which do not change
        return {name: buffer for name, buffer in super()._link_buffers().items() if not is_sharded(buffer)}

    def save(self) -> None:
        """Write a checkpoint; processes that hold the same parameters leave it to the first of them."""
        assert self.store is not None
        if self.layout.data_rank == 0:
            super().save()
        self.store.written()

    def _remove_checkpoint(self, path: Path) -> None:
        """Keep it until the model has been written: a process may be lost before."""

    def steps_of(self, epoch: int) -> tuple[int, Iterator[None]]:
        """See :meth:`TrainingState.train`."""
        last = min(self.batches.n_steps, self.n_steps - epoch * self.batches.n_steps)
        return sum(map(self.batches.joint, range(last))), self._steps(epoch, last)

    def _steps(self, epoch: int, last: int) -> Iterator[None]:
        batches, first = self.batches, int(self._taken)
        with ExitStack() as stack:
            readers = {}
            for shard in self.layout.shards(len(batches.sizes)):
                rows = self.rows.training(shard, epoch)
                stack.callback(getattr(rows, "close", lambda: None))
                readers[shard] = ShardReader(rows, shard)
                readers[shard].skip(batches.start(shard, first))
            for step in range(first, last):
                taken = [reader.take(batches.taken(shard, step)) for shard, reader in readers.items()]
                self._step(epoch, step, [part for part in taken if part is not None])
                yield
        self._settle()
        self.totals.copy_(self._settled)
        self._settled.zero_()
        self._taken.zero_()

    def _step(self, epoch: int, step: int, parts: list[Rows]) -> None:
        n_rows = self.batches.joint(step)
        features, labels, weight = self._on_device(parts)
        if epoch == 0 and step == 0 and self.model.link.needs_batch:
            self.objective.initialize_link(features, weight, n_rows)
        gradient, loss, hits = self.objective.gradient(features, labels, weight / n_rows)
        self.rate.copy_(self.rates([self._rate_factor(epoch, step)]).squeeze(0).unsqueeze(1))
        self.optimiser.step(gradient, self.rate, self._penalty)
        self.totals[0].add_(loss, alpha=n_rows)
        self.totals[1].add_(hits, alpha=n_rows)
        self._taken += 1
        done = epoch * self.batches.n_steps + step + 1
        if self.settings.checkpoint is not None and self.checkpoint_steps and done % self.checkpoint_steps == 0:
            self._settle()
            self.save()

    def _rate_factor(self, epoch: int, step: int) -> float:
        settings = self.settings
        if settings.max_steps is None:
            return rate_factor(settings.schedule, epoch, settings.max_epochs, settings.decay, settings.decay_every)
        return 0.5 * (1.0 + math.cos(math.pi * (epoch * self.batches.n_steps + step) / self.n_steps))

    def _settle(self) -> None:
        """Add up the sums of all processes."""
        self._settled += self.layout.sum_over_rows(self.totals)
        self.totals.zero_()

    def _on_device(self, parts: list[Rows]) -> tuple[Features, Tensor, Tensor]:
        """Features, and labels and weights of shape (1, n), of rows that may be none."""
        flat = self.model.flat
        if not parts:
            features = as_features(flat.new_zeros(0, self.model.n_features).cpu().numpy(), flat.dtype, flat.device)
            return features, torch.zeros(1, 0, dtype=torch.int64, device=flat.device), flat.new_zeros(1, 0)
        rows = joined_rows(parts)
        features = as_features(rows.x, flat.dtype, flat.device)
        labels = torch.as_tensor(rows.labels, dtype=torch.int64, device=flat.device).unsqueeze(0)
        return features, labels, torch.as_tensor(rows.weights).to(flat).unsqueeze(0)

    def _evaluate(self) -> tuple[Tensor, Tensor]:
        sums = self.model.flat.new_zeros(3, 1, dtype=torch.float64)
        for shard in self.layout.shards(len(self.rows.held_out)):
            for part in self.rows.validation(shard):
                features, labels, weight = self._on_device([part])
                nll, hit = self.objective.scores(features, labels)
                for place, value in enumerate((nll, hit, torch.ones_like(nll))):
                    sums[place] += (value.double() * weight[0].double()).sum()
        loss, hits, total = self.layout.sum_over_rows(sums)
        return (loss / total).to(self.model.flat.dtype), (hits / total).to(self.model.flat.dtype)


def _stand_in(model: LinearModel, class_weight: np.ndarray) -> Sample:
    """A sample that stands for all rows: one row for each class, with the weight of all of its rows."""
    weight = torch.as_tensor(class_weight).to(model.flat)[None]
    labels = torch.arange(weight.shape[1], device=weight.device)[None]
    return Sample(DenseFeatures(weight.new_zeros(1, model.n_features)), torch.zeros_like(labels), labels, weight)


def train_shards(state: ShardedState) -> TrainingResult:
    """Train in place, from the checkpoint if there is one; every process of the layout must call this."""
    model = state.model
    own = state.batches.batch_size / state.layout.n_data
    with threads_for(2.0 * own * model.n_features * model.n_outputs):
        if state.store is not None:
            state.store.fetch()
            state.resume()
        return state.train(state.steps_of, lambda: False)
