"""L-BFGS for many problems at once, in step."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Curvature"]

#: Pairs of steps and changes of the gradient that are remembered.
_MEMORY = 10
#: Parameters from which they are remembered in single precision. Reading them takes most of the time then, and the directions
#: they give need not be exact: what is accurate are the gradients.
_SINGLE_FROM = 100_000


class Curvature:
    """The inverse Hessian of L-BFGS, for all runs at once, in the compact form of Byrd, Nocedal and Schnabel (1994).

    A few products of small matrices instead of a loop over the memory, which on small data would take most of the time.
    """

    def __init__(self, like: Tensor, *, whole_first: bool = False) -> None:
        runs, size = like.shape
        #: Whether the first direction is the gradient as it is, and not at most of length 1.
        self.whole_first = whole_first
        kind = torch.float32 if size >= _SINGLE_FROM and like.dtype == torch.float64 else like.dtype
        # steps, then changes
        self.pairs = torch.zeros(runs, 2 * _MEMORY, size, dtype=kind, device=like.device)
        eye = torch.eye(_MEMORY, dtype=like.dtype, device=like.device)
        self.cross = eye.repeat(
            runs, 1, 1
        )  # steps times changes that came later; 1 on the diagonal if there is nothing
        self.inner = torch.zeros_like(self.cross)  # changes times changes
        self.scale = like.new_ones(runs, 1)
        self.order: list[int] = []  # slots, the oldest first

    def _on_pairs(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Products of a vector (R, P) with all steps, and with all changes: (R, M, 1) each."""
        products = (self.pairs @ vector.to(self.pairs.dtype).unsqueeze(-1)).to(vector.dtype)
        return products[:, :_MEMORY], products[:, _MEMORY:]

    def update(self, step: Tensor, change: Tensor) -> None:
        """Remember a step ``(R, P)`` and the change of the gradient; steps of zero are left out."""
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
        # the entries of slots that are not in use yet are zero
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
