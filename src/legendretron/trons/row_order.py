"""Weights and repetitions as one and the same sample."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse


def in_one_order(X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the sample with equal rows merged into one that has their weight, sorted by digests of the rows.

    Rounding makes sums depend on the order of their terms, and a method that takes hundreds of steps without converging
    amplifies it: weights and repetitions would give different models. So both are turned into the same numbers in the
    same order. A sample of distinct rows with equal weights has nothing to merge, and keeps its order.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Features.
    y, weight : ndarray of shape (n,)
        Labels, and weights of the rows.

    Examples
    --------
    >>> X, y, weight = in_one_order(np.array([[1.0], [2.0], [1.0]]), np.array([0, 1, 0]), np.ones(3))
    >>> sorted(zip(X.ravel().tolist(), y.tolist(), weight.tolist()))
    [(1.0, 0, 2.0), (2.0, 1, 1.0)]
    """
    labels = np.unique(y, return_inverse=True)[1].astype(np.int64)
    if (weight == weight[0]).all() and _surely_distinct(X):
        return X, y, weight
    digests = [
        blake2b(row + label.tobytes(), digest_size=16).digest() for row, label in zip(_rows(X), labels, strict=True)
    ]
    keys = np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    merged = np.bincount(group.ravel(), weight)
    if len(first) == len(y) and (merged == merged[0]).all():
        return X, y, weight
    return X[first], y[first], merged


def _surely_distinct(X: Any) -> bool:
    """Whether rows differ, by random sums of their bits: those of equal rows are equal. Quicker than digests."""
    if scipy.sparse.issparse(X) or not X.flags.c_contiguous:
        return False
    bits = X.view(np.uint64 if X.itemsize == 8 else np.uint32)
    factors = np.random.default_rng(0).integers(2**64, size=X.shape[1], dtype=np.uint64)
    return len(np.unique(bits @ factors)) == len(X)  # modulo 2**64, so without rounding


def _rows(X: Any) -> Iterator[bytes]:
    if not scipy.sparse.issparse(X):
        yield from (row.tobytes() for row in X)
        return
    X = X.copy()
    X.sum_duplicates()  # sorts the columns of each row, too
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield X.indices[start:stop].astype(np.int64).tobytes() + X.data[start:stop].tobytes()
