"""All that changes during training by Adam, saved to and loaded from checkpoints."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from legendretron._internal.fields import OBJECT, array, check_fields, integer, number
from legendretron._internal.parameters import spell
from legendretron._internal.process_groups import is_sharded
from legendretron.training.checkpoint import CheckpointStore, load_checkpoint, save_checkpoint
from legendretron.training.history import EarlyStopping, History
from legendretron.training.layout import Layout
from legendretron.training.model import LinearModel, Model, Penalty
from legendretron.training.problem import DivergedError, Sample, TrainingResult, TrainingSettings
from legendretron.training.step import Adam


class TrainingState:
    """All that changes during training, apart from the model itself; the same on all processes after each step.

    Parameters are those of :func:`~legendretron.training.engine.train_batches`.
    """

    def __init__(
        self,
        model: Model,
        settings: TrainingSettings,
        class_weight: Tensor,
        validation: Sample | None,
        layout: Layout,
    ) -> None:
        flat, runs = model.flat, model.n_runs
        self.model, self.settings, self.validation, self.layout = model, settings, validation, layout
        self.store = (
            CheckpointStore(settings.checkpoint) if isinstance(settings.checkpoint, Path) else settings.checkpoint
        )
        self.optimizer = Adam(flat, settings.betas)
        self.best = flat.clone()
        self.stopping = EarlyStopping(settings.tol, settings.n_iter_no_change, runs)
        self.n_iter = torch.zeros(runs, dtype=torch.int64, device=flat.device)
        self.stopped = torch.zeros(runs, dtype=torch.bool, device=flat.device)
        self.diverged = torch.zeros_like(self.stopped)
        self.history = History()
        self.epoch = self.step = 0
        self.seconds = 0.0
        #: rates of the next steps, and sums of losses and hits that the steps add to, of the rows of this process
        self.rate = torch.zeros(runs, 1, dtype=flat.dtype, device=flat.device)
        self.totals = torch.zeros(2, runs, dtype=flat.dtype, device=flat.device)
        #: losses, hits and rows of this epoch, of all processes
        self.sums = torch.zeros(3, runs, dtype=flat.dtype, device=flat.device)
        self._base_rate = settings.learning_rate.to(flat)
        self._class_weight = class_weight
        self.penalty = Penalty(model, settings) if isinstance(model, LinearModel) else None

    # --- checkpoints ---

    def _tensors(self) -> dict[str, Tensor]:
        return {
            "parameters": self.model.flat,
            "first_moment": self.optimizer.first,
            "second_moment": self.optimizer.second,
            "count": self.optimizer.count,
            "best": self.best,
            "best_loss": torch.from_numpy(self.stopping.best_loss),
            "waited": torch.from_numpy(self.stopping.waited),
            "n_iter": self.n_iter,
            "stopped": self.stopped,
            "diverged": self.diverged,
            "sums": self.sums,
            **{f"link.{name}": buffer for name, buffer in self._link_buffers().items()},
        }

    def _link_buffers(self) -> dict[str, Tensor]:
        # sharded buffers hold settings, which do not change
        saved, buffers = self.model.link.state_dict(), self.model.link.named_buffers()
        return {name: buffer for name, buffer in buffers if name in saved and not is_sharded(buffer)}

    def save(self) -> None:
        """Write a checkpoint; processes that hold the same parameters leave it to the first of them."""
        assert self.store is not None
        if self.layout.data_rank == 0:
            save_checkpoint(self.store.path, "checkpoint", self.settings.fingerprint, self._to_state())
        self.store.commit()

    def _to_state(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history.to_state(),
            "tensors": self._tensors(),
        }

    def resume(self) -> bool:
        """Go on from the checkpoint, if there is one."""
        if self.store is None:
            return False
        self.store.fetch()
        if not self.store.path.exists():
            return False
        return load_checkpoint(self.store.path, "checkpoint", self.settings.fingerprint, self._take_state)

    def _take_state(self, state: dict[str, Any]) -> bool:
        fields = {"epoch": integer(0), "step": integer(0), "seconds": number(0.0), "history": OBJECT, "tensors": OBJECT}
        check_fields("the state", state, fields)
        own, history = self._tensors(), History.from_state(state["history"])
        shapes = {
            name: array(*t.shape, dtype=str(t.dtype).removeprefix("torch."), finite=False) for name, t in own.items()
        }
        check_fields("tensors", state["tensors"], shapes)
        for name, tensor in own.items():
            tensor.copy_(state["tensors"][name])
        # through load_state_dict, so that modules notice what has been initialized
        self.model.link.load_state_dict(self._link_buffers(), strict=False)
        self.epoch, self.step, self.seconds, self.history = state["epoch"], state["step"], state["seconds"], history
        return True

    # --- training ---

    def rates(self, factors: list[float]) -> Tensor:
        """Rates of steps with these factors, shape (S, R); 0 for runs that have stopped and stay unchanged."""
        flat = self.model.flat
        column = torch.tensor(factors, dtype=flat.dtype, device=flat.device).unsqueeze(1)
        return column * (self._base_rate * ~self.stopped)

    def limit_steps(self, left: int) -> int:
        """The number of steps left, or until the next checkpoint."""
        every = self.settings.checkpoint_steps
        return left if self.store is None or every is None else min(left, every - self.step % every)

    def end_steps(self, count: int, n_rows: int) -> None:
        """Count ``count`` steps of ``n_rows`` rows, and write a checkpoint if it is time."""
        self.step += count
        self.sums[2] += count * n_rows
        every = self.settings.checkpoint_steps
        if self.store is not None and every is not None and self.step % every == 0:
            self.add_up()
            self.save()

    def add_up(self) -> None:
        """Add the sums of losses and hits of all processes to those of the epoch."""
        self.sums[:2] += self.layout.sum_over_rows(self.totals)
        self.totals.zero_()

    def end_epoch(self, seconds: float) -> tuple[float, float | None]:
        """Note the losses, stop runs that diverge or no longer improve; return the mean losses in training and validation."""
        self.add_up()
        self.epoch, self.seconds = self.epoch + 1, seconds
        self.n_iter += ~self.stopped
        train_loss, accuracy = self.sums[:2] / self.sums[2]
        self.sums.zero_()
        self._check_finite(train_loss)
        validation_loss = torch.full_like(train_loss, torch.nan)
        if (held_out := self.validation) is not None:
            loss, hits, total = self.layout.sum_over_rows(self.model.score_sums(held_out))
            validation_loss, accuracy = loss / total, hits / total
            self._keep_best(validation_loss)
        self.history.append(
            self.epoch,
            train_loss.tolist(),
            validation_loss.tolist(),
            accuracy.tolist(),
            self.rate.squeeze(1).tolist(),
            seconds,
        )
        return float(train_loss.mean()), None if held_out is None else float(validation_loss.mean())

    def finish(self) -> TrainingResult:
        """Put the best weights into the model if there is a validation sample, and NaN where a run has only diverged."""
        flat, useless = self.model.flat, self.diverged
        if self.validation is not None:
            has_best = _mask(self.stopping.best_loss < np.inf, flat)
            flat.copy_(torch.where(has_best, self.best, flat))
            useless = useless & ~has_best.squeeze(1)
        flat[useless] = torch.nan
        if self.store is not None:
            self.store.end()
        return TrainingResult(
            history=self.history,
            n_iter=self.n_iter.cpu(),
            converged=torch.ones(self.model.n_runs, dtype=torch.bool),
            diverged=self._find_risen(),
            moments=self.optimizer.moments(),
        )

    def _check_finite(self, train_loss: Tensor) -> None:
        bad = ~torch.isfinite(train_loss) & ~self.stopped
        if not bool(bad.any()):
            return
        run = int(bad.nonzero()[0, 0])
        message = (
            f"training diverged: the loss of run {run} is {float(train_loss[run])} in epoch {self.epoch} at a "
            f"learning rate of {float(self.rate[run, 0]):.3g}; lower {spell('learning_rate')}, or scale the features."
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

    def _find_risen(self) -> Tensor:
        """Whether each run's loss has risen far above where it began and ended no better than that of a constant."""
        runs, n_classes = self.model.n_runs, self.model.n_outputs + 1
        losses = torch.tensor(self.history["train_loss"], dtype=torch.float64).view(-1, runs)
        if len(losses) == 0:
            return torch.zeros(runs, dtype=torch.bool)
        highest = losses.nan_to_num(torch.inf).amax(0)
        reached = losses[-1] if self.validation is None else torch.from_numpy(self.stopping.best_loss)
        frequencies = self._class_weight / self._class_weight.sum(1, keepdim=True)
        constant_loss = torch.special.entr(frequencies).sum(1).cpu()
        # training starts near log C
        return (highest > 5.0 * math.log(n_classes)) & ~(reached < 0.98 * constant_loss)


def _mask(runs: np.ndarray, like: Tensor) -> Tensor:
    """Whether each run counts, as a column beside a matrix with one row per run."""
    return torch.from_numpy(runs).to(like.device).unsqueeze(1)
