"""What a model is compared with, fitted to the rows of the evaluation: each row is predicted by a fit that has not seen it.

A saved model brings no training data along. So a logistic regression, and the maps that recalibrate the model, are fitted to
some of the given rows and judged on the others, by turns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

from legendretron.estimators import LegendreCalibrator, MultinomialLogisticClassifier
from legendretron.report.rows import Rows

#: Fewer rows cannot be divided.
LEAST_ROWS = 30
#: Folds with few rows, with many, and from how many rows on they are many.
_FOLDS, _FOLDS_OF_MANY, _MANY = 5, 2, 5000
#: Most numbers (rows x columns x classes) a logistic regression is fitted to, and most that its penalty is chosen on.
_MOST_NUMBERS, _MOST_TUNED = 1.4e7, 7e6
#: Most numbers (rows x classes) a calibration map is fitted to, and most that its strength is chosen on.
_MOST_SCORES, _MOST_CHOSEN = 2e5, 5e4


class Fold(NamedTuple):
    """Rows to fit to, in random order, and rows to predict."""

    fit: np.ndarray
    predict: np.ndarray


def folds_for(rows: Rows, seed: int) -> list[Fold]:
    """Divide the rows by chance alone; no folds if there are too few.

    With equal shares of a class in all folds, how frequent it is among held-out rows could be told from the others.
    """
    n = len(rows)
    if n < LEAST_ROWS:
        return []
    n_folds = _FOLDS if n <= _MANY else _FOLDS_OF_MANY
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(n)
    turn = np.arange(n) % n_folds
    return [Fold(shuffled[turn != k], np.sort(shuffled[turn == k])) for k in range(n_folds)]


def features_for_logistic(X: Any) -> tuple[Any, str]:
    """Return features as numbers, or None and the reason why a logistic regression cannot take them."""
    if scipy.sparse.issparse(X):
        matrix = X.tocsr()
        values = matrix.data
    else:
        try:
            matrix = values = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            return None, "some columns are not numbers"
    if matrix.ndim != 2:
        return None, "the features are not a table"
    if not np.isfinite(values).all():
        return None, "some values are missing or infinite"
    return matrix, ""


def logistic_regression(X: Any, rows: Rows, folds: list[Fold]) -> tuple[np.ndarray | None, int]:
    """Return log-probabilities of a tuned logistic regression, and the number of rows that it was fitted to.

    None if the rows to fit to have one class only.
    """
    X = _single(X)
    columns = X.nnz / max(X.shape[0], 1) if scipy.sparse.issparse(X) else X.shape[1]
    most, most_tuned = (
        max(int(numbers / max(columns * len(rows.classes), 1)), LEAST_ROWS) for numbers in (_MOST_NUMBERS, _MOST_TUNED)
    )

    def fit(part: np.ndarray) -> Callable[[np.ndarray], tuple[np.ndarray]] | None:
        if len(np.unique(rows.y[part])) < 2:
            return None
        tuned = part[:most_tuned] if len(np.unique(rows.y[part[:most_tuned]])) > 1 else part
        model = MultinomialLogisticClassifier(random_state=0)
        model.fit(X[tuned], rows.y[tuned], sample_weight=rows.weight[tuned])
        if len(tuned) < len(part):  # the penalty is added to a mean loss: with more rows, it is to be smaller
            model = MultinomialLogisticClassifier(alpha=model.alpha_ * len(tuned) / len(part))
            model.fit(X[part], rows.y[part], sample_weight=rows.weight[part])

        def predict(others: np.ndarray) -> tuple[np.ndarray]:
            # a class that none of these rows has may be that of the next one
            log_p = np.full((len(others), len(rows.classes)), -np.log(len(part) + 1.0))
            log_p[:, model.classes_] = model.predict_log_proba(X[others])
            return (log_softmax(log_p, axis=1),)

        return predict

    found, fitted_to = _out_of_fold(rows, folds, most, fit)
    return (None if found is None else found[0]), fitted_to


def _single(X: Any) -> Any:
    """Features in single precision, for speed; dense ones in units of their spread, so that no digit of it is lost."""
    if scipy.sparse.issparse(X):
        return X.astype(np.float32)
    spread = X.std(0)
    return ((X - X.mean(0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)


class Recalibrated(NamedTuple):
    """A model recalibrated in two ways, each row by maps that have not seen it."""

    temperature: np.ndarray  #: log-probabilities with temperature scaling
    calibrated: np.ndarray  #: log-probabilities by a learned calibration map
    temperatures: list[float]  #: of the folds
    fitted_to: int  #: rows


def recalibrated(log_p: np.ndarray, rows: Rows, folds: list[Fold]) -> Recalibrated:
    """Return a model with temperature scaling, and with all that a calibration map can learn."""
    temperatures: list[float] = []
    most = int(max(_MOST_SCORES / log_p.shape[1], 500))
    places = np.arange(log_p.shape[1])

    def fit(part: np.ndarray) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
        # two folds tell strengths apart well enough, in half the time; with many rows, it is left at its usual value
        strength = "auto" if log_p[part].size <= _MOST_CHOSEN else 1.0
        calibrator = LegendreCalibrator(input="logits", strength=strength, classes=places, cv=2)
        calibrator.fit(log_p[part], rows.y[part], sample_weight=rows.weight[part])
        temperature = calibrator.temperature_
        temperatures.append(temperature)
        return lambda others: (
            log_softmax(log_p[others] / temperature, axis=1),
            calibrator.predict_log_proba(log_p[others]),
        )

    found, fitted_to = _out_of_fold(rows, folds, most, fit)
    assert found is not None
    return Recalibrated(found[0], found[1], temperatures, fitted_to)


def _out_of_fold(
    rows: Rows,
    folds: list[Fold],
    most: int,
    fit: Callable[[np.ndarray], Callable[[np.ndarray], tuple[np.ndarray, ...]] | None],
) -> tuple[list[np.ndarray] | None, int]:
    """Return predictions for all rows, and the number of rows that the largest fit has seen."""
    found: list[np.ndarray] = []
    for fold in folds:
        with warnings.catch_warnings():
            # a baseline may be a little short of its minimum, and of many classes each may have few rows
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "The number of unique classes is greater than")
            predict = fit(fold.fit[:most])
        if predict is None:
            return None, 0
        for place, part in enumerate(predict(fold.predict)):
            if len(found) <= place:
                found.append(np.empty((len(rows), len(rows.classes))))
            found[place][fold.predict] = part
    return found, max(min(len(fold.fit), most) for fold in folds)
