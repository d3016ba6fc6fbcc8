r"""Estimates of the rate of symmetric noise, from held-out rows and from training rows.

An observed label has the probability :math:`q_y = (1 - \epsilon)\, p_y + \epsilon / C`. The rate :math:`\epsilon` that fits
**held-out** rows is too large, since confident mistakes look like noise; that of **training** rows is too small, since the
model has learned some of the wrong labels. To first order both are equally far from the truth, so their mean is taken. A
**temperature**, :math:`p \propto p^\tau`, is fitted with the rate, so that under- or overconfidence does not count as noise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from legendretron.links.noise_models import mix_with_uniform, observed_loss

__all__ = [
    "ENOUGH",
    "INTERVAL_ERRORS",
    "TEMPERATURES",
    "LabelledRows",
    "RateEstimate",
    "best_share",
    "estimate_rates",
    "some_training_rows",
]

#: Powers of the probabilities to choose from.
TEMPERATURES = tuple(float(1.2**power) for power in range(-6, 11))
#: Highest rate that can be told from pure noise.
_HIGHEST = 0.98
_HALVINGS = 20
#: Probability of the true class from which a row is clear.
_CLEAR = 0.95
#: Training rows of all folds together from which a rate is estimated.
_TRAINING_ROWS = 20_000
#: Held-out rows by which a temperature is chosen, at most.
ENOUGH = 20_000
#: Standard errors on both sides of an interval: more than the 1.6 of nine in ten, as the fit is chosen among several.
INTERVAL_ERRORS = 2.5


class LabelledRows(NamedTuple):
    """Predictions for rows, and what was observed."""

    log_p: Tensor  #: log-probabilities of the true classes, (n, C)
    labels: Tensor  #: observed labels, (n,)
    weight: Tensor  #: of each row, (n,); any scale


class RateEstimate(NamedTuple):
    """What the labels say about the share of them that has been replaced at random."""

    temperature: float  #: power of the probabilities
    held_out: float  #: rate that fits held-out rows best
    training: float  #: rate that fits the rows a model was trained on
    error: float  #: standard error of either
    clear: float = 1.0  #: share of held-out rows whose true class is nearly certain
    evidence: float = 0.0  #: log-likelihood of held-out labels that noise adds to a temperature alone
    agreement: float = 0.0  #: of other rows with suspicious ones, see :mod:`~legendretron.tuning.noise_checks`
    most: float = 1.0  #: rate that the clearest rows allow, see there, too

    @property
    def rate(self) -> float:
        """The estimate: the mean of the two, or what the clearest rows allow if that is less."""
        return min(self.most, 0.5 * (self.held_out + self.lowest))

    @property
    def lowest(self) -> float:
        """The smaller of the two rates: what even training rows do not let the model explain."""
        return min(self.training, self.held_out)

    @property
    def interval(self) -> tuple[float, float]:
        """From the rate on training rows to that on held-out rows, and two and a half standard errors on both sides."""
        low, high = min(self.lowest, self.rate), max(self.held_out, self.training)
        return max(0.0, low - INTERVAL_ERRORS * self.error), min(1.0, high + INTERVAL_ERRORS * self.error)

    @property
    def doubt(self) -> float:
        r"""Share of predictions to doubt, as a floor of true probabilities.

        Labels that are taken for noise may be right: where the rate is uncertain, and where held-out rows need a higher one
        than training rows. So true probabilities get a floor that explains a rate as high as that, too:

        .. math:: 1 - u = (1 - \epsilon) (1 - \delta), \qquad
            (u - \epsilon)^2 = (\epsilon_{held} - \epsilon)^2 + (2.5\, s)^2

        with the standard error ``s``: the two are independent.
        """
        if self.rate == 0.0:
            return 0.0
        away = math.hypot(max(self.held_out, self.training) - self.rate, INTERVAL_ERRORS * self.error)
        return min(_HIGHEST, away / (1.0 - self.rate))


def estimate_rates(
    held_out: LabelledRows, training: LabelledRows, temperatures: tuple[float, ...] = TEMPERATURES
) -> tuple[RateEstimate, Tensor]:
    """Fit temperature and rate to held-out rows, and the rate to training rows.

    Returns
    -------
    RateEstimate
        See there.
    Tensor of shape (n, C)
        Log-probabilities of the observed labels of the held-out rows, with the rate that fits them best.
    """
    n, n_classes = held_out.log_p.shape
    some = slice(None, None, -(-n // ENOUGH))
    part = LabelledRows(*(tensor[some] for tensor in held_out))
    best: tuple[float, float] | None = None
    without = math.inf
    for power in temperatures:
        p_label = _label_probability(part, power)
        rate = _best_rate(p_label, part.weight, n_classes)
        loss = float((observed_loss(-torch.log(p_label), rate, n_classes)[0] * part.weight).sum())
        without = min(without, -float(torch.log(p_label) @ part.weight))
        if best is None or loss < best[0]:
            best = loss, power
    assert best is not None
    power = best[1]
    p_label = _label_probability(held_out, power)
    rate = _best_rate(p_label, held_out.weight, n_classes)
    share = held_out.weight / held_out.weight.sum()
    slope = (p_label - 1.0 / n_classes) / ((1.0 - rate) * p_label + rate / n_classes)
    information = float((share * slope.square()).sum()) / float(share.square().sum())
    on_training = _best_rate(_label_probability(training, power), training.weight, n_classes)
    error = 1.0 / np.sqrt(max(information, 1e-12))
    log_p = torch.log_softmax(held_out.log_p * power, dim=-1)
    clear = float(share @ (log_p.amax(-1) > math.log(_CLEAR)).to(share))
    evidence = max(0.0, (without - best[0]) / float(part.weight.mean()))
    estimate = RateEstimate(power, rate, on_training, float(error), clear, evidence)
    return estimate, mix_with_uniform(log_p, log_p.new_tensor(rate))


def some_training_rows(folds: list[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    """Rows that each of some folds is trained on, spread evenly."""
    most = max(1, _TRAINING_ROWS // len(folds))
    return [train[:: -(-len(train) // most)] for train, _ in folds]


def _label_probability(rows: LabelledRows, power: float) -> Tensor:
    """Probability of the observed label before noise."""
    log_p = torch.log_softmax(rows.log_p * power, dim=-1)
    return torch.exp(log_p.gather(-1, rows.labels.unsqueeze(-1)).squeeze(-1))


def _best_rate(p_label: Tensor, weight: Tensor, n_classes: int) -> float:
    """The rate with the least log-loss."""
    # in NumPy, whose operations on few numbers cost less, and on the CPU, as each step waits for the sum
    return best_share(p_label.cpu().numpy(), 1.0 / n_classes, weight.cpu().numpy())


@np.errstate(over="ignore")  # of a quotient by a tiny probability
def best_share(p_label: np.ndarray, other: np.ndarray | float, weight: np.ndarray) -> float:
    r"""The share :math:`s` for which the mixture :math:`(1 - s)\, own + s\, other` of probabilities has the least log-loss.

    The loss is convex in it: it is least where its derivative changes sign, which is found by bisection.

    Examples
    --------
    >>> best_share(np.array([1.0, 1.0, 0.0, 0.0]), 0.5, np.ones(4)) > 0.9
    True
    """
    gain = weight * (p_label - other)

    def rising(share: float) -> bool:
        return bool((gain / (p_label + share * (other - p_label))).sum() > 0.0)

    low, high = 0.0, _HIGHEST
    if bool((p_label <= 0.0).any()):  # an infinite loss without the other
        low = 1e-6
    if rising(low):
        return 0.0
    if not rising(high):
        return high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if rising(middle) else (middle, high)
    return 0.5 * (low + high)
