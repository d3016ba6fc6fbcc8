r"""The log-loss."""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron.losses.base import ProperLoss

__all__ = ["LogLoss"]


class LogLoss(ProperLoss):
    r""":math:`\ell_i(q) = -\log q_i`, cross-entropy.

    Bayes risk: the entropy. Regret: the Kullback-Leibler divergence. Canonical link: the inverse of softmax+.

    Examples
    --------
    >>> LogLoss().bayes_risk(torch.tensor([0.5, 0.25, 0.25]))
    tensor(1.0397)
    """

    def _partial_losses(self, q: Tensor) -> Tensor:
        return -torch.log(q)

    def _bayes_risk(self, p: Tensor) -> Tensor:
        return -torch.xlogy(p, p).sum(-1)

    def _regret(self, p: Tensor, q: Tensor) -> Tensor:
        # grouped so that equal entries cancel exactly, and 0 log 0 = 0
        return torch.where(p == 0, torch.zeros_like(q), p * (torch.log(p) - torch.log(q))).sum(-1)
