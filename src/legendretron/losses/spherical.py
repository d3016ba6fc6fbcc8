r"""The spherical loss."""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron.losses.base import ProperLoss

__all__ = ["SphericalLoss"]


class SphericalLoss(ProperLoss):
    r""":math:`\ell_i(q) = 1 - q_i / |q|`, one minus the cosine between the prediction and the outcome.

    Bayes risk: :math:`1 - |p|`. Regret: :math:`|p| - \langle p, q\rangle / |q|`.

    References
    ----------
    Gneiting, Raftery (2007), Strictly Proper Scoring Rules, Prediction, and Estimation, JASA.

    Examples
    --------
    >>> SphericalLoss().bayes_risk(torch.tensor([1.0, 0.0, 0.0]))
    tensor(0.)
    """

    def _partial_losses(self, q: Tensor) -> Tensor:
        return 1.0 - q / torch.linalg.vector_norm(q, dim=-1, keepdim=True)

    def _bayes_risk(self, p: Tensor) -> Tensor:
        return 1.0 - torch.linalg.vector_norm(p, dim=-1)

    def _regret(self, p: Tensor, q: Tensor) -> Tensor:
        # |p| (1 - cos) = |p| |p/|p| - q/|q||^2 / 2, which does not cancel when p and q are close
        p_norm = torch.linalg.vector_norm(p, dim=-1, keepdim=True)
        gap = p / p_norm - q / torch.linalg.vector_norm(q, dim=-1, keepdim=True)
        return 0.5 * p_norm.squeeze(-1) * gap.square().sum(-1)
