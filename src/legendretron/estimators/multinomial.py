"""Multinomial logistic regression on the same engine, without a learned link."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from legendretron.estimators.base import LinearLinkClassifier
from legendretron.estimators.legendretron import LegendreTronClassifier
from legendretron.estimators.settings import SHARED_CONSTRAINTS, Strengths
from legendretron.links import Link, SoftmaxLink


class MultinomialLogisticClassifier(LinearLinkClassifier):
    r"""Multinomial logistic regression as a generalized linear model, :math:`\tilde p(x) = \mathrm{softmax}^+(W x + b)`.

    The baseline of :class:`~legendretron.estimators.LegendreTronClassifier`: it has the same attributes and, apart from
    those of the link, the same parameters. With a given ``alpha`` and ``standardize=False`` it agrees with scikit-learn's
    ``LogisticRegression(C=1 / (alpha * n_samples))``; with ``alpha="auto"`` it replaces ``LogisticRegressionCV``.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Strength of the penalty on ``W``. ``"auto"``: chosen by cross-validated log-loss on the training data.
    solver : {"auto", "lbfgs", "adam"}, default="auto"
        ``"auto"``: Newton's method or L-BFGS, depending on the size of the data, to a gradient of 1e-6. ``"lbfgs"``: to a
        gradient of ``tol``. ``"adam"``: minibatches.
    learning_rate, max_epochs, batch_size, early_stopping, tol, class_weight, warm_start, standardize
        See :class:`~legendretron.estimators.LegendreTronClassifier`.
    device, dtype, random_state, verbose, checkpoint, cv
        See :class:`~legendretron.estimators.LegendreTronClassifier`.
    label_noise : {"auto", "symmetric", "class-conditional"}, float, array-like or None, default=None
        As in :class:`~legendretron.estimators.LegendreTronClassifier`. ``None`` is logistic regression without a noise floor.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> MultinomialLogisticClassifier(alpha=1e-3).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = SHARED_CONSTRAINTS

    @classmethod
    def from_paper(cls, group: str, **parameters: Any) -> LegendreTronClassifier:
        """Return logistic regression with the settings of the paper's tables: ``"libsvm"``, ``"mnist"`` or ``"aloi"``."""
        return LegendreTronClassifier.from_paper(group, link="softmax", **parameters)

    def _make_link(self, n_classes: int, generator: torch.Generator, dtype: torch.dtype, n_rows: int) -> Link:
        return SoftmaxLink(n_classes)

    def _strengths(self) -> Strengths:
        return Strengths(None if self.alpha == "auto" else float(self.alpha))
