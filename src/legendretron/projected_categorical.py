r"""The projected categorical distribution: the categorical distribution in minimal exponential-family form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical, ExponentialFamily, constraints
from torch.distributions.kl import register_kl
from torch.distributions.utils import clamp_probs, lazy_property

from legendretron.simplex import (
    complement,
    lift,
    log_softmax_plus,
    log_softmax_plus_inverse,
    logsumexp_plus,
    softmax_plus,
    softmax_plus_jacobian,
)

__all__ = ["ProjectedCategorical"]


class _ProjectedSimplex(constraints.Constraint):
    """Non-negative vectors whose entries sum to at most one."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= 1.0 + 1e-6)  # the slack of torch's own simplex


class _AtMostOneHot(constraints.Constraint):
    """Vectors of zeros with at most a single one."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) <= 1)


class ProjectedCategorical(ExponentialFamily):
    r"""Categorical distribution over ``C`` classes, written on the first ``K = C - 1`` indicators.

    A draw is a vector :math:`\tilde x \in \{0, 1\}^K` with at most a single one; all zeros stands for the reference
    class. With natural parameters :math:`\theta`,

    .. math:: f(\tilde x) = \exp\bigl(\theta^\top \tilde x - \mathrm{LogSumExp}^+(\theta)\bigr), \qquad
              \mathbb{E}\,\tilde x = \mathrm{softmax}^+(\theta) = \tilde p, \qquad
              \mathrm{Cov}\,\tilde x = \mathrm{diag}(\tilde p) - \tilde p \tilde p^\top .

    For ``K = 1`` this is the Bernoulli distribution.

    Parameters
    ----------
    probs : Tensor of shape (..., K), optional
        Probabilities of the first ``K`` classes; non-negative, with a sum of at most one.
    logits : Tensor of shape (..., K), optional
        Natural parameters: log-odds against the reference class. Give exactly one of the two.
    validate_args : bool, optional
        As for every torch distribution.

    Examples
    --------
    >>> d = ProjectedCategorical(probs=torch.tensor([0.5, 0.25]))
    >>> d.log_prob(torch.zeros(2)).exp()
    tensor(0.2500)
    >>> d.covariance_matrix
    tensor([[ 0.2500, -0.1250],
            [-0.1250,  0.1875]])
    """

    arg_constraints = {"probs": _ProjectedSimplex(), "logits": constraints.real_vector}  # noqa: RUF012
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Give exactly one of probs and logits.")
        given = torch.as_tensor(probs if probs is not None else logits)
        if not given.is_floating_point():
            raise ValueError(f"probs and logits must have a floating-point dtype, got {given.dtype}.")
        if given.dim() < 1 or given.shape[-1] < 1:
            which = "probs" if probs is not None else "logits"
            raise ValueError(f"{which} must have shape (..., K) with K >= 1, got {tuple(given.shape)}.")
        self._by_logits = probs is None
        if probs is not None:
            self.probs = given
        else:
            self.logits = given
        super().__init__(given.shape[:-1], given.shape[-1:], validate_args=validate_args)

    # lazy_property replaces itself by the value at first use, as in torch's own distributions
    @lazy_property
    def logits(self) -> Tensor:
        """Natural parameters, shape (..., K). Probabilities of 0 and 1 are first moved inside by machine epsilon."""
        return log_softmax_plus_inverse(torch.log(clamp_probs(lift(self.probs))))

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities of the first K classes, shape (..., K)."""
        return softmax_plus(self.logits)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """Vectors of zeros with at most a single one."""
        return _AtMostOneHot()

    @property
    def log_probs(self) -> Tensor:
        """Log-probabilities of all ``C`` classes, reference last, shape (..., C); finite, as the logits are."""
        return log_softmax_plus(self.logits)

    @property
    def _all_probs(self) -> Tensor:
        """Probabilities of all classes, exactly those given where probabilities were given."""
        return self.log_probs.exp() if self._by_logits else lift(self.probs)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return logsumexp_plus(natural_params[0])

    @property
    def mean(self) -> Tensor:
        """``p~``, shape (..., K)."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The most probable draw, shape (..., K)."""
        return self._draws()[self.log_probs.argmax(-1)]

    @property
    def variance(self) -> Tensor:
        """``p~ (1 - p~)``, shape (..., K)."""
        return self.probs * complement(self._all_probs)[..., :-1]

    @property
    def covariance_matrix(self) -> Tensor:
        """``diag(p~) - p~ p~^T``, shape (..., K, K)."""
        return softmax_plus_jacobian(self._all_probs)

    @property
    def _given(self) -> Tensor:
        """Whichever parameter was given, without computing the other."""
        return self.logits if self._by_logits else self.probs

    def _draws(self) -> Tensor:
        """All C draws in class order, shape (C, K)."""
        k = self.event_shape[0]
        return torch.eye(k + 1, k, dtype=self._given.dtype, device=self._given.device)

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Draw indicator vectors of shape ``(*sample_shape, ..., K)``."""
        return self._draws()[Categorical(probs=self._all_probs, validate_args=False).sample(sample_shape)]

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-probability of indicator vectors of shape (..., K)."""
        if self._validate_args:
            self._validate_sample(value)
        # picked from the log-probabilities: the difference of two large numbers would lose the digits of a small one
        return (self.log_probs * lift(value.to(self._given.dtype))).sum(-1)

    def entropy(self) -> Tensor:
        """``-sum_k p_k log p_k`` over all ``C`` classes, shape (...)."""
        if not self._by_logits:
            return torch.special.entr(self._all_probs).sum(-1)
        return -(self._all_probs * self.log_probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All ``C`` draws in class order, reference last: ``(C, *batch, K)``, or batch axes of size 1."""
        k = self.event_shape[0]
        values = self._draws().reshape(k + 1, *(1,) * len(self.batch_shape), k)
        return values.expand(k + 1, *self.batch_shape, k) if expand else values

    def expand(self, batch_shape: Any, _instance: ProjectedCategorical | None = None) -> ProjectedCategorical:
        """Return the distribution with batch axes expanded to ``batch_shape``."""
        new = self._get_checked_instance(ProjectedCategorical, _instance)  # type: ignore[no-untyped-call]
        batch_shape = torch.Size(batch_shape)
        new._by_logits = self._by_logits
        for name in ("probs", "logits"):
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape + self.event_shape))
        super(ProjectedCategorical, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new


@register_kl(ProjectedCategorical, ProjectedCategorical)
def _kl_projected_categorical(p: ProjectedCategorical, q: ProjectedCategorical) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(f"Both distributions must have the same classes, got {p.event_shape} and {q.event_shape}.")
    ours, theirs = p._all_probs, q._all_probs
    terms = ours * (p.log_probs - q.log_probs)
    # infinite where q is zero by its given probabilities and p is not; logits rule nothing out
    impossible = (theirs == 0) & (ours > 0) & (not q._by_logits)
    return torch.where(impossible, torch.inf, terms).sum(-1)
