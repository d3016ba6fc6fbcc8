"""One estimator on many splits of the same data, trained side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import check_array

from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.class_weights import with_class_weight
from legendretron.training import LinearModel, Sample, TrainingResult, as_features, train

__all__ = ["SplitResults", "fit_splits"]


class SplitResults:
    """Models of all splits; what :func:`fit_splits` returns.

    Attributes
    ----------
    model : LinearModel
        One run a split.
    training : TrainingResult
        History and counts.
    """

    def __init__(self, model: LinearModel, training: TrainingResult, features: Any, labels: torch.Tensor) -> None:
        self.model, self.training = model, training
        self._features, self._labels = features, labels

    def evaluate(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-loss and accuracy of each split's model on its own rows ``(R, n)`` of the data: two arrays ``(R,)``."""
        index = torch.as_tensor(rows, device=self._labels.device)
        weights = torch.ones(index.shape, dtype=self.model.flat.dtype, device=index.device)
        loss, accuracy = self.model.evaluate(self._features, index, self._labels[index], weights)
        return loss.cpu().numpy(), accuracy.cpu().numpy()


def fit_splits(
    estimator: LinearLinkClassifier,
    X: Any,
    y: np.ndarray,
    train_rows: np.ndarray,
    random_states: Sequence[int],
    train_labels: np.ndarray | None = None,
) -> SplitResults:
    """Fit an estimator on many subsets of the rows of ``X`` at once.

    Split ``r`` comes out as ``clone(estimator).set_params(random_state=random_states[r]).fit(X[rows], y[rows])`` would, at a
    fraction of the time.

    Parameters
    ----------
    estimator : LegendreTronClassifier or MultinomialLogisticClassifier
        With ``standardize=False`` and ``early_stopping=False``: both would differ from split to split.
    X : ndarray or sparse matrix of shape (N, d)
        Features of all rows.
    y : ndarray of shape (N,)
        Classes from 0 to C - 1, all of them there.
    train_rows : ndarray of shape (R, n)
        Rows to train on, of each split.
    random_states : sequence of int
        One a split.
    train_labels : ndarray of shape (R, n), optional
        Labels to train on, if not those of ``y``: for instance with noise.
    """
    estimator = clone(estimator)
    for name in ("standardize", "early_stopping", "warm_start"):
        if getattr(estimator, name):
            raise ValueError(f"estimator must have {name}=False to be fitted on splits, got {name}=True.")
    if len(random_states) != len(train_rows):
        raise ValueError(f"random_states must hold one seed a split, {len(train_rows)}, got {len(random_states)}.")
    estimator._validate_params()
    X = check_array(X, accept_sparse="csr", dtype=estimator._numpy_dtype())
    y = np.asarray(y)
    if y.shape != (X.shape[0],) or y.dtype.kind not in "iu" or not np.array_equal(np.unique(y), np.arange(y.max() + 1)):
        raise ValueError(
            f"y must hold {X.shape[0]} classes numbered from 0 without gaps; see numpy.unique(return_inverse)."
        )
    dtype = torch.float32 if X.dtype == np.float32 else torch.float64
    device = estimator._device()
    n_classes = int(y.max()) + 1
    # the estimators swap two classes, so that the predictor is that of the second
    labels = torch.as_tensor(1 - y if n_classes == 2 else y, dtype=torch.int64, device=device)
    features = as_features(X, dtype, device)
    weights, biases, links, seeds = [], [], [], []
    for state in random_states:
        single = clone(estimator).set_params(random_state=int(state))
        seeds.append(single._seed())
        generator = torch.Generator().manual_seed(seeds[-1])
        start = single._fresh(X, np.ones(X.shape[0]), n_classes, generator, dtype)
        weights.append(start.weight)
        biases.append(start.bias)
        links.append(single._make_link(n_classes, generator, dtype))
    model = LinearModel(torch.stack(weights).to(device), torch.stack(biases).to(device), links)
    rows = torch.as_tensor(train_rows, device=device)
    own = y[train_rows] if train_labels is None else np.asarray(train_labels)
    used = torch.as_tensor(1 - own if n_classes == 2 else own, dtype=torch.int64, device=device)
    weight = np.stack([with_class_weight(estimator.class_weight, of_split, np.ones(len(of_split))) for of_split in own])
    sample = Sample(features, rows, used, torch.as_tensor(weight, dtype=dtype, device=device))
    identity = () if estimator.checkpoint is None else (X, train_rows, own, weight, model.flat, seeds)
    one = estimator.set_params(random_state=0)._training_settings(
        identity, seeds[0], rows.shape[1], int(estimator.max_epochs), False
    )
    runs = len(seeds)
    settings = replace(
        one,
        seeds=seeds,
        alpha=one.alpha.expand(runs),
        link_alpha=one.link_alpha.expand(runs),
        learning_rate=one.learning_rate.expand(runs),
    )
    result = train(model, sample, settings)
    estimator._report(result)
    return SplitResults(model, result, features, labels)
