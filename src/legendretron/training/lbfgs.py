"""Full-batch training by L-BFGS, all runs side by side."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

import torch
from torch import Tensor

from legendretron.training.descent import LBFGS, descend
from legendretron.training.history import EarlyStopping, History, Progress
from legendretron.training.model import LinearModel, Penalty
from legendretron.training.problem import DivergedError, Sample, TrainingResult, TrainingSettings

#: With a tolerance this small the minimum itself is wanted: with a curvature of 1e-4, a gradient of 1e-8 leaves errors of
#: 1e-4. The gradient is then brought down further by this factor.
_EXACT_TOL, _EXACT_FACTOR = 1e-8, 1e-2


class _Objective:
    """Mean log-loss plus penalty of every run, and its gradient; it keeps losses and accuracy of the last evaluation."""

    def __init__(self, model: LinearModel, sample: Sample, settings: TrainingSettings) -> None:
        self.model = model
        self.batch = replace(sample, weights=sample.normalized_weights() / sample.rows.shape[1])
        self.penalty = Penalty(model, settings)
        # in chunks of rows, so that the memory of a step does not grow with the data
        self.chunks = model.row_chunks(sample.rows.shape[1])

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Value (R,) and gradient (R, P) at parameters (R, P), which the model has afterwards."""
        self.model.flat.copy_(x)
        self.loss, self.accuracy = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0])
        total, gradient = torch.zeros_like(x), torch.empty_like(x)
        for chunk in self.chunks:
            batch = self.batch.select(chunk)
            nll, hit = self.model.loss_gradient(batch, gradient)
            self.loss += (nll * batch.weights).sum(1)
            self.accuracy += (hit * batch.weights).sum(1)
            total += gradient
        self.penalty.add_gradient(total)
        return self.loss + self.penalty.value(), total


@torch.no_grad()
def train_lbfgs(
    model: LinearModel, sample: Sample, settings: TrainingSettings, validation: Sample | None
) -> TrainingResult:
    """Train the model in place; see :func:`legendretron.training.train`."""
    began, history, stopping = (
        time.monotonic(),
        History(),
        EarlyStopping(settings.tol, settings.n_iter_no_change, model.n_runs),
    )
    if model.link.needs_batch:
        model.initialize_link(sample, sample.rows.shape[1])
    objective = _Objective(model, sample, settings)
    start, best = model.flat.clone(), model.flat.clone()
    first = objective(start)[0]
    if not bool(first.isfinite().all()):
        run = int((~first.isfinite()).nonzero()[0, 0])
        raise DivergedError(f"the loss of run {run} is {float(first[run])} at the start; scale the features.")

    def end_iteration(iteration: int, x: Tensor, value: Tensor, active: Tensor) -> Tensor:
        """Note the losses of the runs that have taken a step; return which are to end."""
        model.flat.copy_(x)
        loss, accuracy = torch.full_like(objective.loss, torch.nan), objective.accuracy
        if validation is not None:
            loss, accuracy = model.evaluate(validation)
            better = torch.from_numpy(stopping.update(loss.double().cpu().numpy(), active.cpu().numpy()))
            best.copy_(torch.where(better.to(best.device).unsqueeze(1), x, best))
        seconds = time.monotonic() - began
        for run in active.nonzero()[:, 0].tolist():
            values = (float(part[run]) for part in (objective.loss, loss, accuracy))
            history.append_row(iteration, run, *values, float("nan"), seconds)
        progress.update(iteration, float(objective.loss.mean()), None if validation is None else float(loss.mean()))
        return torch.from_numpy(stopping.exhausted).to(x.device)

    tol = max(settings.tol, 100 * torch.finfo(start.dtype).eps)
    target = tol * _EXACT_FACTOR if tol <= _EXACT_TOL and validation is None else tol
    with closing(Progress(settings.max_epochs, settings.verbose)) as progress:
        end = descend(
            objective, LBFGS(start), start, tol=target, max_iter=settings.max_epochs, after_iteration=end_iteration
        )
        if len(history) == 0:  # the start was the minimum: still one epoch, for the history
            end_iteration(1, end.x, first, torch.ones_like(end.n_iter, dtype=torch.bool))
    largest = end.gradient.abs().amax(1).cpu()
    model.flat.copy_(end.x if validation is None else best)
    converged = largest <= 10 * tol if validation is None else torch.ones(model.n_runs, dtype=torch.bool)
    return TrainingResult(history=history, n_iter=end.n_iter.clamp(min=1).cpu(), converged=converged)
