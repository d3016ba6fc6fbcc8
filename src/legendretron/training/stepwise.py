"""Training by Adam for a number of steps, however many passes over the data that is, all runs in step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from legendretron.training.minibatch import shuffled
from legendretron.training.model import LinearModel
from legendretron.training.problem import Sample, TrainingResult, TrainingSettings
from legendretron.training.state import TrainingState, take_steps

__all__ = ["rounds_of", "train_steps"]

#: Parts of equal length that training is divided into: after each there is a row of the history, and perhaps a checkpoint.
_ROUNDS = 50


class _Stream:
    """An endless row of batches of one size, from one shuffled pass over the sample after the other."""

    def __init__(self, sample: Sample, batch_size: int, generators: list[torch.Generator]) -> None:
        self.sample = sample
        self.weights = sample.normalised_weights()
        self.n_runs, longest = sample.rows.shape
        self.lengths = sample.lengths or [longest] * self.n_runs
        self.size = min([batch_size, *self.lengths])
        self.generators = generators
        #: the pass that each run has begun, and how many of its rows have been taken
        self.order = torch.zeros(self.n_runs, longest, dtype=torch.int64)
        self.taken = torch.tensor(self.lengths)

    def _next(self, run: int, wanted: int) -> Tensor:
        """The next places in the sample of a run."""
        parts, taken, length = [], int(self.taken[run]), self.lengths[run]
        while wanted:
            if taken == length:
                self.order[run, :length] = shuffled(length, self.generators[run])
                taken = 0
            parts.append(self.order[run, taken : min(taken + wanted, length)].clone())
            taken += len(parts[-1])
            wanted -= len(parts[-1])
        self.taken[run] = taken
        return torch.cat(parts)

    def first(self) -> tuple[Tensor, Tensor]:
        """Rows and weights of the first batch (of two rows at least), which :meth:`take` returns again."""
        wanted = min([max(self.size, 2), *self.lengths])
        order = torch.stack([self._next(run, wanted) for run in range(self.n_runs)]).to(self.sample.rows.device)
        self.taken.zero_()
        return self.sample.rows.gather(1, order), self.sample.weights.gather(1, order)

    def take(self, n_batches: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, labels and weights (as shares of a batch) of the next batches, each of shape (S, R, m)."""
        places = [self._next(run, n_batches * self.size) for run in range(self.n_runs)]
        order = torch.stack(places).to(self.sample.rows.device)
        rows, labels, weights = (
            torch.gather(of_sample, 1, order).view(self.n_runs, n_batches, self.size).transpose(0, 1).contiguous()
            for of_sample in (self.sample.rows, self.sample.labels, self.weights)
        )
        return rows, labels, weights / self.size


def rounds_of(steps: int) -> int:
    """Parts that so many steps are divided into."""
    return min(_ROUNDS, steps)


def train_steps(
    model: LinearModel,
    sample: Sample,
    settings: TrainingSettings,
    validation: Sample | None,
    stop_requested: Callable[[], bool],
) -> TrainingResult:
    """Train the model in place for ``settings.max_steps``; see :func:`legendretron.training.train`.

    The rate falls from step to step along half a cosine, whatever ``settings.schedule`` is.
    """
    assert settings.max_steps is not None
    stream = _Stream(sample, settings.batch_size, settings.generators)
    total, rounds = settings.max_steps, rounds_of(settings.max_steps)
    state = TrainingState(model, sample, settings, validation, rounds, {"order": stream.order, "taken": stream.taken})
    if not state.resume() and model.link.needs_batch:
        model.initialize_link(sample.features, *stream.first())
    step = state.step_for(stream.size)

    def round_steps(number: int) -> tuple[int, Iterator[None]]:
        numbers = range(total * number // rounds, total * (number + 1) // rounds)
        rates = state.rates([0.5 * (1.0 + math.cos(math.pi * s / total)) for s in numbers])
        return len(numbers) * stream.size, take_steps(step, stream.take(len(numbers)), rates, state.rate)

    return state.train(round_steps, stop_requested)
