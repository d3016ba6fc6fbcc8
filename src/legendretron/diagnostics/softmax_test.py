r"""A score test of softmax against learned links.

If softmax is correct, the residuals :math:`r_i = e_{y_i} - p_i` of held-out rows are uncorrelated with every
function of the logits :math:`z_i`. A learned link bends the logits, :math:`z_j \mapsto z_j + \theta\, \varphi(u_j)` with
:math:`u_j = z_j - \bar z` and :math:`\varphi(u) = \sqrt{1 + u^2}`. So the scores :math:`s_{ij} = r_{ij}\, \varphi(u_{ij})` of
each class have mean zero; two classes have the scores of one, with :math:`\varphi(u) = \tanh u` as well. What another
temperature, other biases or other weights could explain is removed first: the logits are recalibrated, and each
:math:`\varphi(u_j)` is replaced by its residual after a weighted regression on a constant, :math:`u_j`, and the features if
they are given. With :math:`V` the covariance of the scores, :math:`T = n\, \bar s^T V^{-1} \bar s` has Hotelling's
distribution with :math:`J` degrees of freedom, and :math:`(T - J) / 2n` estimates what the best link of this family gains in
log-loss per row.

The mean of two estimates of :math:`V` is taken. That of the scores, :math:`\sum_i s_i s_i^T / n`, is too small in some
directions if there are many classes, and few rows of each. That of the probabilities, by
:math:`\mathrm{Cov}(r) = \mathrm{diag}(p) - p p^T`, is too small if a model is overconfident. With either of them alone,
softmax is rejected too often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import chdtrc, fdtrc, log_softmax
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.fields import check_fields, list_of, number

#: Directions whose variance is below this share of the largest are combinations of the others.
_LEAST_VARIANCE = 1e-4
#: Fewest rows for each parameter that is estimated: with fewer it could explain anything.
ROWS_PER_PARAMETER = 10
#: Most multiplications for features, which takes some seconds.
_MOST_WORK = 2e10
#: Softmax is rejected below this p-value.
_LEVEL = 0.05
_NUMBERS = ("statistic", "df", "p_value", "gain", "gain_error")


@dataclass(frozen=True)
class LinkTest:
    """What :func:`link_test` found.

    Examples
    --------
    >>> test = LinkTest(5.0, 2, 0.08, 0.01, 0.02, np.arange(2), np.array([0.08, 0.08]))
    >>> str(test)
    'softmax is not rejected (p = 0.08)'
    """

    statistic: float  #: test statistic, which has about a chi-squared distribution if softmax is correct
    df: int  #: degrees of freedom of this distribution
    p_value: float  #: probability of a statistic at least this large if softmax is correct
    gain: float  #: estimated gain in log-loss per row of a learned link; it may be negative
    gain_error: float  #: standard error of the gain
    classes: np.ndarray  #: the classes, shape (C,)
    class_p_values: np.ndarray  #: of each class against the others, not corrected for multiple testing, shape (C,)

    @property
    def is_rejected(self) -> bool:
        """Whether softmax is rejected at 5 %."""
        return self.p_value < _LEVEL

    @property
    def rejected_classes(self) -> np.ndarray:
        """Classes for which softmax is rejected at 5 %, corrected for multiple testing; none if not rejected overall."""
        if not self.is_rejected:
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
        return f"softmax {'is rejected' if self.is_rejected else 'is not rejected'} (p = {self.p_value:.2g})"


def link_test(estimator: Any, X: Any, y: Any) -> LinkTest:
    """Test whether softmax fits the scores of a classifier, or whether a learned link would be better.

    Parameters
    ----------
    estimator : fitted classifier
        Its ``predict_proba`` must be the softmax, or for two classes the logistic function, of linear scores, as for
        ``MultinomialLogisticClassifier``, scikit-learn's ``LogisticRegression``, or a pipeline that ends in one of them.
    X : array-like of shape (n, d)
        Held-out rows; on training rows, softmax is rejected too often. For a numeric array, the test allows for errors in the
        weights of the features; for other tables, only in the biases and the temperature.
    y : array-like of shape (n,)
        Their labels.

    Returns
    -------
    LinkTest
        Statistic, p-value, classes for which softmax is rejected, and the expected gain.

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
        raise ValueError(f"y must contain labels of the classes {classes.tolist()}, got {set(y[~known].tolist())}.")
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
) -> LinkTest:
    """Test softmax by the log-probabilities (n, C) of held-out rows and their labels from 0.

    ``features`` (n, d) are what the logits are linear in; they are left out if there are too few rows for them, or it would
    take long. Of weights (n,), only the ratios matter.
    """
    n, n_classes = log_proba.shape
    if n < 2:
        raise ValueError(f"a test needs at least 2 rows, got {n}.")
    share = np.ones(n) if sample_weight is None else sample_weight / sample_weight.mean()
    log_p = _recalibrate(log_proba, labels, share)
    u = log_p - log_p.mean(axis=1, keepdims=True)
    u = (u - np.median(u, axis=0)) / np.maximum(u.std(axis=0), 1e-12)
    bent, of_class = np.sqrt(1.0 + u**2), np.arange(n_classes)
    if n_classes == 2:
        bent, of_class = np.column_stack([bent[:, 0], np.tanh(u[:, 0])]), np.zeros(2, dtype=int)
    p = np.exp(log_p)[:, of_class]
    known = [np.ones(n)]
    d = 0 if features is None else features.shape[1]
    if features is not None and n >= ROWS_PER_PARAMETER * d and n * d**2 * n_classes <= _MOST_WORK:
        known += [*((features - features.mean(0)) / np.maximum(features.std(0), 1e-12)).T]
    for j in np.unique(of_class):
        columns = np.column_stack([*known, u[:, j]])
        weighted = columns * (share * p[:, j] * (1.0 - p[:, j]))[:, None]
        gram = weighted.T @ columns
        gram += max(1e-6 * np.trace(gram) / len(gram), 1e-12) * np.eye(len(gram))
        own = of_class == j
        bent[:, own] -= columns @ np.linalg.solve(gram, weighted.T @ bent[:, own])
    bent *= share[:, None]
    scores = ((labels[:, None] == of_class) - p) * bent
    expected = bent * p
    by_model = np.where(of_class[:, None] == of_class, bent.T @ expected, 0.0) - expected.T @ expected
    variance = (scores.T @ scores + by_model) / (2 * n)
    tiny = np.finfo(np.float64).tiny
    values, vectors = np.linalg.eigh(variance)
    inside = values > max(_LEAST_VARIANCE * values[-1], tiny)
    df = int(inside.sum())
    mean = scores.mean(axis=0)
    statistic = float(n * ((vectors[:, inside].T @ mean) ** 2 / values[inside]).sum())
    # Hotelling's distribution, which is chi-squared for many rows
    p_value = float(fdtrc(df, n - df, statistic * (n - df) / (df * (n - 1)))) if 0 < df < n else 1.0
    of_each = chdtrc(1, n * mean**2 / np.maximum(np.diag(variance), tiny))
    return LinkTest(
        statistic,
        df,
        p_value,
        gain=(statistic - df) / (2 * n),
        gain_error=statistic**0.5 / n,
        classes=np.arange(n_classes) if classes is None else classes,
        class_p_values=np.full(2, p_value) if n_classes == 2 else of_each,
    )


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
