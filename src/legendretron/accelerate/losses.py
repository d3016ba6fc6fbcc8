r"""The canonical loss of a batch as one operation: value and gradient together, by compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from legendretron.accelerate.row_losses import RowLosses

__all__ = ["can_be_fused", "fused_loss"]


#: Types of labels.
_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


class _FusedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        rows: RowLosses,
        labels: Tensor,
        weight: Tensor | None,
        ignore_index: int,
        reduction: str,
        plain: Callable[[Tensor], Tensor],
    ) -> Tensor:
        found = rows(logits, labels, weight, ignore_index, reduction, ctx.needs_input_grad[0])
        if found.wrong_label:
            raise IndexError("a label is no class")
        ctx.save_for_backward(logits, found.gradient, found.divisor)
        ctx.plain = plain
        return found.loss

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        logits, gradient, divisor = ctx.saved_tensors
        if torch.is_grad_enabled():  # for higher derivatives, by operations that have them
            return *torch.autograd.grad(ctx.plain(logits), logits, g, create_graph=True), *[None] * 6
        g = g if divisor is None else g / divisor
        return gradient * (g if g.dim() == 0 else g.unsqueeze(-1)), *[None] * 6


def can_be_fused(logits: Tensor, labels: Tensor) -> bool:
    """Whether compiled functions may read logits ``(..., C)`` and labels ``(...)``, and no graph of them is wanted."""
    plain = type(logits) in (Tensor, nn.Parameter) and type(labels) is Tensor
    recorded = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    if not plain or recorded:
        return False
    if labels.dtype not in _INTEGERS or labels.shape != logits.shape[:-1] or labels.device != logits.device:
        return False
    # private, but there is no public way to ask whether torch.func is active
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    return not transformed and forward_ad.unpack_dual(logits).tangent is None


def fused_loss(
    rows: RowLosses,
    logits: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    plain: Callable[[Tensor], Tensor],
) -> Tensor | None:
    """Loss of logits ``(n, C)`` on labels ``(n,)``; None if one of them is no class.

    Parameters
    ----------
    rows : RowLosses
        The link.
    weight, ignore_index, reduction
        See :class:`Reduction`.
    plain : callable
        From logits to the loss by operations that can be differentiated twice.
    """
    try:
        loss: Tensor = _FusedLoss.apply(logits, rows, labels, weight, ignore_index, reduction, plain)  # type: ignore[no-untyped-call]
    except IndexError:
        return None
    return loss
