"""Models of others for labels of which some are wrong: generalised cross-entropy, and cleanlab.

Generalised cross-entropy (Zhang and Sabuncu, 2018) bounds the loss of a row: with probability ``p`` for its label it is
``(1 - p**q) / q``; for ``q`` towards 0 it is ``-log(p)``. cleanlab is confident learning (Northcutt, Jiang and Chuang, 2021).
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

#: Strengths tried, the strongest penalty first: ``l2 / 2 * |W|**2`` is added to the mean loss of a row.
#: A weaker one, 1e-5, was tried on six small data sets: about the same accuracy, and a worse log-loss.
STRENGTHS = (1e-1, 1e-2, 1e-3, 1e-4)
_MAX_ITER = 300


def minimize_loss(X: Any, y: np.ndarray, n_classes: int, l2: float, q: float, start: np.ndarray | None) -> np.ndarray:
    """Weights ``(d + 1, C)``, intercepts last, at a minimum of the penalised mean loss; ``q`` of 0 is cross-entropy.

    With logits ``z``, probabilities ``p`` and one-hot labels ``e``, the gradient is ``dl/dz = p_y**q * (p - e)``.
    """
    rows, shape = np.arange(len(y)), (X.shape[1] + 1, n_classes)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        W = flat.reshape(shape)
        log_p = log_softmax(X @ W[:-1] + W[-1], axis=1)
        of_label = log_p[rows, y]
        losses = -np.expm1(q * of_label) / q if q else -of_label
        slopes = np.exp(log_p)
        slopes[rows, y] -= 1.0
        slopes *= (np.exp(q * of_label) / len(y))[:, None]
        gradient = np.vstack([X.T @ slopes + l2 * W[:-1], slopes.sum(0)])
        return float(losses.mean() + 0.5 * l2 * (W[:-1] ** 2).sum()), gradient.ravel()

    first = np.zeros(shape) if start is None else start
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _MAX_ITER})
    return found.x.reshape(shape)


class GeneralisedCrossEntropy(ClassifierMixin, BaseEstimator):
    """The strength is that with the best accuracy on held-out rows, by the labels as they come.

    The loss is not convex: what L-BFGS finds depends on its start, which is the solution of cross-entropy.
    """

    def __init__(self, q: float = 0.7, strengths: tuple[float, ...] = STRENGTHS, seed: int = 0) -> None:
        self.q = q
        self.strengths = strengths
        self.seed = seed

    def fit(self, X: Any, y: np.ndarray) -> GeneralisedCrossEntropy:
        self.classes_, encoded = np.unique(y, return_inverse=True)
        # sparse features are not centred, which would make them dense
        self.scaler_ = StandardScaler(with_mean=not issparse(X))
        X = self.scaler_.fit_transform(X)
        right = np.zeros(len(self.strengths))
        for train, held in StratifiedKFold(5, shuffle=True, random_state=self.seed).split(X, encoded):
            for place, W in enumerate(self._path(X[train], encoded[train], self.strengths)):
                right[place] += (_logits(X[held], W).argmax(1) == encoded[held]).sum()
        best = int(right.argmax())  # the strongest of equals
        self.l2_ = self.strengths[best]
        self.weights_ = self._path(X, encoded, self.strengths[: best + 1])[-1]
        return self

    def _path(self, X: Any, y: np.ndarray, strengths: tuple[float, ...]) -> list[np.ndarray]:
        """Weights for each strength; cross-entropy's are found from those of the strength before."""
        found, plain = [], None
        for l2 in strengths:
            plain = minimize_loss(X, y, len(self.classes_), l2, 0.0, plain)
            found.append(minimize_loss(X, y, len(self.classes_), l2, self.q, plain))
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.exp(log_softmax(_logits(self.scaler_.transform(X), self.weights_), axis=1))


def _logits(X: Any, W: np.ndarray) -> np.ndarray:
    return X @ W[:-1] + W[-1]


#: More iterations than scikit-learn's 100, so that cleanlab's fits are not cut short.
_CLEANLAB_MAX_ITER = 1000


class WithCleanlab(ClassifierMixin, BaseEstimator):
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
        self.model_ = CleanLearning(LogisticRegression(C=self.C_, max_iter=_CLEANLAB_MAX_ITER), seed=self.seed)
        self.model_.fit(X, y)
        issues = self.model_.get_label_issues()
        self.quality_ = np.asarray(issues["label_quality"], dtype=float)
        self.issues_ = np.asarray(issues["is_label_issue"], dtype=bool)
        self.classes_ = self.model_.clf.classes_
        self.version_ = version("cleanlab")
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(self.scaler_.transform(X))
