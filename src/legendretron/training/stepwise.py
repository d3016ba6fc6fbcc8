"""Training by Adam for a number of steps, however many passes over the data that is, all runs in step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing

import numpy as np
import torch
from torch import Tensor

from legendretron.training.minibatch import _check_finite, _diverged, _keep_best, _mask, _shuffled, _State
from legendretron.training.model import LinearModel
from legendretron.training.penalty import Penalty
from legendretron.training.problem import Sample, TrainingResult, TrainingSettings
from legendretron.training.progress import Progress
from legendretron.training.step import CompiledStep, Step, make_step

__all__ = ["train_steps"]

#: Parts of equal length that training is divided into: after each there is a row of the history, and perhaps a checkpoint.
_ROUNDS = 50


class _Stream:
    """An endless row of batches of one size, from one shuffled pass over the sample after the other."""

    def __init__(self, sample: Sample, batch_size: int, generators: list[torch.Generator]) -> None:
        self.sample = sample
        self.weights = sample.normalised_weights()
        self.n_runs, self.n = sample.rows.shape
        self.size = min(batch_size, self.n)
        self.generators = generators
        #: the pass that has begun, and how many of its rows have been taken
        self.order = torch.zeros_like(sample.rows)
        self.taken = torch.full((), self.n, dtype=torch.int64)

    def _next_pass(self) -> None:
        order = torch.stack([_shuffled(self.n, generator) for generator in self.generators])
        self.order.copy_(order)
        self.taken.zero_()

    def take(self, n_batches: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, labels and weights (as shares of a batch) of the next batches, each of shape (S, R, m)."""
        wanted, parts = n_batches * self.size, []
        while wanted:
            if int(self.taken) == self.n:
                self._next_pass()
            first = int(self.taken)
            part = self.order[:, first : first + wanted].clone()
            self.taken += part.shape[1]
            wanted -= part.shape[1]
            parts.append(part)
        order = torch.cat(parts, dim=1)
        rows, labels, weights = (
            torch.gather(of_sample, 1, order).view(self.n_runs, n_batches, self.size).transpose(0, 1).contiguous()
            for of_sample in (self.sample.rows, self.sample.labels, self.weights)
        )
        return rows, labels, weights / self.size


def _steps_at_once(model: LinearModel, batch_size: int) -> int:
    """Compiled steps between which Ctrl-C is noticed: about a tenth of a second, at 5 microseconds for a row and run."""
    return max(1, 20_000 // (model.n_runs * batch_size))


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
    state = _State(model, stream, settings)
    flat = model.flat
    if settings.checkpoint is not None and settings.checkpoint.exists():
        state.load(settings)
    elif model.link.needs_batch:
        rows, _, weights = stream.take(1)
        model.initialize_link(sample.features, rows[0], weights[0])
    alpha, link_alpha, base_rate = (t.to(flat) for t in (settings.alpha, settings.link_alpha, settings.learning_rate))
    penalty = Penalty(
        model,
        alpha,
        link_alpha,
        intercept=settings.penalize_intercept,
        symmetric=settings.symmetric,
        centred=settings.centred,
    )
    rate = torch.zeros(model.n_runs, 1, dtype=flat.dtype, device=flat.device)
    totals = torch.zeros(2, model.n_runs, dtype=flat.dtype, device=flat.device)
    changing = [flat, state.optimiser.first, state.optimiser.second, state.optimiser.count, totals]
    plain = Step(model, sample.features, penalty, state.optimiser, rate, totals, stream.size)
    step = make_step(plain, changing, settings.compiled)
    rounds = min(_ROUNDS, settings.max_steps)
    ends = [settings.max_steps * (i + 1) // rounds for i in range(rounds)]
    progress = Progress(rounds, settings.verbose, settings.label)
    began = time.monotonic() - state.seconds
    interrupted = False
    with closing(progress):
        while state.epoch < rounds and not bool(state.stopped.all()) and not interrupted:
            first, end = ends[state.epoch - 1] if state.epoch else 0, ends[state.epoch]
            totals.zero_()
            batches = stream.take(end - first)
            factors = [0.5 * (1.0 + math.cos(math.pi * s / settings.max_steps)) for s in range(first, end)]
            rates = torch.tensor(factors, dtype=flat.dtype, device=flat.device).unsqueeze(1) * (
                base_rate * ~state.stopped
            )
            at_once = _steps_at_once(model, stream.size) if isinstance(step, CompiledStep) else 1
            for start in range(0, len(factors), at_once):
                part = slice(start, start + at_once)
                rate.copy_(rates[part][-1].unsqueeze(1))
                if isinstance(step, CompiledStep):
                    step.many(*(of_batches[part] for of_batches in batches), rates[part])
                else:
                    step(*(of_batches[start] for of_batches in batches))
                if stop_requested():
                    interrupted = True
                    break
            if interrupted:
                break
            state.epoch += 1
            state.seconds = time.monotonic() - began
            state.n_iter += ~state.stopped
            train_loss, accuracy = totals / ((end - first) * stream.size)
            _check_finite(train_loss, state, rate, settings.may_diverge)
            if validation is None:
                validation_loss = torch.full_like(train_loss, torch.nan)
            else:
                validation_loss, accuracy = model.evaluate(
                    validation.features, validation.rows, validation.labels, validation.weights
                )
                _keep_best(state, validation_loss)
            state.history.append(
                state.epoch,
                train_loss.tolist(),
                validation_loss.tolist(),
                accuracy.tolist(),
                rate.squeeze(1).tolist(),
                state.seconds,
            )
            progress.update(
                state.epoch, float(train_loss.mean()), None if validation is None else float(validation_loss.mean())
            )
            if settings.checkpoint is not None and state.epoch % settings.checkpoint_every == 0:
                state.save(settings)
    if validation is not None:
        flat.copy_(torch.where(_mask(state.stopping.best_loss < np.inf, flat), state.best, flat))
    flat[state.diverged] = torch.nan
    if settings.checkpoint is not None and not interrupted:
        settings.checkpoint.unlink(missing_ok=True)
    return TrainingResult(
        history=state.history,
        n_iter=state.n_iter.cpu(),
        interrupted=interrupted,
        converged=torch.ones(model.n_runs, dtype=torch.bool),
        diverged=_diverged(state, sample, validation),
        moments=state.optimiser.moments(),
    )
