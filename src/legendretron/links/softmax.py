r"""The softmax+ link: multinomial logistic regression, nothing to learn."""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron.links.base import Link
from legendretron.links.registry import register_link
from legendretron.simplex import log_softmax_plus, logsumexp_plus, softmax_plus_jacobian


@register_link("softmax")
class SoftmaxLink(Link):
    r""":math:`\tilde p = \mathrm{softmax}^+(z)`, the canonical link of the log-loss.

    Parameters
    ----------
    n_classes : int
        ``C``.
    run_shape : tuple of int
        Run axes of the inputs.

    Examples
    --------
    >>> link = SoftmaxLink(n_classes=3)
    >>> link.link(link.inverse(torch.tensor([2.5, -1.0])))
    tensor([ 2.5000, -1.0000])
    """

    @property
    def is_canonical(self) -> bool:
        """Always: softmax+ is the gradient of LogSumExp+."""
        return True

    def class_axes(self) -> dict[str, int]:
        """No parameters, so nothing to split."""
        return {}

    def _log_odds(self, z: Tensor) -> Tensor:
        return z

    def _log_proba_of_logits(self, logits: Tensor) -> Tensor:
        # a subclass may define another map
        return torch.log_softmax(logits, -1) if type(self) is SoftmaxLink else super()._log_proba_of_logits(logits)

    @property
    def _takes_masks(self) -> bool:
        return type(self) is SoftmaxLink  # a subclass may define another map

    def _from_log_odds(self, log_odds: Tensor) -> Tensor:
        return log_odds

    def _jacobian(self, z: Tensor) -> Tensor:
        return softmax_plus_jacobian(log_softmax_plus(z).exp())

    def _canonical_losses(self, z: Tensor) -> Tensor:
        return -log_softmax_plus(z)

    def _scores_and_proba(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        log_p = self._log_proba_of_logits(logits)
        return log_p, log_p.exp()

    def _potential(self, z: Tensor) -> Tensor:
        return logsumexp_plus(z)
