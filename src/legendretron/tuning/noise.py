r"""Noise in the labels: how it is estimated from predictions, and what a fit keeps of it.

If a share :math:`\epsilon` of the labels is replaced at random, an observed label has the probability
:math:`q_y = (1 - \epsilon)\, p_y + \epsilon / C`: a **floor** under the probabilities. Labels alone do not tell whether it
comes from wrong labels or from chance. So it is a link like any other, chosen by the held-out log-loss of the labels as they
are recorded.

**How many labels are wrong**, if that is where the floor comes from: the rate that fits held-out rows best is too large,
since confident mistakes look like noise; that of training rows is too small, since the model has learned some of the wrong
labels. Their mean is the estimate. A **temperature**, :math:`p \propto p^\tau`, is fitted with the rate, so that under- or
overconfidence does not count as noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from legendretron._internal.fields import BOOLEAN, array, check_fields, number, optional
from legendretron.calibration.prediction_sets import some_rows
from legendretron.links import LabelNoise, SymmetricNoise, TransitionNoise
from legendretron.links.noise_models import mix_with_uniform, replaced_share, share_of_wrong_labels, wrong_share
from legendretron.tuning.problem import LabeledRows
from legendretron.tuning.scores import SURE_ERRORS

#: Powers of the probabilities to choose from: steps of a fifth, from a third to six times as sure.
TEMPERATURES = tuple(float(1.2**power) for power in range(-6, 11))
#: Rate at which searches end: nearly all labels are replaced.
HIGHEST = 0.9


class RateEstimate(NamedTuple):
    """Temperature and rates that fit the labels best."""

    temperature: float  #: power of the probabilities
    held_out: float  #: rate of held-out rows
    training: float  #: rate of rows that the model was trained on
    error: float  #: standard error of either
    gain: float = 0.0  #: of a floor over a temperature alone: mean log-loss of held-out rows
    gain_error: float = 0.0  #: its standard error

    @property
    def rate(self) -> float:
        """The mean of the two rates."""
        return 0.5 * (self.held_out + min(self.training, self.held_out))

    @property
    def interval(self) -> tuple[float, float]:
        """From the rate on training rows to that on held-out rows, and two and a half standard errors on both sides."""
        low, high = sorted((self.training, self.held_out))
        return max(0.0, low - SURE_ERRORS * self.error), min(1.0, high + SURE_ERRORS * self.error)

    @property
    def doubt(self) -> float:
        r"""Floor of true probabilities, since labels that count as noise may be right.

        It explains as many labels as held-out rows ask for, and the uncertainty of the rate:

        .. math:: 1 - u = (1 - \epsilon) (1 - \delta), \qquad
            (u - \epsilon)^2 = (\epsilon_{held} - \epsilon)^2 + (2.5\, s)^2

        with the standard error ``s``: the two are independent.
        """
        if self.rate == 0.0:
            return 0.0
        away = math.hypot(max(self.held_out, self.training) - self.rate, SURE_ERRORS * self.error)
        return min(HIGHEST, away / (1.0 - self.rate))

    def observe(self, rows: LabeledRows) -> LabeledRows:
        """Rows with log-probabilities of observed labels, by the temperature and the rate that fit held-out rows best."""
        true = rows.to_power(self.temperature).log_p
        return rows._replace(log_p=mix_with_uniform(true, true.new_tensor(self.held_out)))


def estimate_rates(
    held_out: LabeledRows, training: LabeledRows, temperatures: tuple[float, ...] = TEMPERATURES
) -> tuple[RateEstimate, LabeledRows]:
    """Fit temperature and rate to held-out rows, and the rate to training rows.

    Returns the estimate, and held-out rows with log-probabilities of observed labels.
    """
    part = held_out.select(some_rows(*held_out.log_p.shape))
    tried, by_chance = [], 1.0 / held_out.log_p.shape[1]
    for power in temperatures:
        p_label, rate = _fit_rate(part.to_power(power))
        without, losses = (-torch.log(p) for p in (p_label, p_label + rate * (by_chance - p_label)))
        tried.append((float(losses @ part.weight), power, losses, float(without @ part.weight), without))
    _, power, losses, *_ = min(tried, key=lambda one: one[0])
    plain = min(tried, key=lambda one: one[3])[4]
    share = part.weight / part.weight.sum()
    gain = float(share @ (plain - losses))
    p_label, rate = _fit_rate(held_out.to_power(power))
    of_row = held_out.weight / held_out.weight.sum()
    slope = (p_label - by_chance) / (p_label + rate * (by_chance - p_label))
    information = float(of_row @ slope.square()) / float(of_row @ of_row)
    estimate = RateEstimate(
        power,
        rate,
        training=_fit_rate(training.to_power(power))[1],
        error=float(1.0 / np.sqrt(max(information, 1e-12))),
        gain=gain,
        gain_error=math.sqrt(float(share.square() @ (plain - losses - gain).square())),
    )
    return estimate, estimate.observe(held_out)


def _fit_rate(rows: LabeledRows) -> tuple[Tensor, float]:
    """Probability of the labels before noise, and the rate of noise with the least log-loss."""
    p_label = torch.exp(rows.label_log_p)
    # in NumPy and on the CPU, where operations on few numbers cost less
    return p_label, best_share(p_label.cpu().numpy(), 1.0 / rows.log_p.shape[1], rows.weight.cpu().numpy())


def best_share(p_label: np.ndarray, other: np.ndarray | float, weight: np.ndarray) -> float:
    r"""The share :math:`s` for which the mixture :math:`(1 - s)\, own + s\, other` of probabilities has the least log-loss.

    The loss is convex in it: it is least where its derivative changes sign.
    """
    gain = weight * (p_label - other)

    def slope(share: float) -> float:
        return float((gain / (p_label + share * (other - p_label))).sum())

    low = 1e-6  # not 0, where the loss may be infinite
    if slope(low) > 0.0:
        return 0.0
    return float(brentq(slope, low, HIGHEST, xtol=1e-6)) if slope(HIGHEST) > 0.0 else HIGHEST


@dataclass(frozen=True)
class FoundNoise:
    """Noise in the labels, found or given: how much there is, how a model is trained with it, and what it predicts.

    Rates are shares of the labels that are replaced at random, by any class alike; a matrix has the rate of symmetric noise
    with as many wrong labels. Classes are in the order of the link.
    """

    n_classes: int
    rate: float = 0.0  #: estimated
    low: float = 0.0  #: lower end of its interval
    high: float = 0.0  #: upper end
    training: float = 0.0  #: rate assumed in training
    temperature: float = 1.0  #: power of the probabilities of logistic regression
    floor: float = 0.0  #: share of the uniform distribution in predictions
    recorded: bool = False  #: whether predictions are of the labels as they are recorded, or of true ones
    known: bool = False  #: whether it was given
    matrix: np.ndarray | None = None  #: transition matrix (C, C) of noise that is not symmetric

    @classmethod
    def of_rates(cls, estimate: RateEstimate, n_classes: int, training: float, *, recorded: bool) -> Self:
        """Symmetric noise, as it was estimated by a model that was trained with some."""
        floor = estimate.held_out if recorded else estimate.doubt
        found = cls(n_classes, estimate.rate, *estimate.interval, training, estimate.temperature, floor)
        return replace(found, recorded=recorded)

    @classmethod
    def measured(cls, estimate: RateEstimate, n_classes: int, *, recorded: bool) -> Self:
        """What predictions of a model without a floor say: there may be noise though a floor would not help them.

        The rate is 0 unless a floor explains labels better than a temperature alone, by more than a standard error.
        """
        low, high = estimate.interval
        if not estimate.gain > estimate.gain_error:
            return cls(n_classes, high=high, recorded=recorded)
        return cls(n_classes, estimate.rate, low, high, recorded=recorded)

    @classmethod
    def of_matrices(cls, held_out: Tensor, training: Tensor, labels: Tensor, *, recorded: bool) -> Self:
        """The mean of the likeliest matrices of held-out and of training rows, with the labels of the former."""
        mean = 0.5 * (held_out + training)
        matrix = (mean / mean.sum(1, keepdim=True)).cpu().numpy()
        n_classes, observed = len(matrix), np.bincount(labels.cpu().numpy(), minlength=len(matrix)) / len(labels)
        middle = share_of_wrong_labels(matrix, observed)
        least, most = sorted(share_of_wrong_labels(one.cpu().numpy(), observed) for one in (held_out, training))
        error = SURE_ERRORS * math.sqrt(max(middle * (1.0 - middle), 0.0) / len(labels))
        # as for a rate: wrong labels that held-out rows have more than the mean are predictions that fail
        doubt = 0.0 if recorded else math.hypot(max(0.0, most - middle), error) / (1.0 - middle)
        shares = middle, max(0.0, least - error), min(1.0, most + error), doubt
        rate, low, high, doubt = (min(replaced_share(share, n_classes), 1.0 - 1e-9) for share in shares)
        return cls(n_classes, rate, low, high, rate, floor=min(doubt, 0.5), recorded=recorded, matrix=matrix)

    @classmethod
    def of_noise(cls, noise: LabelNoise, observed: np.ndarray, *, known: bool, n_rows: int = 0) -> Self:
        """Noise that was given, or learned in training on ``n_rows``; ``observed`` are the shares of the labels.

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
        away = 0.0 if known else SURE_ERRORS * math.sqrt(wrong * (1.0 - wrong) / max(n_rows, 1))
        low, high = (replaced_share(share, n_classes) for share in (wrong - away, wrong + away))
        most = replaced_share(1.0, n_classes)  # symmetric noise ends at 1, a matrix where all labels are wrong
        training = min(rate, 1.0 - 1e-9)
        return cls(n_classes, rate, max(0.0, low), min(most, high), training, known=known, matrix=asymmetric)

    @property
    def wrong(self) -> float:
        """Share of wrong labels."""
        return wrong_share(self.rate, self.n_classes)

    @property
    def interval(self) -> tuple[float, float]:
        """Where that lies."""
        return wrong_share(self.low, self.n_classes), wrong_share(self.high, self.n_classes)

    def make_noise(self) -> LabelNoise:
        """How true labels become observed ones, as estimated."""
        if self.matrix is not None:
            return TransitionNoise(torch.as_tensor(self.matrix))
        return SymmetricNoise(self.n_classes, self.rate, learned=False, dtype=torch.float64)

    def make_training_noise(self) -> LabelNoise | None:
        """What is assumed in training; None if there is no noise."""
        if self.matrix is not None:
            return self.make_noise()
        if self.training == 0.0:
            return None
        return SymmetricNoise(self.n_classes, self.training, learned=False, dtype=torch.float64)

    def make_prediction_noise(self) -> LabelNoise | None:
        """How predictions follow from the probabilities of the link; None if they are the same."""
        floor = SymmetricNoise(self.n_classes, self.floor, learned=False, dtype=torch.float64)
        if self.recorded and self.matrix is not None:
            return TransitionNoise(torch.as_tensor(self.matrix) @ floor.matrix())
        return floor if self.floor > 0.0 else None

    def to_state(self) -> dict[str, Any]:
        """Return all but the number of classes."""
        state = {name: value for name, value in vars(self).items() if name != "n_classes"}
        # a copy: a file refuses arrays that share memory
        return {**state, "matrix": None if self.matrix is None else self.matrix.copy()}

    @classmethod
    def from_state(cls, state: Any, n_classes: int) -> Self:
        """Rebuild from :meth:`to_state`; anything else raises a ``ValueError``."""
        below_one = {"training": number(0.0, 1.0), "floor": number(0.0, 1.0), "temperature": number(1e-3, 1e3)}
        rates = {
            name: number(0.0, 2.0) for name in ("rate", "low", "high")
        }  # a matrix may replace more than all labels
        flags = {"recorded": BOOLEAN, "known": BOOLEAN}
        check_fields(
            "label_noise", state, {**rates, **below_one, **flags, "matrix": optional(array(n_classes, n_classes))}
        )
        matrix = None if state["matrix"] is None else np.asarray(state["matrix"])
        if matrix is not None:
            TransitionNoise(matrix)  # checks it
        values: dict[str, Any] = {
            name: state[name] if name in flags else float(state[name]) for name in (*rates, *below_one, *flags)
        }
        noise = cls(n_classes, **values, matrix=matrix)
        if noise.low > noise.high or max(noise.training, noise.floor) >= 1.0:
            raise ValueError(f"label_noise must have an interval, and shares below 1, got {noise}.")
        return noise
