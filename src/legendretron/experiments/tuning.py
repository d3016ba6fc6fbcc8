"""Fits for records: without warnings if they have not converged, and with a penalty that is tuned for every split."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from legendretron.estimators import fit_splits
from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.splits import SplitResults


@contextmanager
def unconverged_allowed() -> Iterator[None]:
    """Suppress convergence warnings inside the block: the record of a run says whether it has converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def fit_whole(*arguments: Any, **options: Any) -> SplitResults:
    """As :func:`~legendretron.estimators.fit_splits` with models that are trained side by side, without warnings."""
    with unconverged_allowed():
        fitted = fit_splits(*arguments, **options)
    if not isinstance(fitted, SplitResults):
        raise ValueError("the model must have standardize=False, early_stopping=False and numbers as strengths.")
    return fitted


def fit_tuned(
    estimator: LinearLinkClassifier,
    X: object,
    y: np.ndarray,
    train_rows: np.ndarray,
    seeds: Sequence[int],
    train_labels: np.ndarray,
    strengths: Sequence[float],
    share: float = 0.2,
) -> tuple[SplitResults, list[float]]:
    """Fit with the strength that has the lowest log-loss on held-out training rows of each split.

    Test rows and clean labels are never used: a split with noise is tuned on labels with noise.

    Returns
    -------
    SplitResults
        Fits on all training rows.
    list of float
        The strength of each.
    """
    runs, n = train_rows.shape
    inner = [train_test_split(np.arange(n), test_size=share, random_state=seed) for seed in seeds]
    learn, choose = (np.stack(part) for part in zip(*inner, strict=True))
    grid = len(strengths)

    def rows(part: np.ndarray) -> np.ndarray:
        return np.tile(np.take_along_axis(train_rows, part, 1), (grid, 1))

    def labels(part: np.ndarray) -> np.ndarray:
        return np.tile(np.take_along_axis(train_labels, part, 1), (grid, 1))

    tried = fit_whole(
        estimator, X, y, rows(learn), list(seeds) * grid, labels(learn), alphas=np.repeat(strengths, runs).tolist()
    )
    losses = tried.evaluate(rows(choose), labels(choose))[0].reshape(grid, runs)
    del tried
    chosen = [float(strengths[i]) for i in losses.argmin(0)]
    return fit_whole(estimator, X, y, train_rows, list(seeds), train_labels, alphas=chosen), chosen
