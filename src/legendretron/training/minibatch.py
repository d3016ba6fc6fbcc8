"""Minibatch training by Adam, all runs in step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain

import torch
from torch import Tensor

from legendretron._internal.validation import check_choice
from legendretron.training.model import LinearModel
from legendretron.training.problem import Sample, TrainingResult, TrainingSettings
from legendretron.training.state import TrainingState, take_steps

__all__ = ["rate_factor", "shuffled", "train_minibatch"]


def rate_factor(schedule: str, epoch: int, max_epochs: int, decay: float = 0.95, decay_every: int = 4) -> float:
    """Factor on the initial rate in an epoch, counted from 0.

    ``"constant"``: 1. ``"step"``: ``decay`` to the power of the number of whole ``decay_every`` epochs done, as the paper.
    ``"cosine"``: from 1 to (almost) 0 along half a cosine.

    Examples
    --------
    >>> rate_factor("step", 8, 240, decay=0.5, decay_every=4)
    0.25
    >>> rate_factor("cosine", 5, 10)
    0.5
    """
    check_choice("schedule", schedule, ("constant", "step", "cosine"))
    if schedule == "step":
        return decay ** (epoch // decay_every)
    if schedule == "cosine":
        return round(0.5 * (1.0 + math.cos(math.pi * epoch / max_epochs)), 12)
    return 1.0


class _Batches:
    """The sample in a new order every epoch, split into batches. Each run shuffles with its own generator."""

    def __init__(self, sample: Sample, batch_size: int, generators: list[torch.Generator]) -> None:
        self.sample = sample
        self.weights = sample.normalised_weights()
        self.n_runs, self.n = sample.rows.shape
        self.size = min(batch_size, self.n)
        self.n_full, self.rest = divmod(self.n, self.size)
        self.generators = generators
        self._drawn: Tensor | None = None

    def next_order(self) -> Tensor:
        """Draw the order of the next epoch, shape (R, n); the same one until that epoch begins."""
        if self._drawn is None:
            order = torch.stack([shuffled(self.n, generator) for generator in self.generators])
            self._drawn = order.to(self.sample.rows.device)
        return self._drawn

    def next_epoch(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...] | None]:
        """Return rows, labels and weights of all whole batches, shape (S, R, size), and of the rest, (1, R, rest), if any."""
        parts: tuple[Tensor, ...] = (self.sample.rows, self.sample.labels, self.weights)
        if self.n_full > 1 or self.rest:  # one batch of everything needs no order
            order = self.next_order()
            self._drawn = None
            parts = tuple(torch.gather(part, 1, order) for part in parts)
        whole = self.n_full * self.size
        # weights as shares of a batch; batches first, so that each is contiguous
        full = [
            part[:, :whole].view(self.n_runs, self.n_full, self.size).transpose(0, 1).contiguous() for part in parts
        ]
        full[2] = full[2] / self.size
        if not self.rest:
            return tuple(full), None
        rows, labels, weights = (part[:, whole:].contiguous() for part in parts)
        return tuple(full), (rows.unsqueeze(0), labels.unsqueeze(0), (weights / self.rest).unsqueeze(0))


def shuffled(n: int, generator: torch.Generator) -> Tensor:
    """Draw the order in which ``torch.utils.data.DataLoader(shuffle=True)`` goes through ``n`` rows.

    So a run sees the batches that the same seed gives to a training loop with torch's own loader.
    """

    def draw() -> int:
        return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())

    draw()  # a loader draws a seed for its workers first
    return torch.randperm(n, generator=torch.Generator().manual_seed(draw()))


def train_minibatch(
    model: LinearModel,
    sample: Sample,
    settings: TrainingSettings,
    validation: Sample | None,
    stop_requested: Callable[[], bool],
    moments: tuple[Tensor, ...] | None = None,
) -> TrainingResult:
    """Train the model in place, epoch by epoch; see :func:`legendretron.training.train`."""
    batches = _Batches(sample, settings.batch_size, settings.generators)
    state = TrainingState(model, sample, settings, validation, settings.max_epochs)
    if moments is not None:
        state.optimiser.load(moments)
    if not state.resume() and model.link.needs_batch:
        _initialize_link(model, batches)
    steps = {n_rows: state.step_for(n_rows) for n_rows in {batches.size, batches.rest} - {0}}

    def epoch_steps(epoch: int) -> tuple[int, Iterator[None]]:
        factor = rate_factor(settings.schedule, epoch, settings.max_epochs, settings.decay, settings.decay_every)
        rates = state.rates([factor])
        full, rest = batches.next_epoch()
        parts = [(batches.size, full)] if rest is None else [(batches.size, full), (batches.rest, rest)]
        taken = (take_steps(steps[n_rows], part, rates, state.rate) for n_rows, part in parts)
        return batches.n, chain.from_iterable(taken)

    return state.train(epoch_steps, stop_requested)


def _initialize_link(model: LinearModel, batches: _Batches) -> None:
    """Initialise what depends on a first batch, with the first one of training (of two rows at least)."""
    sample, first = batches.sample, batches.next_order()[:, : max(batches.size, 2)]
    model.initialize_link(sample.features, sample.rows.gather(1, first), sample.weights.gather(1, first))
