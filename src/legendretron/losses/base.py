r"""The interface of a proper loss."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from legendretron._internal.validation import (
    at_least_single,
    check_float_tensor,
    check_labels,
    check_proba,
    full_precision,
)


class ProperLoss(nn.Module, ABC):
    r"""A loss on probabilities whose expectation under ``p`` is least at ``p`` itself.

    With partial losses :math:`\ell_1(q), \ldots, \ell_C(q)`, one for each label, the expected loss is
    :math:`L(p, q) = \sum_i p_i \ell_i(q)`. Properness says :math:`L(p, p) \le L(p, q)`; then
    :math:`\underline{L}(p) = L(p, p)` is the Bayes risk, a concave function, and the regret
    :math:`L(p, q) - \underline{L}(p)` is the Bregman divergence of :math:`-\underline{L}`. The canonical link is
    :math:`\psi(\tilde p) = -\nabla \underline{\tilde L}(\tilde p)`, which comes down to
    :math:`\psi_i = \ell_C - \ell_i`.

    All probabilities have the classes on their last axis and any axes before it, which broadcast. Computations are in float32
    at least, and so are results.

    Examples
    --------
    >>> from legendretron.losses import SquareLoss
    >>> loss = SquareLoss()  # a subclass
    >>> p, q = torch.tensor([0.7, 0.3]), torch.tensor([0.5, 0.5])
    >>> bool(loss.regret(p, q) > 0), bool(loss.regret(p, p).abs() < 1e-6)
    (True, True)
    """

    #: whether p is the only minimizer
    strictly_proper: bool = True
    #: number of classes the loss is made for; None for any
    n_classes: int | None = None

    @abstractmethod
    def _partial_losses(self, q: Tensor) -> Tensor: ...

    def _bayes_risk(self, p: Tensor) -> Tensor:
        return expectation(p, self._partial_losses(p))

    def _expected_loss(self, p: Tensor, q: Tensor) -> Tensor:
        return expectation(p, self._partial_losses(q))

    def _regret(self, p: Tensor, q: Tensor) -> Tensor:
        # a difference that rounding may push below zero when p and q are close
        return (self._expected_loss(p, q) - self._bayes_risk(p)).clamp(min=0.0)

    def _check(self, name: str, p: Tensor) -> Tensor:
        return at_least_single(check_proba(name, p, self.n_classes))

    def _check_pair(self, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        p, q = self._check("p", p), self._check("q", q)
        if p.shape[-1] != q.shape[-1]:
            raise ValueError(f"p and q must have the same classes, got {p.shape[-1]} and {q.shape[-1]}.")
        return p, q

    def partial_losses(self, p: Tensor) -> Tensor:
        """Loss of predicting ``p`` for each label: ``(..., C) -> (..., C)``."""
        p = self._check("p", p)
        with full_precision(p):
            return self._partial_losses(p)

    def expected_loss(self, p: Tensor, q: Tensor) -> Tensor:
        """Expected loss of predicting ``q`` when labels follow ``p``: ``(..., C), (..., C) -> (...)``.

        A label of probability zero does not count, however large its loss.
        """
        p, q = self._check_pair(p, q)
        with full_precision(p):
            return self._expected_loss(p, q)

    def bayes_risk(self, p: Tensor) -> Tensor:
        """Least expected loss when labels follow ``p``: ``(..., C) -> (...)``."""
        p = self._check("p", p)
        with full_precision(p):
            return self._bayes_risk(p)

    def regret(self, p: Tensor, q: Tensor) -> Tensor:
        """Excess of the expected loss of ``q`` over the Bayes risk: ``(..., C), (..., C) -> (...)``."""
        p, q = self._check_pair(p, q)
        with full_precision(p):
            return self._regret(p, q)

    def link(self, p: Tensor) -> Tensor:
        """Canonical link, ``l_C(p) - l_i(p)``: ``(..., C) -> (..., C - 1)``."""
        p = at_least_single(check_proba("p", p, self.n_classes, interior=True))
        with full_precision(p):
            losses = self._partial_losses(p)
        return losses[..., -1:] - losses[..., :-1]

    def mean_loss(self, p: Tensor, y: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Average loss of predictions ``(..., C)`` on labels ``(...)``, weighted if weights ``(...)`` are given."""
        losses = self.partial_losses(p)
        labels = check_labels("y", y, p.shape[-1], tuple(p.shape[:-1]))
        picked = torch.gather(losses, -1, labels.unsqueeze(-1)).squeeze(-1)
        if sample_weight is None:
            return picked.mean()
        if check_float_tensor("sample_weight", sample_weight).shape != picked.shape:
            raise ValueError(f"sample_weight must have shape {tuple(picked.shape)}, got {tuple(sample_weight.shape)}.")
        weight = at_least_single(sample_weight)  # half precision has no sums above 65,504
        return (picked * weight).sum() / weight.sum()


def expectation(p: Tensor, losses: Tensor) -> Tensor:
    """``sum_i p_i l_i`` with ``0 * inf = 0``."""
    return torch.where(p == 0, torch.zeros_like(losses), p * losses).sum(-1)
