"""The kernels of training as functions of tensors. They work in place, and on the current stream."""

from __future__ import annotations

import math

import torch
import triton
from torch import Tensor

from legendretron.accelerate.cuda.training_kernels import (
    adam_kernel,
    scales_kernel,
    sparse_gradient_kernel,
    sparse_product_kernel,
)

__all__ = ["adam_step", "sparse_gradient", "sparse_product"]

_STRETCH = 512  # parameters an Adam program holds: few enough registers for many programs at once
_TILE = 1024  # weights a sparse program holds
_MOST_OUTPUTS = 256  # of them side by side


def adam_step(
    parameters: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    count: Tensor,
    rate: Tensor,
    *,
    betas: tuple[float, float],
    eps: float,
    strengths: Tensor | None = None,
    shared: Tensor | None = None,
    bounds: tuple[int, int] = (0, 0),
    clear: bool = False,
) -> None:
    r"""One step of Adam, with the gradient of a penalty, in one pass over memory.

    Parameters
    ----------
    parameters, gradient, first, second : Tensor of shape (R, P)
        Contiguous; all but the gradient are updated.
    count : Tensor of shape ()
        Steps so far, in float64; updated.
    rate : Tensor of shape (R, 1)
        Learning rates.
    betas, eps
        See :class:`~legendretron.training.adam.Adam`.
    strengths : Tensor of shape (R, 3), optional
        What the weights, the bias and the rest of each run's parameters are multiplied by to be added to the gradient.
    shared : Tensor of shape (R, d), optional
        To be subtracted from the gradients of all weights of a feature.
    bounds : tuple of int
        Columns where the weights end, and the bias.
    clear : bool
        Whether to leave zeros in the gradient.
    """
    runs, size = parameters.shape
    n_weights, n_linear = bounds
    scales = parameters.new_empty(runs + 1)
    rates = rate.reshape(-1).expand(runs).contiguous()
    block = min(_STRETCH, triton.next_power_of_2(size))
    n_blocks = triton.cdiv(size, block)
    b1, b2 = betas
    with torch.cuda.device_of(parameters):  # kernels go to the current device, wherever the tensors are
        scales_kernel[(1,)](
            count, rates, scales, runs, LOG_B1=_log(b1), LOG_B2=_log(b2), EPS=eps, BLOCK=64, num_warps=1
        )  # fmt: skip
        adam_kernel[(runs * n_blocks,)](
            parameters,
            gradient,
            first,
            second,
            scales,
            scales if strengths is None else strengths,
            scales if shared is None else shared,
            runs,
            size,
            n_weights,
            n_linear,
            1 if shared is None else n_weights // shared.shape[1],
            n_blocks,
            B1=b1,
            B2=b2,
            PENALTY=strengths is not None,
            SHARED=shared is not None,
            CLEAR=clear,
            BLOCK=block,
        )


def _log(beta: float) -> float:
    return math.log(beta) if beta > 0.0 else -math.inf


def _tiles(k: int) -> dict[str, int]:
    """Entries of a row and outputs a sparse program holds, and the warps to hold them."""
    block_k = min(triton.next_power_of_2(k), _MOST_OUTPUTS)
    block_e = min(64, _TILE // block_k)
    return {"BLOCK_E": block_e, "BLOCK_K": block_k, "num_warps": max(1, block_e * block_k // 256)}


def _run_stride(tensor: Tensor) -> tuple[Tensor, int]:
    """The tensor and its stride from one run to the next; a copy only if a run's part is not contiguous."""
    if not tensor[0].is_contiguous():
        tensor = tensor.contiguous()
    return tensor, tensor.stride(0)


def sparse_product(
    starts: Tensor, columns: Tensor, values: Tensor, rows: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    """Rows of a sparse matrix times the weights of each run, plus its bias.

    Parameters
    ----------
    starts, columns, values : Tensor
        The matrix in compressed rows; ``columns`` in 32 or 64 bits.
    rows : Tensor of shape (R, n)
        Which rows.
    weight : Tensor of shape (R, d, K)
        Of each run; may be a part of a larger matrix.
    bias : Tensor of shape (R, 1, K)
        Likewise.

    Returns
    -------
    Tensor of shape (R, n, K)
    """
    runs, n = rows.shape
    k = weight.shape[-1]
    z = weight.new_empty(runs, n, k)
    weight, weight_stride = _run_stride(weight)
    bias, bias_stride = _run_stride(bias)
    tiles = _tiles(k)
    n_tiles = triton.cdiv(k, tiles["BLOCK_K"])
    with torch.cuda.device_of(weight):
        sparse_product_kernel[(runs * n * n_tiles,)](
            starts, columns, values, rows.contiguous(), weight, bias, z,
            n, k, weight_stride, bias_stride, n_tiles, **tiles,
        )  # fmt: skip
    return z


def sparse_gradient(starts: Tensor, columns: Tensor, values: Tensor, rows: Tensor, dz: Tensor, out: Tensor) -> None:
    """Add the cotangent of the weights, ``X[rows]^T dz``, to ``out``; in no particular order.

    Parameters
    ----------
    starts, columns, values, rows
        As in :func:`sparse_product`.
    dz : Tensor of shape (R, n, K)
        Cotangent of the product.
    out : Tensor of shape (R, d, K)
        Added to. May be a part of a larger matrix, with the parts of each run contiguous.
    """
    runs, n, k = dz.shape
    tiles = _tiles(k)
    n_tiles = triton.cdiv(k, tiles["BLOCK_K"])
    with torch.cuda.device_of(out):
        sparse_gradient_kernel[(runs * n * n_tiles,)](
            starts, columns, values, rows.contiguous(), dz.contiguous(), out, n, k, out.stride(0), n_tiles, **tiles
        )  # fmt: skip
