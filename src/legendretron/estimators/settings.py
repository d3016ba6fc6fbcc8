"""What the parameters of an estimator ask for, and what is trained once the rest has been chosen."""

from __future__ import annotations

import math
import os
from numbers import Integral, Real
from typing import Any, NamedTuple

import torch
from sklearn.utils import check_random_state

from legendretron._internal.sklearn_compat import Interval, StrOptions
from legendretron.estimators.label_noise import FittedNoise
from legendretron.links import LabelNoise, Link, SoftmaxLink, clean_link

#: Initial rate of Adam, which falls to 0 along half a cosine; chosen together with the number of steps.
LEARNING_RATE = 0.03
#: Values of the parameters that the linear estimators share, in scikit-learn's format.
SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
    "solver": [StrOptions({"auto", "adam", "lbfgs"})],
    "learning_rate": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "max_epochs": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "early_stopping": ["boolean", Interval(Real, 0, 1, closed="neither")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "label_noise": [
        StrOptions({"auto", "symmetric", "class-conditional"}),
        Interval(Real, 0, 1, closed="left"),
        "array-like",
        None,
    ],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "warm_start": ["boolean"],
    "standardize": ["boolean"],
    "device": [str],
    "dtype": [StrOptions({"float32", "float64"}), None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
    "checkpoint": [str, os.PathLike, None],
    "cv": ["cv_object"],
}


def batch_size_for(n_rows: int) -> int:
    """Rows in a step: 64, for large data a sixteenth of the rows up to 256."""
    return min(n_rows, max(64, min(256, n_rows // 16)))


def hidden_for(n_rows: int, n_classes: int) -> int:
    """Units per layer of a composite link's networks; of two classes, a link is a function of one number."""
    if n_classes == 2:
        return 2
    return 4 if n_rows < 300 else 8


def draw_seed(random_state: Any) -> int:
    """A seed; an integer is used unchanged, as in ``torch.manual_seed(random_state)``."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


class Strengths(NamedTuple):
    """Strengths of the penalties as given; ``None`` for one to be chosen."""

    alpha: float | None  #: on ``W``
    link_alpha: float | None = math.inf  #: on the link; infinite if there is none other than softmax
    tied: bool = False  #: whether that on the link is that on ``W``

    @property
    def has_link(self) -> bool:
        """Whether there is a link other than softmax."""
        return self.link_alpha != math.inf

    @property
    def fixed(self) -> bool:
        """Whether all strengths are given."""
        return self.alpha is not None and (self.tied or self.link_alpha is not None)

    def pair(self, alpha: float = 0.0, link_alpha: float = 0.0) -> tuple[float, float]:
        """Both strengths, with these in place of those that are not given.

        Examples
        --------
        >>> Strengths(None, 0.5).pair(0.1, 0.2), Strengths(0.3, None, tied=True).pair()
        ((0.1, 0.5), (0.3, 0.3))
        """
        on_weights = alpha if self.alpha is None else self.alpha
        if self.tied:
            return on_weights, on_weights
        return on_weights, link_alpha if self.link_alpha is None else self.link_alpha


class Protocol(NamedTuple):
    """How an estimator is trained, beyond its parameters."""

    schedule: str = (
        "cosine"  #: of the learning rate; ``"step"`` multiplies it by ``decay`` every ``decay_every`` epochs
    )
    decay: float = 0.95
    decay_every: int = 4
    #: Start as logistic regression at zero, or with the random draws of the paper's code (``"paper"``). With ``"centred"``,
    #: the penalty acts on the distance of the link from softmax, with ``"identity"`` and ``"paper"`` on its parameters.
    init: str = "centred"
    penalize_intercept: bool = False  #: whether ``alpha`` applies to the intercept too
    #: Whether the penalty of logistic regression is the same whichever class is the reference, as if every class had a
    #: weight vector; if not, it is on the ``n_classes - 1`` vectors of the model.
    symmetric: bool = True


class Plan(NamedTuple):
    """What is trained."""

    link: Link  #: its start, with the noise
    strengths: tuple[float, float]  #: on ``W`` and on the link, infinite for logistic regression
    noise: LabelNoise | None  #: in the labels, as assumed in training
    found: FittedNoise | None  #: what is known of it; None if it was given, or is learned
    precision: torch.dtype

    @property
    def is_softmax(self) -> bool:
        """Whether the link, without noise, is softmax."""
        return isinstance(clean_link(self.link), SoftmaxLink)

    @property
    def temperature(self) -> float:
        """Factor on the trained weights of logistic regression in predictions."""
        return self.found.rates.temperature if self.is_softmax and self.found is not None else 1.0
