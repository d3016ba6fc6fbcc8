r"""What is believed about wrong labels: one estimate, one test that it is noise, one that it is everywhere.

**The estimate.** If a share :math:`\epsilon` of the labels is replaced at random, an observed label has the probability
:math:`q_y = (1 - \epsilon)\, p_y + \epsilon / C`. The rate that fits **held-out** rows is too large, since confident mistakes
look like noise; that of **training** rows is too small, since the model has learned some of the wrong labels. To first order
both are equally far from the truth, so their mean is taken. A **temperature**, :math:`p \propto p^\tau`, is fitted with the
rate, so that under- or overconfidence does not count as noise. At least a twentieth of the labels must be wrong, by held-out
rows and by training rows: less does not matter.

**Is it noise, or a model that does not fit?** Noise strikes single rows; a model that does not fit is wrong in whole regions.
Rows nearby and trees, which follow any border, are asked for the probability of suspicious labels. The excess

.. math:: \frac{1}{m} \sum_i \left( [y_j = y_i] - q_j(y_i) \right), \qquad j \text{ near } i

over the model's probability :math:`q` is near 0 for noise, and near 1 where the model is wrong. Where only this speaks
against noise, a learned link of three or more classes is asked again: it may fit where logistic regression does not.

**Is it everywhere?** Random noise strikes clear rows too. So the share of wrong labels among the rows that trees are surest
of is an upper bound. With a few hundred rows, the evidence must also be strong, and half of the rows clear if there are two
classes: otherwise noise cannot be told from classes that overlap.

**Votes.** Where each row has several votes, how often two of them agree tells the rate without any model, and votes of a row
are put together before anything is fitted; see :func:`combine_votes`.
"""

from __future__ import annotations

import math
import reprlib
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.stats import binomtest, norm
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from legendretron._internal.fields import check_fields, number
from legendretron.links.noise_models import mix_with_uniform, observed_loss, replaced_share, wrong_share
from legendretron.training.features import Features
from legendretron.tuning.folds import Fold
from legendretron.tuning.problem import ENOUGH, LabeledRows, Trees, TuningProblem, thin
from legendretron.tuning.scores import SURE_ERRORS

#: Powers of the probabilities to choose from: steps of a fifth, from a third to six times as sure.
TEMPERATURES = tuple(float(1.2**power) for power in range(-6, 11))
#: Share of wrong labels below which there is little to gain, and a model that nearly fits looks like noise.
_LEAST_SHARE = 0.05
#: Highest rate that is searched, so that losses are finite.
_HIGHEST = 0.98
#: Highest rate that is believed: more cannot be told from labels by chance alone.
_HIGHEST_BELIEVED = 0.85
#: Highest agreement of noise, which is near 0; that of a model that does not fit is near 1.
_MOST_AGREEMENT = 0.1
#: Neighbors that are asked, and the fewest suspicious rows: with fewer of either, chance decides.
_NEIGHBORS = 5
#: Factor by which an estimate may exceed the bound; a model that nearly fits finds somewhat too many wrong labels.
_SLACK = 1.3
#: Log-likelihood of held-out labels that noise must add: strong evidence (p < 0.005) against classes that merely overlap.
_EVIDENCE = 3.5
#: Rows below which evidence must be strong, and, of two classes, half of the rows clear: two that overlap look like noise.
_FEW = 400
#: Most votes of a row that shares are read as; more would be any shares that were rounded. And how far they may be off.
_MOST_VOTES, _VOTE_ROUNDING = 9, 0.02
#: Shares of the rows, the surest first, that give a bound: any noise level is seen by one of them.
_SUREST = (0.02, 0.05, 0.1, 0.2, 0.4)


class RateEstimate(NamedTuple):
    """What the labels say about the share of them that has been replaced at random."""

    temperature: float  #: power of the probabilities
    held_out: float  #: rate that fits held-out rows best
    training: float  #: rate that fits the rows a model was trained on
    error: float  #: standard error of either
    clear: float = 1.0  #: share of held-out rows whose true class is nearly certain
    evidence: float = 0.0  #: log-likelihood of held-out labels that noise adds to a temperature alone
    agreement: float = 0.0  #: of neighbors and trees with suspicious labels
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
        return min(_HIGHEST, away / (1.0 - self.rate))


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


class CombinedVotes(NamedTuple):
    """Votes of each row: their majority, and how probable they make each class."""

    weight: (
        np.ndarray
    )  #: of the copies of the rows: that of the row for the majority, divided where several have as many
    rate: float  #: share of these labels that has been replaced
    odds: np.ndarray  #: probability of the votes if the class of a copy is true, relative to the highest of the row
    odds_of_others: np.ndarray  #: the same for the classes without votes

    def weigh(self, copies: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Weights of the copies by Bayes' rule, from predicted probabilities of their classes.

        Classes without votes count in the sum, but have no copies. That takes the same share of each class: a true class
        has no votes as often as any other.
        """
        p = p.astype(np.float64)
        mass, others = p * self.odds, np.maximum(1.0 - np.bincount(copies, p)[copies], 0.0) * self.odds_of_others
        total = np.maximum(np.bincount(copies, mass)[copies] + others, np.finfo(float).tiny)
        weight: np.ndarray = np.bincount(copies, self.weight)[copies] * mass / total
        return weight


def combine_votes(copies: np.ndarray, weight: np.ndarray, n_classes: int) -> CombinedVotes | None:
    r"""Put together the votes of each row, if shares of the classes are votes of which some are wrong; else None.

    Of votes of which a share :math:`\epsilon` is replaced at random, two of a row agree with the probability

    .. math:: (1 - \epsilon)^2 + \frac{1 - (1 - \epsilon)^2}{C},

    which tells :math:`\epsilon`. A class with :math:`n_k` votes is then the true one with a probability in proportion to
    :math:`r^{n_k}`, where :math:`r` is the odds of a right vote against one of the wrong ones. A model that is fitted to the
    majority gives probabilities :math:`p_k`, and :math:`p_k r^{n_k}` are better weights for the next one: a step of the EM
    algorithm (Dawid and Skene, 1979).

    Parameters
    ----------
    copies : ndarray of shape (n,)
        Number of the row that each is a copy of, one for each class that has votes.
    weight : ndarray of shape (n,)
        Shares of the votes, times the weights of the rows.
    n_classes : int
        Number of classes.

    Examples
    --------
    Each of three votes is wrong with a probability of 0.3:

    >>> rng = np.random.default_rng(0)
    >>> true = rng.integers(4, size=20_000)
    >>> votes = (true[:, None] + rng.integers(1, 4, (20_000, 3)) * (rng.random((20_000, 3)) < 0.3)) % 4
    >>> shares = (votes[:, :, None] == np.arange(4)).mean(1)
    >>> row, label = np.nonzero(shares)
    >>> found = combine_votes(row, shares[row, label], 4)
    >>> wrong = found.weight[label != true[row]].sum() / 20_000  # of the majority
    >>> bool(abs(wrong_share(found.rate, 4) - wrong) < 0.01)
    True
    >>> weight = found.weigh(row, np.full(len(row), 0.25))  # of a model that knows nothing
    >>> bool(weight[label == true[row]].sum() > shares[row, label][label == true[row]].sum())
    True
    """
    of_row = np.bincount(copies, weight)
    seen = weight > 0
    copies, share = copies[seen], weight[seen] / of_row[copies[seen]]
    off = {n: np.abs(n * share - np.round(n * share)).max() for n in range(2, _MOST_VOTES + 1)}
    n = next((n for n, away in off.items() if away < _VOTE_ROUNDING), 0)
    if n == 0:
        return None
    votes, part = np.round(n * share), of_row / of_row.sum()
    agreement = np.bincount(copies, votes * (votes - 1.0) / (n * (n - 1.0)), len(of_row))
    mean, chance = float(part @ agreement), 1.0 / n_classes
    if mean <= chance:
        return None
    rate = 1.0 - math.sqrt((mean - chance) / (1.0 - chance))
    if wrong_share(rate, n_classes) < _LEAST_SHARE or rate > _HIGHEST_BELIEVED:
        return None
    most = np.zeros(len(of_row))
    np.maximum.at(most, copies, votes)
    right, other = 1.0 - rate + rate * chance, rate * chance
    unanimous, expected = float(part @ (most == n)), right**n + (n_classes - 1) * other**n
    if abs(unanimous - expected) > SURE_ERRORS * math.sqrt(float(part**2 @ np.ones(len(part))) / 4.0) + _LEAST_SHARE:
        return None  # rows of unequal numbers of votes, or rows of which some are far harder than others

    majority = votes == most[copies]
    own = majority / np.bincount(copies, majority, len(of_row))[copies]

    log_odds = math.log(1.0 + n_classes * (1.0 - rate) / rate)
    odds, none = np.exp(log_odds * (votes - most[copies])), np.exp(-log_odds * most)
    total = np.bincount(copies, odds, len(of_row))
    without = (n_classes - np.bincount(copies, minlength=len(of_row))) * none
    correct = np.bincount(copies, own * odds, len(of_row)) / np.where(of_row > 0, total + without, 1.0)
    combined = np.zeros((3, len(weight)))
    combined[:, seen] = of_row[copies] * own, odds, none[copies]
    return CombinedVotes(combined[0], replaced_share(1.0 - float(part @ correct), n_classes), *combined[1:])


def find_ambiguity(votes: CombinedVotes, held_out: LabeledRows, found: float) -> FoundNoise | None:
    """No noise, if votes differ because some rows are ambiguous; None if they differ because some votes are wrong.

    ``held_out`` has the majority as labels, and ``found`` is the rate of noise that a fit to it has found. Rows are
    ambiguous if labels are far less noisy where classes are clear. Of few rows, what the fit has found decides.
    """
    free, observed = estimate_rates(held_out, held_out)
    powers = [held_out.to_power(power) for power in TEMPERATURES]
    rate = held_out.log_p.new_tensor(votes.rate)
    tried = [rows._replace(log_p=mix_with_uniform(rows.log_p, rate)).label_log_p for rows in powers]
    gain = observed.label_log_p - max(tried, key=lambda log_p: float(held_out.weight @ log_p))
    share = held_out.weight / held_out.weight.sum()
    mean = float(share @ gain)
    error = math.sqrt(float(share.square() @ (gain - mean).square()))
    ambiguous = free.held_out < votes.rate and mean > SURE_ERRORS * error
    undecided = found == 0.0 and len(held_out.labels) < _FEW
    return FoundNoise.none(free) if ambiguous or undecided else None


def estimate_rates(
    held_out: LabeledRows, training: LabeledRows, temperatures: tuple[float, ...] = TEMPERATURES
) -> tuple[RateEstimate, LabeledRows]:
    """Fit temperature and rate to held-out rows, and the rate to training rows.

    Returns the estimate, and held-out rows with log-probabilities of observed labels.
    """
    part = held_out.select(thin(len(held_out.labels)))
    n_classes = held_out.log_p.shape[1]
    tried, without = [], math.inf
    for power in temperatures:
        p_label, rate = _fit_rate(part.to_power(power))
        loss = float((observed_loss(-torch.log(p_label), rate, n_classes)[0] * part.weight).sum())
        without = min(without, -float(torch.log(p_label) @ part.weight))
        tried.append((loss, power))
    least, power = min(tried)
    sharp = held_out.to_power(power)
    p_label, rate = _fit_rate(sharp)
    share = held_out.weight / held_out.weight.sum()
    slope = (p_label - 1.0 / n_classes) / ((1.0 - rate) * p_label + rate / n_classes)
    information = float((share * slope.square()).sum()) / float(share.square().sum())
    estimate = RateEstimate(
        power,
        rate,
        training=_fit_rate(training.to_power(power))[1],
        error=float(1.0 / np.sqrt(max(information, 1e-12))),
        # a row is clear if it is as seldom wrong as does not matter
        clear=float(share @ (sharp.log_p.amax(-1) > math.log(1.0 - _LEAST_SHARE)).to(share)),
        evidence=max(0.0, (without - least) / float(part.weight.mean())),
    )
    return estimate, observe(held_out, estimate)


def observe(rows: LabeledRows, estimate: RateEstimate) -> LabeledRows:
    """Rows with log-probabilities of observed labels, by the temperature and the rate that fit held-out rows best."""
    true = rows.to_power(estimate.temperature).log_p
    return rows._replace(log_p=mix_with_uniform(true, true.new_tensor(estimate.held_out)))


def seen_rows(folds: list[Fold]) -> list[np.ndarray]:
    """Rows that each of some folds is trained on, spread evenly."""
    return [train[thin(len(train), max(1, ENOUGH // len(folds)))] for train, _ in folds]


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
    return float(brentq(slope, low, _HIGHEST, xtol=1e-6)) if slope(_HIGHEST) > 0.0 else _HIGHEST


def check_estimate(
    estimate: RateEstimate, problem: TuningProblem, rows: np.ndarray, observed: LabeledRows
) -> RateEstimate:
    """Add to an estimate how far neighbors and trees agree with suspicious labels, and the bound of the rate.

    Models that have not seen the ``rows`` predict them as ``observed``, with the noise of the estimate.
    """
    if not _is_enough(estimate, problem):
        return estimate
    rows, first = np.unique(rows, return_index=True)  # a row is not its own neighbor
    q, labels = (part.cpu().numpy()[first] for part in (torch.exp(observed.log_p), observed.labels))
    suspicious = (estimate.held_out / problem.n_classes) / q[np.arange(len(q)), labels] > 0.5
    agreement = max(
        _ask_neighbors(problem.features, rows, q, labels, suspicious),
        _ask_trees(problem.trees, rows, q, labels, suspicious),
    )
    most = replaced_share(least_bound(problem.trees), problem.n_classes)
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
    told_apart = (strong and clear) or problem.features.n_rows >= _FEW
    return _is_enough(estimate, problem) and rate <= min(_SLACK * estimate.most, _HIGHEST_BELIEVED) and told_apart


def is_possible_share(wrong: float, problem: TuningProblem) -> bool:
    """Whether a share of wrong labels matters, and clear rows allow it."""
    return _LEAST_SHARE <= wrong <= _SLACK * least_bound(problem.trees)


def _is_enough(estimate: RateEstimate, problem: TuningProblem) -> bool:
    """Whether enough labels are wrong to matter, also by training rows unless a model can explain any labels of theirs."""
    return wrong_share(estimate.rate if problem.is_wide else estimate.lowest, problem.n_classes) >= _LEAST_SHARE


def least_bound(trees: Trees) -> float:
    """Upper bound of the share of wrong labels, if these are wrong at random.

    It is the least upper limit, by Wilson's score interval, of the share that differs where trees are surest.
    """
    surest = np.argsort(-trees.proba.max(1), kind="stable")
    wrong = (trees.proba.argmax(1) != trees.labels)[surest]
    sizes = [max(20, int(share * len(wrong))) for share in _SUREST]
    tests = [binomtest(int(wrong[:m].sum()), m) for m in sizes if m <= len(wrong)]
    level = float(2 * norm.cdf(SURE_ERRORS) - 1)
    return min((float(test.proportion_ci(level, "wilson").high) for test in tests), default=1.0)


def _ask_trees(trees: Trees, rows: np.ndarray, q: np.ndarray, labels: np.ndarray, suspicious: np.ndarray) -> float:
    """Excess of the trees' probability of suspicious labels over the model's, less the same for other labels."""
    _, here, known = np.intersect1d(rows, trees.rows, assume_unique=True, return_indices=True)
    suspicious, labels = suspicious[here], labels[here]
    if suspicious.sum() < _NEIGHBORS or suspicious.all():
        return 0.0
    excess = trees.proba[known] - q[here]
    of_labels = excess[np.arange(len(labels)), labels]
    others = (excess.sum(1) - of_labels)[~suspicious] / (q.shape[1] - 1)
    return float(of_labels[suspicious].mean() - others.mean())


def _ask_neighbors(
    features: Features, rows: np.ndarray, q: np.ndarray, labels: np.ndarray, suspicious: np.ndarray
) -> float:
    """How much more often than predicted the nearest rows have the label of a suspicious row."""
    some = thin(len(rows))
    rows, q, labels, (queries,) = rows[some], q[some], labels[some], np.nonzero(suspicious[some])
    if len(queries) < _NEIGHBORS or len(rows) <= _NEIGHBORS:
        return 0.0
    queries = queries[thin(len(queries), 500)]  # each is compared with all rows
    x = features.select_rows(rows)
    # brute force: the only way for sparse rows, and the fastest for many features
    nearest = NearestNeighbors(n_neighbors=_NEIGHBORS + 1, algorithm="brute").fit(x).kneighbors(x[queries])[1]
    label = labels[queries][:, None]
    excess = (labels[nearest] == label) - q[nearest, label]
    return float(excess[nearest != queries[:, None]].mean())
