r"""Whether labels that a model takes for wrong are noise: three questions, and when the answer is believed.

1. **Is it enough to matter?** At least a twentieth of the labels must be wrong, by held-out rows and by training rows.
2. **Is it noise, or a model that does not fit?** Noise strikes single rows; a model that does not fit is wrong in whole
   regions. Rows nearby and trees, which follow any border, are asked for the probability of suspicious labels. The excess

   .. math:: \frac{1}{m} \sum_i \left( [y_j = y_i] - q_j(y_i) \right), \qquad j \text{ near } i

   over the model's probability :math:`q` is near 0 for noise, and near 1 where the model is wrong. Where only this speaks
   against noise, a learned link is asked again: it may fit where logistic regression does not.
3. **Is it everywhere?** Random noise strikes clear rows too. So the share of wrong labels among the rows that trees are
   surest of is an upper bound. And the evidence must be strong, or most rows clear: otherwise noise cannot be told from
   classes that overlap. Of two classes and a few hundred rows, both are asked for.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import binomtest, norm
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from legendretron.training.features import Features
from legendretron.tuning.noise_rates import RateEstimate
from legendretron.tuning.problem import TuningProblem
from legendretron.tuning.trees import Trees

__all__ = [
    "check_estimate",
    "is_believable",
    "is_possible",
    "is_possible_share",
    "least_bound",
    "neighbour_agreement",
    "tree_agreement",
]

#: Share of wrong labels below which there is little to gain, and a model that nearly fits looks like noise.
_LEAST_SHARE = 0.05
#: Highest agreement of noise, which is near 0; that of a model that does not fit is near 1.
_MOST_AGREEMENT = 0.1
#: Factor by which an estimate may exceed the bound; a model that nearly fits finds somewhat too many wrong labels.
_SLACK = 1.3
#: Highest rate that can be told from labels without information.
_HIGHEST = 0.85
#: Log-likelihood of held-out labels that noise must add: strong evidence (p < 0.005) against classes that merely overlap.
_EVIDENCE = 3.5
#: Rows below which, of two classes, half of the rows must be clear, too.
_FEW = 400
#: Fewest suspicious rows that are compared; most of them; most rows among which their neighbours are searched.
_FEWEST_SUSPICIOUS, _MOST_SUSPICIOUS, _MOST_ROWS = 5, 500, 20_000
_NEIGHBOURS = 5
#: Shares of the rows, the surest first, that give a bound, and the fewest of them: any noise level is seen by one of them.
_SUREST, _FEWEST_SURE = (0.02, 0.05, 0.1, 0.2, 0.4), 20
#: Confidence level of the bound: 2.5 standard errors, as it is the least of several.
_LEVEL = float(2 * norm.cdf(2.5) - 1)


def check_estimate(
    estimate: RateEstimate, problem: TuningProblem, rows: np.ndarray, log_q: Tensor, labels: Tensor
) -> RateEstimate:
    """Add to an estimate how far neighbours and trees agree with suspicious labels, and the bound of the rate.

    Parameters
    ----------
    estimate : RateEstimate
        Of symmetric noise, which is part of ``log_q``.
    problem : TuningProblem
        All rows.
    rows : ndarray of shape (n,)
        Those that are predicted, each by a model that has not seen it.
    log_q : Tensor of shape (n, C)
        Log-probabilities of the observed labels.
    labels : Tensor of shape (n,)
        Observed labels.
    """
    if not _is_enough(estimate, problem):
        return estimate
    rows, first = np.unique(rows, return_index=True)  # a row is not its own neighbour
    index = torch.as_tensor(first, device=log_q.device)
    q, observed = torch.exp(log_q[index]).cpu().numpy(), labels[index].cpu().numpy()
    q_label = q[np.arange(len(q)), observed]
    suspicious = (estimate.held_out / problem.n_classes) / q_label > 0.5
    agreement = max(
        neighbour_agreement(problem.features, rows, q, observed, suspicious),
        tree_agreement(problem.trees, rows, q, observed, suspicious),
    )
    most = least_bound(problem.trees) * problem.n_classes / (problem.n_classes - 1)
    return estimate._replace(agreement=agreement, most=min(1.0, most))


def is_believable(estimate: RateEstimate, problem: TuningProblem) -> bool:
    """Whether an estimate that was checked is about noise: the three questions of this module."""
    return is_possible(estimate, problem) and estimate.agreement < _MOST_AGREEMENT


def is_possible(estimate: RateEstimate, problem: TuningProblem) -> bool:
    """Whether an estimate may be about noise, though the model may not fit: a model that fits better is to be asked."""
    rate = 0.5 * (estimate.held_out + estimate.lowest)
    strong, clear = estimate.evidence >= _EVIDENCE, estimate.clear >= 0.5
    if problem.n_classes == 2:
        told_apart = (strong and clear) or not _has_few_rows(problem)
    else:
        told_apart = strong or clear
    return _is_enough(estimate, problem) and rate <= min(_SLACK * estimate.most, _HIGHEST) and told_apart


def is_possible_share(wrong: float, problem: TuningProblem) -> bool:
    """Whether a share of wrong labels matters, and clear rows allow it."""
    return not _has_few_rows(problem) and _LEAST_SHARE <= wrong <= _SLACK * least_bound(problem.trees)


def _has_few_rows(problem: TuningProblem) -> bool:
    return problem.features.n_rows * (problem.n_classes - 1) < _FEW


def _is_enough(estimate: RateEstimate, problem: TuningProblem) -> bool:
    """Whether enough labels are wrong to matter, also by training rows unless a model can explain any labels of theirs."""
    rate = estimate.rate if problem.is_wide else estimate.lowest
    return rate * (problem.n_classes - 1) / problem.n_classes >= _LEAST_SHARE


def least_bound(trees: Trees) -> float:
    """Upper bound of the share of wrong labels, if these are wrong at random.

    It is the least upper limit, by Wilson's score interval, of the share of labels that are not the predicted ones, among the
    rows that trees are surest of.
    """
    surest = np.argsort(-trees.proba.max(1), kind="stable")
    wrong = (trees.proba.argmax(1) != trees.labels)[surest]
    sizes = [max(_FEWEST_SURE, int(share * len(wrong))) for share in _SUREST]
    tests = [binomtest(int(wrong[:m].sum()), m) for m in sizes if m <= len(wrong)]
    return min((float(test.proportion_ci(_LEVEL, "wilson").high) for test in tests), default=1.0)


def tree_agreement(trees: Trees, rows: np.ndarray, q: np.ndarray, labels: np.ndarray, suspicious: np.ndarray) -> float:
    """Excess of the trees' probability of suspicious labels over the model's, less the same for other labels."""
    _, here, known = np.intersect1d(rows, trees.rows, assume_unique=True, return_indices=True)
    suspicious, labels = suspicious[here], labels[here]
    if suspicious.sum() < _FEWEST_SUSPICIOUS or suspicious.all():
        return 0.0
    excess = trees.proba[known] - q[here]
    of_labels = excess[np.arange(len(labels)), labels]
    others = (excess.sum(1) - of_labels)[~suspicious] / (q.shape[1] - 1)
    return float(of_labels[suspicious].mean() - others.mean())


def neighbour_agreement(
    features: Features, rows: np.ndarray, q: np.ndarray, labels: np.ndarray, suspicious: np.ndarray
) -> float:
    """How much more often than predicted the nearest rows have the label of a suspicious row."""
    some = slice(None, None, -(-len(rows) // _MOST_ROWS))
    rows, q, labels, (queries,) = rows[some], q[some], labels[some], np.nonzero(suspicious[some])
    if len(queries) < _FEWEST_SUSPICIOUS or len(rows) <= _NEIGHBOURS:
        return 0.0
    queries = queries[:: -(-len(queries) // _MOST_SUSPICIOUS)]
    x = features.select_rows(rows)
    # brute force: the only way for sparse rows, and the fastest for many features
    nearest = NearestNeighbors(n_neighbors=_NEIGHBOURS + 1, algorithm="brute").fit(x).kneighbors(x[queries])[1]
    label = labels[queries][:, None]
    excess = (labels[nearest] == label) - q[nearest, label]
    others = nearest != queries[:, None]
    return float(excess[others].mean())
