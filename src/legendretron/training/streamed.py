"""Training on rows that arrive pass by pass, and never are in memory all at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import torch
from torch import Tensor

from legendretron.training.interrupt import stop_requests
from legendretron.training.minibatch import rate_factor
from legendretron.training.model import LinearModel
from legendretron.training.problem import Sample, TrainingResult, TrainingSettings
from legendretron.training.row_window import WindowBatches
from legendretron.training.state import TrainingState, take_steps
from legendretron.training.step import AnyStep
from legendretron.training.stepwise import rounds_of
from legendretron.training.threads import threads_for

__all__ = ["train_streamed"]


@dataclass
class _Steps:
    """The steps for the batches of a window, which are made anew if its features are."""

    state: TrainingState
    batches: WindowBatches

    def __post_init__(self) -> None:
        self._made: dict[int, AnyStep] = {}
        self._version = -1

    def of(self, n_rows: int) -> AnyStep:
        """The step for batches of so many rows."""
        if self.batches.sparse and self._version != self.batches.version:
            self._made, self._version = {}, self.batches.version
        if n_rows not in self._made:
            self._made[n_rows] = self.state.step_for(n_rows, self.batches.features)
        return self._made[n_rows]


def train_streamed(
    model: LinearModel,
    batches: WindowBatches,
    settings: TrainingSettings,
    class_weight: Tensor,
    n_rows: int,
    validation: Sample | None = None,
) -> TrainingResult:
    """Train a model of one run in place, as :func:`legendretron.training.train` does with rows in memory.

    Parameters
    ----------
    model : LinearModel
        The start, and afterwards the result.
    batches : WindowBatches
        To train on; endless if ``settings.max_steps`` is given.
    settings : TrainingSettings
        How; without a checkpoint.
    class_weight : Tensor of shape (C,)
        Sum of the weights of each class's rows.
    n_rows : int
        Rows of a pass.
    validation : Sample, optional
        To stop early on; in memory.
    """
    work = 2.0 * batches.size * model.n_features * model.n_outputs
    with closing(batches), threads_for(work), stop_requests(settings.keep_interrupted) as stop_requested:
        if settings.max_steps is None:
            batches.begin(0)
        first_rows, first_weights = batches.first()
        sample = _stand_in(batches, class_weight.to(model.flat.device))
        n_parts = settings.max_epochs if settings.max_steps is None else rounds_of(settings.max_steps)
        state = TrainingState(model, sample, settings, validation, n_parts, show_rows=True)
        if model.link.needs_batch:
            model.initialize_link(batches.features, first_rows, first_weights)
        steps = _Steps(state, batches)
        take = _passes if settings.max_steps is None else _rounds
        return state.train(take(state, steps, n_rows), stop_requested)


def _stand_in(batches: WindowBatches, class_weight: Tensor) -> Sample:
    """A sample that stands for all rows: one row for each class, with the weight of all of its rows."""
    labels = torch.arange(len(class_weight), device=class_weight.device)
    return Sample(batches.features, torch.zeros_like(labels)[None], labels[None], class_weight[None])


def _passes(state: TrainingState, steps: _Steps, n_rows: int) -> Callable[[int], tuple[int, Iterator[None]]]:
    settings, batches = state.settings, steps.batches

    def of_pass(epoch: int) -> Iterator[None]:
        if epoch:  # the first has begun
            batches.begin(epoch)
        factor = rate_factor(settings.schedule, epoch, settings.max_epochs, settings.decay, settings.decay_every)
        while (taken := batches.take()) is not None:
            yield from take_steps(steps.of(taken[0].shape[-1]), taken, state.rates([factor]), state.rate)

    return lambda epoch: (n_rows, of_pass(epoch))


def _rounds(state: TrainingState, steps: _Steps, n_rows: int) -> Callable[[int], tuple[int, Iterator[None]]]:
    total, batches = state.settings.max_steps, steps.batches
    assert total is not None

    def of_steps(numbers: range) -> Iterator[None]:
        while numbers:
            taken = batches.take(len(numbers))
            assert taken is not None  # passes are endless
            now, numbers = numbers[: len(taken[0])], numbers[len(taken[0]) :]
            rates = state.rates([0.5 * (1.0 + math.cos(math.pi * s / total)) for s in now])
            yield from take_steps(steps.of(batches.size), taken, rates, state.rate)

    def of_round(number: int) -> tuple[int, Iterator[None]]:
        rounds = state.n_parts
        numbers = range(total * number // rounds, total * (number + 1) // rounds)
        return len(numbers) * batches.size, of_steps(numbers)

    return of_round
