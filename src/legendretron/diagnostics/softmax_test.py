r"""A score test of softmax against learned links.

If softmax is right, residuals :math:`r_i = e_{y_i} - p_i` of rows that a model has not seen are uncorrelated with every
function of its logits :math:`z_i`. A learned link bends the logits along directions :math:`a`,

.. math:: z \mapsto z + \theta\, a\, \varphi(a^T z), \qquad \varphi(u) = \sqrt{1 + u^2},

so the scores :math:`s_i = a^T r_i\, \varphi(a^T z_i)` have mean zero. There is one direction for each class, against the mean
of the others; two classes have one direction, and :math:`\varphi(u) = \tanh u` as well. What another temperature, other
biases or other weights could explain is removed first: the logits are recalibrated, and each :math:`\varphi(a^T z)` is
replaced by its residual after a weighted regression on a constant, :math:`a^T z`, and the features if they are given. With
:math:`V` the covariance of the scores, :math:`T = n\, \bar s^T V^{-1} \bar s` has Hotelling's distribution with :math:`J`
degrees of freedom, and :math:`(T - J) / 2n` estimates what the best link of this family gains in log-loss per row.

Scores that are estimated from few rows, less than ten for each coefficient, are themselves bent: then softmax of these scores
is rejected too often, even if softmax of the true ones is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import chi2, f
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.fields import check_fields, list_of, number

__all__ = ["LinkTest", "link_test", "score_test"]

#: Directions whose variance is below this share of the largest are combinations of the others.
_LEAST_VARIANCE = 1e-4
#: Rows for each feature from which features are taken into account: with fewer they could explain anything.
_ROWS_FOR_A_FEATURE = 10
_LEVEL = 0.05
_NUMBERS = ("statistic", "df", "p_value", "gain", "gain_error")


@dataclass(frozen=True)
class LinkTest:
    """What :func:`link_test` found.

    Attributes
    ----------
    statistic, df : float, int
        Chi-squared with so many degrees of freedom if softmax is right.
    p_value : float
        Probability of a statistic as large as this if softmax is right.
    gain, gain_error : float
        Estimated gain in log-loss per row of a learned link, and its standard error; the gain may be negative.
    classes : ndarray of shape (C,)
        The classes.
    class_p_values : ndarray of shape (C,)
        Of each class against the others, not corrected for their number.

    Examples
    --------
    >>> test = LinkTest(5.0, 2, 0.08, 0.01, 0.02, np.arange(2), np.array([0.08, 0.08]))
    >>> str(test)
    'softmax will do (p = 0.08)'
    """

    statistic: float
    df: int
    p_value: float
    gain: float
    gain_error: float
    classes: np.ndarray
    class_p_values: np.ndarray

    @property
    def rejected_classes(self) -> np.ndarray:
        """Classes for which softmax is rejected at 5 %, corrected for their number; none if it is not rejected at all."""
        if self.p_value >= _LEVEL:
            return self.classes[:0]
        return self.classes[self.class_p_values < _LEVEL / len(self.classes)]

    def to_state(self) -> dict[str, Any]:
        """Return the numbers; the names of the classes are left out."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {**numbers, "class_p_values": self.class_p_values.tolist()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild from :meth:`to_state`, with classes from 0; anything else raises a ``ValueError``."""
        numbers = {name: number() for name in _NUMBERS}
        check_fields("link test", state, {**numbers, "class_p_values": list_of(number(0.0, 1.0), least=2)})
        p_values = np.array(state["class_p_values"], dtype=np.float64)
        statistic, df, p_value, gain, error = (float(state[name]) for name in _NUMBERS)
        return cls(statistic, int(df), p_value, gain, error, np.arange(len(p_values)), p_values)

    def __str__(self) -> str:
        if self.p_value >= _LEVEL:
            return f"softmax will do (p = {self.p_value:.2g})"
        return f"softmax is rejected (p = {self.p_value:.2g})"


def link_test(estimator: Any, X: Any, y: Any) -> LinkTest:
    """Test whether softmax is right for the scores of a classifier, or a learned link would do better.

    Parameters
    ----------
    estimator : fitted classifier
        With ``predict_proba`` by softmax, or for two classes the logistic function, of linear scores:
        ``MultinomialLogisticClassifier``, scikit-learn's ``LogisticRegression``, or a pipeline with one.
    X : array-like of shape (n, d)
        Rows that it was not trained on; on training rows, softmax is rejected too often. Of an array of numbers, the test
        allows for other weights of its columns; of other tables for biases and a temperature alone.
    y : array-like of shape (n,)
        Their labels.

    Returns
    -------
    LinkTest
        Statistic, p-value, classes for which softmax is rejected, and the gain to be expected.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> test = link_test(LogisticRegression(C=0.01, max_iter=500).fit(X[:900], y[:900]), X[900:], y[900:])
    >>> 0.0 <= test.p_value <= 1.0
    True
    """
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(f"estimator must have predict_proba, got {type(estimator).__name__}.")
    check_is_fitted(estimator)
    y, classes = np.asarray(y), np.asarray(estimator.classes_)
    if y.ndim != 1:
        raise ValueError(f"y must be one label for each row, got an array of shape {y.shape}.")
    if not (known := np.isin(y, classes)).all():
        raise ValueError(f"y must hold labels of the classes {classes.tolist()}, got {set(y[~known].tolist())}.")
    check_consistent_length(X, y)
    labels = np.searchsorted(classes, y)
    if hasattr(estimator, "predict_log_proba"):
        log_proba = np.asarray(estimator.predict_log_proba(X), dtype=np.float64)
    else:
        log_proba = np.log(np.maximum(estimator.predict_proba(X), np.finfo(np.float64).tiny))
    features = None
    # of missing values, as before an imputer, nothing is known to be linear
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiu" and np.isfinite(X).all():
        features = np.asarray(X, dtype=np.float64)
    return score_test(log_proba, labels, features=features, classes=classes)


def score_test(
    log_proba: np.ndarray,
    labels: np.ndarray,
    *,
    features: np.ndarray | None = None,
    classes: np.ndarray | None = None,
    sample_weight: np.ndarray | None = None,
    robust: bool = True,
) -> LinkTest:
    """Test softmax by the log-probabilities (n, C) of held-out rows and their labels from 0.

    Parameters
    ----------
    log_proba : ndarray of shape (n, C)
        Log-probabilities by softmax.
    labels : ndarray of shape (n,)
        Classes from 0.
    features : ndarray of shape (n, d), optional
        What the logits are linear in; left out if there are too few rows for them.
    classes : ndarray of shape (C,), optional
        Names of the classes.
    sample_weight : ndarray of shape (n,), optional
        Weights of the rows; only their ratios matter.
    robust : bool
        Whether the covariance is that of the scores, or the one that predicted probabilities imply. The second has more
        power, but rejects too often where a model is surer than it may be.
    """
    n, n_classes = log_proba.shape
    if n < 2:
        raise ValueError(f"a test needs at least 2 rows, got {n}.")
    share = np.ones(n) if sample_weight is None else sample_weight / sample_weight.mean()
    log_p = _recalibrate(log_proba, labels, share)
    p = np.exp(log_p)
    residual = -p
    residual[np.arange(n), labels] += 1.0
    directions = np.eye(n_classes) - 1.0 / n_classes
    if n_classes == 2:
        directions = directions[:1]
    u = log_p @ directions.T
    u = (u - np.median(u, axis=0)) / np.maximum(u.std(axis=0), 1e-12)
    known = [np.ones(n)]
    if features is not None and n >= _ROWS_FOR_A_FEATURE * features.shape[1]:
        known += [*((features - features.mean(0)) / np.maximum(features.std(0), 1e-12)).T]
    shapes = [np.sqrt(1.0 + u**2)]
    if n_classes == 2:
        shapes.append(np.tanh(u))
    bent = np.stack(shapes, axis=2)  # (n, directions, shapes)
    for j, a in enumerate(directions):
        weight = share * (p @ a**2 - (p @ a) ** 2)
        columns = np.column_stack([*known, u[:, j]])
        weighted = columns * weight[:, None]
        gram = weighted.T @ columns
        gram += max(1e-6 * np.trace(gram) / len(gram), 1e-12) * np.eye(len(gram))
        bent[:, j] -= columns @ np.linalg.solve(gram, weighted.T @ bent[:, j])
    bent = bent.reshape(n, -1)
    directions = directions.repeat(len(shapes), axis=0)
    bent *= share[:, None]
    scores = (residual @ directions.T) * bent
    if robust:
        variance = scores.T @ scores / n
    else:
        mean = bent * (p @ directions.T)
        variance = np.einsum("nj,nl,nk,jk,lk->jl", bent, bent, p, directions, directions, optimize=True) - mean.T @ mean
        variance /= n
    tiny = np.finfo(np.float64).tiny
    values, vectors = np.linalg.eigh(variance)
    inside = values > max(_LEAST_VARIANCE * values[-1], tiny)
    df = int(inside.sum())
    mean_score = scores.mean(axis=0)
    statistic = float(n * ((vectors[:, inside].T @ mean_score) ** 2 / values[inside]).sum())
    p = _p_value(statistic, df, n)
    of_class = chi2.sf(n * mean_score**2 / np.maximum(np.diag(variance), tiny), 1)
    return LinkTest(
        statistic,
        df,
        p,
        (statistic - df) / (2 * n),
        statistic**0.5 / n,
        np.arange(n_classes) if classes is None else classes,
        np.full(2, p) if n_classes == 2 else of_class,
    )


def _p_value(statistic: float, df: int, n: int) -> float:
    """By Hotelling's distribution, which is chi-squared for many rows."""
    if df == 0 or n <= df:
        return 1.0
    return float(f.sf(statistic * (n - df) / (df * (n - 1)), df, n - df))


def _recalibrate(log_proba: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Log-probabilities after the temperature and the biases that fit the labels best."""
    z = np.clip(log_proba - log_proba.max(axis=1, keepdims=True), -1e3, 0.0)
    n, n_classes = z.shape
    rows = np.arange(n)

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        log_p = log_softmax(parameters[0] * z + np.append(parameters[1:], 0.0), axis=1)
        away = np.exp(log_p)
        away[rows, labels] -= 1.0
        away *= weight[:, None]
        loss = -float(weight @ log_p[rows, labels]) / n
        return loss, np.append((away * z).sum() / n, away[:, :-1].mean(axis=0))

    best: Any = minimize(objective, np.append(1.0, np.zeros(n_classes - 1)), jac=True, method="L-BFGS-B")
    calibrated: np.ndarray = log_softmax(best.x[0] * z + np.append(best.x[1:], 0.0), axis=1)
    return calibrated
