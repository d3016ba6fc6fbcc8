r"""The loss of a canonical link: what LegendreTron learns."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from legendretron._internal.validation import at_least_single, check_choice, check_labels, check_last_axis, check_proba
from legendretron.links import Link
from legendretron.losses.base import ProperLoss

__all__ = ["CanonicalLoss"]


class CanonicalLoss(ProperLoss):
    r"""Proper canonical loss of a link, :math:`\ell_y = F(z) - z_y` with :math:`z_C = 0`.

    :math:`F` is the link's potential. The loss is convex in ``z`` with gradient :math:`p(z) - e_y`; on probabilities,
    its Bayes risk is :math:`-F^*(\tilde p)` and its regret the Bregman divergence of :math:`F^*`. (Elsewhere this is a
    Fenchel-Young loss.)

    The loss keeps a frozen copy of the link. Training ``F`` by its own canonical loss has a trivial minimum, where
    ``F`` and not the model has moved; learn the link by log-loss, then take its loss to train other models.

    Parameters
    ----------
    link : Link
        A canonical link, without run axes.
    weight : Tensor of shape (C,), optional
        Weights of the classes.
    reduction : {"mean", "sum", "none"}
        As in ``torch.nn.CrossEntropyLoss``, which this equals for the softmax link.
    ignore_index : int
        Integer label that does not count.

    Raises
    ------
    NotCanonicalError
        If the link has no potential, as a composite link of three or more classes.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> criterion = CanonicalLoss(SoftmaxLink(n_classes=3))
    >>> criterion(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.2395)
    """

    weight: Tensor | None

    def __init__(
        self, link: Link, weight: Tensor | None = None, reduction: str = "mean", ignore_index: int = -100
    ) -> None:
        super().__init__()
        if not isinstance(link, Link):
            raise ValueError(f"link must be a legendretron Link, got {type(link).__name__}.")
        if not link.is_canonical:
            link._refuse_potential()
        if link.run_shape:
            raise ValueError(
                f"link must have no run axes, got run_shape={link.run_shape}; take_run(link, r) gives one run."
            )
        self.n_classes: int = link.n_classes
        with torch.inference_mode(False):  # tensors made in inference mode could not be used outside it
            self.canonical_link = copy.deepcopy(link).requires_grad_(False).eval()
        self.reduction = check_choice("reduction", reduction, ("mean", "sum", "none"))
        if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
            raise ValueError(f"ignore_index must be an integer, got {ignore_index!r}.")
        self.ignore_index = ignore_index
        if weight is not None:
            check_last_axis("weight", weight, self.n_classes)
            if weight.dim() != 1 or not bool(((weight >= 0) & torch.isfinite(weight)).all()):
                raise ValueError(f"weight must hold {self.n_classes} finite non-negative numbers, got {weight}.")
        with torch.inference_mode(False):
            self.register_buffer("weight", None if weight is None else weight.detach().clone())

    def train(self, mode: bool = True) -> CanonicalLoss:
        """Set the mode; the frozen link stays as it is."""
        super().train(mode)
        self.canonical_link.eval()
        return self

    # --- on predictors ---

    def losses_at(self, z: Tensor) -> Tensor:
        """Loss of predictor ``z`` for each label, ``F(z) - z_y``: ``(..., C - 1) -> (..., C)``."""
        return self.canonical_link._losses_at(z)

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        """Loss of predictors ``(..., C - 1)`` on labels.

        Parameters
        ----------
        z : Tensor of shape (..., C - 1)
            Predictors.
        y : Tensor
            Integer labels of shape (...), or probabilities of shape (..., C).

        Returns
        -------
        Tensor
            A scalar, or shape (...) with ``reduction="none"``. The mean is weighted by the labels' class weights, and
            over plain counts for soft labels, as in torch.
        """
        check_last_axis("z", z, self.n_classes - 1)
        if isinstance(y, Tensor) and y.is_floating_point():
            return self._soft(z, y)
        labels = check_labels(
            "y (integer labels, or probabilities of a floating-point dtype)",
            y,
            self.n_classes,
            tuple(z.shape[:-1]),
            self.ignore_index,
        )
        counted = labels != self.ignore_index
        safe = torch.where(counted, labels, 0)
        losses = torch.gather(self.losses_at(z), -1, safe.unsqueeze(-1)).squeeze(-1)
        # in the precision of the losses: a count of rows in half precision would be a rounded one
        weights = counted.to(losses) if self.weight is None else self.weight.to(losses)[safe] * counted
        # where, not a product: an ignored row may hold anything
        losses = torch.where(counted, losses * weights, torch.zeros_like(losses))
        if self.reduction == "none":
            return losses
        return losses.sum() / weights.sum() if self.reduction == "mean" else losses.sum()

    def _soft(self, z: Tensor, y: Tensor) -> Tensor:
        check_proba("y", y, self.n_classes)
        if y.shape[:-1] != z.shape[:-1]:
            raise ValueError(f"y must have shape {(*z.shape[:-1], self.n_classes)}, got {tuple(y.shape)}.")
        y = at_least_single(y)
        shares = y if self.weight is None else y * self.weight.to(y)
        losses = (shares * self.losses_at(z)).sum(-1)
        if self.reduction == "none":
            return losses
        return losses.mean() if self.reduction == "mean" else losses.sum()

    # --- on probabilities ---

    def _predictor(self, p: Tensor) -> Tensor:
        p = at_least_single(p)
        # at the boundary the predictor is infinite: take it at the smallest positive number instead of zero
        return self.canonical_link.link_from_log(torch.log(p.clamp(min=torch.finfo(p.dtype).tiny)))

    def _partial_losses(self, q: Tensor) -> Tensor:
        # a label that was ruled out has an infinite loss; the predictor stands in for the limit of the others
        return self.losses_at(self._predictor(q)).masked_fill(q == 0, torch.inf)

    def link(self, p: Tensor) -> Tensor:
        """Canonical link of the loss: the link it was made from."""
        return self.canonical_link.link(p)

    def extra_repr(self) -> str:
        """Text between the brackets of ``repr``."""
        return f"reduction={self.reduction!r}"
