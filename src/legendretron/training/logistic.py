r"""Multinomial logistic regression, many at once, to the minimum.

Runs share the rows of the features and differ by the weights of the rows, by the penalty and by the start: folds of a
cross-validation are weights of zero and one. So all of them need only two products with the features in an iteration, of the
width of all runs together, and no copy of a row is made.

With symmetric noise, :math:`q = (1 - \epsilon) p + \epsilon / C`, the loss is :math:`-\log q_y`. Its gradient is that without
noise, row by row times the probability :math:`(1 - \epsilon) p_y / q_y` that the label has not been replaced. With these
weights, the Hessian of logistic regression is positive and bounds the true one from above: a step by it is one of
expectation-maximization. With a transition matrix, :math:`q = T^\top p`, the gradient is that with the
probabilities :math:`p_i T_{iy} / q_y` of the true classes in place of the label, and the plain Hessian bounds the true one
from above.

A canonical link may take the place of softmax+: then the loss is its canonical one, :math:`F(z) - z_y`, which is convex too
and has the gradient :math:`p(z) - e_y`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from legendretron.links import Link
from legendretron.simplex import log_softmax_plus, predicted_class
from legendretron.training.descent import LBFGS, AfterIteration, descend
from legendretron.training.features import DenseFeatures, Features
from legendretron.training.logistic_newton import Newton, Whitened
from legendretron.training.logistic_objective import Objective

#: Most parameters of a run, and most multiplications for the Hessians of all runs, for Newton's method.
_NEWTON_PARAMETERS, _NEWTON_WORK = 256, 2e8
#: The same with a link, whose loss can be so ill-conditioned that L-BFGS takes thousands of iterations.
_NEWTON_PARAMETERS_WITH_LINK, _NEWTON_WORK_WITH_LINK = 1024, 5e8
#: Most parameters for L-BFGS preconditioned by the Hessian of some rows, and rows needed for each parameter.
_WHITENED_PARAMETERS, _ROWS_FOR_A_PARAMETER = 1024, 4
#: Most parameters of all runs that are fitted side by side: L-BFGS keeps twenty times as many numbers.
_PARAMETERS_AT_ONCE = 2_000_000


class Logistic(NamedTuple):
    """``R`` fitted models."""

    weight: Tensor  #: shape (R, d, K)
    bias: Tensor  #: shape (R, K)
    n_iter: Tensor  #: iterations of each run, shape (R,)
    converged: Tensor  #: whether the gradient is near the tolerance, shape (R,)
    largest_gradient: Tensor  #: largest entry of each run's gradient, shape (R,)
    rate: Tensor  #: rate of symmetric noise, shape (R,); 0 if there is none

    def first(self, runs: int) -> Logistic:
        """The first runs."""
        return Logistic(*(tensor[:runs] for tensor in self))


@torch.no_grad()
def fit_logistic(
    features: Features,
    labels: Tensor,
    n_classes: int,
    weights: Tensor,
    alpha: Tensor,
    start: tuple[Tensor, Tensor] | None = None,
    *,
    symmetric: bool = True,
    penalize_intercept: bool = False,
    rate: Tensor | None = None,
    learn_rate: bool = False,
    transition: Tensor | None = None,
    link: Link | None = None,
    variance: Tensor | None = None,
    tol: float = 1e-4,
    max_iter: int = 500,
    after_iteration: AfterIteration | None = None,
) -> Logistic:
    r"""Minimize :math:`-\sum_i w_{ri} \log p_{y_i}(x_i) + \tfrac{\alpha_r}{2} |W_r|^2` for all runs ``r``.

    By Newton's method if the data are small, else by L-BFGS, for tables of many rows and few features with the Hessian of
    some rows to begin with; with noise in small data, with that of all rows.

    Parameters
    ----------
    features : Features
        ``N`` rows, shared by all runs.
    labels : Tensor of shape (N,)
        Classes from 0; the last is the reference.
    weights : Tensor of shape (N, R)
        Shares of the rows; each column sums to 1.
    alpha : Tensor of shape (R,)
        Strengths of the penalty, see :class:`~legendretron.training.model.Penalty`.
    start : tuple of Tensor, optional
        Weight ``(R, d, K)`` and bias ``(R, K)`` to begin with; zeros if not given.
    rate, learn_rate
        Rates of symmetric noise in the labels, shape (R,); where to begin, if they are learned. Then nothing is convex.
    transition : Tensor of shape (C, C), optional
        Matrix of noise in the labels, in place of a rate.
    variance : Tensor of shape (R, d), optional
        Variances of the features for each run, to penalize weights as if each run had standardized its own rows.
    link : Link, optional
        Canonical, without run axes, in the dtype and on the device of the features; not with noise.
    tol, max_iter, after_iteration
        As for :func:`~legendretron.training.descent.descend`.
    """
    runs, d, k = len(alpha), features.n_features, n_classes - 1
    at_once = max(1, _PARAMETERS_AT_ONCE // (d * k + k))
    if runs > at_once:
        parts = []
        for first in range(0, runs, at_once):
            some = slice(first, first + at_once)
            parts.append(
                fit_logistic(
                    features, labels, n_classes, weights[:, some], alpha[some],
                    None if start is None else (start[0][some], start[1][some]),
                    symmetric=symmetric, penalize_intercept=penalize_intercept,
                    rate=None if rate is None else rate[some], learn_rate=learn_rate, transition=transition,
                    link=link, variance=None if variance is None else variance[some],
                    tol=tol, max_iter=max_iter, after_iteration=after_iteration,
                )
            )  # fmt: skip
        return Logistic(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))
    learn_rate = learn_rate and rate is not None
    size, dense = (d + 1) * k + int(learn_rate), isinstance(features, DenseFeatures)
    if isinstance(features, DenseFeatures) and 2 * int((used := weights.any(1)).sum()) < features.n_rows:
        # a copy of the rows that count costs less than passes over the others
        features, labels, weights = DenseFeatures(features.x[used]), labels[used], weights[used]
    most, most_work = _NEWTON_PARAMETERS, _NEWTON_WORK
    if link is not None:
        most, most_work = _NEWTON_PARAMETERS_WITH_LINK, _NEWTON_WORK_WITH_LINK
    by_newton = dense and size <= most and runs * features.n_rows * size**2 <= most_work
    sample_rows = (
        None if by_newton or not dense or learn_rate or link is not None else _draw_rows(features.n_rows, d, k)
    )
    objective = Objective(
        features, labels, n_classes, weights, alpha, symmetric, penalize_intercept, rate, learn_rate, transition, link,
        variance, every_class=not by_newton and sample_rows is None,
    )  # fmt: skip
    x = objective.flat(*((None, None) if start is None else start))
    if learn_rate:
        assert rate is not None
        x[:, -1] = torch.logit(rate, eps=1e-6)
    metric: Newton | Whitened | LBFGS
    noisy = rate is not None or transition is not None
    if by_newton and (learn_rate or not noisy):
        metric = Newton(objective, x)
    elif by_newton or sample_rows is not None:
        from_zero = noisy and (start is None or not bool(start[0].any()))
        # with noise, the Hessian is only a bound: L-BFGS learns how far it is from the true one
        metric = Whitened(
            objective, x, None if sample_rows is None else sample_rows.to(labels.device), from_zero=from_zero
        )
    else:
        metric = LBFGS(x)
    end = descend(objective, metric, x, tol=tol, max_iter=max_iter, after_iteration=after_iteration)
    weight, bias = objective.solution(end.x)
    largest = end.gradient.abs().amax(1).cpu()
    rates = objective.rate(end.x)
    noise_rates = torch.zeros_like(alpha) if rates is None else rates.clone()
    return Logistic(weight, bias, end.n_iter.cpu(), largest <= 10 * tol, largest, noise_rates)


def _draw_rows(n: int, d: int, k: int) -> Tensor | None:
    """Rows whose Hessian costs about half a pass over all rows, or two passes where they are few; None if it costs more."""
    size = (d + 1) * k
    number = max(int(2 * n * d * k / size**2), _ROWS_FOR_A_PARAMETER * size)
    if size > _WHITENED_PARAMETERS or number > n // 2 or number * size**2 > 8 * n * d * k:
        return None
    # not evenly spaced rows, which would be alike in a periodic table
    chosen = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:number]
    return chosen.sort().values


@torch.no_grad()
def logistic_log_proba(
    features: Features, n_classes: int, weight: Tensor, bias: Tensor, link: Link | None = None
) -> Iterator[tuple[slice, Tensor]]:
    """Log-probabilities under every run, weight ``(R, d, K)`` and bias ``(R, K)``: parts of the rows, with (n, R, C) each.

    A link without run axes takes the place of softmax+.
    """
    labels, alpha = weight.new_zeros(0), weight.new_zeros(len(weight))
    objective = Objective(features, labels, n_classes, labels, alpha, False, False)
    for part in objective.parts:
        z = objective.log_odds(part, weight, bias)
        if link is None:
            yield part, log_softmax_plus(z)
        else:
            yield part, link._log_proba(z.reshape(-1, z.shape[-1])).view(*z.shape[:-1], n_classes)


@torch.no_grad()
def logistic_scores(
    fitted: Logistic, features: Features, labels: Tensor, weights: Tensor, n_classes: int, link: Link | None = None
) -> tuple[Tensor, Tensor]:
    """Mean log-loss and accuracy of every run, each of shape (R,); arguments are those of :func:`fit_logistic`."""
    loss, accuracy = weights.new_zeros(weights.shape[1]), weights.new_zeros(weights.shape[1])
    for part, log_p in logistic_log_proba(features, n_classes, fitted.weight, fitted.bias, link):
        index = labels[part].view(-1, 1, 1).expand(*log_p.shape[:-1], 1)
        loss -= (log_p.gather(-1, index).squeeze(-1) * weights[part]).sum(0)
        accuracy += ((predicted_class(log_p) == index.squeeze(-1)) * weights[part]).sum(0)
    return loss, accuracy
