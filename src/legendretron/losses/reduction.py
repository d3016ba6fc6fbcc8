r"""From the losses of all labels to the loss of a batch, as ``torch.nn.CrossEntropyLoss`` does it."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from legendretron._internal.validation import (
    at_least_single,
    check_choice,
    check_float_tensor,
    check_labels,
    check_proba,
)

__all__ = ["Reduction", "expectation", "make_reduction"]


class Reduction(NamedTuple):
    r"""What becomes of the losses :math:`\ell_{ik}` of rows ``i`` and labels ``k``.

    With class weights :math:`w` and label smoothing :math:`\epsilon`, the loss of a row with label ``y`` is

    .. math:: (1 - \epsilon)\, w_y \ell_y + \frac{\epsilon}{C} \sum_k w_k \ell_k,

    and the mean is taken over rows with weights :math:`w_y`; a row with label ``ignore_index`` does not count. With
    probabilities :math:`t` for a label it is :math:`\sum_k w_k t_k \ell_k`, :math:`t` smoothed in the same way, and the mean
    is plain.
    """

    weight: Tensor | None = None
    reduction: str = "mean"
    ignore_index: int = -100
    label_smoothing: float = 0.0

    def reduce_scores(self, scores: Tensor, y: object, name: str = "y") -> Tensor:
        """Reduce losses with a minus, the classes on the last axis, in float32 at least: ``(..., C) -> ()``, or ``(...)``."""
        shape, n_classes = tuple(scores.shape[:-1]), scores.shape[-1]
        weight = None if self.weight is None else self.weight.to(scores)
        if isinstance(y, Tensor) and y.is_floating_point():
            check_proba(name, y, n_classes)
            if tuple(y.shape[:-1]) != shape:
                raise ValueError(f"{name} must have shape {(*shape, n_classes)}, got {tuple(y.shape)}.")
            return self._reduce_soft(scores, at_least_single(y).to(scores.dtype), weight)
        rows, flat = scores.reshape(-1, n_classes), self._labels(scores, y, name)
        try:
            loss = nll_loss(rows, flat, weight, ignore_index=self.ignore_index, reduction=self.reduction)
        except IndexError:
            self._labels(scores, y, name, read=True)
            raise
        if self.label_smoothing > 0.0:
            even = self._reduce_even(rows, flat, weight)
            loss = (1.0 - self.label_smoothing) * loss + self.label_smoothing / n_classes * even
        return loss.reshape(shape) if self.reduction == "none" else loss

    def _labels(self, scores: Tensor, y: object, name: str, *, read: bool = False) -> Tensor:
        """Integer labels in one dimension. Their values need not be read: torch reads them, without waiting for a GPU."""
        name = f"{name} (integer labels, or probabilities of a floating-point dtype)"
        shape = tuple(scores.shape[:-1])
        return check_labels(name, y, scores.shape[-1], shape, self.ignore_index, read=read).reshape(-1)

    def _reduce_even(self, rows: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        """Losses of all labels together, over the rows that count."""
        ignored = labels == self.ignore_index
        # a class without weight may be masked, and 0 * inf is NaN
        weighted = rows if weight is None else rows.masked_fill(weight == 0, 0.0) * weight
        even = -weighted.sum(-1).masked_fill(ignored, 0.0)
        if self.reduction == "none":
            return even
        if self.reduction == "sum":
            return even.sum()
        counts = (~ignored).to(even.dtype)
        return even.sum() / (counts if weight is None else counts * weight[labels.masked_fill(ignored, 0)]).sum()

    def _reduce_soft(self, scores: Tensor, y: Tensor, weight: Tensor | None) -> Tensor:
        if self.label_smoothing > 0.0:
            y = (1.0 - self.label_smoothing) * y + self.label_smoothing / y.shape[-1]
        losses = -expectation(y if weight is None else y * weight, scores)
        if self.reduction == "none":
            return losses
        return losses.mean() if self.reduction == "mean" else losses.sum()


def expectation(p: Tensor, losses: Tensor) -> Tensor:
    """``sum_i p_i l_i`` with ``0 * inf = 0``."""
    return torch.where(p == 0, torch.zeros_like(losses), p * losses).sum(-1)


def make_reduction(
    weight: object, reduction: object, ignore_index: object, label_smoothing: object, n_classes: int | None
) -> Reduction:
    """Return the reduction that arguments ask for, as those of ``torch.nn.CrossEntropyLoss``, or raise a ``ValueError``."""
    if weight is not None:
        weight = check_float_tensor("weight", weight)
        if weight.dim() != 1 or weight.shape[0] != (n_classes or weight.shape[0]):
            size = "C" if n_classes is None else n_classes
            raise ValueError(f"weight must have shape ({size},), one number for each class, got {tuple(weight.shape)}.")
        if not bool(((weight >= 0) & torch.isfinite(weight)).all()):
            raise ValueError(f"weight must contain finite non-negative numbers, one for each class, got {weight}.")
    reduction = check_choice("reduction", reduction, ("mean", "sum", "none"))
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
        raise ValueError(f"ignore_index must be an integer, got {ignore_index!r}.")
    if (
        isinstance(label_smoothing, bool)
        or not isinstance(label_smoothing, Real)
        or not 0.0 <= float(label_smoothing) <= 1.0
    ):
        raise ValueError(f"label_smoothing must be a number from 0 to 1, as in torch, got {label_smoothing!r}.")
    return Reduction(weight, reduction, ignore_index, float(label_smoothing))
