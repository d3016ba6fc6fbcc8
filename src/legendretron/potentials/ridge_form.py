r"""The gradient map of a ridge potential with its derivative written by hand, for training.

Training differentiates :math:`y = \nabla g(x) = \alpha x + \gamma A^\top d(A x + b)` once more, in ``x`` and in all
parameters. Autograd can do that, at the price of some hundred small graph nodes per step. Written out it is two sweeps
through the inner network, with units as rows, so that every slice by layer is contiguous:

- forward: :math:`z_{k+1} = t_{k+1} + P_k s(z_k)`, then downwards :math:`w_k = P_k^\top d_{k+1}`,
  :math:`d_k = s'(z_k) w_k`;
- pullback: upwards through the recursion of :math:`d`, then downwards through that of :math:`z`.

The formulas are those of :mod:`legendretron.potentials.ridge`; a test compares the two to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from legendretron.potentials.softplus import softplus

__all__ = ["Ridge", "RidgeGradients", "RidgeStep"]


class Ridge(NamedTuple):
    """The tensors of the ridge form, as the recursion uses them."""

    weight: Tensor  #: A, shape (*runs, r, K)
    bias: Tensor  #: b, shape (*runs, r)
    mixing: tuple[Tensor, ...]  #: P_2 .. P_{M+1}, non-negative, shapes (*runs, mixed units, H) and (*runs, 1, H)
    alpha: Tensor  #: shape (*runs, 1, 1)
    gamma: Tensor  #: shape (*runs, 1, 1)


class RidgeGradients(NamedTuple):
    """Cotangents of the ridge form's tensors, for one run axis."""

    weight: Tensor  # (R, r, K)
    bias: Tensor  # (R, r)
    mixing: Tensor  # of all layers, one below the other, (R, (M - 1) mixed units + 1, H)
    alpha: Tensor  # (R, 1)
    gamma: Tensor  # (R, 1)


class _Units:
    """A buffer of shape (R, r, n) with views of the units each layer reads and feeds, made once."""

    def __init__(self, like: Tensor, rank: int, hidden: int, feeds: list[int]) -> None:
        self.all = like.new_empty(like.shape[0], rank, like.shape[1])
        self.below = [self.all.narrow(1, k * hidden, hidden) for k in range(len(feeds))]
        self.above = [self.all.narrow(1, (k + 1) * hidden, width) for k, width in enumerate(feeds)]
        self.last = self.all.narrow(1, rank - 1, 1)


def _product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """``a @ b`` with a run axis; an outer product is much cheaper as an elementwise one."""
    (torch.mul if b.shape[1] == 1 else torch.bmm)(a, b, out=out)


class RidgeStep:
    """Forward sweep and pullback of one ridge potential, for one run axis and batches of one shape.

    Buffers and their views are made once and used again in every step: on tensors this small, allocating and slicing
    would take as long as computing. A pullback belongs to the last forward sweep.

    Parameters
    ----------
    like : Tensor of shape (R, n, K)
        A batch to take shape, dtype and device from.
    hidden : int
        ``H``.
    feeds : list of int
        Number of units that each mixing matrix feeds.
    final_softplus : bool
        Whether ``h`` ends in a softplus.
    """

    def __init__(self, like: Tensor, hidden: int, feeds: list[int], final_softplus: bool) -> None:
        rank = hidden * len(feeds) + 1
        self.final_softplus = final_softplus
        self.z, self.slope, self.d, self.cot_d, self.cot_z = (_Units(like, rank, hidden, feeds) for _ in range(5))
        layer = (like.shape[0], hidden, like.shape[1])
        self.positive, self.upstream, self.cot_w = ([like.new_empty(layer) for _ in feeds] for _ in range(3))
        self.grad_mixing = like.new_empty(like.shape[0], sum(feeds), hidden)
        self.grad_mixing_of = list(self.grad_mixing.split(feeds, dim=1))

    def forward(self, ridge: Ridge, x: Tensor) -> Tensor:
        """``y = alpha x + gamma A^T d``: (R, n, K) -> (R, n, K)."""
        self.ridge, self.x = ridge, x
        self.transposed = [p.mT for p in ridge.mixing]
        z, slope, d = self.z, self.slope, self.d
        torch.baddbmm(ridge.bias.unsqueeze(-1), ridge.weight, x.mT, out=z.all)
        for k, p in enumerate(ridge.mixing):
            self.positive[k] = softplus(z.below[k])
            z.above[k].baddbmm_(p, self.positive[k])
        torch.sigmoid(z.all, out=slope.all)
        if not self.final_softplus:
            slope.last.fill_(1.0)
        d.all.copy_(slope.all)
        for k in range(len(self.transposed) - 1, -1, -1):
            _product(self.transposed[k], d.above[k], out=self.upstream[k])
            d.below[k].mul_(self.upstream[k])
        self.product = torch.bmm(d.all.mT, ridge.weight)
        return torch.addcmul(ridge.alpha * x, ridge.gamma, self.product)

    def pullback(self, dy: Tensor) -> tuple[Tensor, RidgeGradients]:
        """Cotangents of ``x`` and of the ridge form's tensors for a cotangent ``dy`` of ``y``."""
        ridge, x = self.ridge, self.x
        slope, d, cot_d, cot_z = self.slope, self.d, self.cot_d, self.cot_z
        torch.bmm(ridge.weight, dy.mT, out=cot_d.all)
        cot_d.all.mul_(ridge.gamma)
        # up through d_k = s'(z_k) w_k and w_k = P_k^T d_{k+1}
        for k, p in enumerate(ridge.mixing):
            cot_w = torch.mul(cot_d.below[k], slope.below[k], out=self.cot_w[k])
            torch.bmm(d.above[k], cot_w.mT, out=self.grad_mixing_of[k])
            torch.mul(cot_d.below[k], self.upstream[k], out=cot_z.below[k])
            cot_d.above[k].baddbmm_(p, cot_w)
        if self.final_softplus:
            cot_z.last.copy_(cot_d.last)
        else:
            cot_z.last.zero_()
        # the slope s of a softplus has the derivative s (1 - s)
        cot_z.all.mul_(torch.addcmul(slope.all, slope.all, slope.all, value=-1.0))
        # down through z_{k+1} = t_{k+1} + P_k softplus(z_k)
        for k in range(len(self.transposed) - 1, -1, -1):
            self.grad_mixing_of[k].baddbmm_(cot_z.above[k], self.positive[k].mT)
            _product(self.transposed[k], cot_z.above[k], out=self.cot_w[k])
            cot_z.below[k].addcmul_(self.cot_w[k], slope.below[k])
        dx = torch.addcmul(torch.bmm(cot_z.all.mT, ridge.weight), ridge.alpha, dy)
        runs = x.shape[0]
        flat = dy.reshape(runs, -1)
        return dx, RidgeGradients(
            weight=torch.bmm(cot_z.all, x).addcmul_(ridge.gamma, torch.bmm(d.all, dy)),
            bias=cot_z.all.sum(-1),
            mixing=self.grad_mixing,
            alpha=torch.linalg.vecdot(x.reshape(runs, -1), flat).unsqueeze(-1),
            gamma=torch.linalg.vecdot(self.product.view(runs, -1), flat).unsqueeze(-1),
        )
