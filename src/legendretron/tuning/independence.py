r"""Whether what looks like wrong labels is noise, or a model that does not fit.

Noise strikes single rows; a model that does not fit is wrong in whole regions. So the nearest neighbours of suspicious rows
are compared with the model. With random noise they share the suspicious label no more often than predicted:

.. math:: \frac{1}{m} \sum_i \frac{1}{k} \sum_{j \in N(i)} \left( [y_j = y_i] - q_j(y_i) \right)

is near 0 for noise, and near 1 where the model is wrong. Neighbours say nothing among many useless features, so the
out-of-bag probabilities of a random forest are compared in the same way.

Random noise also strikes everywhere alike. So the share of labels that a forest gets wrong where it is surest is an upper
bound of the share of wrong labels.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from scipy.stats import binomtest, norm
from torch import Tensor

from legendretron.training.features import Features
from legendretron.tuning.forest import Forest
from legendretron.tuning.noise_rates import RateEstimate
from legendretron.tuning.problem import TuningProblem

__all__ = ["agreement_of_forest", "agreement_of_neighbours", "check_with_other_rows", "is_believable", "most_wrong"]

_NEIGHBOURS = 5
#: Most suspicious rows, and most rows among which their neighbours are searched.
_QUERIES, _OTHERS = 500, 20_000
#: Fewest suspicious rows that are compared.
_LEAST = 5
#: Highest agreement of noise: it was below 0.07 on noisy data, and above 0.12 where the model does not fit.
_MOST = 0.1
#: Shares of the rows, the surest first, whose labels are compared with predictions; fewest rows; confidence level of the
#: bound (2.5 standard errors).
_SUREST, _FEWEST, _CHANCE = (0.02, 0.05, 0.1, 0.2, 0.4), 20, float(2 * norm.cdf(2.5) - 1)
#: Factor by which an estimate may exceed the bound: a model that nearly fits finds somewhat too many wrong labels.
_SLACK = 1.3
#: Highest rate that can be told from labels without information.
_HIGHEST = 0.85


def check_with_other_rows(
    estimate: RateEstimate, problem: TuningProblem, rows: np.ndarray, log_q: Tensor, labels: Tensor
) -> RateEstimate:
    """Add to an estimate how far neighbours and a forest agree with suspicious labels, and the bound of the rate.

    Parameters
    ----------
    estimate : RateEstimate
        Of symmetric noise, which is part of ``log_q``.
    problem : TuningProblem
        All rows.
    rows, log_q, labels
        See :func:`agreement_of_neighbours`.
    """
    rate = estimate.held_out
    agreement = agreement_of_neighbours(problem.features, rows, log_q, labels, rate)
    if agreement >= _MOST:  # a forest takes long
        return estimate._replace(agreement=agreement)
    agreement = max(agreement, agreement_of_forest(problem.forest, rows, log_q, labels, rate))
    most = most_wrong(problem.forest) * problem.n_classes / (problem.n_classes - 1)
    return estimate._replace(agreement=agreement, most=min(1.0, most))


def is_believable(estimate: RateEstimate) -> bool:
    """Whether an estimate that was checked is about noise, and not about a model that does not fit."""
    rate = 0.5 * (estimate.held_out + estimate.lowest)
    return estimate.agreement < _MOST and rate <= min(_SLACK * estimate.most, _HIGHEST)


def most_wrong(forest: Forest) -> float:
    """Upper bound of the share of wrong labels, if these are wrong at random.

    It is the least upper limit, by Wilson's score interval, of the share of labels that are not the predicted ones, among the
    rows that the forest is surest of.
    """
    surest = np.argsort(-forest.proba.max(1), kind="stable")
    wrong = (forest.proba.argmax(1) != forest.labels)[surest]
    bound = 1.0
    for share in _SUREST:
        m = max(_FEWEST, int(share * len(wrong)))
        if m <= len(wrong):
            interval = binomtest(int(wrong[:m].sum()), m).proportion_ci(_CHANCE, "wilson")
            bound = min(bound, float(interval.high))
    return bound


def agreement_of_forest(forest: Forest, rows: np.ndarray, log_q: Tensor, labels: Tensor, rate: float) -> float:
    """Excess of a forest's probability of suspicious labels over the model's, less the same for other labels.

    Parameters
    ----------
    forest : Forest
        Of all rows, or of some.
    rows, log_q, labels, rate
        See :func:`agreement_of_neighbours`.
    """
    n_classes = log_q.shape[1]
    unique, first = np.unique(rows, return_index=True)
    _, here, known = np.intersect1d(unique, forest.rows, assume_unique=True, return_indices=True)
    index = torch.as_tensor(first[here], device=log_q.device)
    q, label = torch.exp(log_q[index]).cpu().numpy(), labels[index].cpu().numpy()
    each = np.arange(len(label))
    suspicious = (rate / n_classes) / q[each, label] > 0.5
    if suspicious.sum() < _LEAST or suspicious.all():
        return 0.0
    away = forest.proba[known] - q
    of_labels = away[each, label]
    others = (away.sum(1) - of_labels)[~suspicious] / (n_classes - 1)
    return float(of_labels[suspicious].mean() - others.mean())


def agreement_of_neighbours(features: Features, rows: np.ndarray, log_q: Tensor, labels: Tensor, rate: float) -> float:
    """How much more often than predicted the nearest rows have the label of a suspicious row.

    Parameters
    ----------
    features : Features
        All rows, in units that make distances meaningful.
    rows : ndarray of shape (n,)
        Those that are predicted, each by a model that has not seen it.
    log_q : Tensor of shape (n, C)
        Log-probabilities of the observed labels.
    labels : Tensor of shape (n,)
        Observed labels.
    rate : float
        Of symmetric noise, which is part of ``log_q``.
    """
    _, first = np.unique(rows, return_index=True)  # a row is not its own neighbour
    some = np.sort(first)[:: -(-len(first) // _OTHERS)]
    index = torch.as_tensor(some, device=log_q.device)
    q, label = torch.exp(log_q[index]).cpu().numpy(), labels[index].cpu().numpy()
    n, n_classes = q.shape
    replaced = (rate / n_classes) / q[np.arange(n), label]
    suspicious = np.flatnonzero(replaced > 0.5)
    if len(suspicious) < _LEAST or n <= _NEIGHBOURS:
        return 0.0
    suspicious = suspicious[:: -(-len(suspicious) // _QUERIES)]
    near = _nearest(features, rows[some], suspicious)
    same = label[near] == label[suspicious][:, None]
    return float((same - q[near, label[suspicious][:, None]]).mean())


def _nearest(features: Features, rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Positions in ``rows`` of the nearest other rows, for each position in ``queries``: (m, k)."""
    x = features.select_rows(rows)
    if scipy.sparse.issparse(x):
        squares = np.asarray(x.multiply(x).sum(axis=1)).ravel()
        products = np.asarray((x[queries] @ x.T).todense())
        distances = torch.as_tensor(squares[queries][:, None] + squares[None, :] - 2.0 * products)
    else:
        others = torch.as_tensor(x)
        distances = torch.cdist(others[torch.as_tensor(queries)], others)
    distances[torch.arange(len(queries)), torch.as_tensor(queries)] = torch.inf
    return distances.topk(_NEIGHBOURS, dim=1, largest=False).indices.numpy()
