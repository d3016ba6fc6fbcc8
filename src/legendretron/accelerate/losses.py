r"""Canonical losses of a batch and their gradients in one compiled call, as one operation, for frozen links."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from legendretron._internal.validation import at_least_single
from legendretron.accelerate.cpu.links import in_threads
from legendretron.accelerate.cpu.support import has_numba
from legendretron.accelerate.cuda.support import kernels_apply
from legendretron.accelerate.log_proba import is_watched
from legendretron.links import CanonicalLink, Link, NoisyLink, SoftmaxLink

__all__ = ["RowLosses", "can_be_fused", "fused_loss", "row_losses"]

_HOW = {"none": 0, "mean": 1, "sum": 2}
_PART = 250_000  # exponentials, or what takes as long, that are worth a thread
_MOST_CLASSES = 16_384  # of a row that a Triton kernel can hold


class _OfClasses(NamedTuple):
    """What is done to the losses of a link, by numbers for each class."""

    kept: Tensor  # observed probabilities are kept p + fixed
    fixed: Tensor
    least: Tensor  # is subtracted from the loss of each label


class Computed(NamedTuple):
    """Losses of rows, or of a batch."""

    loss: Tensor
    gradient: Tensor | None
    divisor: Tensor | None = None  # by which the gradient is still to be divided
    wrong_label: bool = False  # whether a label is no class, where that can be known without waiting


class RowLosses(ABC):
    """A frozen link as numbers that compiled functions work with.

    Parameters
    ----------
    own : Tensor
        Numbers of the link itself, the first one at its place before those of noise.
    n_classes : int
        ``C``.
    """

    #: What an entry of the logits costs, in exponentials.
    _work: int

    def __init__(self, of_link: Tensor, n_classes: int) -> None:
        self.of_link, self.n_classes = of_link, n_classes
        self.like = np.empty(0, np.float64 if of_link.dtype == torch.float64 else np.float32)
        self._classes = _OfClasses(of_link.new_ones(1), of_link.new_zeros(n_classes), of_link.new_zeros(n_classes))
        self._pack()

    def _pack(self) -> None:
        kept, fixed, least = self._classes
        self.numbers = torch.cat([self.of_link[:1], kept, self.of_link[1:], fixed, least]).contiguous()

    def with_noise(self, kept: Tensor, fixed: Tensor) -> RowLosses:
        """Take observed probabilities to be ``kept p + fixed``; changes and returns this object."""
        self._classes = self._classes._replace(kept=kept.reshape(1).to(self.of_link), fixed=fixed.to(self.of_link))
        self._pack()
        return self

    def with_least(self, least: Tensor) -> RowLosses:
        """Subtract a number from the loss of each label; changes and returns this object."""
        self._classes = self._classes._replace(least=least.to(self.of_link))
        self._pack()
        return self

    @property
    def can_run(self) -> bool:
        """Whether there is a compiled function for the device of the link."""
        if self.of_link.is_cuda:
            return kernels_apply(self.of_link) and self.n_classes <= _MOST_CLASSES
        return self.of_link.device.type == "cpu" and has_numba()

    def __call__(
        self, logits: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, want: bool
    ) -> Computed:
        """Losses, and their gradients if wanted.

        Parameters
        ----------
        logits : Tensor of shape (n, C)
            In the precision of the link.
        labels : Tensor of shape (n,)
            Integers of 64 bits.
        weight : Tensor of shape (C,), optional
            Of the classes.
        ignore_index : int
            Label that does not count.
        reduction : {"mean", "sum", "none"}
            What becomes of the losses.
        want : bool
            Whether gradients are wanted.
        """
        logits, labels = logits.contiguous(), labels.contiguous()
        weight = None if weight is None else weight.to(logits).contiguous()
        if logits.is_cuda:
            out, gradient = self._on_cuda(logits, labels, weight, ignore_index, want)
            if reduction == "none":
                return Computed(out[0], gradient)
            losses, total = out.sum(-1).unbind()
            return Computed(losses / total, gradient, total) if reduction == "mean" else Computed(losses, gradient)
        n, size = labels.shape[0], logits.numel() * self._work
        gradient = torch.empty_like(logits) if want else None
        given = (logits, labels, weight, gradient, self.numbers)
        addresses = [0 if tensor is None else tensor.data_ptr() for tensor in given]
        how = _HOW[reduction]
        parts = 1 if size < 2 * _PART else min(torch.get_num_threads(), size // _PART)
        losses = torch.empty(n if how == 0 else parts, dtype=logits.dtype)
        bounds = [(i * n // parts, (i + 1) * n // parts) for i in range(parts)]

        def compute(first: int, last: int) -> int:
            out = losses.data_ptr() + (bounds.index((first, last)) * losses.element_size() if how else 0)
            return self._on_cpu(n, first, last, out, addresses, ignore_index, how)

        wrong = max(in_threads(compute, bounds)) >= 0
        if how == 0:
            return Computed(losses, gradient, None, wrong)
        return Computed(losses[0] if parts == 1 else losses.sum(), gradient, None, wrong)

    @abstractmethod
    def _on_cpu(
        self, n: int, first: int, last: int, out: int, addresses: list[int], ignore_index: int, how: int
    ) -> int: ...

    @abstractmethod
    def _on_cuda(
        self, logits: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int, want: bool
    ) -> tuple[Tensor, Tensor | None]: ...


class NestedRows(RowLosses):
    """Nested log-sum-exps; ``own`` holds beta, then mu, gate biases and offsets of all nests."""

    @classmethod
    def softmax(cls, n_classes: int, like: Tensor) -> NestedRows:
        """The softmax, as one nest."""
        return cls(torch.cat([like.new_ones(2), like.new_zeros(1 + n_classes)]), n_classes)

    def __init__(self, of_link: Tensor, n_classes: int) -> None:
        super().__init__(of_link, n_classes)
        self.n_nests = self._work = (len(of_link) - 1) // (2 + n_classes)

    def _on_cpu(
        self, n: int, first: int, last: int, out: int, addresses: list[int], ignore_index: int, how: int
    ) -> int:
        from legendretron.accelerate.cpu.losses import nested_losses

        sizes = n, first, last, self.n_nests, self.n_classes
        return int(nested_losses(self.like, *sizes, out, *addresses, ignore_index, how))

    def _on_cuda(
        self, logits: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int, want: bool
    ) -> tuple[Tensor, Tensor | None]:
        from legendretron.accelerate.cuda.losses import nested_losses

        return nested_losses(logits, labels, weight, self.numbers, self.n_nests, ignore_index, want)


class TableRows(RowLosses):
    """A two-class link by polynomials; ``own`` holds the constant of pieces above even odds.

    Parameters
    ----------
    edges : Tensor of shape (m + 1,)
        Of the pieces.
    pieces : Tensor of shape (m, 3 + d)
        Middle, one over half the width, whether it lies above even odds, and the coefficients from the lowest power on.
    constant : Tensor of shape ()
        What is added above even odds.
    """

    def __init__(self, edges: Tensor, pieces: Tensor, constant: Tensor) -> None:
        super().__init__(at_least_single(constant).reshape(1), 2)
        self.edges, self.pieces, self._work = edges.contiguous(), pieces.contiguous(), 4

    def _on_cpu(
        self, n: int, first: int, last: int, out: int, addresses: list[int], ignore_index: int, how: int
    ) -> int:
        from legendretron.accelerate.cpu.losses import table_losses

        table = self.edges.data_ptr(), self.pieces.data_ptr()
        sizes = n, first, last, *self.pieces.shape
        return int(table_losses(self.like, *sizes, out, *addresses, *table, ignore_index, how))

    def _on_cuda(
        self, logits: Tensor, labels: Tensor, weight: Tensor | None, ignore_index: int, want: bool
    ) -> tuple[Tensor, Tensor | None]:
        from legendretron.accelerate.cuda.losses import table_losses

        return table_losses(logits, labels, weight, self.numbers, self.edges, self.pieces, ignore_index, want)


def row_losses(link: Link, like: Tensor) -> RowLosses | None:
    """The canonical losses of a link as numbers for a compiled function, in the precision of ``like``; None if there is none.

    Examples
    --------
    >>> row_losses(SoftmaxLink(3), torch.zeros(1)).n_nests
    1
    """
    # exact types: a subclass may define another map
    if type(link) is NoisyLink:
        rows = row_losses(link.clean, like)
        return None if rows is None else rows.with_noise(*link._factor_and_summand(like))
    if type(link) is SoftmaxLink:
        return NestedRows.softmax(link.n_classes, like)
    if type(link) is CanonicalLink:
        return NestedRows(link.nests._numbers().to(like), link.n_classes)
    if not link._is_tabulated:
        return None
    table = link._polynomials(like)
    return TableRows(table.edges, table.pieces(), table.constant)


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
        computed = rows(logits, labels, weight, ignore_index, reduction, ctx.needs_input_grad[0])
        if computed.wrong_label:
            raise IndexError("a label is no class")
        ctx.save_for_backward(logits, computed.gradient, computed.divisor)
        ctx.plain = plain
        return computed.loss

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
