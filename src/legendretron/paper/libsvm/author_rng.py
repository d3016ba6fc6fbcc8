"""Random draws as the authors' code makes them: the same splits, the same wrong labels, the same order of batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split

from legendretron.estimators import MultinomialLogisticClassifier
from legendretron.experiments.recorded_estimators import estimator_of
from legendretron.links import CompositeLink, Link

__all__ = ["AuthorsLogisticClassifier", "author_estimator", "noisy_labels", "split_rows"]


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


class AuthorsLogisticClassifier(MultinomialLogisticClassifier):
    """Logistic regression on the batches that the authors' code draws for the same seed.

    Their code initialises LegendreTron's link for logistic regression too, without using it. This consumes random numbers
    and so changes the order of the batches; therefore a link is built and discarded here as well.
    """

    def _make_link(self, n_classes: int, generator: torch.Generator, dtype: torch.dtype, n_rows: int) -> Link:
        CompositeLink(n_classes, network="cpflow", init="paper", generator=generator, dtype=dtype)
        return super()._make_link(n_classes, generator, dtype, n_rows)


def author_estimator(settings: Mapping[str, Any], *, device: str = "cpu", seed: int | None = None) -> BaseEstimator:
    """As :func:`~legendretron.experiments.recorded_estimators.estimator_of`, with the authors' draws for their recipe.

    Examples
    --------
    >>> type(author_estimator({"estimator": "MultinomialLogisticClassifier", "init": "paper"})).__name__
    'AuthorsLogisticClassifier'
    """
    estimator = estimator_of(settings, device=device, seed=seed)
    if isinstance(estimator, MultinomialLogisticClassifier) and estimator.init == "paper":
        return AuthorsLogisticClassifier(**estimator.get_params())
    return estimator
