r"""Canonical losses of a batch and their gradients in one compiled call, as one operation, for frozen links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from legendretron.accelerate.cpu.links import LIKE, in_threads, row_parts
from legendretron.accelerate.forms import link_form
from legendretron.accelerate.log_proba import is_watched
from legendretron.accelerate.support import addresses_of, can_read, has_numba, kernels_apply
from legendretron.links import CanonicalLink, Link, NoisyLink

__all__ = ["RowLosses", "can_be_fused", "fused_loss", "row_losses"]

_HOW = {"none": 0, "mean": 1, "sum": 2}
_MOST_CLASSES = 16_384  # of a row that a Triton kernel can hold


class RowLosses(NamedTuple):
    """A frozen link as numbers that compiled functions work with."""

    #: The numbers ``keep``, ``fixed`` and ``least`` of :mod:`legendretron.accelerate.cpu.losses`, then those of the link.
    numbers: Tensor
    n_classes: int
    #: Nests and classes; or pieces of a table and numbers of each.
    sizes: tuple[int, int]
    is_table: bool

    def __call__(
        self, logits: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, want: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Losses, gradients if wanted, and what gradients are still to be divided by.

        Logits ``(n, C)`` are in the precision of the link, labels ``(n,)`` have 64 bits. On the CPU a label that is no class,
        or a masked class with noise, raises an ``IndexError``; a GPU does not wait for that, and the loss is not finite.
        Tensors of other shapes raise it, too.
        """
        logits, labels = logits.contiguous(), labels.contiguous()
        weight = None if weight is None else weight.to(logits).contiguous()
        c = self.n_classes
        if logits.shape != (labels.shape[0], c) or (weight is not None and not can_read([weight], [(c,)], logits)):
            raise IndexError("plain operations explain the error")
        if logits.is_cuda:
            from legendretron.accelerate.cuda.losses import weighted_losses

            link = self.numbers, self.sizes, self.is_table
            out, gradient = weighted_losses(logits, labels, weight, *link, ignore_index, want)
            if reduction == "none":
                return out[0], gradient, None
            loss, total = out.sum(-1).unbind()
            return (loss / total, gradient, total) if reduction == "mean" else (loss, gradient, None)
        from legendretron.accelerate.cpu.losses import nested_losses, table_losses

        n, work = labels.shape[0], 10 * logits.shape[1] * (4 if self.is_table else self.sizes[0])
        gradient = torch.empty_like(logits) if want else None
        p_logits, p_labels, p_numbers = addresses_of((logits, labels, self.numbers))
        p_weight, p_gradient = (0 if tensor is None else tensor.data_ptr() for tensor in (weight, gradient))
        addresses = p_logits, p_labels, p_weight, p_gradient, p_numbers
        how = _HOW[reduction]
        parts = row_parts(n, work)
        losses = torch.empty(n if how == 0 else len(parts), dtype=logits.dtype)
        function = table_losses if self.is_table else nested_losses

        def compute(first: int, last: int) -> int:
            out = losses.data_ptr() + (parts.index((first, last)) * losses.element_size() if how else 0)
            return int(function(LIKE[logits.dtype], n, first, last, *self.sizes, out, *addresses, ignore_index, how))

        if max(in_threads(compute, parts)) >= 0:
            raise IndexError("plain operations explain the error")
        if how == 0:
            return losses, gradient, None
        return losses[0] if len(parts) == 1 else losses.sum(), gradient, None


def row_losses(link: Link, like: Tensor, least: Tensor | None = None) -> RowLosses | None:
    """The canonical losses of a link as numbers for a compiled function, in the precision of ``like``; None if there is none.

    ``least`` (C,) is subtracted from the loss of each label.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> row_losses(SoftmaxLink(3), torch.zeros(1)).sizes
    (1, 3)
    """
    if not (kernels_apply(like) and link.n_classes <= _MOST_CLASSES if like.is_cuda else like.is_cpu and has_numba()):
        return None
    c = link.n_classes
    keep, fixed = like.new_ones(1), like.new_zeros(c)
    if type(link) is NoisyLink:
        factor, summand = link._factor_and_summand(like)
        link, keep, fixed = link.clean, factor.reshape(1).to(like), summand.reshape(c).to(like)
    form = link_form(link)
    sizes, is_table = (1, c), False
    if form is not None and form.n_nests:
        of_nests, sizes = cast(CanonicalLink, link).nests._numbers().to(like), (form.n_nests, c)
        offsets = of_nests[-form.n_nests * c :].view(form.n_nests, c)
        own = torch.cat([of_nests, offsets.amax(1), offsets.amin(1)])
    elif form is not None and not form.n_blocks:  # the softmax, as one nest
        own = torch.cat([like.new_ones(2), like.new_zeros(3 + c)])
    elif link._is_tabulated:
        table = link._potential_table(like)
        pieces = table.pieces()
        own, sizes = torch.cat([table.constant.reshape(1), table.edges, pieces.reshape(-1)]).to(like), (*pieces.shape,)
        is_table = True
    else:
        return None
    numbers = torch.cat([keep, fixed, like.new_zeros(c) if least is None else least.to(like), own])
    n_numbers = 1 + 2 * c + (1 + sizes[0] * (4 + c) if not is_table else 2 + sizes[0] * (1 + sizes[1]))
    return RowLosses(numbers, c, sizes, is_table) if can_read([numbers], [(n_numbers,)], like) else None


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
        loss, gradient, divisor = rows(logits, labels, weight, ignore_index, reduction, ctx.needs_input_grad[0])
        ctx.save_for_backward(logits, gradient, divisor)
        ctx.plain = plain
        return loss

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        logits, gradient, divisor = ctx.saved_tensors
        if torch.is_grad_enabled():  # for higher derivatives, by operations that have them
            return *torch.autograd.grad(ctx.plain(logits), logits, g, create_graph=True), *[None] * 6
        g = g if divisor is None else g / divisor
        return gradient * (g if g.dim() == 0 else g.unsqueeze(-1)), *[None] * 6


def can_be_fused(logits: Tensor, labels: Tensor) -> bool:
    """Whether compiled functions may read logits ``(..., C)`` and labels ``(...)``, and no graph of them is wanted."""
    if type(logits) not in (Tensor, nn.Parameter) or type(labels) is not Tensor or is_watched():
        return False
    return labels.dtype in _INTEGERS and labels.shape == logits.shape[:-1] and labels.device == logits.device


def fused_loss(
    rows: RowLosses,
    logits: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    plain: Callable[[Tensor], Tensor],
) -> Tensor | None:
    """Loss of logits ``(n, C)`` on labels ``(n,)``; None if plain operations are to explain an error.

    ``plain`` is the same map from logits by operations that can be differentiated twice.
    """
    try:
        loss: Tensor = _FusedLoss.apply(logits, rows, labels, weight, ignore_index, reduction, plain)  # type: ignore[no-untyped-call]
    except IndexError:
        return None
    return loss
