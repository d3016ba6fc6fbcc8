r"""A score test of softmax against learned links.

If softmax is right, residuals :math:`r_i = e_{y_i} - p_i` of rows that a model has not seen are uncorrelated with every function
of its logits :math:`z_i`. A learned link bends the logits along directions :math:`a`,

.. math:: z \mapsto z + \theta\, a\, \varphi(a^T z), \qquad \varphi(u) = \sqrt{1 + u^2},

so the scores :math:`s_i = a^T r_i\, \varphi(a^T z_i)` have mean zero. There is one direction for each class, against the mean of
the others. What other weights, another bias or another temperature could explain is removed first: each
:math:`\varphi(a^T z)` is replaced by its residual after a weighted regression on a constant, :math:`a^T z`, and the features if
they are given. With :math:`V` the covariance of the scores, :math:`T = n\, \bar s^T V^{-1} \bar s` is chi-squared, and
:math:`(T - J) / 2n` estimates what the best link of this family gains in log-loss per row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import chi2

__all__ = ["LinkTest", "score_test"]

#: Directions whose variance is below this share of the largest are left out: they are combinations of the others.
_LEAST_VARIANCE = 1e-4


class LinkTest(NamedTuple):
    """Result of a score test of softmax against learned links."""

    statistic: float  #: chi-squared with ``df`` degrees of freedom if softmax is right
    df: int
    p_value: float
    gain: float  #: estimated gain in log-loss per row of a learned link; may be negative
    gain_error: float  #: its standard error
    class_p_values: np.ndarray  #: of each class against the others, not corrected for their number


def score_test(
    log_proba: np.ndarray, labels: np.ndarray, *, features: np.ndarray | None = None, robust: bool = True
) -> LinkTest:
    """Test softmax by the log-probabilities (n, C) of held-out rows and their labels from 0.

    Parameters
    ----------
    log_proba : ndarray of shape (n, C)
        Log-probabilities by softmax.
    labels : ndarray of shape (n,)
        Classes from 0.
    features : ndarray of shape (n, d), optional
        What the logits are linear in.
    robust : bool
        Whether the covariance is that of the scores, or the one that predicted probabilities imply. The second has more power,
        but is too small where a model is surer than it may be.
    """
    log_p = recalibrate(log_proba, labels)
    n, n_classes = log_p.shape
    p = np.exp(log_p)
    residual = -p
    residual[np.arange(n), labels] += 1.0
    directions = np.eye(n_classes) - 1.0 / n_classes
    if n_classes == 2:
        directions = directions[:1]
    u = log_p @ directions.T
    u = (u - np.median(u, axis=0)) / np.maximum(u.std(axis=0), 1e-12)
    bent = np.sqrt(1.0 + u**2)
    for j, a in enumerate(directions):
        weight = p @ a**2 - (p @ a) ** 2
        known = np.column_stack([np.ones(n), u[:, j], *([] if features is None else [features])])
        gram = (known * weight[:, None]).T @ known
        gram += 1e-6 * np.trace(gram) / len(gram) * np.eye(len(gram))
        bent[:, j] -= known @ np.linalg.solve(gram, (known * weight[:, None]).T @ bent[:, j])
    scores = (residual @ directions.T) * bent
    if robust:
        variance = scores.T @ scores / n
    else:
        pa = bent * (p @ directions.T)
        variance = (
            (bent.T @ ((p @ (directions**2).T) * bent)) if n_classes == 2 else _spread(p, directions, bent)
        ) - pa.T @ pa
        variance /= n
    mean = scores.mean(axis=0)
    values, vectors = np.linalg.eigh(variance)
    keep = values > _LEAST_VARIANCE * max(values[-1], np.finfo(float).tiny)
    df = int(keep.sum())
    statistic = float(n * ((vectors[:, keep].T @ mean) ** 2 / values[keep]).sum())
    each = n * mean**2 / np.maximum(np.diag(variance), np.finfo(float).tiny)
    by_class = chi2.sf(each if n_classes > 2 else each.repeat(2), 1)
    return LinkTest(
        statistic, df, float(chi2.sf(statistic, df)), (statistic - df) / (2 * n), statistic**0.5 / n, by_class
    )


def _spread(p: np.ndarray, directions: np.ndarray, bent: np.ndarray) -> np.ndarray:
    total: np.ndarray = np.einsum("nj,nl,nk,jk,lk->jl", bent, bent, p, directions, directions, optimize=True)
    return total


def recalibrate(log_proba: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Log-probabilities after the temperature and the biases that fit the labels best."""
    z = np.clip(log_proba - log_proba.mean(axis=1, keepdims=True), -1e3, 1e3)
    n, n_classes = z.shape
    rows = np.arange(n)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        log_p = log_softmax(parameters[0] * z + np.append(parameters[1:], 0.0), axis=1)
        away = np.exp(log_p)
        away[rows, labels] -= 1.0
        return -log_p[rows, labels].mean(), np.append((away * z).sum() / n, away[:, :-1].mean(axis=0))

    best: Any = minimize(loss, np.append(1.0, np.zeros(n_classes - 1)), jac=True, method="L-BFGS-B")
    calibrated: np.ndarray = log_softmax(best.x[0] * z + np.append(best.x[1:], 0.0), axis=1)
    return calibrated
