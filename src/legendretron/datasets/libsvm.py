"""LIBSVM text, plain or compressed: one row per line, ``label index:value index:value ...``."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import load_svmlight_file

from legendretron._internal.validation import check_integer
from legendretron.datasets.compressed import UnreadableFileError, open_compressed
from legendretron.streaming import Batch, BlockSource
from legendretron.streaming.source import ROWS_OF_A_FILE

_BLOCK = 2**22  # bytes


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
                for X, _ in self._parts(path):
                    largest, given, rows = max(largest, X.shape[1]), given + X.nnz, rows + X.shape[0]
            if given == 0:
                raise ValueError(
                    describe_damage(files[0], "has no rows" if rows == 0 else "has no feature values index:value")
                )
            self._n_features = largest
            self._dense = given >= DENSE_SHARE * rows * largest

    def read_block(self, block: int) -> Iterator[Batch]:
        """One file, in batches."""
        path, done = self._files[block], block * ROWS_OF_A_FILE
        for X, labels in self._parts(path):
            n = X.shape[0]
            rows = np.ascontiguousarray(X.toarray()) if self._dense else scipy.sparse.csr_array(X)
            yield Batch(rows, labels, None, np.arange(done, done + n), repr(str(path)))
            done += n

    def _parts(self, path: Path) -> Iterator[tuple[scipy.sparse.csr_matrix, np.ndarray]]:
        """Features and labels of some lines after the other."""
        with open_compressed(path) as file:
            rest = b""
            while True:
                piece = file.read(_BLOCK)
                lines = rest + piece
                if piece:
                    whole, newline, rest = lines.rpartition(b"\n")
                    lines = whole + newline
                if lines.strip():
                    yield parse_lines(io.BytesIO(lines), path, self._n_features)
                if not piece:
                    return


_SMALL = 64 * 2**20  # bytes up to which an array is dense by default
_LARGE = 2**30  # bytes above which only dense=True makes a dense array
DENSE_SHARE = 0.1  # least share of given entries for a dense array, between the two
_LARGEST_INDEX = 2**31 - 1
_FEATURE = re.compile(rb"([+-]?\d+):(\S+)")


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
    with open_compressed(path) as file:
        X, labels = parse_lines(file, path, n_features)
    if len(labels) == 0:
        raise ValueError(describe_damage(path, "is empty: it has no rows"))
    if X.nnz == 0:
        raise ValueError(describe_damage(path, "has labels but no feature values index:value"))
    return _as_asked(path, X, dense), labels


def parse_lines(lines: Any, path: Path, n_features: int | None) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """Features and labels of all lines of a file, or of some of them as a stream; what is wrong is looked for in the file."""
    try:
        X, labels = load_svmlight_file(lines, n_features=n_features, zero_based=False)
    except (ValueError, OverflowError, IndexError) as error:
        if isinstance(error, UnreadableFileError):
            raise
        raise ValueError(
            _first_fault(path, n_features) or describe_damage(path, f"is not LIBSVM text: {error}")
        ) from error
    whole = np.isfinite(labels) & (labels == np.floor(labels)) & (np.abs(labels) < 2**53)
    if not (whole.all() and np.isfinite(X.data).all()):
        raise ValueError(_first_fault(path, n_features))
    return X, labels.astype(np.int64)


def describe_damage(path: Path, fault: str) -> str:
    """The message that a file is wrong."""
    hint = "Get it again, or check that it has one row per line, 'label index:value index:value ...', indices from 1."
    return f"{str(path)!r} {fault}. {hint}"


def _first_fault(path: Path, n_features: int | None) -> str:
    """Name the first line that is wrong, or return nothing; slow, so only after the fast reader has failed."""
    with open_compressed(path) as file:
        for number, line in enumerate(file, start=1):
            content = line.partition(b"#")[0].split()
            if content:
                fault = _fault_of_label(content[0], content[1:]) or _fault_of_features(content[1:], n_features)
                if fault:
                    for _ in file:  # a compressed file may turn out damaged at its end, which is then the cause
                        pass
                    return describe_damage(path, f"is wrong in line {number}: {fault}")
    return ""


def _fault_of_label(label: bytes, features: list[bytes]) -> str:
    shown = _quote(label)
    if b":" in label and _FEATURE.fullmatch(label):
        return f"it begins with the feature {shown} and has no label"
    if b"," in label and features and _FEATURE.fullmatch(features[0]):
        return f"it has several labels, {shown}; only one label per row is supported"
    value = _number(label)
    if value is None:
        return f"it begins with {shown}, which is not a label"
    if not math.isfinite(value) or value != math.floor(value) or abs(value) >= 2**53:
        return f"its label {shown} is not a whole number"
    return ""


def _fault_of_features(features: list[bytes], n_features: int | None) -> str:
    before = 0
    for position, feature in enumerate(features):
        if position == 0 and feature.startswith(b"qid:"):
            continue
        match = _FEATURE.fullmatch(feature)
        value = _number(match[2]) if match else None
        if match is None or value is None:
            return f"{_quote(feature)} is not index:value"
        index = int(match[1])
        if index < 1:
            return (
                f"it has the feature index {index}; indices begin at 1 (scikit-learn's dump_svmlight_file writes them so "
                "with zero_based=False)"
            )
        if index > (n_features or _LARGEST_INDEX):
            return f"it has the feature index {index}, beyond the {n_features or _LARGEST_INDEX} features expected"
        if index <= before:
            return f"the feature index {index} comes after {before}; indices must ascend"
        if not math.isfinite(value):
            return f"the value of {_quote(feature)} is not finite"
        before = index
    return ""


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _quote(text: bytes) -> str:
    shown = text.decode("utf-8", "replace")
    return repr(shown if len(shown) <= 40 else shown[:40] + "...")


def _as_asked(path: Path, X: Any, dense: bool | None) -> np.ndarray | scipy.sparse.csr_matrix:
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
