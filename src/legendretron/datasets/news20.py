"""The newsgroups as the paper has them: word counts, each document of unit length."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize

__all__ = ["documents_of_unit_length", "word_counts"]

#: Relative error of a ratio of two values that were written with six digits.
_PRECISION = 1e-5
_LARGEST_DIVISOR = 60


def documents_of_unit_length(X: scipy.sparse.csr_matrix) -> tuple[scipy.sparse.csr_matrix, bool]:
    """Give documents unit length if they have counts, and tell whether that was done.

    There are files of these data with whole counts, and with counts divided by the largest of their column. The paper's
    figures belong to documents of unit length, as Rennie and Rifkin (2001) use them.

    Parameters
    ----------
    X : sparse matrix of shape (n, features)

    Returns
    -------
    sparse matrix of shape (n, features), bool
        ``X`` itself, if its values are neither whole numbers nor shares of the largest of their column.

    Examples
    --------
    >>> halves = scipy.sparse.csr_matrix([[1.0, 0.5], [0.0, 1.0]])
    >>> documents_of_unit_length(halves)[0].toarray().round(3)
    array([[0.707, 0.707],
           [0.   , 1.   ]])
    """
    if X.nnz == 0 or X.data.min() <= 0.0:
        return X, False
    largest = X.max(axis=0).toarray().ravel()
    if (X.data == np.round(X.data)).all() and largest.max() > 1.0:
        return normalize(X), True
    if (largest[largest > 0.0] == 1.0).all():
        return normalize(word_counts(X)), True
    return X, False


def word_counts(X: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Counts from shares of the largest count of each column: the smallest whole numbers with the same ratios.

    A word whose counts have a common divisor, such as one that only a single document has, gets counts that are too small by
    it; the file does not tell.

    Examples
    --------
    >>> word_counts(scipy.sparse.csr_matrix([[0.666667, 1.0], [1.0, 0.0], [0.333333, 0.2]])).toarray()
    array([[2., 5.],
           [3., 0.],
           [1., 1.]])
    """
    X = X.tocsr()
    column, n_columns = X.indices, X.shape[1]
    smallest = np.full(n_columns, np.inf)
    np.minimum.at(smallest, column, X.data)
    ratio = X.data / smallest[column]
    divisor = np.zeros(n_columns)
    for candidate in range(1, _LARGEST_DIVISOR + 1):
        off = np.abs(ratio * candidate - np.round(ratio * candidate)) > _PRECISION * ratio * candidate
        fits = np.ones(n_columns, dtype=bool)
        fits[column[off]] = False
        divisor[fits & (divisor == 0)] = candidate
    divisor[divisor == 0] = 1.0
    return scipy.sparse.csr_matrix((np.round(ratio * divisor[column]), X.indices, X.indptr), shape=X.shape)
