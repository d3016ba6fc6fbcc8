r"""Multinomial logistic regression, many at once, to the minimum.

Runs share the rows of the features and differ by the weights of the rows, by the penalty and by the start: folds of a
cross-validation are weights of zero and one. So all of them need only two products with the features in an iteration, of the
width of all runs together, and no copy of a row is made.

With symmetric noise, :math:`q = (1 - \epsilon) p + \epsilon / C`, the loss is :math:`-\log q_y`. Its gradient is that without
noise, row by row times the probability :math:`(1 - \epsilon) p_y / q_y` that the label has not been replaced. With these
weights, the Hessian of logistic regression is positive and above the true one: Newton's method with it is a step of
expectation-maximisation. With a transition matrix, :math:`q = T^\top p`, the gradient is that of logistic regression with the
probabilities :math:`p_i T_{iy} / q_y` of the true classes in place of the label, and the Hessian of logistic regression as
it is is above the true one.

A canonical link may take the place of softmax+: then the loss is its canonical one, :math:`F(z) - z_y`, which is convex too
and has the gradient :math:`p(z) - e_y`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from legendretron._internal.chunks import chunks
from legendretron.links import Link
from legendretron.simplex import append_reference, log_softmax_plus, predicted_class
from legendretron.training.batched_descent import descend
from legendretron.training.batched_lbfgs import Curvature
from legendretron.training.features import DenseFeatures, Features, SparseFeatures

__all__ = ["Logistic", "fit_logistic", "logistic_log_proba", "logistic_scores", "observed_loss"]

#: Parameters of a run, and multiplications for the Hessians of all runs, up to which Newton's method is the faster one.
_NEWTON_PARAMETERS, _NEWTON_WORK = 256, 5e7
#: The same with a link, whose loss can be so much more curved in some directions that L-BFGS takes thousands of iterations.
_NEWTON_PARAMETERS_WITH_LINK, _NEWTON_WORK_WITH_LINK = 1024, 5e8
#: Parameters of all runs that are fitted side by side: L-BFGS remembers twenty times as many numbers.
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


class _Products:
    """Products of all rows of a feature matrix, and of its transpose, with matrices."""

    def __init__(self, features: Features) -> None:
        self.n_rows, self.n_features = features.n_rows, features.n_features
        self._dense: Tensor | None = None
        if isinstance(features, DenseFeatures):
            self._dense = features.x
            return
        assert isinstance(features, SparseFeatures)
        # scipy's products are several times faster than torch's on the CPU; on CUDA the transpose is made once, since a
        # product with the transpose of compressed rows is slow
        starts, columns, values = (t.cpu().numpy() for t in (features.starts, features.columns, features.values))
        self._csr = scipy.sparse.csr_array((values, columns, starts), shape=(self.n_rows, self.n_features))
        self._on_cuda = features.values.is_cuda
        if self._on_cuda:
            self._pair = _on_device(self._csr, features.values), _on_device(self._csr.T.tocsr(), features.values)

    def parts(self, width: int) -> list[slice]:
        """Rows to take at once; all of a sparse matrix, which is costly to cut."""
        return chunks(self.n_rows, width) if self._dense is not None else [slice(0, self.n_rows)]

    def with_ones(self) -> Tensor:
        """All rows of a dense matrix with a column of ones."""
        assert self._dense is not None
        return torch.cat([self._dense, torch.ones_like(self._dense[:, :1])], dim=1)

    def forward(self, part: slice, matrix: Tensor) -> Tensor:
        """``X[part] @ matrix``."""
        if self._dense is not None:
            return self._dense[part] @ matrix
        if self._on_cuda:
            return self._pair[0] @ matrix
        return torch.from_numpy(np.asarray(self._csr @ matrix.numpy()))

    def backward(self, part: slice, matrix: Tensor) -> Tensor:
        """``X[part].T @ matrix``."""
        if self._dense is not None:
            return self._dense[part].mT @ matrix
        if self._on_cuda:
            return self._pair[1] @ matrix
        return torch.from_numpy(np.asarray(self._csr.T @ matrix.numpy()))


def _on_device(csr: scipy.sparse.csr_array, like: Tensor) -> Tensor:
    starts, columns, values = (
        torch.as_tensor(part, device=like.device) for part in (csr.indptr, csr.indices, csr.data)
    )
    return torch.sparse_csr_tensor(starts, columns, values, size=csr.shape)


def _chunk_loss(z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Log-loss (n, R) of log-odds ``(n, R, K)``, which become the probabilities minus the one-hot labels."""
    n, _, k = z.shape
    top = z.amax(-1).clamp_(min=0.0)
    index = labels.clamp(max=k - 1).view(n, 1, 1).expand(n, z.shape[1], 1)
    own = (labels < k).to(z.dtype).view(n, 1, 1)  # the last class has no column
    picked = (z.gather(-1, index) * own).squeeze(-1)
    z.sub_(top.unsqueeze(-1)).exp_()
    total = z.sum(-1).add_(torch.exp(-top))
    z.div_(total.unsqueeze(-1))
    z.scatter_add_(-1, index, -own.expand(n, z.shape[1], 1))
    return top.add_(total.log_()).sub_(picked), z


def observed_loss(nll: Tensor, rate: Tensor | float, n_classes: int) -> tuple[Tensor, Tensor]:
    """Log-loss of observed labels from that of true ones, and the probability that the label has not been replaced."""
    kept = (1.0 - rate) * torch.exp(-nll)
    q = kept + rate / n_classes
    return -torch.log(q), kept / q


def _chunk_loss_with_matrix(z: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """As :func:`_chunk_loss`, for a transition matrix: of each row the column of its label, (n, C)."""
    p = torch.softmax(append_reference(z), dim=-1)
    joint = p * columns.unsqueeze(1)
    q = joint.sum(-1).clamp_(min=torch.finfo(z.dtype).tiny)
    return -torch.log(q), (p - joint / q.unsqueeze(-1))[..., :-1].contiguous()


def _chunk_loss_of_link(z: Tensor, labels: Tensor, link: Link) -> tuple[Tensor, Tensor]:
    """As :func:`_chunk_loss`, for the canonical loss of a link without run axes."""
    n, runs, k = z.shape
    scores, p = link._scores_and_proba(append_reference(z).reshape(n * runs, k + 1))
    index = labels.view(n, 1, 1).expand(n, runs, 1)
    loss = -scores.view(n, runs, k + 1).gather(-1, index).squeeze(-1)
    residual = p.view(n, runs, k + 1).scatter_add(-1, index, -torch.ones_like(index, dtype=p.dtype))
    return loss, residual[..., :-1].contiguous()


class _Objective:
    """Mean loss plus penalty of all runs, and its gradient, for parameters of shape (R, d K + K).

    With ``learn_rate`` there is one more, the logit of the rate of noise; else the rate is ``rate``, of shape (R,).
    ``transition`` is a matrix of noise that all runs share; ``link`` a canonical link in place of softmax+, without noise.
    """

    def __init__(
        self,
        features: Features,
        labels: Tensor,
        n_classes: int,
        weights: Tensor,
        alpha: Tensor,
        symmetric: bool,
        penalize_intercept: bool,
        rate: Tensor | None = None,
        learn_rate: bool = False,
        transition: Tensor | None = None,
        link: Link | None = None,
    ) -> None:
        self.known_rate, self.learn_rate, self.link = rate, learn_rate, link
        self.columns = None if transition is None else transition.mT.contiguous()
        self.products, self.labels, self.weights, self.alpha = _Products(features), labels, weights, alpha
        self.runs, self.d, self.k = len(alpha), features.n_features, n_classes - 1
        self.symmetric = symmetric and self.k > 1
        self.penalize_intercept = penalize_intercept
        self.parts = self.products.parts(self.runs * n_classes)

    def split(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        weight, bias = flat[:, : self.d * self.k], flat[:, self.d * self.k : (self.d + 1) * self.k]
        return weight.view(self.runs, self.d, self.k), bias

    def rate(self, flat: Tensor) -> Tensor | None:
        """Of noise, for each run; None if there is none."""
        return torch.sigmoid(flat[:, -1]) if self.learn_rate else self.known_rate

    def log_odds(self, part: slice, weight: Tensor, bias: Tensor) -> Tensor:
        """Shape (n, R, K)."""
        side_by_side = weight.transpose(0, 1).reshape(self.d, self.runs * self.k)
        return self.products.forward(part, side_by_side).view(-1, self.runs, self.k).add_(bias)

    def __call__(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        weight, bias = self.split(flat)
        value = torch.zeros_like(self.alpha)
        gradient = torch.zeros_like(flat)
        of_weight, of_bias = self.split(gradient)
        rate = self.rate(flat)
        for part in self.parts:
            z, labels, share = self.log_odds(part, weight, bias), self.labels[part], self.weights[part]
            if self.link is not None:
                nll, residual = _chunk_loss_of_link(z, labels, self.link)
            elif self.columns is None:
                nll, residual = _chunk_loss(z, labels)
            else:
                nll, residual = _chunk_loss_with_matrix(z, self.columns[labels])
            if rate is not None:
                nll, kept = observed_loss(nll, rate, self.k + 1)
                residual.mul_(kept.unsqueeze(-1))
                if self.learn_rate:
                    gradient[:, -1] += ((rate - 1.0 + kept) * share).sum(0)
            value += (nll * share).sum(0)
            residual.mul_(share.unsqueeze(-1))
            of_bias += residual.sum(0)
            product = self.products.backward(part, residual.view(len(nll), -1))
            of_weight += product.view(self.d, self.runs, self.k).transpose(0, 1)
        alpha = self.alpha[:, None, None]
        value += 0.5 * self.alpha * weight.square().sum((1, 2))
        of_weight += alpha * weight
        if self.symmetric:
            total = weight.sum(-1, keepdim=True)
            value -= 0.5 * self.alpha * total.square().sum((1, 2)) / (self.k + 1)
            of_weight -= alpha * total / (self.k + 1)
        if self.penalize_intercept:
            value += 0.5 * self.alpha * bias.square().sum(1)
            of_bias += self.alpha[:, None] * bias
        return value, gradient


class _Newton:
    r"""Directions by the Hessian itself, for problems so small that it is cheap: a handful of iterations instead of hundreds.

    With :math:`x` extended by a one, the Hessian of a run is
    :math:`\sum_i w_i (\mathrm{diag}(p_i) - p_i p_i^\top) \otimes x_i x_i^\top`, plus the penalty; with a link, its Jacobian
    :math:`\nabla^2 F(z_i)` takes the place of the matrix in brackets.
    """

    def __init__(self, objective: _Objective, x: Tensor) -> None:
        self.objective, self.x = objective, x
        self.rows = objective.products.with_ones()
        d, k = objective.d, objective.k
        classes = torch.eye(k).to(x)
        if objective.symmetric:
            classes = classes - 1.0 / (k + 1)
        of_bias = float(objective.penalize_intercept) * torch.eye(k).to(x)
        self.penalty = torch.block_diag(torch.kron(torch.eye(d).to(x), classes), of_bias)
        self.labels = objective.labels.view(1, -1, 1).expand(objective.runs, -1, 1)

    def update(self, step: Tensor, change: Tensor) -> None:
        self.x = self.x + step

    def direction(self, gradient: Tensor) -> Tensor:
        """Minus the inverse Hessian times the gradient; minus the gradient where rounding has spoilt the Hessian."""
        objective, rows = self.objective, self.rows
        runs, k, n, width = objective.runs, objective.k, *rows.shape
        z = objective.log_odds(slice(0, n), *objective.split(self.x))
        if objective.link is not None:
            return self._solved(self._hessian_of_link(z, objective.link), gradient)
        p = torch.softmax(torch.cat([z, torch.zeros_like(z[..., :1])], dim=-1), dim=-1).transpose(0, 1)
        share = objective.weights.mT.unsqueeze(-1)  # (R, n, 1)
        rate = objective.rate(self.x)
        if rate is not None:
            own = (1.0 - rate)[:, None, None] * p.gather(-1, self.labels)
            kept = own / (own + rate[:, None, None] / (k + 1))
            if objective.learn_rate:
                # the curvature of the logit; where the labels say little, a part of what they would say at most
                most = rate * (1.0 - rate)
                curvature = torch.maximum(most - (share * kept * (1.0 - kept)).sum((1, 2)), 0.25 * most)
                of_rate = (gradient[:, -1] / curvature).clamp(-2.0, 2.0)
                gradient = gradient[:, :-1]
            share = share * kept
        p = p[..., :k]
        # entries in the order of the parameters: by feature, then by class
        outer = (rows.view(1, n, width, 1) * (p * share.sqrt()).unsqueeze(2)).reshape(runs, n, width * k)
        hessian = self.objective.alpha[:, None, None] * self.penalty - outer.mT @ outer
        blocks = hessian.view(runs, width, k, width, k)
        weighted = rows.mT.expand(runs, width, n)
        for c in range(k):
            blocks[:, :, c, :, c] += weighted @ (rows * (p[..., c : c + 1] * share))
        found = self._solved(hessian, gradient)
        return torch.cat([found, -of_rate[:, None]], dim=1) if objective.learn_rate else found

    @staticmethod
    def _solved(hessian: Tensor, gradient: Tensor) -> Tensor:
        factor, failed = torch.linalg.cholesky_ex(hessian)
        found = torch.cholesky_solve(gradient.unsqueeze(-1), factor).squeeze(-1)
        good = (failed == 0) & found.isfinite().all(1)
        return -torch.where(good[:, None], found, gradient)

    def _hessian_of_link(self, z: Tensor, link: Link) -> Tensor:
        objective, rows = self.objective, self.rows
        runs, k, n, width = objective.runs, objective.k, *rows.shape
        jacobian = link._jacobian(z.reshape(n * runs, k)).view(n, runs, k, k).transpose(0, 1)
        jacobian = jacobian * objective.weights.mT[..., None, None]  # (R, n, K, K)
        hessian = objective.alpha[:, None, None] * self.penalty
        blocks = hessian.view(runs, width, k, width, k)
        columns = rows.mT.expand(runs, width, n)
        for a in range(k):
            for b in range(a + 1):
                block = columns @ (rows * jacobian[..., a, b].unsqueeze(-1))
                blocks[:, :, a, :, b] += block
                if a != b:
                    blocks[:, :, b, :, a] += block.mT
        return hessian


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
    tol: float = 1e-4,
    max_iter: int = 100,
    after_iteration: Callable[[int, Tensor], bool] | None = None,
) -> Logistic:
    r"""Minimise :math:`-\sum_i w_{ri} \log p_{y_i}(x_i) + \tfrac{\alpha_r}{2} |W_r|^2` for all runs ``r``.

    By Newton's method if the data are small, else by L-BFGS. With a link, which takes the place of softmax+, the loss is
    its canonical one, :math:`F(z) - z_y`.

    Parameters
    ----------
    features : Features
        ``N`` rows, shared by all runs.
    labels : Tensor of shape (N,)
        Classes from 0; the last is the reference.
    n_classes : int
        ``C``.
    weights : Tensor of shape (N, R)
        Shares of the rows; each column sums to 1.
    alpha : Tensor of shape (R,)
        Strengths of the penalty.
    start : tuple of Tensor, optional
        Weight ``(R, d, K)`` and bias ``(R, K)`` to begin with; zeros if not given.
    symmetric, penalize_intercept : bool
        See :class:`~legendretron.training.penalty.Penalty`.
    rate : Tensor of shape (R,), optional
        Rate of symmetric noise in the labels; where to begin, if it is learned.
    learn_rate : bool
        Whether it is; then the objective is not convex.
    transition : Tensor of shape (C, C), optional
        Matrix of noise in the labels, in place of a rate.
    link : Link, optional
        Canonical, without run axes, in the dtype and on the device of the features; not with noise.
    tol : float
        Largest entry of the gradient that counts as zero.
    max_iter : int
        Most iterations.
    after_iteration : callable, optional
        Called with the number of the iteration and the objective of each run; returns whether to stop.
    """
    runs, d, k = len(alpha), features.n_features, n_classes - 1
    at_once = max(1, _PARAMETERS_AT_ONCE // (d * k + k))
    if runs > at_once:
        parts = [
            fit_logistic(
                features,
                labels,
                n_classes,
                weights[:, first : first + at_once],
                alpha[first : first + at_once],
                None if start is None else (start[0][first : first + at_once], start[1][first : first + at_once]),
                symmetric=symmetric,
                penalize_intercept=penalize_intercept,
                rate=None if rate is None else rate[first : first + at_once],
                learn_rate=learn_rate,
                transition=transition,
                link=link,
                tol=tol,
                max_iter=max_iter,
                after_iteration=after_iteration,
            )
            for first in range(0, runs, at_once)
        ]
        return Logistic(*(torch.cat(tensors) for tensors in zip(*parts, strict=True)))
    learn_rate = learn_rate and rate is not None
    objective = _Objective(
        features, labels, n_classes, weights, alpha, symmetric, penalize_intercept, rate, learn_rate, transition, link
    )
    x = torch.zeros(runs, d * k + k + int(learn_rate), dtype=weights.dtype, device=weights.device)
    if start is not None:
        for mine, given in zip(objective.split(x), start, strict=True):
            mine.copy_(given)
    if learn_rate:
        assert rate is not None
        x[:, -1] = torch.logit(rate, eps=1e-6)
    size = x.shape[1]
    most, most_work = _NEWTON_PARAMETERS, _NEWTON_WORK
    if link is not None:
        most, most_work = _NEWTON_PARAMETERS_WITH_LINK, _NEWTON_WORK_WITH_LINK
    small = size <= most and runs * features.n_rows * size**2 <= most_work
    by_newton = small and isinstance(features, DenseFeatures)
    curvature = _Newton(objective, x) if by_newton else Curvature(x)
    found = descend(objective, curvature, x, tol=tol, max_iter=max_iter, after_iteration=after_iteration)
    weight, bias = objective.split(found.x)
    largest = found.gradient.abs().amax(1).cpu()
    rates = objective.rate(found.x)
    of_noise = torch.zeros_like(alpha) if rates is None else rates.clone()
    return Logistic(weight.clone(), bias.clone(), found.n_iter.cpu(), largest <= 10 * tol, largest, of_noise)


@torch.no_grad()
def logistic_log_proba(
    features: Features, n_classes: int, weight: Tensor, bias: Tensor, link: Link | None = None
) -> Iterator[tuple[slice, Tensor]]:
    """Log-probabilities under every run, weight ``(R, d, K)`` and bias ``(R, K)``: parts of the rows, with (n, R, C) each.

    A link without run axes takes the place of softmax+.
    """
    labels, alpha = weight.new_zeros(0), weight.new_zeros(len(weight))
    objective = _Objective(features, labels, n_classes, labels, alpha, False, False)
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
        own = labels[part].view(-1, 1, 1).expand(*log_p.shape[:-1], 1)
        loss -= (log_p.gather(-1, own).squeeze(-1) * weights[part]).sum(0)
        accuracy += ((predicted_class(log_p) == own.squeeze(-1)) * weights[part]).sum(0)
    return loss, accuracy
