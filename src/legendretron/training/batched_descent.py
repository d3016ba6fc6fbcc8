"""Descent with a line search for many smooth problems at once, in step."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

__all__ = ["Descent", "descend"]

_MOST_HALVINGS = 12
#: Share of the decrease promised by the slope that a step has to reach.
_SUFFICIENT = 1e-4


class _Metric(Protocol):
    """Where to go from a gradient: L-BFGS, or Newton's method."""

    def update(self, step: Tensor, change: Tensor) -> None: ...

    def direction(self, gradient: Tensor) -> Tensor: ...


class Descent(NamedTuple):
    """Where ``R`` runs have ended."""

    x: Tensor  #: parameters, shape (R, P)
    gradient: Tensor  #: there, shape (R, P)
    n_iter: Tensor  #: iterations of each run, shape (R,)


def descend(
    objective: Callable[[Tensor], tuple[Tensor, Tensor]],
    metric: _Metric,
    x: Tensor,
    *,
    tol: float,
    max_iter: int,
    after_iteration: Callable[[int, Tensor], bool] | None = None,
) -> Descent:
    """Minimise the objective of every run.

    Parameters
    ----------
    objective : callable
        Value ``(R,)`` and gradient ``(R, P)`` at parameters ``(R, P)``.
    metric : object
        ``direction(gradient)``, and ``update(step, change)`` with each step and the change of the gradient.
    x : Tensor of shape (R, P)
        Where to begin.
    tol : float
        Largest entry of the gradient that counts as zero.
    max_iter : int
        Most iterations.
    after_iteration : callable, optional
        Called with the number of the iteration and the objective of each run; returns whether to stop.
    """
    value, gradient = objective(x)
    active = gradient.abs().amax(1) > tol
    stuck = torch.zeros_like(active)
    n_iter = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    for iteration in range(1, max_iter + 1):
        if not bool(active.any()):
            break
        direction = metric.direction(gradient)
        slope = torch.linalg.vecdot(gradient, direction)
        uphill = ~(slope < 0)
        if bool(uphill.any()):
            direction = torch.where(uphill[:, None], -gradient, direction)
            slope = (gradient * direction).sum(1)
        length = active.to(x.dtype)
        for _ in range(_MOST_HALVINGS):
            new_x = torch.addcmul(x, length[:, None], direction)
            new_value, new_gradient = objective(new_x)
            # near the minimum the decrease drowns in rounding
            slack = 4 * torch.finfo(x.dtype).eps * value.abs()
            enough = (new_value <= value + _SUFFICIENT * length * slope + slack) | ~active
            if bool(enough.all()):
                break
            parabola = -slope * length**2 / (2 * (new_value - value - length * slope))
            shorter = torch.where(parabola.isfinite(), parabola, 0.0).clamp(0.1 * length, 0.5 * length)
            length = torch.where(enough, length, shorter)
        moved = enough & active
        stuck |= active & ~enough
        if not bool(moved.all()):  # runs that do not move stay just where they are
            new_x, new_gradient = (
                torch.where(moved[:, None], new, old) for new, old in ((new_x, x), (new_gradient, gradient))
            )
            new_value = torch.where(moved, new_value, value)
        metric.update(new_x - x, new_gradient - gradient)
        x, value, gradient = new_x, new_value, new_gradient
        n_iter += active
        active = (gradient.abs().amax(1) > tol) & ~stuck
        if after_iteration is not None and after_iteration(iteration, value):
            break
    return Descent(x, gradient, n_iter)
