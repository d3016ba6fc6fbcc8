r"""Whether what looks like wrong labels is noise, or a model that does not fit.

Noise strikes rows one by one, whereas a model that does not fit is wrong in whole regions. So of rows whose label seems to be
wrong, the nearest other rows are looked at. If labels are wrong at random, then these have the label of the row no more often
than the model says. If the model is wrong there, they have it too:

.. math:: \frac{1}{m} \sum_i \frac{1}{k} \sum_{j \in N(i)} \left( [y_j = y_i] - q_j(y_i) \right)

over the ``m`` suspicious rows is near 0 for noise, and near 1 for a region that the model takes for noise.

Among many features that say nothing, the nearest rows say nothing either. So a random forest is asked as well, which finds
the features that matter: how much more probable than by the model is the label of a suspicious row to trees that have not
seen it? Forests are more timid than models in general, so the same for other classes of other rows is subtracted.

Noise also strikes **everywhere**. If a fifth of the labels is wrong at random, then a fifth is wrong in any group of rows, be
they ever so clear. So where a forest is surest, the share of labels that it does not predict bounds the share of wrong ones.
Labels that just cannot be told from the features, on the other hand, are where classes meet.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from legendretron.training.features import Features
from legendretron.tuning.forest import Forest
from legendretron.tuning.noise_rates import RateEstimate
from legendretron.tuning.problem import TuningProblem

__all__ = ["agreement_of_forest", "agreement_of_neighbours", "check_with_other_rows", "is_believable", "most_wrong"]

_NEIGHBOURS = 5
#: Suspicious rows that are looked at, and rows among which their neighbours are, at most.
_QUERIES, _OTHERS = 500, 20_000
#: Fewer suspicious rows than this say nothing.
_LEAST = 5
#: Agreement up to which it is noise: on data with noise it was below 0.07, on data that are not fitted above 0.12.
_MOST = 0.1
#: Shares of the rows, the surest ones, in which labels are compared with predictions; the fewest rows; and standard errors up
#: to which fewer wrong labels than supposed are chance.
_SUREST, _FEWEST, _CHANCE = (0.02, 0.05, 0.1, 0.2, 0.4), 20, 2.5
#: A model that does not quite fit finds somewhat too many wrong labels. What finds more than this many times the bound is not
#: about wrong labels.
_SLACK = 1.3
#: A rate above this is hardly told from labels that say nothing.
_HIGHEST = 0.85


def check_with_other_rows(
    estimate: RateEstimate, problem: TuningProblem, rows: np.ndarray, log_q: Tensor, labels: Tensor
) -> RateEstimate:
    """Add to an estimate what other rows, and a forest, say.

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
    agreement = max(
        agreement_of_neighbours(problem.features, rows, log_q, labels, rate),
        agreement_of_forest(problem.forest, rows, log_q, labels, rate),
    )
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
            d, z = float(wrong[:m].mean()), _CHANCE
            middle, width = d + z**2 / (2 * m), z * math.sqrt(d * (1.0 - d) / m + z**2 / (4 * m**2))
            bound = min(bound, (middle + width) / (1.0 + z**2 / m))
    return bound


def agreement_of_forest(forest: Forest, rows: np.ndarray, log_q: Tensor, labels: Tensor, rate: float) -> float:
    """How much more probable to a forest than to the model are the labels of suspicious rows, than other labels are.

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
