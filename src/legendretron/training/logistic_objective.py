"""Mean loss plus penalty of logistic regression, of many runs at once, with its gradient.

The formulas are in :mod:`legendretron.training.logistic`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from legendretron.accelerate.support import compiled_applies
from legendretron.links import Link
from legendretron.links.noise_models import observed_loss
from legendretron.simplex import append_reference, softmax_nll
from legendretron.training.features import DenseFeatures, Features, SparseFeatures


def _chunk_loss(z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Log-loss (n, R) of log-odds ``(n, R, K)``, and the probabilities minus the one-hot labels."""
    nll, _, residual = softmax_nll(z, labels.unsqueeze(1).expand(z.shape[:-1]), torch.ones_like(z[..., 0]))
    return nll, residual


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


class Objective:
    """Mean loss plus penalty of all runs, and its gradient, for parameters of shape (R, P).

    A row holds ``W`` and ``b`` with ``m`` columns: one for each class but the reference, ``P = (d + 1) K``, or with
    ``every_class`` one for the reference, too. Then the same probabilities can be written in many ways; the penalty, which
    must be symmetric, is least for the one whose columns sum to zero, and gradients keep sums at zero. There no class is
    singled out, which for methods that know only gradients is a problem of better condition.

    With ``learn_rate`` there is one more parameter, the logit of the rate of noise; else the rate is ``rate``, of shape (R,).
    ``transition`` is a matrix of noise that all runs share; ``link`` a canonical link in place of softmax+, without noise.
    With ``variance``, of shape (R, d), the penalty is on weights in units of each run's own standard deviations.
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
        variance: Tensor | None = None,
        *,
        every_class: bool = False,
    ) -> None:
        self.known_rate, self.learn_rate, self.link = rate, learn_rate, link
        self.transition = None if transition is None else transition.contiguous()
        assert isinstance(features, DenseFeatures | SparseFeatures)
        values = features.x if isinstance(features, DenseFeatures) else features.values
        self.features = features
        self.labels, self.weights, self.alpha = labels.contiguous(), weights.contiguous(), alpha
        self.runs, self.d, self.k = len(alpha), features.n_features, n_classes - 1
        #: of the penalty on each feature's weights, (R, d)
        self.strength = alpha[:, None].expand(-1, self.d) if variance is None else alpha[:, None] * variance
        self.symmetric = symmetric and self.k > 1
        self.every_class = every_class and self.symmetric
        self.compiled = link is None and compiled_applies(values) and (transition is None or not self.every_class)
        self.m = n_classes if self.every_class else self.k
        self.penalize_intercept = penalize_intercept
        self.parts = features.blocks(self.runs * n_classes)
        # last point, value and gradient: runs that have not moved are not evaluated again
        self._last: tuple[Tensor, Tensor, Tensor] | None = None

    # --- parameters ---

    def flat(self, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Parameters for a weight ``(R, d, K)`` and a bias ``(R, K)``; zeros if there are none."""
        size = (self.d + 1) * self.m + int(self.learn_rate)
        flat = torch.zeros(self.runs, size, dtype=self.weights.dtype, device=self.weights.device)
        for mine, given in zip(self.split(flat), (weight, bias), strict=True):
            if given is None:
                continue
            mine[..., : self.k] = given
            if self.every_class:
                mine.sub_(mine.mean(-1, keepdim=True))
        return flat

    def split(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Weight ``(R, d, m)`` and bias ``(R, m)`` as views."""
        end = self.d * self.m
        weight, bias = flat[:, :end], flat[:, end : end + self.m]
        return weight.view(len(flat), self.d, self.m), bias

    def solution(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Weight ``(R, d, K)`` and bias ``(R, K)`` as copies."""
        if not self.every_class:
            weight, bias = self.split(flat)
            return weight.clone(), bias.clone()
        weight, bias = (part[..., :-1] - part[..., -1:] for part in self.split(flat))
        return weight, bias

    def rate(self, flat: Tensor, which: Tensor | slice = slice(None)) -> Tensor | None:
        """Noise rate of each run, or of some whose parameters are given; None without noise."""
        if self.learn_rate:
            return torch.sigmoid(flat[:, -1])
        return None if self.known_rate is None else self.known_rate[which]

    # --- value and gradient ---

    def log_odds(self, part: slice, weight: Tensor, bias: Tensor) -> Tensor:
        """Shape (n, R, m)."""
        z = self.features.multiply(part, _join_runs(weight))
        return z.view(-1, len(weight), weight.shape[-1]).add_(bias)

    def __call__(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Value (R,) and gradient (R, P)."""
        if self._last is None:
            value, gradient = self._evaluate(flat, slice(None))
        else:
            before, value, gradient = self._last
            moved = (before != flat).any(1)
            if bool(moved.all()):
                value, gradient = self._evaluate(flat, slice(None))
            elif bool(moved.any()):
                value, gradient = value.clone(), gradient.clone()
                value[moved], gradient[moved] = self._evaluate(flat[moved], moved)
        self._last = flat.clone(), value, gradient
        return value, gradient

    def _evaluate(self, flat: Tensor, which: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Value and gradient of some of the runs."""
        loss = self._compiled_loss if self.compiled else self._plain_loss
        return self._add_penalty(flat, which, *loss(flat, which))

    def _compiled_loss(self, flat: Tensor, which: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Mean loss and its gradient for some of the runs."""
        from legendretron.accelerate.cpu.logistic import log_loss_residuals

        weight, bias = self.split(flat)
        runs, width = len(flat), len(flat) * self.m
        joined, shares = _join_runs(weight), self.weights[:, which].contiguous()
        rate = self.rate(flat, which)
        rates = torch.zeros_like(flat[:, 0]) if rate is None else rate
        gradient, of_weight = torch.zeros_like(flat), flat.new_zeros(self.d, width)
        totals, of_bias = np.zeros(2 * runs), np.zeros(width)
        matrix = flat.new_zeros(0) if self.transition is None else self.transition.view(-1)
        numbers = bias.contiguous().view(-1).numpy(), rates.contiguous().numpy(), matrix.numpy()
        for part in self.parts:
            z = self.features.multiply(part, joined)
            log_loss_residuals(
                z.view(-1).numpy(),
                self.labels[part].numpy(),
                shares[part].view(-1).numpy(),
                *numbers,
                runs,
                self.m,
                not self.every_class,
                totals,
                of_bias,
            )
            self.features.add_transposed(part, z, of_weight)
        views = self.split(gradient)
        views[0].copy_(of_weight.view(self.d, runs, self.m).transpose(0, 1))
        views[1].copy_(torch.from_numpy(of_bias).view(runs, self.m))
        value, of_rate = torch.from_numpy(totals).to(flat).view(2, runs)
        if self.learn_rate:
            gradient[:, -1] = of_rate
        return value, gradient

    def _plain_loss(self, flat: Tensor, which: Tensor | slice) -> tuple[Tensor, Tensor]:
        """As :meth:`_compiled_loss`, by plain operations."""
        weight, bias = self.split(flat)
        value, gradient = torch.zeros_like(flat[:, 0]), torch.zeros_like(flat)
        of_weight, of_bias = flat.new_zeros(self.d, len(flat) * self.m), self.split(gradient)[1]
        shares, rate = self.weights[:, which], self.rate(flat, which)
        for part in self.parts:
            z, labels, share = self.log_odds(part, weight, bias), self.labels[part], shares[part]
            if self.every_class:
                z = z[..., :-1] - z[..., -1:]
            if self.link is not None:
                nll, residual = _chunk_loss_of_link(z, labels, self.link)
            elif self.transition is None:
                nll, residual = _chunk_loss(z, labels)
            else:
                nll, residual = _chunk_loss_with_matrix(z, self.transition.mT[labels])
            if rate is not None:
                nll, kept = observed_loss(nll, rate, self.k + 1)
                residual.mul_(kept.unsqueeze(-1))
                if self.learn_rate:
                    gradient[:, -1] += ((rate - 1.0 + kept) * share).sum(0)
            value += (nll * share).sum(0)
            residual.mul_(share.unsqueeze(-1))
            if self.every_class:
                residual = torch.cat([residual, -residual.sum(-1, keepdim=True)], dim=-1)
            of_bias += residual.sum(0)
            self.features.add_transposed(part, residual.reshape(len(nll), -1), of_weight)
        self.split(gradient)[0].copy_(of_weight.view(self.d, len(flat), self.m).transpose(0, 1))
        return value, gradient

    def _add_penalty(
        self, flat: Tensor, which: Tensor | slice, value: Tensor, gradient: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add the penalty of some of the runs to a mean loss, and its gradient, in place."""
        weight, bias = self.split(flat)
        of_weight, of_bias = self.split(gradient)
        alpha, strength = self.alpha[which], self.strength[which]
        squares = torch.linalg.vecdot(weight, weight)
        of_weight.addcmul_(strength.unsqueeze(-1), weight)
        if self.symmetric and not self.every_class:  # with the reference, whose weights are 0, columns are centered
            total = weight.sum(-1)
            squares -= total.square() / (self.k + 1)
            of_weight -= (strength * total / (self.k + 1)).unsqueeze(-1)
        value += 0.5 * torch.linalg.vecdot(strength, squares)
        if self.penalize_intercept:
            away = bias[:, :-1] - bias[:, -1:] if self.every_class else bias
            value += 0.5 * alpha * away.square().sum(1)
            of_bias[:, : self.k] += alpha[:, None] * away
            if self.every_class:
                of_bias[:, -1] -= alpha * away.sum(1)
        return value, gradient


def _join_runs(weight: Tensor) -> Tensor:
    """All runs' weights ``(R, d, m)`` as one matrix (d, R m)."""
    runs, d, m = weight.shape
    return weight.transpose(0, 1).reshape(d, runs * m)
