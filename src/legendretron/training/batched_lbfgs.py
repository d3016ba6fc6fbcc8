"""L-BFGS for many problems at once, in step."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Curvature"]

#: Pairs of steps and changes of the gradient that are remembered.
_MEMORY = 10


class Curvature:
    """The inverse Hessian of L-BFGS, for all runs at once, in the compact form of Byrd, Nocedal and Schnabel (1994).

    A few products of small matrices instead of a loop over the memory, which on small data would take most of the time.
    """

    def __init__(self, like: Tensor) -> None:
        runs, size = like.shape
        self.steps = like.new_zeros(runs, _MEMORY, size)
        self.changes = like.new_zeros(runs, _MEMORY, size)
        eye = torch.eye(_MEMORY, dtype=like.dtype, device=like.device)
        self.cross = eye.repeat(runs, 1, 1)  # steps times changes; 1 on the diagonal where there is nothing
        self.inner = torch.zeros_like(self.cross)  # changes times changes
        self.scale = like.new_ones(runs, 1)
        self.order: list[int] = []  # slots, the oldest first

    def update(self, step: Tensor, change: Tensor) -> None:
        """Remember a step ``(R, P)`` and the change of the gradient; steps of zero are left out."""
        slot = len(self.order) if len(self.order) < _MEMORY else self.order.pop(0)
        self.order.append(slot)
        curvature, size = (step * change).sum(1), change.square().sum(1)
        good = curvature > torch.finfo(step.dtype).eps * size
        self.steps[:, slot] = torch.where(good[:, None], step, 0.0)
        self.changes[:, slot] = torch.where(good[:, None], change, 0.0)
        new = self.changes[:, slot].unsqueeze(-1)
        self.cross[:, :, slot] = (self.steps @ new).squeeze(-1)
        self.cross[:, slot, :] = (self.changes @ self.steps[:, slot].unsqueeze(-1)).squeeze(-1)
        self.cross[:, slot, slot] = torch.where(good, curvature, 1.0)
        products = (self.changes @ new).squeeze(-1)
        self.inner[:, :, slot], self.inner[:, slot, :] = products, products
        ratio = (curvature / size.clamp(min=torch.finfo(step.dtype).tiny)).unsqueeze(1)
        self.scale = torch.where(good[:, None], ratio, self.scale)

    def direction(self, gradient: Tensor) -> Tensor:
        """Minus the inverse Hessian times the gradient."""
        if not self.order:
            return -gradient / gradient.norm(dim=1, keepdim=True).clamp(min=1.0)
        slots = torch.tensor(self.order, device=gradient.device)
        steps, changes = self.steps, self.changes
        if len(self.order) < _MEMORY:
            steps, changes = steps[:, : len(self.order)], changes[:, : len(self.order)]
        else:
            back = slots.argsort()
        column = gradient.unsqueeze(-1)
        on_steps, on_changes = steps @ column, changes @ column
        cross, inner = (m[:, slots][:, :, slots] for m in (self.cross, self.inner))
        if len(self.order) == _MEMORY:
            on_steps, on_changes = on_steps[:, slots], on_changes[:, slots]
        upper = cross.triu()
        scale = self.scale.unsqueeze(-1)
        u = torch.linalg.solve_triangular(upper, on_steps, upper=True)
        middle = torch.diagonal(upper, dim1=1, dim2=2).unsqueeze(-1) * u + scale * (inner @ u - on_changes)
        v = torch.linalg.solve_triangular(upper.mT, middle, upper=False)
        if len(self.order) == _MEMORY:
            u, v = u[:, back], v[:, back]
        found = scale * (column - changes.mT @ u) + steps.mT @ v
        return -found.squeeze(-1)
