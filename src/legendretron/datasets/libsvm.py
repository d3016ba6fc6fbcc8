"""LIBSVM text, plain or compressed: one row per line, ``label index:value index:value ...``."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import load_svmlight_file

from legendretron._internal.validation import check_integer
from legendretron.datasets.compressed import open_compressed, read_lines
from legendretron.streaming import Batch, BlockSource
from legendretron.streaming.source import ROWS_OF_A_FILE


class LibsvmSource(BlockSource):
    """Files of LIBSVM text. A pass finds the largest index first, unless the number of features is given.

    Rows are sparse, unless a tenth of the entries are given.
    """

    def __init__(self, files: Sequence[Path], n_features: int | None = None) -> None:
        self._files, self.n_blocks = list(files), len(files)
        self._n_features = None if n_features is None else check_integer("n_features", n_features, 1)
        self._dense = False
        if n_features is None:
            largest = given = rows = 0
            for path in files:
                for X, _ in read_parts(path, None):
                    largest, given, rows = max(largest, X.shape[1]), given + X.nnz, rows + X.shape[0]
            if given == 0:
                raise ValueError(_describe_empty(files[0], rows))
            self._n_features = largest
            self._dense = given >= DENSE_SHARE * rows * largest

    def read_block(self, block: int) -> Iterator[Batch]:
        """One file, in batches."""
        path, done = self._files[block], block * ROWS_OF_A_FILE
        for X, labels in read_parts(path, self._n_features):
            n = X.shape[0]
            rows = np.ascontiguousarray(X.toarray()) if self._dense else scipy.sparse.csr_array(X)
            yield Batch(rows, labels, None, np.arange(done, done + n), repr(str(path)))
            done += n


_SMALL = 64 * 2**20  # bytes up to which an array is dense by default
_LARGE = 2**30  # bytes above which only dense=True makes a dense array
DENSE_SHARE = 0.1  # least share of given entries for a dense array, between the two
_LARGEST_INDEX = 2**31 - 1


def read_libsvm(
    path: str | Path, n_features: int | None = None, dense: bool | None = None
) -> tuple[np.ndarray | scipy.sparse.csr_matrix, np.ndarray]:
    r"""Read a file of LIBSVM text; a damaged one raises a ``ValueError``.

    Parameters
    ----------
    path : path
        The file; plain, or compressed by bzip2, xz or gzip, as detected from its first bytes.
    n_features : int or None, default=None
        Number of columns; None for the largest index in the file. An index beyond it is an error.
    dense : bool or None, default=None
        Whether to return an ndarray rather than a sparse matrix. None does so up to 64 MiB, and up to 1 GiB if a tenth of
        the entries are given.

    Returns
    -------
    X : ndarray or csr_matrix of shape (n, n_features), float64
    labels : ndarray of shape (n,), int64
        As they are in the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "two.scale"
    ...     _ = file.write_text("1 1:0.5 3:-1\n7 2:2\n")
    ...     X, labels = read_libsvm(file)
    >>> X
    array([[ 0.5,  0. , -1. ],
           [ 0. ,  2. ,  0. ]])
    >>> labels
    array([1, 7])
    """
    path = Path(path)
    if n_features is not None:
        n_features = check_integer("n_features", n_features, 1)
    parts = [*read_parts(path, n_features)]
    rows, given = sum(len(labels) for _, labels in parts), sum(X.nnz for X, _ in parts)
    if given == 0:
        raise ValueError(_describe_empty(path, rows))
    width = max(X.shape[1] for X, _ in parts)
    for X, _ in parts:
        X.resize(X.shape[0], width)
    whole = scipy.sparse.vstack([X for X, _ in parts], format="csr")
    return _convert(path, whole, dense), np.concatenate([labels for _, labels in parts])


def read_parts(path: Path, n_features: int | None) -> Iterator[tuple[scipy.sparse.csr_matrix, np.ndarray]]:
    """Features and labels of some lines after the other."""
    with open_compressed(path) as file:
        for first, lines in read_lines(path, file):
            yield _parse(lines, path, first, n_features)


def _parse(
    lines: list[bytes], path: Path, first: int, n_features: int | None
) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """Features and labels of lines, of which the first has the number ``first``; an error names the line that is wrong."""
    try:
        X, labels = load_svmlight_file(io.BytesIO(b"\n".join(lines)), n_features=n_features, zero_based=False)
        fractions = labels[~(np.isfinite(labels) & (labels == np.floor(labels)) & (np.abs(labels) < 2**53))]
        if len(fractions):
            raise ValueError(f"its label {fractions[0]:g} is not a whole number")
        if not np.isfinite(X.data).all():
            raise ValueError("a value is not finite")
    except (ValueError, OverflowError, IndexError) as error:
        if len(lines) == 1:
            raise ValueError(describe_damage(path, f"is wrong in line {first}: {error}".rstrip("."))) from error
        for place, line in enumerate(lines):
            _parse([line], path, first + place, n_features)
        raise ValueError(describe_damage(path, f"is not LIBSVM text: {error}")) from error
    return X, labels.astype(np.int64)


def describe_damage(path: Path, fault: str) -> str:
    """The message that a file is wrong."""
    hint = "Get it again, or check that it has one row per line, 'label index:value index:value ...', indices from 1."
    return f"{str(path)!r} {fault}. {hint}"


def _describe_empty(path: Path, rows: int) -> str:
    return describe_damage(path, "has labels but no feature values index:value" if rows else "is empty: it has no rows")


def _convert(path: Path, X: Any, dense: bool | None) -> np.ndarray | scipy.sparse.csr_matrix:
    entries = X.shape[0] * X.shape[1]
    if dense is None:
        dense = 8 * entries <= _SMALL or (8 * entries <= _LARGE and X.nnz >= DENSE_SHARE * entries)
    if not dense:
        X = scipy.sparse.csr_matrix(X)
        if max(X.nnz, *X.shape) <= _LARGEST_INDEX:  # some solvers need 32-bit indices
            X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return X
    try:
        return np.ascontiguousarray(X.toarray())
    except (MemoryError, ValueError) as error:  # ValueError where the size is beyond what can be addressed
        raise ValueError(
            f"{str(path)!r} has {X.shape[0]} rows and {X.shape[1]} features, {8 * entries / 2**30:.1f} GiB as a dense array, "
            "which do not fit into memory; use dense=False."
        ) from error
