"""Calibrators of other papers, written from their formulas for the comparison in ``calibration.py`` alone.

Each takes probabilities ``(n, C)`` and labels from 0, and returns what predicts. Zeros count as half the smallest positive
probability wherever logarithms are taken, as in ``LegendreCalibrator``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import log_softmax, logit, logsumexp, softmax
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

Predict = Callable[[np.ndarray], np.ndarray]
#: Strengths that Dirichlet calibration chooses from, by three folds.
STRENGTHS = (1e-3, 0.1, 1.0, 10.0, 100.0, 1000.0)
#: Of the logistic regressions of splines.
OPTIONS: dict[str, Any] = {"Cs": 6, "l1_ratios": (0,), "cv": 3, "scoring": "neg_log_loss", "solver": "newton-cholesky"}
OPTIONS |= {"use_legacy_attributes": False}
#: Cells that Brenier isotonic regression chooses from, on a third of the rows.
CELLS = (15, 50, 150)


def _logarithm(p: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    least = 0.5 * p[p > 0].min()
    return lambda other: np.log(np.maximum(other, least))


def _fit_matrix(x: np.ndarray, y: np.ndarray, free: np.ndarray, penalty: np.ndarray | float = 0.0) -> Predict:
    """Predict ``softmax(W x + b)``, for the matrix ``(W, b)`` of the least mean log-loss and sum of penalized squares.

    Entries that are not free are 0, and the start is the identity.
    """
    inputs, one_hot = np.column_stack([x, np.ones(len(x))]), np.eye(len(free))[y]

    def objective(values: np.ndarray) -> tuple[float, np.ndarray]:
        matrix = free * values.reshape(free.shape)
        log_q = log_softmax(inputs @ matrix.T, axis=1)
        slope = (np.exp(log_q) - one_hot).T @ inputs / len(y) + 2.0 * penalty * matrix
        return float((penalty * matrix**2).sum() - (one_hot * log_q).sum() / len(y)), (free * slope).ravel()

    start = np.eye(*free.shape).ravel()
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 300}).x.reshape(free.shape)
    weight, bias = (free * found)[:, :-1], found[:, -1]
    return lambda test: softmax(test @ weight.T + bias, axis=1)


def vector_scaling(p: np.ndarray, y: np.ndarray) -> Predict:
    """A scale and a bias for each class, on logarithms, without a penalty (Guo et al., 2017)."""
    log, free = _logarithm(p), np.eye(p.shape[1], p.shape[1] + 1)
    free[:, -1] = 1.0
    predict = _fit_matrix(log(p), y, free)
    return lambda test: predict(log(test))


def dirichlet(p: np.ndarray, y: np.ndarray) -> Predict:
    """A matrix and biases on logarithms; all but the diagonal is penalized (Kull et al., 2019, ODIR).

    Means of squares, of entries off the diagonal and of biases, get the same strength, chosen by three folds.
    """
    log, n_classes = _logarithm(p), p.shape[1]
    x, shape = log(p), (n_classes, n_classes + 1)
    squares = (1.0 - np.eye(*shape)) / np.append(np.full(n_classes, n_classes * (n_classes - 1.0)), n_classes)
    losses = np.zeros(len(STRENGTHS))
    for train, held in KFold(3, shuffle=True, random_state=0).split(x):
        for place, strength in enumerate(STRENGTHS):
            predict = _fit_matrix(x[train], y[train], np.ones(shape), strength * squares)
            losses[place] += _log_loss(predict(x[held]), y[held])
    best = _fit_matrix(x, y, np.ones(shape), STRENGTHS[int(losses.argmin())] * squares)
    return lambda test: best(log(test))


def _log_loss(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-15)).sum())


def splines(p: np.ndarray, y: np.ndarray) -> Predict:
    """For each class against the rest, logistic regression on a cubic spline of its log-odds; then rows are normalized.

    Knots are quantiles, and the penalty on the coefficients is chosen by three folds (Lucena, 2018). A class with fewer than
    three rows, or without others, keeps its probability.
    """
    least = 0.5 * p[p > 0].min()

    def odds(column: np.ndarray) -> np.ndarray:
        return logit(np.clip(column, least, 1.0 - 1e-12))[:, None]

    models = {}
    for k in range(p.shape[1]):
        x, own = odds(p[:, k]), y == k
        knots = np.unique(np.quantile(x, np.linspace(0.0, 1.0, 6)))
        if min(own.sum(), (~own).sum()) >= 3 and len(knots) > 1:
            basis = SplineTransformer(knots=knots[:, None], extrapolation="linear", include_bias=False)
            chosen = LogisticRegressionCV(**OPTIONS)
            models[k] = make_pipeline(basis, chosen).fit(x, own)

    def predict(test: np.ndarray) -> np.ndarray:
        q = np.maximum(test, 1e-15)
        for k, model in models.items():
            q[:, k] = np.maximum(model.predict_proba(odds(test[:, k]))[:, 1], 1e-15)
        return q / q.sum(1, keepdims=True)

    return predict


def brenier(p: np.ndarray, y: np.ndarray) -> Predict:
    r"""Brenier isotonic regression (Bao, Eshraghi and Wang, 2026): a step function that is the gradient of a convex one.

    With one-hot labels :math:`y_i` and :math:`m` points :math:`u_j` of the simplex, each of the mass :math:`1/m`, it is

    .. math:: \min_u \sum_i \Bigl\| y_i - n \sum_j P_{ij}(u)\, u_j \Bigr\|^2

    where :math:`P(u)` is the optimal transport from the rows :math:`p_i` to the points, at the cost :math:`\|p_i - u_j\|^2`.
    A row gets the point of its Laguerre cell, :math:`\arg\min_j \|p - u_j\|^2 - v_j` with the dual potential :math:`v`.
    The authors look for the outer minimum by sequential quadratic programming, from random points whose number is given, and
    for exact transport; that takes too long here. So transport is found from its dual with a little entropy, and the outer
    minimum by turns: each point becomes the mean label of its cell, then cells are found again, and the best round counts.
    Points start at centers of clusters; their number is chosen by the log-loss of a held-out third. Results of the authors'
    program may differ.
    """
    one_hot = np.eye(p.shape[1])[y]
    train, held = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=0)
    tried = [m for m in CELLS if 2 * m <= len(train)]
    losses = [_log_loss(_fit_cells(p[train], one_hot[train], m)(p[held]), y[held]) for m in tried]
    return _fit_cells(p, one_hot, tried[int(np.argmin(losses))])


def _fit_cells(p: np.ndarray, one_hot: np.ndarray, n_cells: int) -> Predict:
    points = KMeans(n_cells, n_init=1, random_state=0).fit(p).cluster_centers_
    best, weights = (np.inf, points, np.zeros(n_cells)), np.zeros(n_cells)
    for _ in range(10):
        weights, plan = _transport(cdist(p, points, "sqeuclidean"), weights)
        loss = float(np.square(one_hot - plan @ points / plan.sum(1, keepdims=True)).sum())
        if loss < best[0] - 1e-9:
            best = loss, points, weights
        points = plan.T @ one_hot / plan.sum(0)[:, None]
    _, points, weights = best
    return lambda test: points[(cdist(test, points, "sqeuclidean") - weights).argmin(1)]


def _transport(cost: np.ndarray, start: np.ndarray, entropy: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Dual potential of the points, and the plan, from uniform rows to uniform points."""
    n, m = cost.shape

    def objective(potential: np.ndarray) -> tuple[float, np.ndarray]:
        inner = (potential - cost) / entropy
        total = logsumexp(inner, axis=1, keepdims=True)
        return entropy * total.mean() - potential.mean(), np.exp(inner - total).mean(0) - 1.0 / m

    potential = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 50}).x
    return potential - potential.mean(), softmax((potential - cost) / entropy, axis=1) / n
