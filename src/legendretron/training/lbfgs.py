"""Full-batch training by scipy's L-BFGS, one run after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress

import numpy as np
import scipy.optimize
import scipy.sparse.linalg
import torch

from legendretron.training.early_stopping import EarlyStopping
from legendretron.training.history import History
from legendretron.training.model import LinearModel
from legendretron.training.penalty import Penalty
from legendretron.training.problem import DivergedError, Sample, TrainingResult, TrainingSettings
from legendretron.training.progress import Progress

__all__ = ["train_lbfgs"]

_POLISHING_STEPS = 4
#: With a tolerance this small the minimum itself is wanted: with a curvature of 1e-4, a gradient of 1e-8 leaves errors of
#: 1e-4. Newton steps then go on until the gradient is smaller by this factor.
_EXACT_TOL, _EXACT_FACTOR = 1e-8, 1e-4


class _Run:
    """One run: its objective as scipy wants it, and what is kept after each iteration."""

    def __init__(
        self, model: LinearModel, number: int, sample: Sample, settings: TrainingSettings, validation: Sample | None
    ) -> None:
        weight, bias, link = model.take(number)
        self.number = number
        self.model = LinearModel(weight.unsqueeze(0), bias.unsqueeze(0), [link])
        self.sample = sample.select_run(number)
        self.validation = None if validation is None else validation.select_run(number)
        self.weight = self.sample.normalized_weights() / sample.rows.shape[1]
        self.penalty = Penalty.from_settings(self.model, settings, slice(number, number + 1))
        # in chunks of rows, so that the memory of a step does not grow with the data
        self.chunks = self.model.row_chunks(sample.rows.shape[1])
        self.loss = self.accuracy = float("nan")
        self.reached = self.model.flat.clone()
        self.best: torch.Tensor | None = None  # on the validation sample, if there is one
        self.stopping = EarlyStopping(settings.tol, settings.n_iter_no_change)
        self.n_iter = 0

    @torch.no_grad()
    def objective(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean log-loss plus penalty, and its gradient."""
        self.model.flat.copy_(torch.as_tensor(parameters).unsqueeze(0))
        self.loss = self.accuracy = 0.0
        total, gradient = torch.zeros_like(self.model.flat), torch.empty_like(self.model.flat)
        for chunk in self.chunks:
            rows, labels, weight = self.sample.rows[:, chunk], self.sample.labels[:, chunk], self.weight[:, chunk]
            nll, hit = self.model.loss_gradient(self.sample.features, rows, labels, weight, gradient)
            self.loss += float((nll * weight).sum())
            self.accuracy += float((hit * weight).sum())
            total += gradient
        self.penalty.add_gradient(total)
        return self.loss + float(self.penalty.value()), total[0].double().cpu().numpy()

    def end_iteration(self, parameters: np.ndarray, history: History, began: float) -> tuple[float, float | None]:
        """Note the current parameters; return the losses in training and validation."""
        self.n_iter += 1
        self.model.flat.copy_(torch.as_tensor(parameters).unsqueeze(0))
        self.reached, loss, accuracy = self.model.flat.clone(), float("nan"), self.accuracy
        if (held_out := self.validation) is not None:
            of_run = self.model.evaluate(held_out.features, held_out.rows, held_out.labels, held_out.weights)
            loss, accuracy = (float(values[0]) for values in of_run)
            if self.stopping.update(loss):
                self.best = self.reached
        seconds = time.monotonic() - began
        history.append_row(self.n_iter, self.number, self.loss, loss, accuracy, float("nan"), seconds)
        return self.loss, None if held_out is None else loss


def _polish(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]], x: np.ndarray, tol: float
) -> tuple[np.ndarray, float]:
    """Bring the gradient down to ``tol`` where L-BFGS cannot: near a minimum its line search no longer sees the value fall.

    A few Newton steps by conjugate gradients, with products of the Hessian as differences of gradients; each is kept only
    if the gradient has become smaller. Returns the point and the largest entry of its gradient.
    """
    gradient = objective(x)[1]
    for _ in range(_POLISHING_STEPS):
        size = np.abs(gradient).max()
        if size <= tol:
            break

        def product(v: np.ndarray, x: np.ndarray = x) -> np.ndarray:
            h = 1e-6 * (1.0 + np.abs(x).max()) / max(float(np.abs(v).max()), 1e-300)
            return (objective(x + h * v)[1] - objective(x - h * v)[1]) / (2 * h)

        hessian = scipy.sparse.linalg.LinearOperator((x.size, x.size), matvec=product, dtype=np.float64)
        step, _ = scipy.sparse.linalg.cg(hessian, -gradient, rtol=1e-3, maxiter=50)
        new_gradient = objective(x + step)[1]
        if not np.abs(new_gradient).max() < size:
            break
        x, gradient = x + step, new_gradient
    return x, float(np.abs(gradient).max())


def _minimize(run: _Run, settings: TrainingSettings, history: History, progress: Progress, began: float) -> bool:
    """Train one run; return whether its gradient has vanished, or it was stopped by held-out rows."""

    # scipy hands over an OptimizeResult only to a function with this one argument
    def end_iteration(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        losses = run.end_iteration(intermediate_result.x, history, began)
        progress.update(run.number * settings.max_epochs + run.n_iter, *losses)
        if run.stopping.exhausted:
            raise StopIteration

    start = run.model.flat[0].double().cpu().numpy()
    first = run.objective(start)[0]
    if not np.isfinite(first):
        raise DivergedError(f"the loss of run {run.number} is {first} at the start; scale the features.")
    # a minimum is where the gradient vanishes; near it the value no longer tells
    limits = {"maxiter": settings.max_epochs, "maxfun": 20 * settings.max_epochs, "maxls": 50}
    options = {**limits, "gtol": settings.tol, "ftol": 0.0}
    result = scipy.optimize.minimize(
        run.objective, start, jac=True, method="L-BFGS-B", callback=end_iteration, options=options
    )
    if run.n_iter == 0:  # the start was the minimum: still one epoch, for the history
        run.objective(result.x)
        with suppress(StopIteration):
            end_iteration(result)
    if run.validation is not None:
        return True
    tol = max(settings.tol, 100 * float(torch.finfo(run.model.flat.dtype).eps))
    polished, gradient = result.x, float(np.abs(result.jac).max())
    if result.status != 1:  # status 1: a limit on iterations or evaluations was met
        target = tol * (_EXACT_FACTOR if tol <= _EXACT_TOL else 1.0)
        polished, gradient = _polish(run.objective, result.x, target)
    run.reached.copy_(torch.as_tensor(polished).unsqueeze(0))
    return gradient <= 10 * tol


def train_lbfgs(
    model: LinearModel, sample: Sample, settings: TrainingSettings, validation: Sample | None
) -> TrainingResult:
    """Train the model in place; see :func:`legendretron.training.train`."""
    began, history, n_runs = time.monotonic(), History(), model.n_runs
    n_iter, converged = torch.zeros(n_runs, dtype=torch.int64), torch.ones(n_runs, dtype=torch.bool)
    if model.link.needs_batch:
        model.initialize_link(sample.features, sample.rows, sample.weights)
    with closing(Progress(settings.max_epochs * n_runs, settings.verbose)) as progress:
        for number in range(n_runs):
            run = _Run(model, number, sample, settings, validation)
            converged[number] = _minimize(run, settings, history, progress, began)
            model.flat[number] = (run.reached if run.best is None else run.best)[0]
            n_iter[number] = run.n_iter
    return TrainingResult(history=history, n_iter=n_iter, converged=converged)
