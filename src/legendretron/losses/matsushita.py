r"""Matsushita's loss, for two classes and more."""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron.losses.base import ProperLoss

__all__ = ["MatsushitaLoss"]


class MatsushitaLoss(ProperLoss):
    r""":math:`\ell_i(q) = \tfrac12 \sum_{j \ne i} \sqrt{q_j / q_i}`.

    For two classes this is the paper's :math:`\tfrac12 \sqrt{(1 - q)/q}`, with Bayes risk :math:`\sqrt{p (1 - p)}`. The
    multiclass form is the gradient of the sum of the pairwise ones,
    :math:`\underline{L}(p) = \sum_{i < j} \sqrt{p_i p_j} = \tfrac12 \bigl( (\sum_i \sqrt{p_i})^2 - 1 \bigr)`.

    References
    ----------
    Matusita (1956), Decision rule, based on the distance, for the classification problem, Ann. Inst. Stat. Math.

    Examples
    --------
    >>> MatsushitaLoss().partial_losses(torch.tensor([0.8, 0.2]))
    tensor([0.2500, 1.0000])
    """

    def _partial_losses(self, q: Tensor) -> Tensor:
        root = torch.sqrt(q)
        ratios = root.unsqueeze(-2) / root.unsqueeze(-1)  # [i, j] = sqrt(q_j / q_i)
        own = torch.eye(q.shape[-1], dtype=torch.bool, device=q.device)
        # 0/0 off the diagonal: two classes that are both ruled out weigh nothing against each other
        idle = own | ((q == 0).unsqueeze(-2) & (q == 0).unsqueeze(-1))
        return 0.5 * ratios.masked_fill(idle, 0.0).sum(-1)

    def _bayes_risk(self, p: Tensor) -> Tensor:
        root = torch.sqrt(p)
        return 0.5 * (root * (root.sum(-1, keepdim=True) - root)).sum(-1)
