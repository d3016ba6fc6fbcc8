"""The parameter ``label_noise``, and what a fit has found out about wrong labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from legendretron._internal.fields import BOOLEAN, array, check_fields, list_of, number, optional
from legendretron.links import LabelNoise, SymmetricNoise, TransitionNoise
from legendretron.links.noise_models import known_noise, replaced_share, share_of_wrong_labels, wrong_share
from legendretron.tuning.scores import SURE_ERRORS
from legendretron.tuning.table import check_matrix
from legendretron.tuning.wrong_labels import FoundNoise

#: Kinds of noise that can be learned.
LEARNED = (SymmetricNoise.kind, TransitionNoise.kind)
#: Whether to look for noise in the labels, by the parameter ``label_noise``.
_FIND_NOISE = {"auto": "if it helps", "symmetric": "always", "class-conditional": "matrix"}
#: Where a rate that is learned in training starts.
_START = 0.1


def is_learned(label_noise: Any) -> bool:
    """Whether the parameter names a kind of noise to learn."""
    return isinstance(label_noise, str) and label_noise in LEARNED


def how_to_find_noise(label_noise: Any, class_weight: Any) -> str:
    """Whether to look for wrong labels, see :class:`~legendretron.tuning.problem.TuningProblem`."""
    if not isinstance(label_noise, str):
        return "never"
    if label_noise == "auto" and class_weight is not None:
        return "never"  # class weights would make symmetric noise look class-conditional
    return _FIND_NOISE[label_noise]


def read_label_noise(label_noise: Any, n_classes: int) -> LabelNoise | None:
    """Return known noise, its classes in the order of the link; None if the parameter is None or a name."""
    if label_noise is None or isinstance(label_noise, str):  # names are checked with the other parameters
        return None
    noise = known_noise(label_noise, n_classes, dtype=torch.float64)
    return TransitionNoise(_swap_matrix(noise.matrix().numpy())) if isinstance(noise, TransitionNoise) else noise


def make_learned_noise(kind: str, n_classes: int, before: FittedNoise | None) -> LabelNoise:
    """Noise to be learned in training, starting at that of an earlier fit."""
    rate = _START if before is None else min(max(before.rates.rate, 0.01), 0.9)
    start = SymmetricNoise(n_classes, rate, learned=kind == SymmetricNoise.kind, dtype=torch.float64)
    if start.learned:
        return start
    matrix = start.matrix() if before is None or before.matrix is None else torch.as_tensor(before.matrix)
    return TransitionNoise(matrix.clamp(min=1e-6) / matrix.clamp(min=1e-6).sum(1, keepdim=True), learned=True)


def _swap_matrix(matrix: np.ndarray) -> np.ndarray:
    """From the order of ``classes_`` to that of the link, or back: for two classes, reversed."""
    return np.ascontiguousarray(matrix[::-1, ::-1]) if len(matrix) == 2 else matrix


@dataclass(frozen=True)
class FittedNoise:
    """What a fit has found out, or was told, about wrong labels."""

    n_classes: int
    rates: FoundNoise  #: of symmetric noise, or of symmetric noise with as many wrong labels; and how to train with it
    known: bool  #: whether it was given
    matrix: np.ndarray | None = None  #: of noise that is not symmetric: classes in the order of the link

    def to_state(self) -> dict[str, Any]:
        """Return all but the number of classes."""
        # a copy: a file refuses arrays that share memory, as this one may with that of the tuning
        matrix = None if self.matrix is None else self.matrix.copy()
        return {"plan": [*map(float, self.rates)], "known": self.known, "matrix": matrix}

    @classmethod
    def from_state(cls, state: dict[str, Any], n_classes: int) -> Self:
        """Rebuild from :meth:`to_state`; anything else raises a ``ValueError``."""
        fields = {"plan": list_of(number()), "known": BOOLEAN, "matrix": optional(array(n_classes, n_classes))}
        check_fields("label_noise", state, fields)
        matrix = None if state["matrix"] is None else check_matrix(state["matrix"])
        return cls(n_classes, FoundNoise.from_state(state["plan"]), state["known"], matrix)

    @classmethod
    def from_noise(cls, noise: LabelNoise, observed: np.ndarray, *, known: bool, n_rows: int = 0) -> Self:
        """From noise that was given, or learned in training on ``n_rows``; ``observed`` are shares of the labels.

        The interval of learned noise is that of a share of ``n_rows`` labels.
        """
        matrix, asymmetric = noise.matrix().detach().double().cpu().numpy(), None
        n_classes = len(matrix)
        if isinstance(noise, SymmetricNoise):
            rate = float(noise.rate().detach())
        else:
            asymmetric = matrix
            rate = replaced_share(share_of_wrong_labels(matrix, observed), n_classes)
        wrong = wrong_share(rate, n_classes)
        error = 0.0 if known else math.sqrt(wrong * (1.0 - wrong) / max(n_rows, 1))
        away = SURE_ERRORS * error
        low, high = (replaced_share(share, n_classes) for share in (wrong - away, wrong + away))
        most = replaced_share(1.0, n_classes)  # symmetric noise ends at 1, a matrix where all labels are wrong
        rates = FoundNoise(min(rate, 1.0 - 1e-9), 1.0, 0.0, rate, max(0.0, low), min(most, high))
        return cls(n_classes, rates, known, asymmetric)

    def make_noise(self) -> LabelNoise:
        """How true labels become observed ones, from the probabilities that are predicted."""
        if self.matrix is not None:
            return TransitionNoise(torch.as_tensor(self.matrix))
        return SymmetricNoise(self.n_classes, self.rates.rate, learned=False, dtype=torch.float64)

    def make_training_noise(self) -> LabelNoise | None:
        """What is assumed in training; None if there is no noise."""
        if self.matrix is not None:
            return self.make_noise()
        if self.rates.training == 0.0:
            return None
        return SymmetricNoise(self.n_classes, self.rates.training, learned=False, dtype=torch.float64)

    @property
    def rate(self) -> float:
        """Share of wrong labels."""
        return wrong_share(self.rates.rate, self.n_classes)

    @property
    def interval(self) -> tuple[float, float]:
        """Where it lies: what training and held-out rows say, with 2.5 standard errors on both sides."""
        return wrong_share(self.rates.low, self.n_classes), wrong_share(self.rates.high, self.n_classes)

    def matrix_by_classes(self) -> np.ndarray:
        """The transition matrix, in the order of ``classes_``."""
        return _swap_matrix(self.make_noise().matrix().detach().double().numpy())

    def least_matrix_by_classes(self) -> np.ndarray:
        """The same with as few wrong labels as the lower end of the interval says."""
        eye, share = np.eye(self.n_classes), self.rates.low / self.rates.rate if self.rates.rate > 0.0 else 0.0
        matrix: np.ndarray = eye + share * (self.matrix_by_classes() - eye)
        return matrix
