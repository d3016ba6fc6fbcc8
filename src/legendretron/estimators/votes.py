"""Votes of several annotators on each row: put together before anything is fitted, and weighed by what a model predicts.

How often two votes of a row agree tells the rate of wrong ones without any model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from legendretron.estimators.fit_data import ROUNDING, FitData
from legendretron.links.noise_models import replaced_share
from legendretron.tuning.noise import HIGHEST
from legendretron.tuning.scores import SURE_ERRORS

#: Most votes of a row that shares are read as; more would be any shares that were rounded.
_MOST_VOTES = 9
#: How often a model is fitted again to votes that are weighed by its predictions: most of the gain comes from two.
_PASSES = 2
#: How far the share of unanimous rows may be from that of equally hard rows, beyond its error.
_SLACK = 0.05


class CombinedVotes(NamedTuple):
    """Votes of each row: their majority, and how probable they make each class."""

    weight: np.ndarray  #: of the copies of the rows: that of the row for the majority, divided among equals
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

    >>> from legendretron.links.noise_models import wrong_share
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
    n = next((n for n, away in off.items() if away < ROUNDING), 0)
    if n == 0:
        return None
    votes, part = np.round(n * share), of_row / of_row.sum()
    agreement = np.bincount(copies, votes * (votes - 1.0) / (n * (n - 1.0)), len(of_row))
    mean, chance = float(part @ agreement), 1.0 / n_classes
    if mean <= chance:
        return None
    rate = 1.0 - math.sqrt((mean - chance) / (1.0 - chance))
    if not 0.0 < rate < HIGHEST:
        return None
    most = np.zeros(len(of_row))
    np.maximum.at(most, copies, votes)
    right, other = 1.0 - rate + rate * chance, rate * chance
    unanimous, expected = float(part @ (most == n)), right**n + (n_classes - 1) * other**n
    if abs(unanimous - expected) > SURE_ERRORS * math.sqrt(float(part**2 @ np.ones(len(part))) / 4.0) + _SLACK:
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


def fit_votes(
    data: FitData,
    copies: np.ndarray,
    fit: Callable[[FitData], None],
    predict: Callable[[], np.ndarray],
    *,
    combine: bool,
    resume: bool = False,
) -> None:
    """Fit to the majority of votes, then to all classes that have votes, weighed by what the model predicts.

    If there are no votes, it is fitted to the shares as they are.

    Parameters
    ----------
    data : FitData
        Rows with soft labels: copies for each class that has a share.
    copies : ndarray
        The row that each is a copy of.
    fit : callable
        Fits to data.
    predict : callable
        Probabilities of the label of each copy.
    combine : bool
        Whether shares may be votes of which some are wrong.
    resume : bool
        Whether the model was fitted before.
    """
    votes = combine_votes(copies, data.weight, data.n_classes) if combine else None
    if votes is None:
        fit(data)
        return
    if not resume:
        fit(data._replace(weight=votes.weight))
    for _ in range(1 if resume else _PASSES):
        fit(data._replace(weight=votes.weigh(copies, predict())))
