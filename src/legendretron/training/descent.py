"""Descent with a line search for many smooth problems side by side, and L-BFGS to find its directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

_MOST_HALVINGS = 12
#: Armijo condition: share of the decrease predicted by the slope that a step must reach.
_SUFFICIENT = 1e-4
#: Pairs of a step and the change of the gradient that L-BFGS keeps.
_MEMORY = 10
#: Parameters from which they are in single precision: reading them takes most of the time, and directions need not be exact.
_SINGLE_FROM = 100_000


#: See :func:`descend`.
AfterIteration = Callable[[int, Tensor, Tensor, Tensor], Tensor | None]


class _Metric(Protocol):
    """Finds directions from gradients: L-BFGS, or Newton's method."""

    def update(self, step: Tensor, change: Tensor) -> None: ...

    def direction(self, gradient: Tensor) -> Tensor: ...


class Descent(NamedTuple):
    """Solutions of ``R`` runs."""

    x: Tensor  #: parameters, shape (R, P)
    gradient: Tensor  #: at ``x``, shape (R, P)
    n_iter: Tensor  #: iterations of each run, shape (R,)


def descend(
    objective: Callable[[Tensor], tuple[Tensor, Tensor]],
    metric: _Metric,
    x: Tensor,
    *,
    tol: float,
    max_iter: int,
    after_iteration: AfterIteration | None = None,
) -> Descent:
    """Minimize the objective of every run.

    Parameters
    ----------
    objective : callable
        Value ``(R,)`` and gradient ``(R, P)`` at parameters ``(R, P)``.
    metric : object
        ``direction(gradient)``, and ``update(step, change)`` with each step and the change of the gradient.
    x : Tensor of shape (R, P)
        Where to begin.
    tol, max_iter
        Largest entry of the gradient that counts as zero, and most iterations.
    after_iteration : callable, optional
        Called with the number of the iteration, the parameters, the objective of each run, and which runs have taken part in
        it; may return which runs are to end.
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
            # near the minimum the decrease is below rounding
            slack = 4 * torch.finfo(x.dtype).eps * value.abs()
            enough = (new_value <= value + _SUFFICIENT * length * slope + slack) | ~active
            if bool(enough.all()):
                break
            parabola = -slope * length**2 / (2 * (new_value - value - length * slope))
            shorter = torch.where(parabola.isfinite(), parabola, 0.0).clamp(0.1 * length, 0.5 * length)
            length = torch.where(enough, length, shorter)
        moved = enough & active
        stuck |= active & ~enough
        if not bool(moved.all()):  # runs that do not move keep their values
            new_x, new_gradient = (
                torch.where(moved[:, None], new, old) for new, old in ((new_x, x), (new_gradient, gradient))
            )
            new_value = torch.where(moved, new_value, value)
        metric.update(new_x - x, new_gradient - gradient)
        x, value, gradient = new_x, new_value, new_gradient
        n_iter += active
        ended = None if after_iteration is None else after_iteration(iteration, x, value, active)
        if ended is not None:
            stuck |= ended
        active = (gradient.abs().amax(1) > tol) & ~stuck
    return Descent(x, gradient, n_iter)


class LBFGS:
    """The inverse Hessian of L-BFGS, for all runs at once, in the compact form of Byrd, Nocedal and Schnabel (1994).

    It needs a few products of small matrices, where a loop over the pairs would take most of the time on small data.
    """

    def __init__(self, like: Tensor, *, whole_first: bool = False) -> None:
        runs, size = like.shape
        #: Whether the first direction is the whole gradient, rather than one of length 1 at most.
        self.whole_first = whole_first
        kind = torch.float32 if size >= _SINGLE_FROM and like.dtype == torch.float64 else like.dtype
        # steps, then changes
        self.pairs = torch.zeros(runs, 2 * _MEMORY, size, dtype=kind, device=like.device)
        eye = torch.eye(_MEMORY, dtype=like.dtype, device=like.device)
        # steps times changes that came later; 1 on the diagonal of empty slots
        self.cross = eye.repeat(runs, 1, 1)
        self.inner = torch.zeros_like(self.cross)  # changes times changes
        self.scale = like.new_ones(runs, 1)
        self.order: list[int] = []  # slots, the oldest first

    def _on_pairs(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Products of a vector (R, P) with all steps, and with all changes: (R, M, 1) each."""
        products = (self.pairs @ vector.to(self.pairs.dtype).unsqueeze(-1)).to(vector.dtype)
        return products[:, :_MEMORY], products[:, _MEMORY:]

    def update(self, step: Tensor, change: Tensor) -> None:
        """Add a step ``(R, P)`` and the change of the gradient; steps of zero are skipped."""
        slot = len(self.order) if len(self.order) < _MEMORY else self.order.pop(0)
        self.order.append(slot)
        curvature, size = torch.linalg.vecdot(step, change), torch.linalg.vecdot(change, change)
        good = curvature > torch.finfo(step.dtype).eps * size
        if not bool(good.all()):
            step, change = (torch.where(good[:, None], part, 0.0) for part in (step, change))
        self.pairs[:, slot], self.pairs[:, _MEMORY + slot] = step, change
        on_steps, on_changes = (products.squeeze(-1) for products in self._on_pairs(change))
        self.cross[:, :, slot] = on_steps
        self.cross[:, slot, slot] = torch.where(good, curvature, 1.0)
        self.inner[:, :, slot], self.inner[:, slot, :] = on_changes, on_changes
        ratio = (curvature / size.clamp(min=torch.finfo(step.dtype).tiny)).unsqueeze(1)
        self.scale = torch.where(good[:, None], ratio, self.scale)

    def direction(self, gradient: Tensor) -> Tensor:
        """Minus the inverse Hessian times the gradient."""
        if not self.order:
            return -gradient if self.whole_first else -gradient / gradient.norm(dim=1, keepdim=True).clamp(min=1.0)
        slots = torch.tensor(self.order, device=gradient.device)
        # unused slots hold zeros
        on_steps, on_changes = (products[:, slots] for products in self._on_pairs(gradient))
        cross, inner = (m[:, slots][:, :, slots] for m in (self.cross, self.inner))
        upper = cross.triu()
        scale = self.scale.unsqueeze(-1)
        u = torch.linalg.solve_triangular(upper, on_steps, upper=True)
        middle = torch.diagonal(upper, dim1=1, dim2=2).unsqueeze(-1) * u + scale * (inner @ u - on_changes)
        v = torch.linalg.solve_triangular(upper.mT, middle, upper=False)
        factors = torch.zeros_like(self.pairs[:, :, :1])
        factors[:, slots], factors[:, _MEMORY + slots] = v.to(factors), (-scale * u).to(factors)
        product = (self.pairs.mT @ factors).squeeze(-1).to(gradient.dtype)
        return product.addcmul_(self.scale, gradient).neg_()
