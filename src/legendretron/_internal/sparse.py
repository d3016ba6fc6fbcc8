"""Sparse matrices of users: whether their indices are those of entries."""

from __future__ import annotations

from typing import Any

import scipy.sparse

from legendretron._internal.parameters import spell


def check_sparse(name: str, x: Any) -> None:
    """Raise a ``ValueError`` if a matrix in compressed rows or columns has indices outside of it; it is not changed.

    SciPy does not look when a matrix is made, and its products, like compiled functions, read whatever memory indices say.

    Examples
    --------
    >>> x = scipy.sparse.csr_array([[1.0, 2.0]])
    >>> x.indices[1] = 7
    >>> check_sparse("X", x)
    Traceback (most recent call last):
    ValueError: X is not a valid sparse matrix: indices must be < 2. Build it again from rows, columns and values.
    """
    kind = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}.get(getattr(x, "format", ""))
    if kind is None:  # others are checked, or made into one of these
        return
    try:
        kind((x.data, x.indices, x.indptr), shape=x.shape).check_format(full_check=True)
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise ValueError(
            f"{spell(name)} is not a valid sparse matrix: {reason}. Build it again from rows, columns and values."
        ) from error
