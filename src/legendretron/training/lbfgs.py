"""Full-batch training by L-BFGS, one run after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress

import numpy as np
import scipy.optimize
import scipy.sparse.linalg
import torch

from legendretron.accelerate.steps import autograd_step
from legendretron.training.adam import Adam
from legendretron.training.early_stopping import EarlyStopping
from legendretron.training.history import History
from legendretron.training.model import LinearModel
from legendretron.training.penalty import Penalty
from legendretron.training.problem import DivergedError, Sample, TrainingResult, TrainingSettings
from legendretron.training.progress import Progress
from legendretron.training.step import CompiledStep, Step, make_step

__all__ = ["train_lbfgs"]

_POLISHING_STEPS = 4
#: With a tolerance this small the minimum itself is wanted: with a curvature of 1e-4, a gradient of 1e-8 leaves errors of
#: 1e-4. Newton steps then go on until the gradient is smaller by this factor.
_EXACT_TOL, _EXACT_FACTOR = 1e-8, 1e-4


class _CompiledGradient:
    """Loss and gradient of all rows by the compiled step of Adam, where there is one.

    With a rate of zero it leaves the parameters as they are, and with a first moment that forgets at once this is the
    gradient, the penalty's included.
    """

    def __init__(self, model: LinearModel, sample: Sample, weight: torch.Tensor, penalty: Penalty) -> None:
        self._optimiser = Adam(model.flat, betas=(0.0, 0.0), eps=1.0)
        self._totals = model.flat.new_zeros(2, 1)
        self._batch = sample.rows, sample.labels, weight
        rate = model.flat.new_zeros(1, 1)
        n_rows = sample.rows.shape[1]
        step = Step(model, sample.features, penalty, self._optimiser, rate, self._totals, n_rows)
        self._n_rows, self._step = n_rows, make_step(step, [])

    @property
    def exists(self) -> bool:
        """Whether there is a compiled step for this link and these features."""
        return isinstance(self._step, CompiledStep)

    def __call__(self) -> tuple[float, float, torch.Tensor]:
        """Loss, accuracy, and the gradient of shape (1, P) with that of the penalty."""
        self._totals.zero_()
        self._optimiser.first.zero_()
        self._step(*self._batch)
        loss, hits = (self._totals[:, 0] / self._n_rows).tolist()
        return loss, hits, self._optimiser.first


class _Run:
    """One run: its objective as scipy wants it, and what is kept after each iteration."""

    def __init__(
        self, model: LinearModel, run: int, sample: Sample, settings: TrainingSettings, validation: Sample | None
    ) -> None:
        weight, bias, link = model.take(run)
        self.model = LinearModel(weight.unsqueeze(0), bias.unsqueeze(0), [link])
        self.sample = sample.select_run(run)
        self.validation = None if validation is None else validation.select_run(run)
        self.weight = self.sample.normalised_weights() / sample.rows.shape[1]
        self.penalty = Penalty.from_settings(self.model, settings, slice(run, run + 1))
        self.compiled: _CompiledGradient | None = None
        if not settings.compiled:
            self.model.nll_step = autograd_step(self.model.link)
        elif not model.flat.is_cuda:
            compiled = _CompiledGradient(self.model, self.sample, self.weight, self.penalty)
            self.compiled = compiled if compiled.exists else None
        self.gradient = torch.empty_like(self.model.flat)
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
        if self.compiled is not None:
            self.loss, self.accuracy, gradient = self.compiled()
            return self.loss + float(self.penalty.value()), gradient[0].double().numpy().copy()
        self.loss = self.accuracy = 0.0
        total = self.gradient if len(self.chunks) == 1 else torch.zeros_like(self.gradient)
        for chunk in self.chunks:
            rows, labels, weight = self.sample.rows[:, chunk], self.sample.labels[:, chunk], self.weight[:, chunk]
            nll, hit = self.model.loss_gradient(self.sample.features, rows, labels, weight, self.gradient)
            self.loss += float((nll * weight).sum())
            self.accuracy += float((hit * weight).sum())
            if total is not self.gradient:
                total += self.gradient
        self.penalty.add_gradient(total)
        value = self.loss + float(self.penalty.value())
        return value, total[0].double().cpu().numpy()

    def after_iteration(self, parameters: np.ndarray) -> tuple[float, float, float]:
        """Record the current parameters; return training loss, validation loss and accuracy."""
        self.n_iter += 1
        self.model.flat.copy_(torch.as_tensor(parameters).unsqueeze(0))
        self.reached = self.model.flat.clone()
        if self.validation is None:
            return self.loss, float("nan"), self.accuracy
        held_out = self.validation
        losses, accuracies = self.model.evaluate(held_out.features, held_out.rows, held_out.labels, held_out.weights)
        loss = float(losses[0])
        if self.stopping.update(loss):
            self.best = self.reached
        return self.loss, loss, float(accuracies[0])


def _without_stopping(callback: Callable[..., None], result: scipy.optimize.OptimizeResult) -> None:
    with suppress(StopIteration):
        callback(result)


def _polish(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]], x: np.ndarray, tol: float
) -> tuple[np.ndarray, float]:
    """Bring the gradient down to ``tol`` where L-BFGS cannot: near a minimum its line search no longer sees the value fall.

    A few Newton steps by conjugate gradients, with products of the Hessian as differences of gradients; each is kept only
    if the gradient has become smaller. Returns the point and the largest entry of its gradient.
    """
    gradient = objective(x)[1].copy()
    for _ in range(_POLISHING_STEPS):
        size = np.abs(gradient).max()
        if size <= tol:
            break

        def product(v: np.ndarray, x: np.ndarray = x) -> np.ndarray:
            h = 1e-6 * (1.0 + np.abs(x).max()) / max(float(np.abs(v).max()), 1e-300)
            return (objective(x + h * v)[1].copy() - objective(x - h * v)[1]) / (2 * h)

        hessian = scipy.sparse.linalg.LinearOperator((x.size, x.size), matvec=product, dtype=np.float64)
        step, _ = scipy.sparse.linalg.cg(hessian, -gradient, rtol=1e-3, maxiter=50)
        new_gradient = objective(x + step)[1].copy()
        if not np.abs(new_gradient).max() < size:
            break
        x, gradient = x + step, new_gradient
    return x, float(np.abs(gradient).max())


def train_lbfgs(
    model: LinearModel,
    sample: Sample,
    settings: TrainingSettings,
    validation: Sample | None,
) -> TrainingResult:
    """Train the model in place; see :func:`legendretron.training.train`."""
    began = time.monotonic()
    history = History()
    n_iter = torch.zeros(model.n_runs, dtype=torch.int64)
    converged = torch.ones(model.n_runs, dtype=torch.bool)
    progress = Progress(settings.max_epochs * model.n_runs, settings.verbose)
    if model.link.needs_batch:
        model.initialize_link(sample.features, sample.rows, sample.weights)

    def callback(run: _Run, number: int) -> Callable[..., None]:
        # scipy hands over an OptimizeResult only to a function with this one argument
        def after(intermediate_result: scipy.optimize.OptimizeResult) -> None:
            loss, validation_loss, accuracy = run.after_iteration(intermediate_result.x)
            history.append_row(
                epoch=run.n_iter,
                run=number,
                train_loss=loss,
                validation_loss=validation_loss,
                accuracy=accuracy,
                learning_rate=float("nan"),
                seconds=time.monotonic() - began,
            )
            progress.update(
                number * settings.max_epochs + run.n_iter, loss, None if validation is None else validation_loss
            )
            if run.stopping.exhausted:
                raise StopIteration

        return after

    with closing(progress):
        for number in range(model.n_runs):
            run = _Run(model, number, sample, settings, validation)
            start = run.model.flat[0].double().cpu().numpy()
            first = run.objective(start)[0]
            if not np.isfinite(first):
                raise DivergedError(f"the loss of run {number} is {first} at the start; scale the features.")
            result = scipy.optimize.minimize(
                run.objective,
                start,
                jac=True,
                method="L-BFGS-B",
                callback=callback(run, number),
                options={
                    "maxiter": settings.max_epochs,
                    "maxfun": 20 * settings.max_epochs,
                    "gtol": settings.tol,
                    "ftol": 0.0,  # a minimum is where the gradient vanishes; near it the value no longer tells
                    "maxls": 50,
                },
            )
            if run.n_iter == 0:  # the start was the minimum: still one epoch, for the history
                run.objective(result.x)
                _without_stopping(callback(run, number), result)
            if validation is None:
                tol = max(settings.tol, 100 * float(torch.finfo(model.flat.dtype).eps))
                polished, gradient = result.x, float(np.abs(result.jac).max())
                if result.status != 1:  # status 1: a limit on iterations or evaluations was met
                    target = tol * (_EXACT_FACTOR if tol <= _EXACT_TOL else 1.0)
                    polished, gradient = _polish(run.objective, result.x, target)
                run.reached.copy_(torch.as_tensor(polished).unsqueeze(0))
                converged[number] = gradient <= 10 * tol
            model.flat[number] = (run.reached if run.best is None else run.best)[0]
            n_iter[number] = run.n_iter
    return TrainingResult(history=history, n_iter=n_iter, converged=converged)
