"""Logistic regression on the rows that cleanlab trusts: confident learning of Northcutt, Jiang and Chuang (2021)."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.preprocessing import StandardScaler

#: More iterations than scikit-learn's 100, so that cleanlab's fits are not cut short.
MAX_ITER = 1000


class WithCleanlab(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """``CleanLearning(LogisticRegression(C))`` on standardised features; ``tuning`` has what chooses ``C``, if anything does.

    ``quality_`` and ``issues_`` tell of the training rows, by predictions out of five folds: cleanlab's score of each label,
    and whether it counts the label as wrong.
    """

    def __init__(self, seed: int = 0, tuning: dict[str, Any] | None = None) -> None:
        self.seed = seed
        self.tuning = tuning

    def fit(self, X: Any, y: np.ndarray) -> WithCleanlab:
        from cleanlab.classification import CleanLearning  # the extra "experiments"

        self.scaler_ = StandardScaler(with_mean=not issparse(X))
        X = self.scaler_.fit_transform(X)
        self.C_ = 1.0  # scikit-learn's default
        if self.tuning is not None:
            self.C_ = float(np.ravel(LogisticRegressionCV(**self.tuning).fit(X, y).C_)[0])
        self.model_ = CleanLearning(LogisticRegression(C=self.C_, max_iter=MAX_ITER), seed=self.seed)
        self.model_.fit(X, y)
        issues = self.model_.get_label_issues()
        self.quality_ = np.asarray(issues["label_quality"], dtype=float)
        self.issues_ = np.asarray(issues["is_label_issue"], dtype=bool)
        self.classes_ = self.model_.clf.classes_
        self.version_ = version("cleanlab")
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        probabilities: np.ndarray = self.model_.predict_proba(self.scaler_.transform(X))
        return probabilities
