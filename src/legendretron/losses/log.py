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
        return torch.special.entr(p).sum(-1)

    def _expected_loss(self, p: Tensor, q: Tensor) -> Tensor:
        # a class that is neither true nor predicted is left out before the logarithm, whose slope there is infinite
        return -torch.xlogy(p, torch.where((p == 0) & (q == 0), torch.ones_like(q), q)).sum(-1)

    def _regret(self, p: Tensor, q: Tensor) -> Tensor:
        # p log(p/q) - p + q: no term is negative, and rounding cannot make the sum so
        absent = p == 0
        ratio = torch.where(absent, torch.ones_like(q), q / torch.where(absent, torch.ones_like(p), p))
        return (q - p - p * torch.log(ratio)).clamp(min=0.0).sum(-1)
