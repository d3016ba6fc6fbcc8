"""Label noise: labels drawn from the row of a transition matrix that belongs to the true label."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from legendretron._internal.validation import check_integer

#: How far a row may be from summing to one; single-precision matrices may come as doubles.
_SUM_SLACK = 1e-5


def symmetric_transition(n_classes: int, eta: float) -> np.ndarray:
    """The transition matrix ``(1 - eta) * I + eta / (C - 1) * (1 - I)``: a label is wrong with probability ``eta``.

    Parameters
    ----------
    n_classes : int
        ``C``, at least 2.
    eta : float
        From 0 to 1.

    Returns
    -------
    ndarray of shape (C, C)
        Row ``i`` has the probabilities of the noisy label given the true label ``i``.

    Examples
    --------
    >>> symmetric_transition(3, 0.2)
    array([[0.8, 0.1, 0.1],
           [0.1, 0.8, 0.1],
           [0.1, 0.1, 0.8]])
    """
    n_classes, eta = check_integer("n_classes", n_classes, 2), _check_share(eta)
    transition = np.full((n_classes, n_classes), eta / (n_classes - 1))
    np.fill_diagonal(transition, 1.0 - eta)
    return transition


def pair_transition(n_classes: int, eta: float) -> np.ndarray:
    """The transition matrix of pair flips: class ``c`` becomes ``(c + 1) % C`` with probability ``eta``, and no other.

    All wrong labels of a class are the same, so they are harder to tell from right ones than those of
    :func:`symmetric_transition`. For two classes both matrices are the same.

    Parameters
    ----------
    n_classes, eta
        As in :func:`symmetric_transition`; from 0.5 on, a wrong label is as likely as the right one.

    Returns
    -------
    ndarray of shape (C, C)

    Examples
    --------
    >>> pair_transition(3, 0.25)
    array([[0.75, 0.25, 0.  ],
           [0.  , 0.75, 0.25],
           [0.25, 0.  , 0.75]])
    """
    n_classes, eta = check_integer("n_classes", n_classes, 2), _check_share(eta)
    same = np.eye(n_classes)
    return (1.0 - eta) * same + eta * np.roll(same, 1, axis=1)


def flip_labels(y: Any, transition: Any, random_state: Any = None) -> np.ndarray:
    """Draw noisy labels, ``noisy[i] = (u[i] >= transition[y[i]].cumsum()).sum()`` with ``u`` uniform on [0, 1).

    Parameters
    ----------
    y : array-like of shape (n,), integers from 0 to C - 1
    transition : array-like of shape (C, C)
        Row ``i`` has the probabilities of the noisy label given the true label ``i``; rows sum to one.
    random_state : int, Generator, RandomState or None, default=None
        One uniform number is drawn for each row, whatever the matrix: with the same seed, the same rows tend to be flipped.

    Returns
    -------
    ndarray of shape (n,), int64
        A new array.

    Examples
    --------
    >>> flip_labels([0, 1, 2, 0], [[0, 1, 0], [0, 0, 1], [1, 0, 0]], random_state=0)
    array([1, 2, 0, 1])
    """
    transition = _check_transition(transition)
    y = _check_labels(y, len(transition))
    # cumulative before dividing, so that the last entry is one exactly and no draw lies beyond it
    cumulative = transition.cumsum(axis=1)
    cumulative /= cumulative[:, -1:]
    generator = random_state if isinstance(random_state, np.random.Generator) else check_random_state(random_state)
    uniform = generator.uniform(size=len(y))
    noisy = np.empty_like(y)
    for label in np.unique(y):  # class by class: rows times classes would be too large for aloi
        rows = y == label
        noisy[rows] = np.searchsorted(cumulative[label], uniform[rows], side="right")
    return noisy


def symmetric_noise(y: Any, eta: float, n_classes: int, random_state: Any = None) -> np.ndarray:
    """Replace each label by one of the others with probability ``eta``: ``flip_labels(y, symmetric_transition(C, eta))``.

    Parameters
    ----------
    y, eta, n_classes, random_state
        As in these functions; with an ``eta`` of 0 the labels are returned unchanged, as a copy.

    Returns
    -------
    ndarray of shape (n,), int64

    Examples
    --------
    >>> symmetric_noise([0, 1, 2, 0, 1, 2], eta=0.5, n_classes=3, random_state=0)
    array([1, 1, 2, 1, 1, 2])
    """
    transition = symmetric_transition(n_classes, eta)
    if eta == 0:
        return _check_labels(y, n_classes)
    return flip_labels(y, transition, random_state)


def _check_share(eta: Any) -> float:
    if isinstance(eta, bool) or not isinstance(eta, Real) or not 0.0 <= float(eta) <= 1.0:
        raise ValueError(f"eta must be a number from 0 to 1, the share of wrong labels, got {eta!r}.")
    return float(eta)


def _check_labels(y: Any, n_classes: int) -> np.ndarray:
    """A new int64 array, or raise."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must have one axis, got shape {labels.shape}.")
    if labels.size and not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"y must contain integers from 0 to {n_classes - 1}, got {labels.dtype}; encode labels first.")
    wrong = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(wrong):
        raise ValueError(
            f"y must contain integers from 0 to {n_classes - 1}, got {labels[wrong[0]]} in row {wrong[0]}."
        )
    return labels.astype(np.int64)


def _check_transition(transition: Any) -> np.ndarray:
    try:
        matrix = np.array(transition, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"transition must be a square matrix of numbers: {error}.") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ValueError(f"transition must have shape (C, C) with at least two classes, got {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise ValueError("transition must be finite, got NaN or infinity.")
    if (matrix < 0).any():
        raise ValueError(f"transition must not be negative, got {matrix.min():g}.")
    sums = matrix.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > _SUM_SLACK:
        raise ValueError(f"each row of transition must sum to one, but row {worst} sums to {sums[worst]:g}.")
    return matrix
