"""Multinomial logistic regression on the same engine, without a learned link."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch

from legendretron._internal.sklearn_compat import StrOptions
from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.constraints import SHARED_CONSTRAINTS
from legendretron.estimators.presets import paper_settings
from legendretron.estimators.strengths import Strengths
from legendretron.links import Link, SoftmaxLink

__all__ = ["MultinomialLogisticClassifier"]


class MultinomialLogisticClassifier(LinearLinkClassifier):
    r"""Multinomial logistic regression as a generalised linear model, :math:`\tilde p(x) = \mathrm{softmax}^+(W x + b)`.

    The baseline of :class:`~legendretron.estimators.LegendreTronClassifier`, with the same parameters apart from the
    link's, the same attributes and the same engine. With a given ``alpha`` it agrees with scikit-learn's
    ``LogisticRegression(C=1 / (alpha * n_samples))`` if ``standardize=False``; without one it takes the place of
    ``LogisticRegressionCV``.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Penalty on ``W``, added to a mean loss. ``"auto"``: chosen by cross-validated log-loss on the training data.
    penalty : {"symmetric", "reference"}, default="symmetric"
        ``"symmetric"``: the same whichever class is the reference, as if every class had a weight vector.
        ``"reference"``: on the ``n_classes - 1`` vectors as they are, the paper's.
    solver : {"auto", "lbfgs", "adam"}, default="auto"
        Newton's method or L-BFGS by the size of the data, to a gradient of 1e-6; full-batch quasi-Newton, with ``tol``;
        minibatches.
    learning_rate, schedule, decay, decay_every, max_epochs, batch_size, tol
        How minibatches and L-BFGS train, as in :class:`~legendretron.estimators.LegendreTronClassifier`.
    early_stopping, validation_fraction, n_iter_no_change, warm_start, class_weight, standardize, init, penalize_intercept
        See there.
    device, dtype, random_state, verbose, checkpoint, checkpoint_every, keep_interrupted, cv
        See there.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> MultinomialLogisticClassifier(alpha=1e-3).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED_CONSTRAINTS,
        "penalty": [StrOptions({"symmetric", "reference"})],
    }

    def __init__(
        self,
        *,
        alpha: float | str = "auto",
        penalty: str = "symmetric",
        solver: str = "auto",
        learning_rate: float | str = "auto",
        schedule: str = "cosine",
        decay: float = 0.95,
        decay_every: int = 4,
        max_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-8,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        standardize: bool = True,
        init: str = "identity",
        penalize_intercept: bool = False,
        device: str = "cpu",
        dtype: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
        checkpoint_every: int = 10,
        keep_interrupted: bool = False,
        cv: Any = None,
        label_noise: Any = None,
    ) -> None:
        self.alpha = alpha
        self.penalty = penalty
        self.solver = solver
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.decay = decay
        self.decay_every = decay_every
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.standardize = standardize
        self.init = init
        self.penalize_intercept = penalize_intercept
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.keep_interrupted = keep_interrupted
        self.cv = cv
        self.label_noise = label_noise

    @classmethod
    def from_paper(cls, group: str, **parameters: Any) -> Self:
        """Return an estimator with the settings of the paper's tables: ``"libsvm"``, ``"mnist"`` or ``"aloi"``."""
        return cls(**{**paper_settings(group, with_link=False), **parameters})

    def _make_link(self, n_classes: int, generator: torch.Generator, dtype: torch.dtype, n_rows: int) -> Link:
        return SoftmaxLink(n_classes)

    def _strengths(self) -> Strengths:
        return Strengths(None if self.alpha == "auto" else float(self.alpha))

    def _symmetric_logistic(self, tuned: bool) -> bool:
        return self.penalty == "symmetric"

    def _settings(self) -> dict[str, Any]:
        return {
            "penalize_intercept": bool(self.penalize_intercept),
            "symmetric": self.penalty == "symmetric",
            "centred": False,
        }
