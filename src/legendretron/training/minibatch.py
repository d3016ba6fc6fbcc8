"""Minibatch training by Adam, all runs in step."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import torch
from torch import Tensor

from legendretron._internal.validation import check_choice
from legendretron.training.adam import Adam
from legendretron.training.checkpoint import load_checkpoint, save_checkpoint
from legendretron.training.early_stopping import EarlyStopping
from legendretron.training.history import History
from legendretron.training.model import LinearModel
from legendretron.training.penalty import Penalty
from legendretron.training.problem import DivergedError, Sample, TrainingResult, TrainingSettings
from legendretron.training.progress import Progress
from legendretron.training.step import AnyStep, CompiledStep, Step, make_step

__all__ = ["rate_factor", "train_minibatch"]


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
            order = torch.stack([_shuffled(self.n, generator) for generator in self.generators])
            self._drawn = order.to(self.sample.rows.device)
        return self._drawn

    def next_epoch(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...] | None]:
        """Return rows, labels and weights of all whole batches, of shape (S, R, size), and those of the rest, if any."""
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
        return tuple(full), (rows, labels, weights / self.rest)


def _shuffled(n: int, generator: torch.Generator) -> Tensor:
    """Draw the order in which ``torch.utils.data.DataLoader(shuffle=True)`` goes through ``n`` rows.

    So a run sees the batches that the same seed gives to a training loop with torch's own loader.
    """

    def draw() -> int:
        return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())

    draw()  # a loader draws a seed for its workers first
    return torch.randperm(n, generator=torch.Generator().manual_seed(draw()))


class _State:
    """All that changes during training, apart from the model itself; saved to and loaded from checkpoints."""

    def __init__(self, model: LinearModel, batches: _Batches, settings: TrainingSettings) -> None:
        runs, device = model.n_runs, model.flat.device
        self.model = model
        self.batches = batches
        self.optimiser = Adam(model.flat)
        self.best = model.flat.clone()
        self.stopping = EarlyStopping(settings.tol, settings.n_iter_no_change, runs)
        self.n_iter = torch.zeros(runs, dtype=torch.int64, device=device)
        self.stopped = torch.zeros(runs, dtype=torch.bool, device=device)
        self.diverged = torch.zeros_like(self.stopped)
        self.history = History()
        self.epoch = 0
        self.seconds = 0.0

    def _tensors(self) -> dict[str, Tensor]:
        state = {
            "parameters": self.model.flat,
            "first_moment": self.optimiser.first,
            "second_moment": self.optimiser.second,
            "count": self.optimiser.count,
            "best": self.best,
            "best_loss": torch.from_numpy(self.stopping.best_loss),
            "waited": torch.from_numpy(self.stopping.waited),
            "n_iter": self.n_iter,
            "stopped": self.stopped,
            "diverged": self.diverged,
        }
        return state | {f"link.{name}": buffer for name, buffer in self._link_buffers().items()}

    def _link_buffers(self) -> dict[str, Tensor]:
        saved = self.model.link.state_dict()
        return {name: buffer for name, buffer in self.model.link.named_buffers() if name in saved}

    def _generator_states(self) -> dict[str, Tensor]:
        return {f"generator.{run}": generator.get_state() for run, generator in enumerate(self.batches.generators)}

    def save(self, settings: TrainingSettings) -> None:
        assert settings.checkpoint is not None
        tensors = self._tensors() | self._generator_states()
        notes = {
            "fingerprint": settings.fingerprint,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "history": self.history.to_dict(),
        }
        save_checkpoint(settings.checkpoint, tensors, notes)

    def load(self, settings: TrainingSettings) -> None:
        assert settings.checkpoint is not None
        expected = self._tensors() | self._generator_states()
        tensors, notes = load_checkpoint(settings.checkpoint, settings.fingerprint, expected)
        for name, tensor in self._tensors().items():
            tensor.copy_(tensors[name])
        self.optimiser.refresh()
        # through load_state_dict, so that modules notice what has been initialised
        self.model.link.load_state_dict(self._link_buffers(), strict=False)
        for run, generator in enumerate(self.batches.generators):
            generator.set_state(tensors[f"generator.{run}"])
        self.epoch, self.seconds = notes["epoch"], notes["seconds"]
        self.history = History.from_dict(notes["history"])


def train_minibatch(
    model: LinearModel,
    sample: Sample,
    settings: TrainingSettings,
    validation: Sample | None,
    stop_requested: Callable[[], bool],
    moments: tuple[Tensor, ...] | None = None,
) -> TrainingResult:
    """Train the model in place; see :func:`legendretron.training.train`."""
    batches = _Batches(sample, settings.batch_size, settings.generators)
    state = _State(model, batches, settings)
    if moments is not None:
        state.optimiser.load(moments)
    flat = model.flat
    resumed = settings.checkpoint is not None and settings.checkpoint.exists()
    if resumed:
        state.load(settings)
    elif model.link.needs_batch:
        _initialize_link(model, batches)

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

    def step_for(n_rows: int) -> AnyStep:
        step = Step(model, sample.features, penalty, state.optimiser, rate, totals, n_rows)
        return make_step(step, changing, settings.compiled)

    steps = {n_rows: step_for(n_rows) for n_rows in {batches.size, batches.rest} - {0}}
    progress = Progress(settings.max_epochs, settings.verbose)
    began = time.monotonic() - state.seconds
    interrupted = False

    with closing(progress):
        while state.epoch < settings.max_epochs and not bool(state.stopped.all()) and not interrupted:
            factor = rate_factor(
                settings.schedule, state.epoch, settings.max_epochs, settings.decay, settings.decay_every
            )
            # a run that has stopped stays unchanged while the others continue
            rate.copy_((base_rate * factor * ~state.stopped).unsqueeze(1))
            totals.zero_()
            for _ in _take_steps(steps, *batches.next_epoch()):
                if stop_requested():
                    interrupted = True
                    break
            if interrupted:
                break
            state.epoch += 1
            state.seconds = time.monotonic() - began
            state.n_iter += ~state.stopped
            train_loss, accuracy = totals / batches.n
            _check_finite(train_loss, state, rate)
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
                state.epoch,
                float(train_loss.mean()),
                None if validation is None else float(validation_loss.mean()),
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


def _take_steps(steps: dict[int, AnyStep], full: tuple[Tensor, ...], rest: tuple[Tensor, ...] | None) -> Iterator[None]:
    """Take a step for each batch, by the number of its rows, and yield where training can be ended."""
    step = steps[full[0].shape[-1]]
    if isinstance(step, CompiledStep):
        yield from step.in_pieces(*full)
    else:
        for batch in zip(*full, strict=True):
            step(*batch)
            yield
    if rest is not None:
        steps[rest[0].shape[-1]](*rest)
        yield


def _initialize_link(model: LinearModel, batches: _Batches) -> None:
    """Initialise what depends on a first batch, with the first one of training (of two rows at least)."""
    sample, first = batches.sample, batches.next_order()[:, : max(batches.size, 2)]
    model.initialize_link(sample.features, sample.rows.gather(1, first), sample.weights.gather(1, first))


def _check_finite(train_loss: Tensor, state: _State, rate: Tensor, may_diverge: bool = False) -> None:
    bad = ~torch.isfinite(train_loss) & ~state.stopped
    if not bool(bad.any()):
        return
    run = int(bad.nonzero()[0, 0])
    message = (
        f"training diverged: the loss of run {run} is {float(train_loss[run])} in epoch {state.epoch} at a "
        f"learning rate of {float(rate[run, 0]):.3g}; lower learning_rate, or scale the features."
    )
    state.stopped = state.stopped | bad
    state.diverged = state.diverged | bad
    if may_diverge:
        return
    if bool(state.diverged.all()):
        raise DivergedError(message)
    # the other runs are not affected
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def _diverged(state: _State, sample: Sample, validation: Sample | None) -> Tensor:
    """Whether each run's loss has risen far above where it began and ended no better than that of a constant."""
    runs, n_classes = state.model.n_runs, state.model.n_outputs + 1
    losses = torch.tensor(state.history["train_loss"], dtype=torch.float64).view(-1, runs)
    if len(losses) == 0:
        return torch.zeros(runs, dtype=torch.bool)
    highest = losses.nan_to_num(torch.inf).amax(0)
    reached = losses[-1] if validation is None else torch.from_numpy(state.stopping.best_loss)
    # training begins at log C, or at random not far above
    risen = highest > 5.0 * math.log(n_classes)
    return risen & ~(reached < 0.98 * sample.constant_loss(n_classes).cpu())


def _keep_best(state: _State, loss: Tensor) -> None:
    """Keep the best weights of each run, and stop runs without patience left."""
    best = state.stopping.update(loss.double().cpu().numpy(), (~state.stopped).cpu().numpy())
    state.best.copy_(torch.where(_mask(best, state.best), state.model.flat, state.best))
    state.stopped = state.stopped | torch.from_numpy(state.stopping.exhausted).to(state.stopped.device)


def _mask(runs: np.ndarray, like: Tensor) -> Tensor:
    """Whether each run counts, as a column beside a matrix with one row per run."""
    return torch.from_numpy(runs).to(like.device).unsqueeze(1)
