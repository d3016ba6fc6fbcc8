r"""The log-loss through a link that need not be canonical."""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron._internal.start import keep_values
from legendretron._internal.validation import at_least_single
from legendretron.accelerate.inverse import link_from_log
from legendretron.accelerate.log_proba import log_proba
from legendretron.links import Link
from legendretron.links.canonicality import CanonicalityCheck, canonicality
from legendretron.links.runs import check_single_link
from legendretron.losses.link_loss import LinkLoss, freeze_copy
from legendretron.losses.named import LogLoss

__all__ = ["CompositeLoss"]

#: Points at which canonicality is measured by default, and the most entries of all their Jacobians together.
_POINTS = 512
_MOST_ENTRIES = 2**22


class CompositeLoss(LinkLoss, LogLoss):
    r"""Strictly proper composite loss of a link: log-loss through its inverse, :math:`\ell_y(z) = -\log p_y(z)`.

    It exists for every link, also for those without a potential, such as a composite link of three or more classes.

    - It is **strictly proper**: on probabilities it is the log-loss, and since the link is invertible, the expected loss
      has its only minimum at the predictor whose probabilities are those of the labels.
    - It **may not be convex** in ``z``, its gradient is not :math:`p(z) - e_y`, and :math:`\ell_C - \ell_i` is not the link.
      These are properties of a canonical loss, see :class:`CanonicalLoss`. :attr:`canonicality` measures how far the link is
      from being canonical.

    The loss keeps a frozen copy of the link, whose parameters are buffers here.

    Parameters
    ----------
    link : Link
        A link without run axes.
    weight, reduction, ignore_index, label_smoothing, dim : optional
        See :class:`Criterion`.

    Examples
    --------
    >>> from legendretron.links import CompositeLink
    >>> loss = CompositeLoss(CompositeLink(n_classes=3))
    >>> z, y = torch.randn(5, 2), torch.tensor([0, 1, 2, 0, 1])
    >>> torch.allclose(loss(z, y), -loss.predict_proba(z)[torch.arange(5), y].log().mean())
    True
    >>> loss.canonicality.n_points
    512
    """

    def __init__(
        self,
        link: Link,
        weight: Tensor | None = None,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        dim: int = -1,
    ) -> None:
        check_single_link(link)
        super().__init__(weight, reduction, ignore_index, label_smoothing, dim, n_classes=link.n_classes)
        self.composite_link = freeze_copy(link)
        keep_values(self)

    @property
    def _link(self) -> Link:
        return self.composite_link

    def _without_masks(self, logits: Tensor) -> Tensor:
        return self.composite_link._without_masks(logits)

    def _scores_of_rows(self, logits: Tensor) -> Tensor:
        return log_proba(self.composite_link, logits, all_classes=True)

    @property
    def canonicality(self) -> CanonicalityCheck:
        """How far the link is from canonical, at predictors of probabilities drawn evenly from the simplex with a fixed seed.

        They are 512, and fewer for very many classes. :func:`legendretron.canonicality` measures at predictors of your own.
        """
        k = self.n_classes - 1
        n = max(2, min(_POINTS, _MOST_ENTRIES // k**2))
        draws = -torch.log(torch.rand(n, k + 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
        like = self.composite_link._first_tensor()
        p = (draws / draws.sum(-1, keepdim=True)).to(draws if like is None else at_least_single(like))
        z = link_from_log(self.composite_link, torch.log(p.clamp(min=torch.finfo(p.dtype).tiny)))
        return canonicality(self.composite_link, z[torch.isfinite(z).all(-1)])
