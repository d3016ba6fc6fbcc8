r"""The square loss, or Brier score."""

from __future__ import annotations

from torch import Tensor

from legendretron.losses.base import ProperLoss
from legendretron.simplex import complement, sum_of_others

__all__ = ["SquareLoss"]


class SquareLoss(ProperLoss):
    r""":math:`\ell_i(q) = \tfrac12 |e_i - q|^2`.

    For two classes this is the paper's :math:`(1 - q_i)^2`. Bayes risk: :math:`\tfrac12 (1 - |p|^2)`, half the Gini
    index. Regret: :math:`\tfrac12 |p - q|^2`.

    Parameters
    ----------
    scale_by_half : bool
        With ``False`` the factor of one half is left out, which is Brier's multiclass score.

    Examples
    --------
    >>> import torch
    >>> SquareLoss().partial_losses(torch.tensor([0.75, 0.25]))
    tensor([0.0625, 0.5625])
    """

    def __init__(self, scale_by_half: bool = True) -> None:
        super().__init__()
        self.scale_by_half = scale_by_half

    @property
    def _factor(self) -> float:
        return 0.5 if self.scale_by_half else 1.0

    def _partial_losses(self, q: Tensor) -> Tensor:
        # |e_i - q|^2 = (1 - q_i)^2 + sum of the other squares, each without cancellation when q_i is near one
        return self._factor * (complement(q).square() + sum_of_others(q.square()))

    def _bayes_risk(self, p: Tensor) -> Tensor:
        return self._factor * (p * (1.0 - p)).sum(-1)

    def _regret(self, p: Tensor, q: Tensor) -> Tensor:
        return self._factor * (p - q).square().sum(-1)

    def extra_repr(self) -> str:
        """Text between the brackets of ``repr``."""
        return f"scale_by_half={self.scale_by_half}"
