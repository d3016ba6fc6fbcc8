"""Training of many models side by side: the one loop of all fits, and its schedule of steps and learning rates."""

from __future__ import annotations

import math
import time
from contextlib import closing

from torch import Tensor

from legendretron._internal.validation import check_choice
from legendretron.training.features import Features
from legendretron.training.history import Progress
from legendretron.training.layout import Layout, threads_for
from legendretron.training.lbfgs import train_lbfgs
from legendretron.training.model import LinearModel, Model
from legendretron.training.problem import Batches, Block, Sample, SampleBatches, TrainingResult, TrainingSettings
from legendretron.training.state import TrainingState
from legendretron.training.step import AnyStep, Step, make_step


def train(
    model: Model,
    sample: Sample,
    settings: TrainingSettings,
    validation: Sample | None = None,
    moments: tuple[Tensor, ...] | None = None,
) -> TrainingResult:
    r"""Minimize the mean log-loss plus penalties, in place, for all runs of a model.

    Runs share nothing but the feature matrix: each has rows, labels, weights, a seed, a learning rate and penalties of
    its own, and comes out as if it had been trained alone. With a validation sample each run keeps the weights of its best
    epoch by log-loss, and stops when it no longer improves.

    Parameters
    ----------
    model : Model
        The start, and afterwards the result.
    sample, validation : Sample
        To train on, and to stop early on if given.
    settings : TrainingSettings
        How.
    moments : tuple of Tensor, optional
        State of Adam from an earlier call, to resume from.

    Examples
    --------
    A logistic regression, on twelve rows:

    >>> import numpy as np
    >>> import torch
    >>> from legendretron.links import SoftmaxLink
    >>> from legendretron.training import LinearModel, Sample, TrainingSettings, as_features
    >>> x = np.random.default_rng(0).normal(size=(12, 2))
    >>> y = torch.as_tensor(x[:, 0] > 0).long()
    >>> features = as_features(x, torch.float64, torch.device("cpu"))
    >>> one = torch.ones(1, dtype=torch.float64)
    >>> sample = Sample(features, torch.arange(12)[None], y[None], torch.ones(1, 12, dtype=torch.float64))
    >>> model = LinearModel(torch.zeros(1, 2, 1).double(), torch.zeros(1, 1).double(), [SoftmaxLink(2).double()])
    >>> settings = TrainingSettings(1e-3 * one, one, one, [torch.Generator()], solver="lbfgs")
    >>> result = train(model, sample, settings)
    >>> bool(result.converged[0])
    True
    """
    check_choice("solver", settings.solver, ("adam", "lbfgs"))
    n_rows = sample.rows.shape[1]
    if settings.solver == "lbfgs":
        assert isinstance(model, LinearModel)
        with threads_for(model.n_multiplications(n_rows)):
            return train_lbfgs(model, sample, settings, validation)
    batches = SampleBatches(sample, settings.batch_size, settings.generators, endless=settings.max_steps is not None)
    class_weight = sample.class_weight(model.n_outputs + 1)
    return train_batches(model, batches, settings, class_weight, validation, moments=moments)


def train_batches(
    model: Model,
    batches: Batches,
    settings: TrainingSettings,
    class_weight: Tensor,
    validation: Sample | None = None,
    *,
    moments: tuple[Tensor, ...] | None = None,
    layout: Layout | None = None,
    show_rows: bool = False,
) -> TrainingResult:
    """Train a model in place by Adam, on batches from any source.

    Parameters
    ----------
    model, settings, validation, moments
        As for :func:`train`; of several processes, ``validation`` holds the rows of this one.
    batches : Batches
        To train on; endless if ``settings.max_steps`` is given.
    class_weight : Tensor of shape (R, C)
        Sum of the weights of each class's rows.
    layout, show_rows
        Of several processes, all of which call this; whether to show the speed, in rows a second.
    """
    layout = Layout.alone() if layout is None else layout
    with closing(batches), threads_for(model.n_multiplications(batches.size / layout.n_data)):
        state = TrainingState(model, settings, class_weight, validation, layout)
        if moments is not None:
            state.optimizer.load(moments)
        if state.resume():
            batches.skip(state.step)
        schedule = Schedule(settings, batches.n_steps)
        fit_loop(state, batches, schedule, show_rows)
        return state.finish()


def fit_loop(state: TrainingState, batches: Batches, schedule: Schedule, show_rows: bool = False) -> None:
    """Train for the epochs that are left."""
    settings, steps = state.settings, _Steps(state)
    by_step = settings.max_steps is not None
    total = schedule.n_epochs if settings.max_steps is None else settings.max_steps
    unit, start = ("step", state.step) if by_step else ("epoch", state.epoch)
    progress = Progress(total, settings.verbose, label=settings.label, unit=unit, start=start)
    began, n_rows = time.monotonic() - state.seconds, 0
    with closing(progress):
        while state.epoch < schedule.n_epochs and not bool(state.stopped.all()):
            while (left := schedule.end(state.epoch) - state.step) > 0:
                block = batches.take(state.limit_steps(left))
                if state.step == 0 and state.model.link.needs_batch:
                    _initialize_link(state, batches.features, block)
                rates = state.rates(schedule.factors(state.epoch, state.step, len(block.rows)))
                steps.find(batches.features, block).take_all(*block[:3], rates)
                n_rows += len(block.rows) * block.n_rows
                state.end_steps(len(block.rows), block.n_rows)
            losses = state.end_epoch(time.monotonic() - began)
            progress.rows = n_rows if show_rows else None
            progress.update(state.step if by_step else state.epoch, *losses)
            if state.store is not None and state.epoch % settings.checkpoint_every == 0:
                state.save()


def _initialize_link(state: TrainingState, features: Features, block: Block) -> None:
    """Initialize what depends on a first batch, of two rows at least."""
    count = 1 if block.n_rows > 1 else min(2, len(block.rows))
    rows, labels, weights = (part[:count].transpose(0, 1).flatten(1) for part in block[:3])
    batch, across_ranks = Sample(features, rows, labels, weights), state.layout.n_processes > 1
    state.model.initialize_link(batch, count * block.n_rows, across_ranks=across_ranks)


class _Steps:
    """Steps by the size of their batches, made again when the features change."""

    def __init__(self, state: TrainingState) -> None:
        self._state = state
        self._features: Features | None = None
        self._made: dict[tuple[int, int], AnyStep] = {}

    def find(self, features: Features, block: Block) -> AnyStep:
        """The step for the batches of a block."""
        if features is not self._features:
            self._made, self._features = {}, features
        size = block.rows.shape[-1], block.n_rows
        if size not in self._made:
            s = self._state
            joint = s.layout.n_processes > 1 or size[0] == 0  # of many shards, a small batch may have no row
            layout = s.layout if joint else None
            step = Step(s.model, features, s.penalty, s.optimizer, s.rate, s.totals, block.n_rows, layout)
            self._made[size] = step if joint else make_step(step)
        return self._made[size]


#: Epochs that ``max_steps`` is divided into, for the history, early stopping and checkpoints.
ROUNDS = 50


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


def waves(share: float) -> float:
    r"""Factor on the rate after a share of the steps: four waves from 0 to 1 and back, each twice as long as the one before.

    .. math:: \tfrac12 (1 - \cos(2 \pi \log_2(1 + 15 t)))

    At the end of each wave the weights are as those of a finished training, so the best of four can be kept.

    Examples
    --------
    >>> [round(waves(t / 15), 3) for t in (0, 1, 3, 7, 11, 15)]
    [0.0, 0.0, 0.0, 0.0, 0.93, 0.0]
    """
    return 0.5 * (1.0 - math.cos(2.0 * math.pi * math.log2(1.0 + 15.0 * share)))


class Schedule:
    """Either ``max_epochs`` passes over the rows, or ``max_steps`` steps in epochs that need not be passes.

    Then the rate falls from step to step along half a cosine, or goes up and down in :func:`waves` if ``settings.schedule``
    is that. ``pass_steps`` is the number of steps of a pass over the rows.

    Examples
    --------
    >>> import torch
    >>> one = torch.ones(1)
    >>> schedule = Schedule(TrainingSettings(one, one, one, [torch.Generator()], max_steps=120), pass_steps=7)
    >>> schedule.n_epochs, [schedule.end(epoch) for epoch in (0, 1, 49)]
    (50, [2, 4, 120])
    """

    def __init__(self, settings: TrainingSettings, pass_steps: int) -> None:
        self._settings, self._pass_steps = settings, pass_steps
        total = settings.max_steps
        self.n_epochs = settings.max_epochs if total is None else min(ROUNDS, total)

    def end(self, epoch: int) -> int:
        """Steps of this epoch and of all before it."""
        total = self._settings.max_steps
        return (epoch + 1) * self._pass_steps if total is None else total * (epoch + 1) // self.n_epochs

    def factors(self, epoch: int, step: int, count: int) -> list[float]:
        """Factors on the initial rate at ``count`` steps from ``step`` on, or one for all of them."""
        s, total = self._settings, self._settings.max_steps
        if total is None:
            return [rate_factor(s.schedule, epoch, s.max_epochs, s.decay, s.decay_every)]
        numbers = range(step, step + count)
        if s.schedule == "waves":  # in the middle of a step, where the rate is never 0
            return [waves((number + 0.5) / total) for number in numbers]
        return [0.5 * (1.0 + math.cos(math.pi * number / total)) for number in numbers]
