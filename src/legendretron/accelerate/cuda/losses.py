"""Canonical losses of rows with their gradients, by Triton kernels."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from legendretron.accelerate.cuda.loss_kernels import nested_kernel, table_kernel

__all__ = ["nested_losses", "table_losses"]

_TILE = 2048  # entries that a kernel holds at once, at least a row


def nested_losses(
    logits: Tensor, labels: Tensor, weight: Tensor | None, numbers: Tensor, n_nests: int, ignore: int, want: bool
) -> tuple[Tensor, Tensor | None]:
    """Weighted losses and weights ``(2, n)``, and gradients ``(n, C)`` if wanted."""
    n, c = logits.shape
    out, gradient = logits.new_empty(2, n), torch.empty_like(logits) if want else None
    block_c = triton.next_power_of_2(c)
    block_n = max(1, _TILE // block_c)
    with torch.cuda.device_of(logits):  # kernels go to the current device, wherever the tensors are
        nested_kernel[(triton.cdiv(n, block_n),)](
            logits, labels, logits if weight is None else weight, out, logits if gradient is None else gradient, numbers,
            n, c, ignore, M=n_nests, WEIGHTED=weight is not None, WANT=want, BLOCK_N=block_n, BLOCK_C=block_c,
            num_warps=4 if block_c <= 4096 else 16,
        )  # fmt: skip
    return out, gradient


def table_losses(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor | None,
    numbers: Tensor,
    edges: Tensor,
    pieces: Tensor,
    ignore: int,
    want: bool,
) -> tuple[Tensor, Tensor | None]:
    """The same of two-class links by polynomials."""
    n = logits.shape[0]
    out, gradient = logits.new_empty(2, n), torch.empty_like(logits) if want else None
    n_pieces, size = pieces.shape
    with torch.cuda.device_of(logits):
        table_kernel[(triton.cdiv(n, 256),)](
            logits, labels, logits if weight is None else weight, out, logits if gradient is None else gradient, numbers,
            edges, pieces, n, n_pieces, ignore, SIZE=size, STEPS=n_pieces.bit_length(), WEIGHTED=weight is not None,
            WANT=want, BLOCK_N=256, num_warps=4,
        )  # fmt: skip
    return out, gradient
