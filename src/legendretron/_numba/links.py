"""Links on the CPU by compiled functions, from tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["ChainOnCPU", "NestsOnCPU"]

_LANES = 16  # rows are filled up to a multiple of this, the entries of a vector
#: Rows that go through the link together: enough to fill vectors, few enough for all of them to stay in the cache.
_WIDTH, _NARROW, _MANY_CLASSES = 64, 16, 4096
#: Products with all ``A`` are kept for the backward pass where there are so many times more classes.
_FEW = 16
_LIKE = {torch.float32: np.empty(0, np.float32), torch.float64: np.empty(0, np.float64)}
_SMALL = {
    torch.float32: 1e-28,
    torch.float64: 1e-290,
}  # where a sum of positive numbers may have lost some to underflow


def _filled_to(multiple: int, n: int) -> int:
    return -(-n // multiple) * multiple


def _filled(n: int) -> int:
    return _filled_to(_LANES, n)


def _addresses(tensors: Sequence[Tensor]) -> np.ndarray:
    return np.array([tensor.data_ptr() for tensor in tensors])


class ChainOnCPU:
    """The composite link, see :mod:`legendretron._numba.chain_link`.

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
        from legendretron._numba.chain_link import chain_backward, chain_forward

        self._forward, self._backward = chain_forward, chain_backward
        self._sizes = (n_blocks, n_out, _filled(n_out + 1), hidden, depth, mixed, bool(soft), bool(normalised))
        self._n_units = n_blocks * (hidden * depth + 1)
        self._n_classes = n_out + 1
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
        self._forward(
            _LIKE[dtype], _addresses(tensors), n, width, self._sizes, z.data_ptr(), log_p.data_ptr(), kept.data_ptr()
        )
        return log_p, kept

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, kept: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        """Gradients of the predictors, and of all parameters one after the other; empty where not wanted."""
        n, dtype = len(z), z.dtype
        dz = torch.empty(z.shape if wanted[0] else 0, dtype=dtype)
        gradient = torch.empty(sum(map(torch.numel, tensors)) if wanted[1] else 0, dtype=dtype)
        self._backward(
            _LIKE[dtype], _addresses(tensors), n, self._width(n), self._sizes, z.data_ptr(), log_p.data_ptr(),
            g.data_ptr(), kept.data_ptr(), dz.data_ptr(), gradient.data_ptr(),
        )  # fmt: skip
        return dz, gradient


class NestsOnCPU:
    """The canonical link, see :mod:`legendretron._numba.nested_link`.

    Parameters
    ----------
    n_nests, n_classes : int
        ``M`` and ``C``.
    all_classes : bool
        Whether rows have an entry for each class, of which very low ones count as masked.
    """

    def __init__(self, n_nests: int, n_classes: int, all_classes: bool) -> None:
        from legendretron._numba.nested_link import nests_backward, nests_forward

        self._forward, self._backward = nests_forward, nests_backward
        self._sizes = (n_nests, n_classes, _filled(n_classes), bool(all_classes))
        self._all_classes = all_classes

    def kept_size(self, n: int) -> int:
        """As of :class:`ChainOnCPU`; nothing."""
        return 0

    def _bounds(self, dtype: torch.dtype) -> tuple[float, float]:
        return -(torch.finfo(dtype).max ** 0.5) if self._all_classes else -np.inf, _SMALL[dtype]

    def forward(self, z: Tensor, tensors: Sequence[Tensor], keep: bool) -> tuple[Tensor, Tensor]:
        """As of :class:`ChainOnCPU`, for rows of predictors or logits."""
        n, dtype = len(z), z.dtype
        log_p = torch.empty((n, self._sizes[1]), dtype=dtype)
        self._forward(
            _LIKE[dtype], _addresses(tensors), 0, n, self._sizes, *self._bounds(dtype), z.data_ptr(), log_p.data_ptr()
        )
        return log_p, torch.empty(0, dtype=dtype)

    def backward(
        self, g: Tensor, z: Tensor, log_p: Tensor, kept: Tensor, tensors: Sequence[Tensor], wanted: tuple[bool, bool]
    ) -> tuple[Tensor, Tensor]:
        """As of :class:`ChainOnCPU`."""
        n, dtype = len(z), z.dtype
        dz = torch.empty(z.shape if wanted[0] else 0, dtype=dtype)
        gradient = torch.empty(sum(map(torch.numel, tensors)), dtype=dtype)
        self._backward(
            _LIKE[dtype], _addresses(tensors), 0, n, self._sizes, *self._bounds(dtype), z.data_ptr(), g.data_ptr(),
            dz.data_ptr(), gradient.data_ptr(),
        )  # fmt: skip
        return dz, gradient
