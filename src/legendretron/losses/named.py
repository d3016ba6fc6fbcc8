r"""The proper losses that have a name and are smooth: log, square, spherical and Matsushita's.

They are functions of probabilities, and criteria like ``torch.nn.CrossEntropyLoss``: called on the logits :math:`x` of all
``C`` classes, they score :math:`q = \mathrm{softmax}(x)`. Softmax is the canonical link of the log-loss only. The canonical
links of the others do not map onto all of :math:`\mathbb{R}^{C-1}`, so a network cannot end in them; combined with softmax
they are strictly proper composite losses, which are not convex in the logits.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from legendretron.losses.criterion import Criterion
from legendretron.simplex import complement, sum_of_others


class _SoftmaxCriterion(Criterion):
    def _log_proba(self, logits: Tensor) -> Tensor:
        return torch.log_softmax(logits, dim=-1)

    def _scores(self, logits: Tensor) -> Tensor:
        return -self._partial_losses(torch.softmax(logits, dim=-1))


class LogLoss(_SoftmaxCriterion):
    r""":math:`\ell_i(q) = -\log q_i`, cross-entropy.

    Bayes risk: the entropy. Regret: the Kullback-Leibler divergence. Canonical link: the inverse of softmax+. As a
    criterion on logits it is ``torch.nn.CrossEntropyLoss``.

    Parameters
    ----------
    weight, reduction, ignore_index, label_smoothing, dim : optional
        See :class:`Criterion`.

    Examples
    --------
    >>> LogLoss().bayes_risk(torch.tensor([0.5, 0.25, 0.25]))
    tensor(1.0397)
    >>> LogLoss()(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.2395)
    """

    def _scores(self, logits: Tensor) -> Tensor:
        return torch.log_softmax(logits, dim=-1)

    def _partial_losses(self, q: Tensor) -> Tensor:
        return -torch.log(q)

    def _bayes_risk(self, p: Tensor) -> Tensor:
        return torch.special.entr(p).sum(-1)

    def _expected_loss(self, p: Tensor, q: Tensor) -> Tensor:
        # a class that is neither true nor predicted is left out before the logarithm, whose slope there is infinite
        return -torch.xlogy(p, torch.where((p == 0) & (q == 0), torch.ones_like(q), q)).sum(-1)

    def _regret(self, p: Tensor, q: Tensor) -> Tensor:
        # p log(p/q) - p + q: no term is negative, and rounding cannot make the sum so
        absent = p == 0
        ratio = torch.where(absent, torch.ones_like(q), q / torch.where(absent, torch.ones_like(p), p))
        return (q - p - p * torch.log(ratio)).clamp(min=0.0).sum(-1)


class SquareLoss(_SoftmaxCriterion):
    r""":math:`\ell_i(q) = \tfrac12 |e_i - q|^2`.

    For two classes this is the paper's :math:`(1 - q_i)^2`. Bayes risk: :math:`\tfrac12 (1 - |p|^2)`, half the Gini
    index. Regret: :math:`\tfrac12 |p - q|^2`.

    Parameters
    ----------
    scale_by_half : bool
        ``False`` omits the factor of one half, which gives the multiclass Brier score.
    weight, reduction, ignore_index, label_smoothing, dim : optional
        See :class:`Criterion`.

    Examples
    --------
    >>> SquareLoss().partial_losses(torch.tensor([0.75, 0.25]))
    tensor([0.0625, 0.5625])
    """

    _defaults: ClassVar[dict[str, Any]] = {**Criterion._defaults, "scale_by_half": True}

    def __init__(self, scale_by_half: bool = True, **criterion: Any) -> None:
        super().__init__(**criterion)
        if not isinstance(scale_by_half, bool):
            raise ValueError(f"scale_by_half must be True or False, got {scale_by_half!r}.")
        self.scale_by_half = scale_by_half

    @property
    def _factor(self) -> float:
        return 0.5 if self.scale_by_half else 1.0

    def _partial_losses(self, q: Tensor) -> Tensor:
        # |e_i - q|^2 = (1 - q_i)^2 + sum of the other squares, each without cancellation when q_i is near one
        return self._factor * (complement(q).square() + sum_of_others(q.square()))

    def _bayes_risk(self, p: Tensor) -> Tensor:
        return self._factor * (p * complement(p)).sum(-1)

    def _regret(self, p: Tensor, q: Tensor) -> Tensor:
        return self._factor * (p - q).square().sum(-1)


class SphericalLoss(_SoftmaxCriterion):
    r""":math:`\ell_i(q) = 1 - q_i / |q|`, one minus the cosine between the prediction and the outcome.

    Bayes risk: :math:`1 - |p|`. Regret: :math:`|p| - \langle p, q\rangle / |q|`. On logits it is
    :math:`1 - \sqrt{\mathrm{softmax}(2 x)_i}`.

    Parameters
    ----------
    weight, reduction, ignore_index, label_smoothing, dim : optional
        See :class:`Criterion`.

    References
    ----------
    Gneiting, Raftery (2007), Strictly Proper Scoring Rules, Prediction, and Estimation, JASA.

    Examples
    --------
    >>> SphericalLoss().bayes_risk(torch.tensor([1.0, 0.0, 0.0]))
    tensor(0.)
    """

    def _scores(self, logits: Tensor) -> Tensor:
        return torch.expm1(0.5 * torch.log_softmax(2.0 * logits, dim=-1))

    def _partial_losses(self, q: Tensor) -> Tensor:
        # 1 - q_i / |q| and 1 - |p|, without differences of numbers near one
        norm = torch.linalg.vector_norm(q, dim=-1, keepdim=True)
        return sum_of_others(q.square()) / (norm * (norm + q))

    def _bayes_risk(self, p: Tensor) -> Tensor:
        return (p * complement(p)).sum(-1) / (1.0 + torch.linalg.vector_norm(p, dim=-1))

    def _regret(self, p: Tensor, q: Tensor) -> Tensor:
        # |p| (1 - cos) = |p| |p/|p| - q/|q||^2 / 2, which does not cancel when p and q are close
        p_norm = torch.linalg.vector_norm(p, dim=-1, keepdim=True)
        gap = p / p_norm - q / torch.linalg.vector_norm(q, dim=-1, keepdim=True)
        return 0.5 * p_norm.squeeze(-1) * gap.square().sum(-1)


class MatsushitaLoss(_SoftmaxCriterion):
    r""":math:`\ell_i(q) = \tfrac12 \sum_{j \ne i} \sqrt{q_j / q_i}`.

    For two classes this is the paper's :math:`\tfrac12 \sqrt{(1 - q)/q}`, with Bayes risk :math:`\sqrt{p (1 - p)}`. The
    multiclass form is the gradient of the sum of the pairwise ones,
    :math:`\underline{L}(p) = \sum_{i < j} \sqrt{p_i p_j} = \tfrac12 \bigl( (\sum_i \sqrt{p_i})^2 - 1 \bigr)`. On logits it is
    :math:`\tfrac12 (1 / \mathrm{softmax}(x / 2)_i - 1)`, which grows exponentially with a wrong logit: beyond 170 or so it is
    infinite in float32. Gradients grow with it up to the square root of the largest number, 1e19 in float32, and stay finite.

    Parameters
    ----------
    weight, reduction, ignore_index, label_smoothing, dim : optional
        See :class:`Criterion`.

    References
    ----------
    Matusita (1956), Decision rule, based on the distance, for the classification problem, Ann. Inst. Stat. Math.

    Examples
    --------
    >>> MatsushitaLoss().partial_losses(torch.tensor([0.8, 0.2]))
    tensor([0.2500, 1.0000])
    """

    def _scores(self, logits: Tensor) -> Tensor:
        return -0.5 * _expm1(-torch.log_softmax(0.5 * logits, dim=-1))

    def _partial_losses(self, q: Tensor) -> Tensor:
        root = torch.sqrt(q)
        ratios = root.unsqueeze(-2) / root.unsqueeze(-1)  # [i, j] = sqrt(q_j / q_i)
        diagonal = torch.eye(q.shape[-1], dtype=torch.bool, device=q.device)
        # 0/0 off the diagonal, for two classes of probability 0, counts as 0
        idle = diagonal | ((q == 0).unsqueeze(-2) & (q == 0).unsqueeze(-1))
        return 0.5 * ratios.masked_fill(idle, 0.0).sum(-1)

    def _bayes_risk(self, p: Tensor) -> Tensor:
        root = torch.sqrt(p)
        return 0.5 * (root * (root.sum(-1, keepdim=True) - root)).sum(-1)


def _expm1(t: Tensor) -> Tensor:
    """``exp(t) - 1``, infinite where that is too large for a number, with a gradient that grows no further long before.

    Of a label that does not count the gradient is zero times the exponential, which must not be infinite then.
    """
    largest = torch.finfo(t.dtype).max
    limit = 0.5 * math.log(largest)
    finite = t.clamp(max=largest)
    beyond = torch.expm1(t.detach()) + math.exp(limit) * (finite - finite.detach())
    return torch.where(t > limit, beyond, torch.expm1(t.clamp(max=limit)))
