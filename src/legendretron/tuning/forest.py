"""Out-of-bag probabilities of a random forest, as a second opinion on labels that a model takes for wrong."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.training.features import Features

__all__ = ["Forest", "grow_forest"]

#: Trees, rows of each, and least rows of a leaf.
_TREES, _ROWS_OF_A_TREE, _LEAF = 100, 5000, 3
#: Most rows, most probabilities, and rows that are predicted in any case.
_ROWS, _PROBABILITIES, _FEWEST = 20_000, 4_000_000, 2000


class Forest(NamedTuple):
    """Out-of-bag probabilities."""

    rows: np.ndarray  #: numbers of the rows, in order
    proba: np.ndarray  #: (n, C)
    labels: np.ndarray  #: as observed, (n,)


def grow_forest(features: Features, labels: Tensor, n_classes: int, rows: np.ndarray) -> Forest:
    """Grow trees on some of the given rows, spread evenly; those that all trees have seen are left out."""
    from sklearn.ensemble import RandomForestClassifier  # takes long to import, and few fits need it

    most = max(_FEWEST, min(_ROWS, _PROBABILITIES // n_classes))
    some = rows[:: -(-len(rows) // most)]
    x, y = features.select_rows(some), labels[torch.as_tensor(some, device=labels.device)].cpu().numpy()
    forest = RandomForestClassifier(
        _TREES,
        min_samples_leaf=_LEAF,
        max_samples=min(len(y), _ROWS_OF_A_TREE),
        oob_score=True,
        random_state=0,
    )
    with warnings.catch_warnings():  # about rows that all trees have seen
        warnings.simplefilter("ignore")
        forest.fit(x, y)
    proba = np.zeros((len(y), n_classes))
    proba[:, forest.classes_] = forest.oob_decision_function_
    known = np.isfinite(proba).all(1) & (proba.sum(1) > 0.0)
    return Forest(some[known], proba[known], y[known])
