"""Random draws as the authors' code makes them: the same splits, the same wrong labels, the same order of batches."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split


def split_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, 80 %, and to test on.

    Examples
    --------
    >>> [len(rows) for rows in split_rows(150, seed=0)]
    [120, 30]
    """
    train, test = train_test_split(np.arange(n_rows), test_size=0.2, random_state=seed)
    return train, test


def noisy_labels(y: np.ndarray, eta: float, n_classes: int, seed: int) -> np.ndarray:
    """Labels that are wrong with probability ``eta``, all other classes equally likely.

    The distribution is that of :func:`legendretron.datasets.symmetric_noise`. The draws are one multinomial per row from
    ``numpy.random.RandomState(seed)``, whose stream is frozen: slower, but the labels the paper's models were trained on.

    Examples
    --------
    >>> noisy_labels(np.array([0, 1, 2, 0, 1, 2]), eta=0.5, n_classes=3, seed=0)
    array([0, 1, 2, 0, 2, 0])
    """
    if eta == 0:
        return y.copy()
    generator = np.random.RandomState(seed)
    probabilities = np.full((n_classes, n_classes), eta / (n_classes - 1))
    np.fill_diagonal(probabilities, 1.0 - eta)
    # the last bits matter: the row is summed as the authors' code sums it
    rows = [row / sum(row) for row in probabilities]
    return np.array([generator.multinomial(1, rows[label]).argmax() for label in y], dtype=y.dtype)
