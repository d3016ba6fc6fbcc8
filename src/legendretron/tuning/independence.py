r"""Whether what looks like wrong labels is noise, or a model that does not fit.

Noise strikes rows one by one, whereas a model that does not fit is wrong in whole regions. So of rows whose label seems to be
wrong, the nearest other rows are looked at. If labels are wrong at random, then these have the label of the row no more often
than the model says. If the model is wrong there, they have it too:

.. math:: \frac{1}{m} \sum_i \frac{1}{k} \sum_{j \in N(i)} \left( [y_j = y_i] - q_j(y_i) \right)

over the ``m`` suspicious rows is near 0 for noise, and near 1 for a region that the model takes for noise.

Among many features that say nothing, the nearest rows say nothing either. So a random forest is asked as well, which finds
the features that matter: how much more probable than by the model is the label of a suspicious row to trees that have not
seen it? Forests are more timid than models in general, so the same for other classes of other rows is subtracted.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse
import torch
from sklearn.ensemble import RandomForestClassifier
from torch import Tensor

from legendretron.training.features import DenseFeatures, Features, SparseFeatures

__all__ = ["agreement", "agreement_of_forest", "agreement_of_neighbours", "is_independent"]

_NEIGHBOURS = 5
#: Suspicious rows that are looked at, and rows among which their neighbours are, at most.
_QUERIES, _OTHERS = 500, 20_000
#: Trees of the forest, rows of each, least rows of a leaf, and probabilities in all.
_TREES, _ROWS_OF_A_TREE, _LEAF, _PROBABILITIES = 100, 5000, 3, 4_000_000
#: Fewer suspicious rows than this say nothing.
_LEAST = 5
#: Agreement up to which it is noise: on data with noise it was below 0.07, on data that are not fitted above 0.12.
_MOST = 0.1


def is_independent(agreement: float) -> bool:
    """Whether other rows agree so little with suspicious rows that these are noise."""
    return agreement < _MOST


def agreement(
    features: Features, all_labels: Tensor, rows: np.ndarray, log_q: Tensor, labels: Tensor, rate: float
) -> float:
    """The larger one of the agreement of neighbours and that of a forest; of sparse rows, the first.

    Parameters
    ----------
    features, all_labels
        All rows, and their labels.
    rows, log_q, labels, rate
        See :func:`agreement_of_neighbours`.
    """
    of_neighbours = agreement_of_neighbours(features, rows, log_q, labels, rate)
    if not is_independent(of_neighbours) or not isinstance(features, DenseFeatures):
        return of_neighbours
    return max(of_neighbours, agreement_of_forest(features, all_labels, rows, log_q, labels, rate))


def agreement_of_forest(
    features: DenseFeatures, all_labels: Tensor, rows: np.ndarray, log_q: Tensor, labels: Tensor, rate: float
) -> float:
    """How much more probable to a forest than to the model are the labels of suspicious rows, than other labels are."""
    n_classes = log_q.shape[1]
    most = max(2000, min(_OTHERS, _PROBABILITIES // n_classes))
    _, first = np.unique(rows, return_index=True)
    some = np.sort(first)[:: -(-len(first) // most)]
    index = torch.as_tensor(some, device=log_q.device)
    q, own = torch.exp(log_q[index]).cpu().numpy(), labels[index].cpu().numpy()
    suspicious = (rate / n_classes) / q[np.arange(len(own)), own] > 0.5
    if suspicious.sum() < _LEAST or suspicious.all():
        return 0.0
    # the more rows the better, be they predicted or not
    seen = np.union1d(rows[some], np.arange(features.n_rows)[:: -(-features.n_rows // most)])
    where = torch.as_tensor(seen, device=features.x.device)
    x = features.x[where].float().cpu().numpy()
    forest = RandomForestClassifier(
        _TREES,
        min_samples_leaf=_LEAF,
        max_samples=min(len(x), _ROWS_OF_A_TREE),
        oob_score=True,
        random_state=0,
    )
    with warnings.catch_warnings():  # of a few rows that are in all trees
        warnings.simplefilter("ignore")
        forest.fit(x, all_labels[where].cpu().numpy())
    away = np.zeros_like(q)
    away[:, forest.classes_] = forest.oob_decision_function_[np.searchsorted(seen, rows[some])]
    away -= q
    of_labels = away[np.arange(len(own)), own]
    others = (np.nansum(away, axis=1) - of_labels)[~suspicious] / (n_classes - 1)
    return float(np.nanmean(of_labels[suspicious]) - np.nanmean(others))


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
    q, own = torch.exp(log_q[index]).cpu().numpy(), labels[index].cpu().numpy()
    n, n_classes = q.shape
    replaced = (rate / n_classes) / q[np.arange(n), own]
    suspicious = np.flatnonzero(replaced > 0.5)
    if len(suspicious) < _LEAST or n <= _NEIGHBOURS:
        return 0.0
    suspicious = suspicious[:: -(-len(suspicious) // _QUERIES)]
    near = _nearest(features, rows[some], suspicious)
    same = own[near] == own[suspicious][:, None]
    return float((same - q[near, own[suspicious][:, None]]).mean())


def _nearest(features: Features, rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Positions in ``rows`` of the nearest other rows, for each position in ``queries``: (m, k)."""
    if isinstance(features, DenseFeatures):
        x = features.x[torch.as_tensor(rows, device=features.x.device)].float()
        distances = torch.cdist(x[torch.as_tensor(queries, device=x.device)], x).cpu()
    else:
        assert isinstance(features, SparseFeatures)
        parts = (features.values, features.columns, features.starts)
        shape = (features.n_rows, features.n_features)
        csr = scipy.sparse.csr_array(tuple(part.cpu().numpy() for part in parts), shape=shape)[rows]
        squares = np.asarray(csr.multiply(csr).sum(axis=1)).ravel()
        products = np.asarray((csr[queries] @ csr.T).todense())
        distances = torch.as_tensor(squares[queries][:, None] + squares[None, :] - 2.0 * products)
    distances[torch.arange(len(queries)), torch.as_tensor(queries)] = torch.inf
    return distances.topk(_NEIGHBOURS, dim=1, largest=False).indices.numpy()
