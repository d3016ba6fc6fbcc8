"""Out-of-bag probabilities of randomised trees, as a second opinion on labels that a model takes for wrong."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.training.features import Features

__all__ = ["Trees", "grow_trees"]

#: Trees, rows of each, and fewest rows of a leaf: enough for out-of-bag probabilities, in a fraction of a second.
_TREES, _TREE_ROWS, _LEAF = 50, 5000, 3
#: Probabilities that trees may fill memory with, and rows that they predict in any case.
_MOST_PROBABILITIES, _FEWEST_ROWS = 4_000_000, 2000
#: Most rows that are predicted.
_MOST_ROWS = 20_000


class Trees(NamedTuple):
    """Out-of-bag probabilities of randomised trees."""

    rows: np.ndarray  #: numbers of the rows, in order
    proba: np.ndarray  #: (n, C)
    labels: np.ndarray  #: as observed, (n,)


def grow_trees(features: Features, labels: Tensor, n_classes: int, rows: np.ndarray) -> Trees:
    """Grow trees on some of the given rows, spread evenly; those that all trees have seen are left out."""
    from sklearn.ensemble import ExtraTreesClassifier  # takes long to import, and few fits need it

    most = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_PROBABILITIES // n_classes))
    some = rows[:: -(-len(rows) // most)]
    x, y = features.select_rows(some), labels[torch.as_tensor(some, device=labels.device)].cpu().numpy()
    trees = ExtraTreesClassifier(
        _TREES,
        min_samples_leaf=_LEAF,
        bootstrap=True,
        max_samples=min(len(y), _TREE_ROWS),
        oob_score=True,
        random_state=0,
    )
    with warnings.catch_warnings():  # about rows that all trees have seen
        warnings.simplefilter("ignore")
        trees.fit(x, y)
    proba = np.zeros((len(y), n_classes))
    proba[:, trees.classes_] = trees.oob_decision_function_
    known = np.isfinite(proba).all(1) & (proba.sum(1) > 0.0)
    return Trees(some[known], proba[known], y[known])
