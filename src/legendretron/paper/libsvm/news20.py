"""The newsgroups as LIBSVM scales them: which words a document has, and unit length."""

from __future__ import annotations

import numpy as np
import scipy.sparse

#: Values are written with six digits.
_PRECISION = 1e-5


def words_of_unit_length(X: scipy.sparse.csr_matrix) -> tuple[scipy.sparse.csr_matrix, bool]:
    r"""Replace counts by :math:`1/\sqrt{m}`, with :math:`m` the words of a document, and return whether that was done.

    That is what ``news20.scale`` holds; there are other files of the same documents, with counts, or with counts divided by
    the largest of their column. The practical guide in Fan, Chang, Hsieh, Wang and Lin (2008), LIBLINEAR: a library for large
    linear classification, JMLR 9, shows its first document.

    Parameters
    ----------
    X : sparse matrix of shape (n, features)
        Not negative; entries that are zero do not count.

    Returns
    -------
    sparse matrix of shape (n, features), bool
        ``X`` itself, if its values are the scaled ones already.

    Examples
    --------
    >>> counts = scipy.sparse.csr_matrix([[3.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> words_of_unit_length(counts)[0].toarray().round(3)
    array([[0.707, 0.   , 0.707],
           [0.   , 1.   , 0.   ]])
    """
    if X.nnz and X.data.min() < 0.0:
        raise ValueError(f"news20 has counts or shares of words, but here is {X.data.min():g}; get the published file.")
    scaled = scipy.sparse.csr_matrix(X, copy=True)
    scaled.eliminate_zeros()
    words = np.diff(scaled.indptr)
    expected = np.repeat(np.maximum(words, 1) ** -0.5, words)
    if np.allclose(scaled.data, expected, rtol=_PRECISION, atol=0.0):
        return X, False
    scaled.data = expected
    return scaled, True
