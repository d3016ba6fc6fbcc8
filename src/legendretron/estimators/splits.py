"""One estimator on many splits of the same data, trained side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import check_array

from legendretron._internal.sklearn_compat import validate_parameters
from legendretron._internal.validation import check_device
from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.fit_data import apply_class_weight, swap_labels
from legendretron.estimators.linear_fit import make_start, warn_unless_converged
from legendretron.estimators.settings import MOST_ITERATIONS, training_settings, uses_convex_solver
from legendretron.estimators.standardization import Standardizer
from legendretron.links import SoftmaxLink
from legendretron.training import LinearModel, Sample, TrainingResult, as_features, train


class SplitResults:
    """Models of all splits, as returned by :func:`fit_splits`.

    Attributes
    ----------
    model : LinearModel
        One run per split.
    training : TrainingResult
        History and counts.
    """

    def __init__(self, model: LinearModel, training: TrainingResult, features: Any, labels: torch.Tensor) -> None:
        self.model, self.training = model, training
        self._features, self._labels = features, labels
        self._n_classes = model.n_outputs + 1

    def evaluate(self, rows: np.ndarray, labels: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Log-loss and accuracy ``(R,)`` of each split's model on its rows ``(R, n)``; with labels, if not those of ``y``."""
        index = torch.as_tensor(rows, device=self._labels.device)
        known = self._labels[index] if labels is None else _as_labels(labels, self._n_classes, index.device)
        weights = torch.ones(index.shape, dtype=self.model.flat.dtype, device=index.device)
        loss, accuracy = self.model.evaluate(Sample(self._features, index, known, weights))
        return loss.cpu().numpy(), accuracy.cpu().numpy()


def fit_splits(
    estimator: LinearLinkClassifier,
    X: Any,
    y: np.ndarray,
    train_rows: np.ndarray,
    random_states: Sequence[int],
    train_labels: np.ndarray | None = None,
    alphas: Sequence[float] | None = None,
) -> SplitResults:
    """Fit an estimator on many subsets of the rows of ``X`` at once.

    For split ``r``, the result is ``clone(estimator).set_params(random_state=random_states[r]).fit(X[rows], y[rows])``. All
    splits are trained together, in a fraction of the time.

    Parameters
    ----------
    estimator : LegendreTronClassifier or MultinomialLogisticClassifier
        It must have ``standardize=False``, ``early_stopping=False``, ``label_noise=None`` and fixed penalties. Fit other
        estimators one by one in a loop.
    X : ndarray or sparse matrix of shape (N, d)
        Features of all rows.
    y : ndarray of shape (N,)
        Classes from 0 to C - 1; each must occur.
    train_rows : ndarray of shape (R, n)
        Training rows of each split.
    random_states : sequence of int
        One per split.
    train_labels : ndarray of shape (R, n), optional
        Training labels if they differ from those of ``y``, for instance by added noise.
    alphas : sequence of float, optional
        Penalty of each split, in place of the estimator's ``alpha``, for example to search a grid in one call.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from legendretron import MultinomialLogisticClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> rows = np.stack([np.random.default_rng(seed).permutation(150) for seed in range(3)])
    >>> model = MultinomialLogisticClassifier(alpha=1e-2, solver="lbfgs", standardize=False)
    >>> results = fit_splits(model, X, y, rows[:, :100], random_states=range(3))
    >>> log_loss, accuracy = results.evaluate(rows[:, 100:])
    >>> accuracy.shape, bool((accuracy > 0.8).all())
    ((3,), True)
    """
    estimator = clone(estimator)
    if estimator.warm_start:
        raise ValueError("estimator must have warm_start=False to be fitted on splits, got warm_start=True.")
    if len(random_states) != len(train_rows):
        raise ValueError(f"random_states must contain one seed per split, {len(train_rows)}, got {len(random_states)}.")
    if alphas is not None and len(alphas) != len(train_rows):
        raise ValueError(f"alphas must contain one strength per split, {len(train_rows)}, got {len(alphas)}.")
    if alphas is not None and not all(np.isfinite(alpha) and alpha >= 0.0 for alpha in alphas):
        raise ValueError(f"alphas must be finite and not negative, got {list(alphas)}.")
    validate_parameters(estimator)
    X = check_array(X, **estimator._options())
    y = np.asarray(y)
    if y.shape != (X.shape[0],) or y.dtype.kind not in "iu" or not np.array_equal(np.unique(y), np.arange(y.max() + 1)):
        raise ValueError(
            f"y must contain {X.shape[0]} classes numbered from 0 without gaps; see numpy.unique(return_inverse)."
        )
    if alphas is not None and estimator.alpha == "auto":
        estimator.set_params(alpha=float(alphas[0]))
    strengths = estimator._strengths()
    given = estimator.label_noise
    noise = given is not None and not (isinstance(given, str) and given == "auto")
    if estimator.standardize or estimator.early_stopping or noise or not strengths.fixed:
        raise ValueError(
            "estimator must have standardize=False, early_stopping=False, label_noise=None and numbers for alpha and "
            f"link_alpha for splits to be trained side by side, got {estimator!r}; fit others one by one."
        )
    dtype = torch.float32 if X.dtype == np.float32 else torch.float64
    device = check_device(estimator.device)
    n_classes = int(y.max()) + 1
    labels = _as_labels(y, n_classes, device)
    features = as_features(X, dtype, device)
    units = Standardizer.fit(X, np.ones(X.shape[0]), standardize=False)
    seeds = [int(state) for state in random_states]
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    starts, links = [], []
    for generator in generators:
        starts.append(make_start(estimator, units, n_classes, generator, dtype))
        links.append(estimator._make_link(n_classes, generator, dtype, len(train_rows[0])))
    weights, biases = (torch.stack([getattr(s, part) for s in starts]).to(device) for part in ("weight", "bias"))
    model = LinearModel(weights, biases, links)
    rows = torch.as_tensor(train_rows, device=device)
    observed = y[train_rows] if train_labels is None else np.asarray(train_labels)
    weight = np.stack([apply_class_weight(estimator.class_weight, split, np.ones(len(split))) for split in observed])
    on_device = torch.as_tensor(weight, dtype=dtype, device=device)
    sample = Sample(features, rows, _as_labels(observed, n_classes, device), on_device)
    identity = (X, train_rows, observed, weight, model.flat, seeds, alphas)
    estimator.set_params(random_state=0)
    one = training_settings(estimator, identity, generators[0], rows.shape[1], n_classes, strengths.pair())
    if isinstance(links[0], SoftmaxLink) and uses_convex_solver(estimator):
        # labels differ between splits, so another solver goes to the same minimum
        iterations = MOST_ITERATIONS if estimator.max_epochs == "auto" else int(estimator.max_epochs)
        one = replace(one, solver="lbfgs", max_epochs=iterations)
    runs = len(seeds)
    alpha = one.alpha.expand(runs) if alphas is None else torch.tensor([*map(float, alphas)]).to(one.alpha)
    settings = replace(
        one,
        generators=generators,
        alpha=alpha,
        link_alpha=alpha if strengths.tied else one.link_alpha.expand(runs),
        learning_rate=one.learning_rate.expand(runs),
    )
    result = train(model, sample, settings)
    warn_unless_converged(estimator, result)
    return SplitResults(model, result, features, labels)


def _as_labels(y: np.ndarray, n_classes: int, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(swap_labels(y, n_classes), dtype=torch.int64, device=device)
