"""What a model is compared with, fitted to the rows of the evaluation: each row is predicted by a fit that has not seen it.

A saved model brings no training data along. So a logistic regression, and the maps that recalibrate the model, are fitted to
some of the given rows and judged on the others, by turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import log_softmax

from legendretron.diagnostics.decomposition import LEAST_ROWS, Fold, out_of_fold
from legendretron.estimators import MultinomialLogisticClassifier
from legendretron.report.rows import Rows

#: Most numbers (rows x columns x classes) a logistic regression is fitted to, and most that its penalty is chosen on.
_MOST_NUMBERS, _MOST_TUNED = 1.4e7, 7e6


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

    found, fitted_to = out_of_fold((len(rows), len(rows.classes)), folds, most, fit)
    return (None if found is None else found[0]), fitted_to


def _single(X: Any) -> Any:
    """Features in single precision, for speed; dense ones in units of their spread, so that no digit of it is lost."""
    if scipy.sparse.issparse(X):
        return X.astype(np.float32)
    spread = X.std(0)
    return ((X - X.mean(0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)
