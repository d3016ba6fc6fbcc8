r"""LogSumExp+, the potential of the softmax+ link."""

from __future__ import annotations

from torch import Tensor

from legendretron.potentials.base import Potential
from legendretron.simplex import (
    lift,
    log_softmax_plus,
    logsumexp_plus,
    softmax_plus,
    softmax_plus_inverse,
    softmax_plus_jacobian,
)

__all__ = ["LogSumExpPlus"]


class LogSumExpPlus(Potential):
    r""":math:`F(z) = \log(1 + \sum_k e^{z_k})`, without parameters.

    Its gradient is softmax+, which fills the open projected simplex; its conjugate is the negative entropy
    :math:`F^*(\tilde p) = \sum_{k=1}^{C} p_k \log p_k`.

    Examples
    --------
    >>> import torch
    >>> LogSumExpPlus(dim=2).conjugate(torch.tensor([0.25, 0.25]))
    tensor(-1.0397)
    """

    def _value(self, x: Tensor) -> Tensor:
        return logsumexp_plus(x)

    def _gradient(self, x: Tensor) -> Tensor:
        return softmax_plus(x)

    def _hessian(self, x: Tensor) -> Tensor:
        return softmax_plus_jacobian(log_softmax_plus(x).exp())

    def _hessian_product(self, x: Tensor, v: Tensor) -> Tensor:
        p = softmax_plus(x)
        return p * (v - (p * v).sum(-1, keepdim=True))

    def _hessian_solve(self, x: Tensor, v: Tensor) -> Tensor:
        # inverse of diag(p) - p p^T by Sherman-Morrison: diag(1/p) + 1 1^T / p_C
        p = log_softmax_plus(x).exp()
        return v / p[..., :-1] + v.sum(-1, keepdim=True) / p[..., -1:]

    def _inverse_gradient(self, y: Tensor) -> Tensor:
        return softmax_plus_inverse(y)

    def conjugate(self, y: Tensor) -> Tensor:
        """``sum_k p_k log p_k`` over all ``C`` classes, with ``0 log 0 = 0``: ``(..., K) -> (...)``."""
        p = lift(self._rows("y", y))
        return p.xlogy(p).sum(-1).reshape(y.shape[:-1])
