"""Links on the CPU by compiled functions, from tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

__all__ = ["ChainOnCPU", "NestsOnCPU"]

_LANES = 16  # rows are filled up to a multiple of this, the entries of a vector
#: Rows that go through the link together: enough to fill vectors, few enough for all of them to stay in the cache.
_WIDTH, _NARROW, _MANY_CLASSES = 64, 16, 4096
#: Products with all ``A`` are kept for the backward pass where there are so many times more classes.
_FEW = 16
_PART = 1_000_000  # multiplications that are worth a thread
_LIKE = {torch.float32: np.empty(0, np.float32), torch.float64: np.empty(0, np.float64)}
_SMALL = {
    torch.float32: 1e-28,
    torch.float64: 1e-290,
}  # where a sum of positive numbers may have lost some to underflow


def _filled_to(multiple: int, n: int) -> int:
    return -(-n // multiple) * multiple


def _filled(n: int) -> int:
    return _filled_to(_LANES, n)


def _row_parts(n: int, work_of_row: int, width: int) -> list[tuple[int, int]]:
    """First and last rows of the parts that are worth a thread, whole blocks of ``width`` rows each."""
    threads = min(torch.get_num_threads(), n * work_of_row // _PART) if n * work_of_row >= 2 * _PART else 1
    if threads == 1:
        return [(0, n)]
    rows = _filled_to(width, -(-n // threads))
    return [(first, min(first + rows, n)) for first in range(0, n, rows)]


def _in_threads(function: Callable[[int, int], None], parts: list[tuple[int, int]]) -> None:
    if len(parts) == 1:
        function(*parts[0])
        return
    # threads of this call only: those of a pool are missing in a forked process
    with ThreadPoolExecutor(len(parts)) as threads:
        list(threads.map(lambda part: function(*part), parts))


def _addresses(tensors: Sequence[Tensor]) -> np.ndarray:
    return np.array([tensor.data_ptr() for tensor in tensors])


class ChainOnCPU:
    """The composite link, see :mod:`legendretron.accelerate.cpu.chain_link`.

    Parameters
    ----------
    n_blocks, n_out, hidden, depth, mixed : int
        ``B``, ``K``, ``H``, ``M``, and the units of a layer that see the one before.
    soft, normalised : bool
        Whether networks end in a softplus, and whether they are CP-Flow's.
    """

    def __init__(
        self, n_blocks: int, n_out: int, hidden: int, depth: int, mixed: int, soft: bool, normalised: bool
    ) -> None:
        from legendretron.accelerate.cpu.chain_link import chain_backward, chain_forward

        self._forward, self._backward = chain_forward, chain_backward
        self._sizes = (n_blocks, n_out, _filled(n_out + 1), hidden, depth, mixed, bool(soft), bool(normalised))
        self._n_units = n_blocks * (hidden * depth + 1)
        self._n_classes = n_out + 1
        self._work = 2 * self._n_units * n_out
        self._most = _WIDTH if n_out < _MANY_CLASSES else _NARROW

    def _width(self, n: int) -> int:
        return max(_LANES, _filled(-(-n // max(1, -(-n // self._most)))))

    def kept_size(self, n: int) -> int:
        """Numbers that the backward pass cannot do without; products are only kept to save time."""
        return 0

    def forward(self, z: Tensor, tensors: Sequence[Tensor], keep: bool) -> tuple[Tensor, Tensor]:
        """Log-probabilities ``(n, C)`` of predictors ``(n, K)``, and what to keep for the backward pass beside them."""
        n, dtype, width = len(z), z.dtype, self._width(len(z))
        log_p = torch.empty((n, self._n_classes), dtype=dtype)
        size = self._n_units * _filled_to(width, n) if keep and self._n_units * _FEW <= self._n_classes else 0
        kept = torch.empty(size, dtype=dtype)
        like, where, item = _LIKE[dtype], _addresses(tensors), dtype.itemsize
        p_z, p_out, p_kept = z.data_ptr(), log_p.data_ptr(), kept.data_ptr()

        def rows(first: int, last: int) -> None:
            at_kept = p_kept + first * self._n_units * item if p_kept else 0
            at_z, at_out = p_z + first * (self._n_classes - 1) * item, p_out + first * self._n_classes * item
            self._forward(like, where, last - first, width, self._sizes, at_z, at_out, at_kept)

        _in_threads(rows, _row_parts(n, self._work, width))
        return log_p, kept

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, kept: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the predictors, and of all parameters one after the other; empty where not wanted."""
        n, dtype, width = len(z), z.dtype, self._width(len(z))
        parts = _row_parts(n, 2 * self._work, width)
        dz = torch.empty(z.shape if wanted[0] else 0, dtype=dtype)
        size = sum(map(torch.numel, tensors)) if wanted[1] else 0
        gradients = torch.empty((len(parts), size), dtype=dtype)
        like, where, item = _LIKE[dtype], _addresses(tensors), dtype.itemsize
        p_z, p_log_p, p_g, p_kept, p_dz, p_gradient = (t.data_ptr() for t in (z, log_p, g, kept, dz, gradients))

        def rows(first: int, last: int) -> None:
            at_z, at_classes = first * (self._n_classes - 1) * item, first * self._n_classes * item
            at_kept = p_kept + first * self._n_units * item if p_kept else 0
            at_dz = p_dz + at_z if p_dz else 0
            at_gradient = p_gradient + size * parts.index((first, last)) * item if p_gradient else 0
            self._backward(
                like, where, last - first, width, self._sizes, p_z + at_z, p_log_p + at_classes, p_g + at_classes, at_kept,
                at_dz, at_gradient,
            )  # fmt: skip

        _in_threads(rows, parts)
        return dz, gradients.view(-1) if len(parts) == 1 else gradients.sum(0)


class NestsOnCPU:
    """The canonical link, see :mod:`legendretron.accelerate.cpu.nested_link`.

    Parameters
    ----------
    n_nests, n_classes : int
        ``M`` and ``C``.
    all_classes : bool
        Whether rows have an entry for each class, of which very low ones count as masked.
    """

    def __init__(self, n_nests: int, n_classes: int, all_classes: bool) -> None:
        from legendretron.accelerate.cpu.nested_link import nests_backward, nests_forward

        self._forward, self._backward = nests_forward, nests_backward
        self._sizes = (n_nests, n_classes, _filled(n_classes), bool(all_classes))
        self._all_classes = all_classes
        self._work = 10 * n_nests * n_classes  # an exponential takes about ten multiplications

    def kept_size(self, n: int) -> int:
        """As of :class:`ChainOnCPU`; nothing."""
        return 0

    def _bounds(self, dtype: torch.dtype) -> tuple[float, float]:
        return -(torch.finfo(dtype).max ** 0.5) if self._all_classes else -np.inf, _SMALL[dtype]

    def forward(self, z: Tensor, tensors: Sequence[Tensor], keep: bool) -> tuple[Tensor, Tensor]:
        """As of :class:`ChainOnCPU`, for rows of predictors or logits."""
        n, dtype = len(z), z.dtype
        log_p = torch.empty((n, self._sizes[1]), dtype=dtype)
        like, where, (mask, small) = _LIKE[dtype], _addresses(tensors), self._bounds(dtype)
        p_z, p_out = z.data_ptr(), log_p.data_ptr()

        def rows(first: int, last: int) -> None:
            self._forward(like, where, first, last, self._sizes, mask, small, p_z, p_out)

        _in_threads(rows, _row_parts(n, self._work, 1))
        return log_p, torch.empty(0, dtype=dtype)

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, kept: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        """As of :class:`ChainOnCPU`."""
        n, dtype = len(z), z.dtype
        parts = _row_parts(n, 2 * self._work, 1)
        dz = torch.empty(z.shape if wanted[0] else 0, dtype=dtype)
        size = sum(map(torch.numel, tensors))
        gradients = torch.empty((len(parts), size), dtype=dtype)
        like, where, (mask, small) = _LIKE[dtype], _addresses(tensors), self._bounds(dtype)
        p_z, p_g, p_dz, p_gradient = (tensor.data_ptr() for tensor in (z, g, dz, gradients))

        def rows(first: int, last: int) -> None:
            at_gradient = p_gradient + size * parts.index((first, last)) * dtype.itemsize
            self._backward(like, where, first, last, self._sizes, mask, small, p_z, p_g, p_dz, at_gradient)

        _in_threads(rows, parts)
        return dz, gradients.view(-1) if len(parts) == 1 else gradients.sum(0)
