"""Training by Adam in parts, such as epochs: the steps of a part, then history, early stopping and checkpoints."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from legendretron.training.adam import Adam
from legendretron.training.checkpoint import load_checkpoint, save_checkpoint
from legendretron.training.early_stopping import EarlyStopping
from legendretron.training.features import Features
from legendretron.training.history import History
from legendretron.training.model import LinearModel
from legendretron.training.penalty import Penalty
from legendretron.training.problem import DivergedError, Sample, TrainingResult, TrainingSettings
from legendretron.training.progress import Progress
from legendretron.training.step import AnyStep, CapturedStep, CompiledStep, Step, make_step

__all__ = ["TrainingState", "take_steps"]


class TrainingState:
    """All that changes during training, apart from the model itself; saved to and loaded from checkpoints.

    Parameters
    ----------
    model : LinearModel
        What is trained.
    sample, validation : Sample
        To train on; to stop early on, if given.
    settings : TrainingSettings
        How.
    n_parts : int
        Parts of training, such as epochs, after each of which comes :meth:`end_part`.
    batches : dict of str to Tensor, optional
        What the order of the batches depends on, beside the generators.
    show_rows : bool
        Whether to show the speed, in rows a second, while training.
    """

    def __init__(
        self,
        model: LinearModel,
        sample: Sample,
        settings: TrainingSettings,
        validation: Sample | None,
        n_parts: int,
        batches: dict[str, Tensor] | None = None,
        show_rows: bool = False,
    ) -> None:
        flat, runs = model.flat, model.n_runs
        self.model, self.sample, self.settings, self.validation = model, sample, settings, validation
        self.n_parts = n_parts
        self._of_batches = {} if batches is None else batches
        self._show_rows = show_rows
        self.optimiser = Adam(flat)
        self.best = flat.clone()
        self.stopping = EarlyStopping(settings.tol, settings.n_iter_no_change, runs)
        self.n_iter = torch.zeros(runs, dtype=torch.int64, device=flat.device)
        self.stopped = torch.zeros(runs, dtype=torch.bool, device=flat.device)
        self.diverged = torch.zeros_like(self.stopped)
        self.history = History()
        self.epoch = 0
        self.seconds = 0.0
        #: rates of the next steps, and sums of losses and hits that the steps add to
        self.rate = torch.zeros(runs, 1, dtype=flat.dtype, device=flat.device)
        self.totals = torch.zeros(2, runs, dtype=flat.dtype, device=flat.device)
        self._base_rate = settings.learning_rate.to(flat)
        self._penalty = self._make_penalty()

    def _make_penalty(self, kind: type[Penalty] = Penalty) -> Penalty:
        flat, settings = self.model.flat, self.settings
        return kind(
            self.model,
            settings.alpha.to(flat),
            settings.link_alpha.to(flat),
            intercept=settings.penalize_intercept,
            symmetric=settings.symmetric,
            centred=settings.centred,
        )

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
        state |= {f"batches.{name}": tensor for name, tensor in self._of_batches.items()}
        return state | {f"link.{name}": buffer for name, buffer in self._link_buffers().items()}

    def _link_buffers(self) -> dict[str, Tensor]:
        saved = self.model.link.state_dict()
        return {name: buffer for name, buffer in self.model.link.named_buffers() if name in saved}

    def _generator_states(self) -> dict[str, Tensor]:
        return {f"generator.{run}": generator.get_state() for run, generator in enumerate(self.settings.generators)}

    def save(self) -> None:
        """Write a checkpoint."""
        settings = self.settings
        assert settings.checkpoint is not None
        tensors = self._tensors() | self._generator_states()
        notes = {
            "fingerprint": settings.fingerprint,
            "epoch": self.epoch,
            "seconds": self.seconds,
            "history": self.history.to_dict(),
        }
        save_checkpoint(settings.checkpoint, tensors, notes)

    def resume(self) -> bool:
        """Go on from the checkpoint, if there is one."""
        settings = self.settings
        if settings.checkpoint is None or not settings.checkpoint.exists():
            return False
        expected = self._tensors() | self._generator_states()
        tensors, notes = load_checkpoint(settings.checkpoint, settings.fingerprint, expected)
        for name, tensor in self._tensors().items():
            tensor.copy_(tensors[name])
        self.optimiser.refresh()
        # through load_state_dict, so that modules notice what has been initialised
        self.model.link.load_state_dict(self._link_buffers(), strict=False)
        for run, generator in enumerate(self.settings.generators):
            generator.set_state(tensors[f"generator.{run}"])
        self.epoch, self.seconds = notes["epoch"], notes["seconds"]
        self.history = History.from_dict(notes["history"])
        return True

    # --- the parts of training ---

    def step_for(self, n_rows: int, features: Features | None = None) -> AnyStep:
        """Make the step for batches of so many rows, of other features than the sample's if they are given."""
        features = self.sample.features if features is None else features
        step = Step(self.model, features, self._penalty, self.optimiser, self.rate, self.totals, n_rows)
        changing = [self.model.flat, self.optimiser.first, self.optimiser.second, self.optimiser.count, self.totals]
        return make_step(step, changing, self.settings.compiled)

    def rates(self, factors: list[float]) -> Tensor:
        """Rates of steps with these factors, shape (S, R); 0 for runs that have stopped and stay unchanged."""
        flat = self.model.flat
        column = torch.tensor(factors, dtype=flat.dtype, device=flat.device).unsqueeze(1)
        return column * (self._base_rate * ~self.stopped)

    def train(
        self, steps_of: Callable[[int], tuple[int, Iterator[None]]], stop_requested: Callable[[], bool]
    ) -> TrainingResult:
        """Go through the parts that are left.

        Parameters
        ----------
        steps_of : callable
            Given the number of a part, returns the number of rows in it, and an iterator that takes its steps one after the
            other, or several at once.
        stop_requested : callable
            Whether to end now.
        """
        settings = self.settings
        progress, done = Progress(self.n_parts, settings.verbose, label=settings.label), 0
        began = time.monotonic() - self.seconds
        interrupted = False
        with closing(progress):
            while self.epoch < self.n_parts and not bool(self.stopped.all()) and not interrupted:
                self.totals.zero_()
                n_rows, steps = steps_of(self.epoch)
                for _ in steps:
                    if stop_requested():
                        interrupted = True
                        break
                if interrupted:
                    break
                self.epoch += 1
                done += n_rows
                self.seconds = time.monotonic() - began
                self.n_iter += ~self.stopped
                train_loss, accuracy = self.totals / n_rows
                self._check_finite(train_loss)
                validation_loss = torch.full_like(train_loss, torch.nan)
                if self.validates:
                    validation_loss, accuracy = self._evaluate()
                    self._keep_best(validation_loss)
                self.history.append(
                    self.epoch,
                    train_loss.tolist(),
                    validation_loss.tolist(),
                    accuracy.tolist(),
                    self.rate.squeeze(1).tolist(),
                    self.seconds,
                )
                progress.rows = done if self._show_rows else None
                progress.update(
                    self.epoch,
                    float(train_loss.mean()),
                    float(validation_loss.mean()) if self.validates else None,
                )
                if settings.checkpoint is not None and self.epoch % settings.checkpoint_every == 0:
                    self.save()
        return self._result(interrupted)

    @property
    def validates(self) -> bool:
        """Whether there are rows to stop early on."""
        return self.validation is not None

    def _evaluate(self) -> tuple[Tensor, Tensor]:
        """Log-loss and accuracy of each run on the rows to stop early on."""
        held_out = self.validation
        assert held_out is not None
        return self.model.evaluate(held_out.features, held_out.rows, held_out.labels, held_out.weights)

    def _result(self, interrupted: bool) -> TrainingResult:
        flat, path = self.model.flat, self.settings.checkpoint
        if self.validates:
            flat.copy_(torch.where(_mask(self.stopping.best_loss < np.inf, flat), self.best, flat))
        flat[self.diverged] = torch.nan
        if path is not None and not interrupted:
            self._remove_checkpoint(path)
        return TrainingResult(
            history=self.history,
            n_iter=self.n_iter.cpu(),
            interrupted=interrupted,
            converged=torch.ones(self.model.n_runs, dtype=torch.bool),
            diverged=self._risen(),
            moments=self.optimiser.moments(),
        )

    def _remove_checkpoint(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def _check_finite(self, train_loss: Tensor) -> None:
        bad = ~torch.isfinite(train_loss) & ~self.stopped
        if not bool(bad.any()):
            return
        run = int(bad.nonzero()[0, 0])
        message = (
            f"training diverged: the loss of run {run} is {float(train_loss[run])} in epoch {self.epoch} at a "
            f"learning rate of {float(self.rate[run, 0]):.3g}; lower learning_rate, or scale the features."
        )
        self.stopped = self.stopped | bad
        self.diverged = self.diverged | bad
        if self.settings.may_diverge:
            return
        if bool(self.diverged.all()):
            raise DivergedError(message)
        # the other runs are not affected
        warnings.warn(message, RuntimeWarning, stacklevel=5)

    def _keep_best(self, loss: Tensor) -> None:
        """Keep the best weights of each run, and stop runs without patience left."""
        best = self.stopping.update(loss.double().cpu().numpy(), (~self.stopped).cpu().numpy())
        self.best.copy_(torch.where(_mask(best, self.best), self.model.flat, self.best))
        self.stopped = self.stopped | torch.from_numpy(self.stopping.exhausted).to(self.stopped.device)

    def _risen(self) -> Tensor:
        """Whether each run's loss has risen far above where it began and ended no better than that of a constant."""
        runs, n_classes = self.model.n_runs, self.model.n_outputs + 1
        losses = torch.tensor(self.history["train_loss"], dtype=torch.float64).view(-1, runs)
        if len(losses) == 0:
            return torch.zeros(runs, dtype=torch.bool)
        highest = losses.nan_to_num(torch.inf).amax(0)
        reached = torch.from_numpy(self.stopping.best_loss) if self.validates else losses[-1]
        # training begins at log C, or at random not far above
        risen = highest > 5.0 * math.log(n_classes)
        return risen & ~(reached < 0.98 * self.sample.constant_loss(n_classes).cpu())


def take_steps(step: AnyStep, batches: tuple[Tensor, ...], rates: Tensor, rate: Tensor) -> Iterator[None]:
    """Take a step for each batch, at rates ``(S, R)``, and yield where training can be ended.

    ``rate`` of shape (R, 1) is what plain steps read; it holds the rates of the last step afterwards.
    """
    if isinstance(step, CompiledStep | CapturedStep):
        rate.copy_(rates[-1].unsqueeze(1))
        rows, labels, weights = batches
        yield from step.in_pieces(rows, labels, weights, rates)
        return
    for number, batch in enumerate(zip(*batches, strict=True)):
        if number == 0 or len(rates) > 1:
            rate.copy_(rates[number].unsqueeze(1))
        step(*batch)
        yield


def _mask(runs: np.ndarray, like: Tensor) -> Tensor:
    """Whether each run counts, as a column beside a matrix with one row per run."""
    return torch.from_numpy(runs).to(like.device).unsqueeze(1)
