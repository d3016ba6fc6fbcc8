r"""What is believed about wrong labels: one estimate, one test that it is noise, one that it is everywhere.

**The estimate.** If a share :math:`\epsilon` of the labels is replaced at random, an observed label has the probability
:math:`q_y = (1 - \epsilon)\, p_y + \epsilon / C`. The rate that fits **held-out** rows is too large, since confident mistakes
look like noise; that of **training** rows is too small, since the model has learned some of the wrong labels. To first order
both are equally far from the truth, so their mean is taken. A **temperature**, :math:`p \propto p^\tau`, is fitted with the
rate, so that under- or overconfidence does not count as noise. At least a twentieth of the labels must be wrong, by held-out
rows and by training rows: less does not matter.

**Is it noise, or a model that does not fit?** Noise strikes single rows; a model that does not fit is wrong in whole regions.
Trees, which follow any border, are asked for the probability of suspicious labels. Its excess over the model's probability
:math:`q` is near 0 for noise, and near 1 where the model is wrong. Where only this speaks against noise, a learned link of
three or more classes is asked again: it may fit where logistic regression does not.

**Is it everywhere?** Random noise strikes clear rows too. So the share of wrong labels among the rows that trees are surest
of is an upper bound. With a few hundred rows, the evidence must also be strong, and half of the rows clear if there are two
classes: otherwise noise cannot be told from classes that overlap.
"""

from __future__ import annotations

import math
import reprlib
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binomtest
from torch import Tensor

from legendretron._internal.fields import check_fields, number
from legendretron.calibration.prediction_sets import some_rows
from legendretron.diagnostics.softmax_test import ROWS_PER_PARAMETER
from legendretron.links.noise_models import mix_with_uniform, replaced_share, wrong_share
from legendretron.tuning.problem import LabeledRows, Trees, TuningProblem
from legendretron.tuning.rules import FEW
from legendretron.tuning.scores import SURE_ERRORS

#: Powers of the probabilities to choose from: steps of a fifth, from a third to six times as sure.
TEMPERATURES = tuple(float(1.2**power) for power in range(-6, 11))
#: Share of wrong labels below which there is little to gain, and a model that nearly fits looks like noise.
LEAST_SHARE = 0.05
#: Rate at which searches end: more cannot be told from labels by chance alone.
HIGHEST = 0.9
#: Highest agreement of trees with noise, which is near 0; that with a model that does not fit is near 1.
_MOST_AGREEMENT = 0.1
#: Factor by which an estimate may exceed the bound; a model that nearly fits finds somewhat too many wrong labels.
SLACK = 1.3
#: Log-likelihood of held-out labels that noise must add: strong evidence (p < 0.005) against classes that merely overlap.
_EVIDENCE = 3.5


class RateEstimate(NamedTuple):
    """What the labels say about the share of them that has been replaced at random."""

    temperature: float  #: power of the probabilities
    held_out: float  #: rate that fits held-out rows best
    training: float  #: rate that fits the rows a model was trained on
    error: float  #: standard error of either
    clear: float = 1.0  #: share of held-out rows whose true class is nearly certain
    evidence: float = 0.0  #: log-likelihood of held-out labels that noise adds to a temperature alone
    agreement: float = 0.0  #: of trees with suspicious labels
    most: float = 1.0  #: rate that the clearest rows allow

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
        return max(0.0, low - SURE_ERRORS * self.error), min(1.0, high + SURE_ERRORS * self.error)

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
        away = math.hypot(max(self.held_out, self.training) - self.rate, SURE_ERRORS * self.error)
        return min(HIGHEST, away / (1.0 - self.rate))

    def observe(self, rows: LabeledRows) -> LabeledRows:
        """Rows with log-probabilities of observed labels, by the temperature and the rate that fit held-out rows best."""
        true = rows.to_power(self.temperature).log_p
        return rows._replace(log_p=mix_with_uniform(true, true.new_tensor(self.held_out)))


class FoundNoise(NamedTuple):
    """Symmetric noise in the labels, and how a model that knows of it is trained."""

    training: float  #: rate that is assumed in training
    temperature: float  #: power of the true probabilities, for a model that is logistic regression
    doubt: float  #: floor of the true probabilities, see :class:`RateEstimate`
    rate: float  #: estimated share of the labels that has been replaced
    low: float  #: lower end of its interval
    high: float  #: upper end

    @classmethod
    def of(cls, estimate: RateEstimate, training: float) -> Self:
        """As it was estimated by a model that was trained with some noise."""
        return cls(training, estimate.temperature, estimate.doubt, estimate.rate, *estimate.interval)

    @classmethod
    def none(cls, estimate: RateEstimate) -> Self:
        """No noise; but there may be as much as would fit held-out rows, or as the clearest ones allow."""
        return cls(0.0, 1.0, 0.0, 0.0, 0.0, estimate.interval[1] if estimate.most == 1.0 else estimate.most)

    def with_doubt(self, share: float) -> Self:
        """The same, with at least this floor."""
        return self._replace(doubt=max(self.doubt, share))

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Rebuild from a list of the numbers; anything else raises a ``ValueError``."""
        if not isinstance(state, list) or len(state) != len(cls._fields):
            raise ValueError(f"label noise must be {len(cls._fields)} numbers, got {reprlib.repr(state)}.")
        # a matrix may replace more than all labels
        bounds = {"training": 1.0, "temperature": 1e3, "doubt": 1.0, "rate": 2.0, "low": 2.0, "high": 2.0}
        fields = {name: number(0.0, high) for name, high in bounds.items()}
        check_fields("label noise", dict(zip(cls._fields, state, strict=True)), fields)
        noise = cls(*map(float, state))
        if noise.low > noise.high or noise.temperature < 1e-3 or max(noise.training, noise.doubt) >= 1.0:
            raise ValueError(f"label noise must have shares below 1 and a positive temperature, got {noise}.")
        return noise


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
        without, loss = (-float(torch.log(p) @ part.weight) for p in (p_label, p_label + rate * (by_chance - p_label)))
        tried.append((loss, power, without))
    least, power, _ = min(tried)
    sharp = held_out.to_power(power)
    p_label, rate = _fit_rate(sharp)
    share = held_out.weight / held_out.weight.sum()
    slope = (p_label - by_chance) / (p_label + rate * (by_chance - p_label))
    information = float(share @ slope.square()) / float(share @ share)
    estimate = RateEstimate(
        power,
        rate,
        training=_fit_rate(training.to_power(power))[1],
        error=float(1.0 / np.sqrt(max(information, 1e-12))),
        # a row is clear if it is as seldom wrong as does not matter
        clear=float(share @ (sharp.log_p.amax(-1) > math.log(1.0 - LEAST_SHARE)).to(share)),
        evidence=(min(without for *_, without in tried) - least) / float(part.weight.mean()),
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


def check_estimate(
    estimate: RateEstimate, problem: TuningProblem, rows: np.ndarray, observed: LabeledRows
) -> RateEstimate:
    """Add to an estimate how far trees agree with suspicious labels, and the bound of the rate.

    Models that have not seen the ``rows`` predict them as ``observed``, with the noise of the estimate.
    """
    if not _is_enough(estimate, problem):
        return estimate
    trees, n_classes = problem.trees, problem.n_classes
    _, here, known = np.intersect1d(rows, trees.rows, return_indices=True)
    own = np.arange(len(here)), trees.labels[known]
    q = torch.exp(observed.log_p).cpu().numpy()[here][own]
    excess, suspicious = trees.proba[known][own] - q, estimate.held_out / n_classes > 0.5 * q
    agreement = 0.0
    if suspicious.any() and not suspicious.all():
        # less what trees have too much for all other classes than a label that is not suspicious
        agreement = float(excess[suspicious].mean() + excess[~suspicious].mean() / (n_classes - 1))
    most = replaced_share(bound_share(trees)[1], n_classes)
    return estimate._replace(agreement=agreement, most=min(1.0, most))


def is_believable(estimate: RateEstimate, problem: TuningProblem) -> bool:
    """Whether an estimate that was checked is about noise: all that this page asks for, unless noise is said to be there."""
    if problem.find_noise == "always":
        return True
    return is_possible(estimate, problem) and estimate.agreement < _MOST_AGREEMENT


def is_possible(estimate: RateEstimate, problem: TuningProblem) -> bool:
    """Whether an estimate may be about noise, though the model may not fit: a model that fits better is to be asked."""
    rate = 0.5 * (estimate.held_out + estimate.lowest)
    strong, clear = estimate.evidence >= _EVIDENCE, estimate.clear >= 0.5 or problem.n_classes > 2
    told_apart = (strong and clear) or problem.features.n_rows >= FEW
    return _is_enough(estimate, problem) and rate < HIGHEST and rate <= SLACK * estimate.most and told_apart


def _is_enough(estimate: RateEstimate, problem: TuningProblem) -> bool:
    """Whether enough labels are wrong to matter, also by training rows unless a model can explain any labels of theirs."""
    is_wide = problem.features.n_features + 1 >= min(len(train) for train, _ in problem.folds)
    return wrong_share(estimate.rate if is_wide else estimate.lowest, problem.n_classes) >= LEAST_SHARE


def bound_share(trees: Trees) -> tuple[float, float]:
    """Lower and upper limit of the share of wrong labels where trees are surest, which is that of all if they are random.

    By Wilson's score interval of that part of the rows, a half, a quarter and so on, which gives the least upper limit.
    """
    surest = np.argsort(-trees.proba.max(1), kind="stable")
    wrong = np.cumsum((trees.proba.argmax(1) != trees.labels)[surest])
    level, limits, n = float(2 * ndtr(SURE_ERRORS) - 1), [(0.0, 1.0)], len(wrong) // 2
    while n >= 2 * ROWS_PER_PARAMETER:
        interval = binomtest(int(wrong[n - 1]), n).proportion_ci(level, "wilson")
        limits.append((float(interval.low), float(interval.high)))
        n //= 2
    return min(limits, key=lambda limit: limit[1])
