"""Products of a whole feature matrix, and of its transpose, with narrow matrices."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from legendretron._internal.chunks import chunks
from legendretron.accelerate.support import compiled_applies
from legendretron.training.features import DenseFeatures, Features, SparseFeatures

__all__ = ["Products"]

#: Entries of a block of dense rows that stay in the cache between the two products; fewest and most rows of a block.
_BLOCK, _FEWEST, _MOST = 2**16, 256, 4096


class Products:
    """Products of all rows of a feature matrix, and of its transpose, with matrices."""

    def __init__(self, features: Features, compiled: bool = True) -> None:
        self.n_rows, self.n_features = features.n_rows, features.n_features
        self._dense: Tensor | None = None
        if isinstance(features, DenseFeatures):
            self._dense = features.x
            self.compiled = compiled and compiled_applies(features.x)
            return
        assert isinstance(features, SparseFeatures)
        self.compiled = compiled and compiled_applies(features.values)
        # scipy's products are several times faster than torch's on the CPU; on CUDA the transpose is made once, since a
        # product with the transpose of compressed rows is slow
        starts, columns, values = (t.cpu().numpy() for t in (features.starts, features.columns, features.values))
        self._csr = scipy.sparse.csr_array((values, columns, starts), shape=(self.n_rows, self.n_features))
        self._on_cuda = features.values.is_cuda
        if self._on_cuda:
            self._pair = _on_device(self._csr, features.values), _on_device(self._csr.T.tocsr(), features.values)
        self._forward = starts, columns, values

    @cached_property
    def _backward(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same matrix by columns: sums of rows can stay in registers, which those of columns cannot."""
        by_column = self._csr.tocsc()
        starts, rows = (part.astype(np.int64, copy=False) for part in (by_column.indptr, by_column.indices))
        return starts, rows, by_column.data

    def parts(self, width: int) -> list[slice]:
        """Rows to take at once, for results of ``width`` columns; all of a sparse matrix, which is costly to cut."""
        if self._dense is None:
            return [slice(0, self.n_rows)]
        if not self.compiled:
            return chunks(self.n_rows, width)
        step = max(_FEWEST, min(_MOST, _BLOCK // max(1, self.n_features, width)))
        return [slice(first, min(first + step, self.n_rows)) for first in range(0, self.n_rows, step)]

    def with_ones(self, rows: Tensor | None = None) -> Tensor:
        """Rows of a dense matrix, all if not given, with a column of ones."""
        assert self._dense is not None
        some = self._dense if rows is None else self._dense[rows]
        return torch.cat([some, torch.ones_like(some[:, :1])], dim=1)

    def forward(self, part: slice, matrix: Tensor) -> Tensor:
        """``X[part] @ matrix``."""
        if self._dense is not None:
            return self._dense[part] @ matrix
        if self._on_cuda:
            return self._pair[0] @ matrix
        if self.compiled:
            return _sums(*self._forward, matrix)
        return torch.from_numpy(np.asarray(self._csr @ matrix.numpy()))

    def backward(self, part: slice, matrix: Tensor, out: Tensor) -> None:
        """Add ``X[part].T @ matrix`` to ``out``; of a sparse matrix, put it there."""
        if self._dense is not None:
            out.addmm_(self._dense[part].mT, matrix)
        elif self._on_cuda:
            out.copy_(self._pair[1] @ matrix)
        elif self.compiled:
            _sums(*self._backward, matrix, out)
        else:
            out.copy_(torch.from_numpy(np.asarray(self._csr.T @ matrix.numpy())))


def _sums(
    starts: np.ndarray, columns: np.ndarray, values: np.ndarray, matrix: Tensor, out: Tensor | None = None
) -> Tensor:
    from legendretron.accelerate.cpu.logistic import sparse_product

    n, width = len(starts) - 1, matrix.shape[1]
    if out is None:
        out = matrix.new_empty(n, width)
    sparse_product(starts, columns, values, matrix.contiguous().view(-1).numpy(), out.view(-1).numpy(), 0, n, width)
    return out


def _on_device(csr: scipy.sparse.csr_array, like: Tensor) -> Tensor:
    starts, columns, values = (
        torch.as_tensor(part, device=like.device) for part in (csr.indptr, csr.indices, csr.data)
    )
    return torch.sparse_csr_tensor(starts, columns, values, size=csr.shape)
