"""Feature matrices on a device, dense or sparse: batches for many runs at once, and products of all rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from legendretron._internal.chunks import chunks
from legendretron._internal.sparse import check_sparse
from legendretron.accelerate.support import compiled_applies, kernels_apply

#: Entries of a sparse matrix whose contributions to a gradient are formed at once.
_CHUNK_ENTRIES = 2**22
#: Entries of a block of dense rows that stay in the cache between two products; fewest and most rows of a block.
_BLOCK, _FEWEST, _MOST = 2**16, 256, 4096


#: From ``dz`` of shape (R, n, K), ``out`` of shape (R, d, K), and whether that is zero, which saves time where contributions
#: are added up in place: writes the cotangent of the weight, ``X[rows]^T dz``, into ``out``.
WriteGradient = Callable[[Tensor, Tensor, bool], None]


class DenseFeatures:
    """``N`` rows of ``d`` features, a dense matrix, from which each run takes its own rows."""

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self.n_rows, self.n_features = x.shape

    def product(self, rows: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, WriteGradient]:
        """``X[rows] @ weight + bias``, and a function that writes the gradient of the weight.

        Shapes ``(R, n), (R, d, K), (R, 1, K) -> (R, n, K)``.
        """
        x = self.x.index_select(0, rows.reshape(-1)).view(*rows.shape, self.n_features)

        def write_gradient(dz: Tensor, out: Tensor, cleared: bool) -> None:
            torch.bmm(x.mT, dz, out=out)

        return torch.baddbmm(bias, x, weight), write_gradient

    def single(self) -> DenseFeatures:
        """The same in float32."""
        return DenseFeatures(self.x.float())

    def select_rows(self, rows: np.ndarray) -> np.ndarray:
        """Some rows for other libraries, in float32: an array of shape (n, d), or a sparse matrix in compressed rows."""
        return self.x[torch.as_tensor(rows, device=self.x.device)].float().cpu().numpy()

    def blocks(self, width: int) -> list[slice]:
        """Rows to multiply at once, for results of ``width`` columns; all of a sparse matrix, which is costly to cut."""
        if not compiled_applies(self.x):
            return chunks(self.n_rows, width)
        step = max(_FEWEST, min(_MOST, _BLOCK // max(1, self.n_features, width)))
        return [slice(first, min(first + step, self.n_rows)) for first in range(0, self.n_rows, step)]

    def multiply(self, block: slice, matrix: Tensor) -> Tensor:
        """``X[block] @ matrix``."""
        return self.x[block] @ matrix

    def add_transposed(self, block: slice, matrix: Tensor, out: Tensor) -> None:
        """Add ``X[block].T @ matrix`` to ``out``; of a sparse matrix, put it there."""
        out.addmm_(self.x[block].mT, matrix)


class SparseFeatures:
    """The same in compressed sparse rows; it is never made dense."""

    def __init__(self, starts: Tensor, columns: Tensor, values: Tensor, n_features: int) -> None:
        self.starts, self.columns, self.values = starts, columns, values
        self.n_rows, self.n_features = starts.numel() - 1, n_features

    def single(self) -> SparseFeatures:
        """See :class:`DenseFeatures`."""
        return SparseFeatures(self.starts, self.columns, self.values.float(), self.n_features)

    def select_rows(self, rows: np.ndarray) -> scipy.sparse.csr_array:
        """See :class:`DenseFeatures`."""
        parts = tuple(part.cpu().numpy() for part in (self.values.float(), self.columns, self.starts))
        selected = scipy.sparse.csr_array(parts, shape=(self.n_rows, self.n_features))[rows]
        if max(selected.nnz, self.n_features) < 2**31:  # not everything takes longer indices
            selected.indices, selected.indptr = selected.indices.astype(np.int32), selected.indptr.astype(np.int32)
        return selected

    def by_kernels(self, like: Tensor) -> bool:
        """Whether Triton kernels are used for weights like these; if so, no shape depends on the rows."""
        # kernels add up gradients in any order, as plain operations do on CUDA unless they must be deterministic
        return kernels_apply(like) and not torch.are_deterministic_algorithms_enabled()

    def product(self, rows: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, WriteGradient]:
        """See :class:`DenseFeatures`."""
        return (self._kernel_product if self.by_kernels(weight) else self._plain_product)(rows, weight, bias)

    def _kernel_product(self, rows: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, WriteGradient]:
        from legendretron.accelerate.cuda.training import sparse_gradient, sparse_product

        matrix = self.starts, self.columns, self.values

        def write_gradient(dz: Tensor, out: Tensor, cleared: bool) -> None:
            if not cleared:
                out.zero_()
            sparse_gradient(*matrix, rows, dz, out)

        return sparse_product(*matrix, rows, weight, bias), write_gradient

    def _plain_product(self, rows: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, WriteGradient]:
        flat = rows.reshape(-1)
        first = self.starts.index_select(0, flat)
        length = self.starts.index_select(0, flat + 1) - first
        offsets = torch.cumsum(length, 0) - length
        total = int(length.sum())
        owners = torch.repeat_interleave(length, output_size=total)
        entries = torch.arange(total, device=flat.device) + (first - offsets).index_select(0, owners)
        run = torch.div(owners, rows.shape[1], rounding_mode="floor")
        positions = self.columns.index_select(0, entries) + run * self.n_features
        values = self.values.index_select(0, entries)
        k = weight.shape[-1]
        z = torch.nn.functional.embedding_bag(
            positions, weight.reshape(-1, k), offsets, mode="sum", per_sample_weights=values
        )

        def write_gradient(dz: Tensor, out: Tensor, cleared: bool) -> None:
            total = torch.zeros(out.shape[0] * out.shape[1], k, dtype=dz.dtype, device=dz.device)
            rows = dz.reshape(-1, k)
            step = max(1, _CHUNK_ENTRIES // k)
            for start in range(0, positions.numel(), step):
                part = slice(start, start + step)
                contributions = values[part].unsqueeze(-1) * rows.index_select(0, owners[part])
                total.index_add_(0, positions[part], contributions)
            out.copy_(total.view(out.shape))

        return z.view(*rows.shape, k) + bias, write_gradient

    # --- all rows ---

    @cached_property
    def _csr(self) -> scipy.sparse.csr_array:
        starts, columns, values = (t.cpu().numpy() for t in (self.starts, self.columns, self.values))
        return scipy.sparse.csr_array((values, columns, starts), shape=(self.n_rows, self.n_features))

    @cached_property
    def _by_columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """In compressed columns: sums over rows can stay in registers, which sums by rows cannot."""
        csc = self._csr.tocsc()
        starts, rows = (torch.from_numpy(part.astype(np.int64)) for part in (csc.indptr, csc.indices))
        return starts, rows, torch.from_numpy(csc.data)

    @cached_property
    def _cuda_pair(self) -> tuple[Tensor, Tensor]:
        """The matrix and its transpose on CUDA, where a product with the transpose of compressed rows is slow."""

        def on_device(csr: scipy.sparse.csr_array) -> Tensor:
            starts, columns, values = (
                torch.as_tensor(part, device=self.values.device) for part in (csr.indptr, csr.indices, csr.data)
            )
            return torch.sparse_csr_tensor(starts, columns, values, size=csr.shape)

        return on_device(self._csr), on_device(self._csr.T.tocsr())

    def blocks(self, width: int) -> list[slice]:
        """See :class:`DenseFeatures`."""
        return [slice(0, self.n_rows)]

    def multiply(self, block: slice, matrix: Tensor) -> Tensor:
        """See :class:`DenseFeatures`."""
        if self.values.is_cuda:
            return self._cuda_pair[0] @ matrix
        if compiled_applies(self.values):
            out = matrix.new_empty(self.n_rows, matrix.shape[1])
            _sum_rows((self.starts, self.columns, self.values), matrix, out)
            return out
        # scipy's products are several times faster than torch's on the CPU
        return torch.from_numpy(np.asarray(self._csr @ matrix.numpy()))

    def add_transposed(self, block: slice, matrix: Tensor, out: Tensor) -> None:
        """See :class:`DenseFeatures`."""
        if self.values.is_cuda:
            out.copy_(self._cuda_pair[1] @ matrix)
        elif compiled_applies(self.values):
            _sum_rows(self._by_columns, matrix, out)
        else:
            out.copy_(torch.from_numpy(np.asarray(self._csr.T @ matrix.numpy())))


Features = DenseFeatures | SparseFeatures


def _sum_rows(compressed: tuple[Tensor, Tensor, Tensor], matrix: Tensor, out: Tensor) -> None:
    """Write the product of a matrix in compressed rows, or of the transpose of one in compressed columns, with another."""
    from legendretron.accelerate.cpu.logistic import sparse_product

    flat = (part.view(-1).numpy() for part in (*compressed, matrix.contiguous(), out))
    sparse_product(*flat, 0, len(compressed[0]) - 1, matrix.shape[1])


def variances(features: Features, weights: Tensor) -> Tensor:
    """Variance of each feature, (R, d), for weights of the rows (N, R) that sum to 1; 1 for constants, as in scikit-learn."""
    first, second = weights.new_zeros(2, features.n_features, weights.shape[1])
    if isinstance(features, SparseFeatures):
        squares = SparseFeatures(features.starts, features.columns, features.values.square(), features.n_features)
        for matrix, out in ((features, first), (squares, second)):
            matrix.add_transposed(slice(None), weights, out)
    else:
        for part in features.blocks(features.n_features):  # squares of a part at a time: tables may be large
            first.addmm_(features.x[part].mT, weights[part])
            second.addmm_(features.x[part].square().mT, weights[part])
    variance = second - first.square()
    rounding = len(weights) ** 0.5 * torch.finfo(second.dtype).eps * second
    return torch.where(variance > rounding, variance, 1.0).mT


def as_features(x: Any, dtype: torch.dtype, device: torch.device) -> Features:
    """Put a numpy array or a scipy sparse matrix on the device.

    Examples
    --------
    >>> import numpy as np
    >>> features = as_features(np.ones((4, 2)), torch.float64, torch.device("cpu"))
    >>> type(features).__name__
    'DenseFeatures'
    """
    with warnings.catch_warnings():
        # memory-mapped arrays are often read-only; they are not copied, and nothing writes to features
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        if scipy.sparse.issparse(x):
            csr = scipy.sparse.csr_array(x)  # it may share the user's memory
            check_sparse("x", csr)
            if not csr.has_canonical_format:
                csr = csr.copy()
                csr.sum_duplicates()
            # narrow indices for kernels, which are bound by memory; plain operations need 64 bits
            narrow = device.type == "cuda" and csr.shape[1] < 2**31
            return SparseFeatures(
                torch.as_tensor(csr.indptr.astype(np.int64), device=device),
                torch.as_tensor(csr.indices.astype(np.int32 if narrow else np.int64), device=device),
                torch.as_tensor(csr.data, dtype=dtype, device=device),
                csr.shape[1],
            )
        return DenseFeatures(torch.as_tensor(np.ascontiguousarray(x), dtype=dtype, device=device))
