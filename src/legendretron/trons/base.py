"""What the binary link learners share: validating data, predicting."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.special import logit
from sklearn.base import BaseEstimator
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.sklearn_compat import (
    Classifier,
    Interval,
    StrOptions,
    check_features,
    restore_on_error,
    validates_parameters,
)
from legendretron.estimators.fit_data import check_rows, swap_classes
from legendretron.estimators.standardization import Standardizer
from legendretron.links import Link, SoftmaxLink
from legendretron.losses import CanonicalLoss
from legendretron.training import History
from legendretron.training.history import EarlyStopping, Progress

_LARGEST = 1e150


class Design:
    """Features ``(n, d)``, standardized or not, with a column of ones for the intercept; ``weight`` (n,) sums to one.

    Products are taken in the precision of the features; everything else is float64.
    """

    def __init__(self, X: Any, weight: np.ndarray, standardize: bool) -> None:
        self.units = Standardizer.fit(X, weight, standardize)
        self.X = self.units.transform(X) if standardize else X

    def predictor(self, w: np.ndarray) -> np.ndarray:
        """Linear predictors ``(n,)`` of weights ``(d + 1,)``, the intercept last."""
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks the result
            z: np.ndarray = safe_sparse_dot(self.X, w[:-1].astype(self.X.dtype)).astype(np.float64) + w[-1]
        return z

    def pull(self, r: np.ndarray) -> np.ndarray:
        """Transposed product: residuals ``(n,)`` to ``(d + 1,)``."""
        with np.errstate(over="ignore", invalid="ignore"):
            product = safe_sparse_dot(self.X.T, r.astype(self.X.dtype)).astype(np.float64)
            return np.append(product, r.sum())

    def largest_eigenvalue(self, weight: np.ndarray) -> float:
        """Of the second moments of the features and the one, by Lanczos iteration from a fixed random vector."""
        size = self.X.shape[1] + 1

        def product(v: np.ndarray) -> np.ndarray:
            v = self.pull(weight * self.predictor(v.ravel()))
            # beyond the square root the iteration's own inner products overflow
            if not np.abs(v).max() < _LARGEST:
                raise ValueError("X has features too large to multiply; scale X first, or set standardize=True.")
            return v

        moments = LinearOperator((size, size), matvec=product, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(size)
        return float(eigsh(moments, k=1, v0=start, tol=1e-4, return_eigenvectors=False)[0])


class BinaryLinkLearner(Classifier, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the binary link learners; not for direct use."""

    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    history_: History
    n_iter_: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "standardize": ["boolean"],
        "verbose": ["verbose"],
    }

    # --- what subclasses say ---

    @abstractmethod
    def _learn(self, design: Design, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Learn link and predictor; return the weights ``(d + 1,)``, the intercept last, in the design's units.

        ``y`` is 0 or 1, ``weight`` sums to one.
        """

    @abstractmethod
    def _probability(self, z: np.ndarray) -> np.ndarray:
        """Learned inverse link, without clipping."""

    def _arrange(self, X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        """Rows in the order to learn from."""
        return X, y, weight

    # --- fitting ---

    @validates_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            Features. Sparse matrices are never made dense.
        y : array of shape (n_samples,)
            Labels of two classes, numbers or strings.
        sample_weight : array of shape (n_samples,), optional
            Weight of each row; non-negative, not all zero. Weights equal repetitions.

        Returns
        -------
        self
        """
        with restore_on_error(self):
            types = [np.float64, np.float32]
            data = check_rows(self, X, y, sample_weight, partial=True, accept_sparse="csr", dtype=types)
            X, y, weight, classes = data.X, data.y, data.weight, data.classes
            self._check_classes(classes, y)
            # rows of weight zero are left out
            if len(data.rows) < len(y):
                X, y, weight = X[data.rows], y[data.rows], weight[data.rows]
                if len(np.unique(y)) < 2:
                    raise ValueError("sample_weight and class_weight leave samples of only one class; two are needed.")
            X, y, weight = self._arrange(X, y, weight)
            self._total_weight = float(weight.sum())
            weight = weight / weight.max()
            weight = weight / weight.sum()
            design = Design(X, weight, bool(self.standardize))
            w = self._learn(design, (y == classes[1]).astype(np.float64), weight)
            self.coef_, self.intercept_ = design.units.fold(w[:-1, None], w[-1:], X.dtype)
            self.classes_ = classes
        return self

    def _check_classes(self, classes: np.ndarray, y: np.ndarray) -> None:
        name = type(self).__name__
        if len(classes) < 2:
            raise ValueError(
                f"fit needs samples of 2 classes, but y contains only one class: {classes[0]!r}. "
                f"{name} cannot learn a link from one class."
            )
        if len(classes) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}: y holds "
                f"{len(classes)} classes; use sklearn.multiclass.OneVsRestClassifier({name}()) for more than two."
            )

    # --- predicting ---

    def linear_predictor(self, X: Any) -> np.ndarray:
        """Predictors ``z`` of shape (n_samples,), which the inverse link maps to probabilities of the second class."""
        check_is_fitted(self)
        X = check_features(self, X, accept_sparse="csr", dtype=self.coef_.dtype, reset=False)
        z: np.ndarray = safe_sparse_dot(X, self.coef_[0], dense_output=True) + self.intercept_[0]
        return z

    def inverse_link(self, z: Any) -> np.ndarray:
        """Learned inverse link at predictors of any shape, without clipping: see the class for its guarantees."""
        check_is_fitted(self)
        return self._probability(np.asarray(z, dtype=np.float64))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of shape (n_samples, 2), in the order of ``classes_``."""
        z = self.linear_predictor(X)
        p = np.clip(self._probability(z.astype(np.float64)), 0.0, 1.0).astype(z.dtype)
        return np.stack([1 - p, p], axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of shape (n_samples, 2), in the order of ``classes_``; minus infinity where one is zero."""
        with np.errstate(divide="ignore"):
            log_p: np.ndarray = np.log(self.predict_proba(X))
        return log_p

    def decision_function(self, X: Any) -> np.ndarray:
        """Probability of the second class less one half, of shape (n_samples,)."""
        z = self.linear_predictor(X)
        return (self._probability(z.astype(np.float64)) - 0.5).astype(z.dtype)

    def predict(self, X: Any) -> np.ndarray:
        """More probable class of each sample."""
        second = self.decision_function(X) > 0
        labels: np.ndarray = self.classes_[second.astype(int)]
        return labels

    # --- what was learned ---

    @property
    def link_classes_(self) -> np.ndarray:
        """Classes in the order of ``link_`` and ``loss_``: the second first, because the predictor is that of the second."""
        check_is_fitted(self)
        classes: np.ndarray = swap_classes(self.classes_)
        return classes

    @property
    def loss_(self) -> CanonicalLoss:
        """The canonical loss of the learned link."""
        check_is_fitted(self)
        link: Link = self.link_
        return CanonicalLoss(link)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


class WithLink(BinaryLinkLearner):
    """Those whose inverse link is always a bijection: probabilities and log-odds come from the link itself."""

    link_: Link

    def _log_proba(self, z: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.link_(torch.as_tensor(z).unsqueeze(-1)).numpy()

    def _probability(self, z: np.ndarray) -> np.ndarray:
        p: np.ndarray = np.exp(self._log_proba(z)[..., 0])
        return p

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of shape (n_samples, 2), in the order of ``classes_``."""
        z = self.linear_predictor(X)
        log_p: np.ndarray = swap_classes(self._log_proba(z.astype(np.float64))).astype(z.dtype, order="C")
        return log_p

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of shape (n_samples, 2), in the order of ``classes_``."""
        p: np.ndarray = np.exp(self.predict_log_proba(X))
        return p

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds of the second class, of shape (n_samples,)."""
        log_p = self.predict_log_proba(X)
        log_odds: np.ndarray = log_p[:, 1] - log_p[:, 0]
        return log_odds


class TronDescent(BinaryLinkLearner):
    r"""Base of the three trons: :math:`w \leftarrow w + \eta \sum_i w_i (y_i - u(z_i)) x_i`, then perhaps a new ``u``.

    The step is the negative gradient of the canonical loss of ``u``, whatever ``u`` is. Of all iterates the one with the
    least squared error is kept.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BinaryLinkLearner._parameter_constraints,
        "learning_rate": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        learning_rate: float | str = "auto",
        max_iter: int = 200,
        tol: float = 1e-7,
        n_iter_no_change: int = 10,
        class_weight: dict[Any, float] | str | None = None,
        standardize: bool = True,
        verbose: int = 0,
    ) -> None:
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.standardize = standardize
        self.verbose = verbose

    @abstractmethod
    def _next_link(self, link: Any, z: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray]:
        """Link for the predictors ``z``, given the one before, at first softmax+, and its probabilities there."""

    @abstractmethod
    def _steepest(self, link: Any) -> float:
        """Slope of the inverse link that the automatic step is made for, at the current link."""

    def _keep(self, link: Any) -> None:
        """Store the learned link."""
        self.link_ = link

    def _learn(self, design: Design, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        automatic = isinstance(self.learning_rate, str)
        eigenvalue = design.largest_eigenvalue(weight) if automatic else np.nan
        w = np.zeros(design.X.shape[1] + 1)
        # Where a sigmoid gives the share of the second class: from zero, the intercept would take most of the steps to get
        # there, for they are sized by the features.
        w[-1] = logit(weight @ y)
        z = design.predictor(w)
        link, p = self._next_link(SoftmaxLink(2), z, y, weight)
        best, best_link = w, link
        stopping = EarlyStopping(float(self.tol), int(self.n_iter_no_change))
        self.history_ = History()
        progress, began = Progress(int(self.max_iter), int(self.verbose)), time.monotonic()
        for n_iter in range(1, int(self.max_iter) + 1):
            rate = 1.0 / (self._steepest(link) * eigenvalue) if automatic else float(self.learning_rate)
            w = w + rate * design.pull(weight * (y - p))
            z = design.predictor(w)
            if not np.isfinite(z).all():
                raise ValueError(
                    f"learning_rate={self.learning_rate!r} is too large for features of this size: the predictors "
                    "overflowed. Use learning_rate='auto' or standardize=True."
                )
            link, p = self._next_link(link, z, y, weight)
            error = float((weight * (p - y) ** 2).sum())
            accuracy = (weight * ((p > 0.5) == (y > 0.5))).sum()
            self.history_.append(n_iter, [error], [np.nan], [accuracy], [rate], time.monotonic() - began)
            progress.update(n_iter, error, None)
            if stopping.update(error):
                best, best_link = w, link
            if stopping.exhausted:
                break
        progress.close()
        self.n_iter_ = n_iter
        self._keep(best_link)
        return best
