r"""Losses of decisions: the cost of the act that is best under the prediction."""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron._internal.validation import check_float_tensor, check_open_unit
from legendretron.losses.base import ProperLoss


class CostLoss(ProperLoss):
    r"""Cost of the act that is best under the prediction.

    .. math:: \ell_i(q) = \mathrm{cost}[i, a(q)], \qquad a(q) \in \arg\min_a \sum_k q_k\, \mathrm{cost}[k, a].

    Proper for every cost matrix, strictly so for none. Ties between best acts are shared evenly.

    Parameters
    ----------
    cost : Tensor of shape (C, A)
        Cost of each act ``a`` for each label ``i``; with ``A = C`` the acts are usually the classes to predict.

    Examples
    --------
    >>> loss = CostLoss(torch.tensor([[0.0, 1.0], [5.0, 0.0]]))
    >>> loss.partial_losses(torch.tensor([0.8, 0.2]))  # act 1 is best: 0.8 * 1 < 0.2 * 5
    tensor([1., 0.])
    """

    strictly_proper = False
    cost: Tensor

    def __init__(self, cost: Tensor) -> None:
        super().__init__()
        check_float_tensor("cost", cost)
        if cost.dim() != 2 or cost.shape[0] < 2 or cost.shape[1] < 1:
            raise ValueError(f"cost must have shape (C, A) with C >= 2 and A >= 1, got {tuple(cost.shape)}.")
        if not bool(torch.isfinite(cost).all()):
            raise ValueError("cost must be finite, got NaN or infinite entries.")
        self.n_classes = cost.shape[0]
        self.register_buffer("cost", cost.detach().clone())

    def _partial_losses(self, q: Tensor) -> Tensor:
        cost = self.cost.to(q)
        risk = q @ cost  # (..., acts)
        best = (risk == risk.amin(-1, keepdim=True)).to(q.dtype)
        return (best / best.sum(-1, keepdim=True)) @ cost.mT

    def _bayes_risk(self, p: Tensor) -> Tensor:
        return (p @ self.cost.to(p)).amin(-1)


class ZeroOneLoss(ProperLoss):
    r""":math:`\ell_i(q) = [i \ne \arg\max q]`, with ties shared evenly. Bayes risk: :math:`1 - \max_i p_i`.

    Examples
    --------
    >>> ZeroOneLoss().partial_losses(torch.tensor([0.2, 0.4, 0.4]))
    tensor([1.0000, 0.5000, 0.5000])
    """

    strictly_proper = False

    def _partial_losses(self, q: Tensor) -> Tensor:
        best = (q == q.amax(-1, keepdim=True)).to(q.dtype)
        return 1.0 - best / best.sum(-1, keepdim=True)

    def _bayes_risk(self, p: Tensor) -> Tensor:
        return 1.0 - p.amax(-1)


class AsymmetricBinaryLoss(ProperLoss):
    r"""Cost-weighted misclassification of two classes with a threshold at ``cost``.

    Predict the first class where :math:`q_1 > c`: missing it costs :math:`1 - c`, a false alarm costs :math:`c`,

    .. math:: \ell_1(q) = (1 - c)\,[q_1 < c], \qquad \ell_2(q) = c\,[q_1 > c],

    half of each at :math:`q_1 = c`. Every proper binary loss is a mixture of these over ``c``.

    Parameters
    ----------
    cost : float
        ``c``, strictly between 0 and 1.

    References
    ----------
    Reid, Williamson (2010), Composite Binary Losses, JMLR.

    Examples
    --------
    >>> AsymmetricBinaryLoss(cost=0.25).partial_losses(torch.tensor([0.3, 0.7]))
    tensor([0.0000, 0.2500])
    """

    strictly_proper = False
    n_classes = 2

    def __init__(self, cost: float = 0.5) -> None:
        super().__init__()
        self.cost = check_open_unit("cost", cost)

    def _partial_losses(self, q: Tensor) -> Tensor:
        # compared directly with the threshold, so that rounding of the risks cannot move a tie
        alarm = torch.where(q[..., 0] == self.cost, 0.5, (q[..., 0] > self.cost).to(q.dtype))
        return torch.stack([(1.0 - self.cost) * (1.0 - alarm), self.cost * alarm], dim=-1)

    def extra_repr(self) -> str:
        """Text between the brackets of ``repr``."""
        return f"cost={self.cost}"
