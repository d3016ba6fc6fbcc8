"""Logistic regression fitted to the rows of another fit: what reports compare the model with."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from scipy.special import log_softmax
from sklearn.utils.extmath import safe_sparse_dot

from legendretron._internal.fields import array, check_fields
from legendretron.estimators.convex import fit_convex
from legendretron.estimators.fit_data import swap_classes
from legendretron.estimators.settings import MOST_ITERATIONS, training_settings
from legendretron.estimators.standardization import Standardizer
from legendretron.links import SoftmaxLink
from legendretron.training import LinearModel, Sample
from legendretron.tuning.table import Tuning


class Baseline(NamedTuple):
    """Logistic regression, as coefficients of the original features."""

    coef: np.ndarray  #: (C - 1, d)
    intercept: np.ndarray  #: (C - 1,)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of shape (n, C), in the order of the classes."""
        z = safe_sparse_dot(X, self.coef.T, dense_output=True) + self.intercept
        log_p: np.ndarray = log_softmax(np.concatenate([z, np.zeros((len(z), 1))], axis=1), axis=1)
        return swap_classes(log_p)

    def to_state(self) -> dict[str, Any]:
        """Return the arrays by name."""
        return self._asdict()

    @classmethod
    def from_state(cls, state: Any, n_classes: int, n_features: int) -> Self:
        """Rebuild from :meth:`to_state`; anything else raises a ``ValueError``."""
        dtypes = ("float32", "float64")
        shapes = {"coef": (n_classes - 1, n_features), "intercept": (n_classes - 1,)}
        check_fields("baseline", state, {name: array(*shape, dtype=dtypes) for name, shape in shapes.items()})
        return cls(*(np.asarray(state[name]) for name in shapes))


def plain_alpha(tuning: Tuning) -> float | None:
    """Return the best penalty of logistic regression that assumes all labels to be right; None if none was tried."""
    plain = [row for row in tuning.rows if row["model"] == "logistic regression" and not row["label_noise"] > 0.0]
    return min(plain, key=lambda row: float(row["log_loss"]))["alpha"] if plain else None


def fit_baseline(
    estimator: Any, sample: Sample, n_classes: int, alpha: float, units: Standardizer, dtype: Any
) -> Baseline:
    """Fit logistic regression to the sample that an estimator was trained on, whose features are in these units."""
    w = torch.zeros(1, sample.features.n_features, n_classes - 1, dtype=sample.weights.dtype, device=sample.rows.device)
    model = LinearModel(w, torch.zeros_like(w[:, 0]), [SoftmaxLink(n_classes).to(w)])
    n_rows = sample.rows.shape[1]
    settings = training_settings(estimator, (), torch.Generator(), n_rows, n_classes, (alpha, math.inf))
    fit_convex(model, sample, replace(settings, verbose=0), None, None, max_iter=MOST_ITERATIONS)
    weight, bias, _ = model.take(0)
    return Baseline(*units.fold(weight.double().cpu().numpy(), bias.double().cpu().numpy(), dtype))
