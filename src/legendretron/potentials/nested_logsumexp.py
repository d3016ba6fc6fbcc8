r"""The nested log-sum-exp: a learnable potential whose gradient fills the simplex."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from legendretron._internal.start import blank, set_start
from legendretron._internal.validation import at_least_single, check_choice, check_integer
from legendretron.potentials.base import Potential
from legendretron.potentials.newton import damped_newton
from legendretron.simplex import append_reference, complement, log_softmax_plus_inverse, softmax_plus_inverse

__all__ = ["NestedLogSumExp"]


class _Nests(NamedTuple):
    """All that the formulas need at a batch of points."""

    mu: Tensor  # (*runs, 1, M)
    beta: Tensor  # (*runs, 1, 1)
    top: Tensor  # largest of (z, 0), by which all logits are lowered, (*runs, n, 1)
    gate: Tensor  # beta (v - top) + b, (*runs, n, M)
    log_pi: Tensor  # (*runs, n, M)
    log_s: Tensor  # (*runs, n, M, C)

    @property
    def log_joint(self) -> Tensor:
        return self.log_pi.unsqueeze(-1) + self.log_s


class NestedLogSumExp(Potential):
    r"""Nested log-sum-exp over ``M`` nests of all ``C = K + 1`` classes.

    .. math::

        F(z) = \tfrac{1}{\beta} \log \sum_m e^{\beta v_m(z) + b_m}, \qquad
        v_m(z) = \tfrac{1}{\mu_m} \log \Bigl( \sum_{k=1}^{K} e^{\mu_m z_k + c_{mk}} + e^{c_{mC}} \Bigr),
        \qquad \beta, \mu_m > 0 .

    Its gradient is a mixture of tempered softmaxes, :math:`p = \sum_m \pi_m s_m` with
    :math:`s_m = \mathrm{softmax}(\mu_m (z, 0) + c_m)` and the gate :math:`\pi = \mathrm{softmax}(\beta v + b)`, the
    only gate that makes the whole a gradient. The Hessian

    .. math:: \sum_m \pi_m \bigl[ \mu_m (\mathrm{diag}(s_m) - s_m s_m^\top) + \beta (s_m - p)(s_m - p)^\top \bigr]

    is a sum of positive semi-definite terms. One nest with :math:`\mu = 1, c = 0` is LogSumExp+. The choice
    probabilities are those of a cross-nested logit model.

    Parameters
    ----------
    dim : int
        ``K``.
    n_nests : int
        ``M``.
    init : {"identity", "random"}
        ``"identity"``: near LogSumExp+, with just enough noise to tell the nests apart.
        ``"random"``: standard normal draws for everything, ``log mu`` and ``log beta`` included.
    run_shape : tuple of int
        The run axes.
    generator : torch.Generator, optional
        Source of the random start.
    device, dtype : optional
        Of the parameters.

    References
    ----------
    Vovsha (1997), Application of cross-nested logit model to mode choice, Transportation Research Record 1607.

    Examples
    --------
    >>> F = NestedLogSumExp(dim=2, n_nests=3, dtype=torch.float64)
    >>> z = torch.tensor([1.0, -2.0], dtype=torch.float64)
    >>> torch.allclose(F.inverse_gradient(F.gradient(z)), z)
    True
    """

    def __init__(
        self,
        dim: int,
        n_nests: int = 4,
        *,
        init: str = "identity",
        run_shape: tuple[int, ...] = (),
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, run_shape)
        self.n_nests = check_integer("n_nests", n_nests, 1)
        self.init = check_choice("init", init, ("identity", "random"))

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty((*self.run_shape, *shape), device=device, dtype=dtype))

        # In logarithms, so that a penalty on the parameters pulls towards mu = beta = 1, c = b = 0: the softmax.
        self.log_mu = empty(self.n_nests)
        self.log_beta = empty(1)
        # c, with the reference class's apart: so that the rest can be split over processes as the predictors are
        self.offsets = empty(self.n_nests, self.dim)
        self.reference_offset = empty(self.n_nests)
        self.gate_bias = empty(self.n_nests)  # b
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`Potential.reset_parameters`."""
        noise = 1.0 if self.init == "random" else 0.1
        log_mu, gate_bias, log_beta = (blank(of) for of in (self.log_mu, self.gate_bias, self.log_beta))
        offsets = log_mu.new_empty(*self.run_shape, self.n_nests, self.dim + 1)
        for tensor in (log_mu, offsets, gate_bias, log_beta):
            tensor.normal_(0.0, noise, generator=generator)
        if self.init == "identity":
            # so that F itself, and not only its gradient, is near LogSumExp+
            gate_bias.fill_(-math.log(self.n_nests))
            log_beta.zero_()
        set_start(self.log_mu, log_mu)
        set_start(self.log_beta, log_beta)
        set_start(self.offsets, offsets[..., :-1])
        set_start(self.reference_offset, offsets[..., -1])
        set_start(self.gate_bias, gate_bias)

    def _nests(self, z: Tensor) -> _Nests:
        return self._nests_of_logits(append_reference(z))

    def _nests_of_logits(
        self, x: Tensor, masked: Tensor | None = None, tensors: Sequence[Tensor] | None = None
    ) -> _Nests:
        """From the logits of all ``C`` classes: a constant added to them is added to ``F``, and changes nothing else.

        Those that are masked, of the same shape, are left out of all sums. Parameters are those in ``tensors``, if given.
        """
        log_mu, log_beta, offsets, reference, bias = self._tensors() if tensors is None else tensors
        mu = torch.exp(at_least_single(log_mu)).unsqueeze(-2)
        beta = torch.exp(at_least_single(log_beta)).unsqueeze(-1)
        # Differences to the largest logit are exact where they matter, unlike products of large logits. Any constant could be
        # subtracted, so the largest logit needs no derivative.
        top = x.detach().amax(-1, keepdim=True)
        logits = mu.unsqueeze(-1) * (x - top).unsqueeze(-2) + _join_offsets(offsets, reference)
        if masked is not None:
            logits = logits.masked_fill(masked.unsqueeze(-2), -math.inf)
        gate = beta / mu * torch.logsumexp(logits, dim=-1) + bias.unsqueeze(-2)
        return _Nests(mu, beta, top, gate, torch.log_softmax(gate, dim=-1), torch.log_softmax(logits, dim=-1))

    tensor_names = ("log_mu", "log_beta", "offsets", "reference_offset", "gate_bias")

    def _all_offsets(self) -> Tensor:
        """``c`` of all ``C`` classes, (*runs, 1, M, C)."""
        return _join_offsets(self.offsets, self.reference_offset)

    def _numbers(self) -> Tensor:
        """``beta``, then ``mu``, ``b`` and ``c`` of all nests, in one dimension; without run axes only."""
        mu, beta = torch.exp(at_least_single(self.log_mu)), torch.exp(at_least_single(self.log_beta))
        return torch.cat([beta, mu, at_least_single(self.gate_bias), self._all_offsets().reshape(-1)])

    def log_proba(self, z: Tensor) -> Tensor:
        """``log p`` of all ``C`` classes, reference last: ``(..., K) -> (..., K + 1)``."""
        return self._log_proba(self._rows("z", z)).reshape(*z.shape[:-1], self.dim + 1)

    def _log_proba(self, z: Tensor, tensors: Sequence[Tensor] | None = None) -> Tensor:
        return torch.logsumexp(self._nests_of_logits(append_reference(z), None, tensors).log_joint, dim=-2)

    def _scores_and_proba(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """``x_k - F(x)`` and ``p_k`` for logits ``x`` of all ``C`` classes, together and without a graph."""
        mu = torch.exp(at_least_single(self.log_mu))
        beta = torch.exp(at_least_single(self.log_beta))
        offsets = self._all_offsets()
        top, index = logits.max(-1, keepdim=True)
        below = logits - top
        log_s = torch.log_softmax(torch.addcmul(offsets, mu.unsqueeze(-1), below.unsqueeze(-2)), dim=-1)
        # log-sum-exp of a nest, from the class whose logit is 0 now: c_m - log s_m there
        at_top = index.unsqueeze(-2).expand(*index.shape[:-1], self.n_nests, 1)
        inside = (torch.gather(offsets.expand_as(log_s), -1, at_top) - torch.gather(log_s, -1, at_top)).squeeze(-1)
        gate = torch.addcmul(at_least_single(self.gate_bias), beta / mu, inside)
        pi = torch.softmax(gate, dim=-1).unsqueeze(-2)
        scores = below - torch.logsumexp(gate, dim=-1, keepdim=True) / beta
        return scores, (pi @ log_s.exp_()).squeeze(-2)

    def _least_losses(self) -> Tensor:
        r"""Limits of ``F(z) - z_k`` where ``p_k`` goes to 1, of shape (C,).

        .. math:: \tfrac1\beta \log \sum_m e^{\beta c_{mk} / \mu_m + b_m}
        """
        mu, beta = torch.exp(at_least_single(self.log_mu)), torch.exp(at_least_single(self.log_beta))
        inside = (beta / mu).unsqueeze(-1) * self._all_offsets().squeeze(0) + self.gate_bias.unsqueeze(-1)
        return torch.logsumexp(inside, dim=-2) / beta

    def _log_proba_of_logits(self, logits: Tensor, tensors: Sequence[Tensor] | None = None) -> Tensor:
        r"""As ``_log_proba``, from ``C`` logits, of which some may be minus infinity: their classes have probability 0.

        A number added to all of them moves every :math:`v_m` alike, which changes neither :math:`s` nor :math:`\pi`; so no
        reference class has to be subtracted, and the largest logit is, which rounds the others least.
        """
        below = logits - logits.detach().amax(-1, keepdim=True)  # NaN if all are minus infinity: no probabilities exist
        # Masked entries are left out of products and sums, where their gradient would be 0 * inf. Numbers so low that a
        # product might overflow count as masked.
        masked = below < -(torch.finfo(below.dtype).max ** 0.5)
        joint = self._nests_of_logits(below.masked_fill(masked, 0.0), masked, tensors).log_joint
        log_p = torch.logsumexp(joint.masked_fill(masked.unsqueeze(-2), 0.0), dim=-2)
        return log_p.masked_fill(masked, -math.inf)

    def _value(self, x: Tensor) -> Tensor:
        nests = self._nests(x)
        return nests.top.squeeze(-1) + torch.logsumexp(nests.gate, dim=-1) / nests.beta.squeeze(-1)

    def _value_minus(self, x: Tensor) -> Tensor:
        r"""``F(z) - z_k`` for all ``C`` classes, reference last, without subtracting: (*runs, n, C).

        .. math:: F(z) - z_k = \tfrac1\beta \log \sum_m \exp\bigl(\tfrac{\beta}{\mu_m}(c_{mk} - \log s_{mk}) + b_m\bigr)
        """
        nests = self._nests(x)
        inside = (nests.beta / nests.mu).unsqueeze(-1) * (self._all_offsets() - nests.log_s)
        return torch.logsumexp(inside + self.gate_bias[..., None, :, None], dim=-2) / nests.beta

    def _gradient(self, x: Tensor) -> Tensor:
        return self._log_proba(x).exp()[..., :-1]

    def _hessian(self, x: Tensor) -> Tensor:
        nests = self._nests(x)
        pi = nests.log_pi.exp().unsqueeze(-1)
        s = nests.log_s.exp()
        spread = _subtract_mean(s, pi)
        mu, beta = nests.mu.unsqueeze(-1), nests.beta.unsqueeze(-1)
        s_k, spread_k = s[..., :-1], spread[..., :-1]
        off = beta * spread_k.mT @ (pi * spread_k) - s_k.mT @ (mu * pi * s_k)
        # s_k (1 - s_k) instead of s_k - s_k^2, which cancels when one class has nearly all the mass
        diagonal = (pi * (mu * s * complement(s) + beta * spread.square())).sum(-2)[..., :-1]
        eye = torch.eye(self.dim, dtype=torch.bool, device=x.device)
        return torch.where(eye, diagonal.unsqueeze(-1), off)

    def _hessian_solve(self, x: Tensor, v: Tensor) -> Tensor:
        # H = J_softmax+(p) J_T with T the log-odds of p, so H^-1 v = J_T^-1 (v / p + sum(v) / p_C)
        p = self._log_proba(x).exp()
        return self._log_odds_solve(x, v / p[..., :-1] + v.sum(-1, keepdim=True) / p[..., -1:])

    # --- inverting the gradient in log-odds, where nothing underflows ---

    def _log_odds(self, z: Tensor) -> Tensor:
        return log_softmax_plus_inverse(self._log_proba(z))

    def _log_odds_solve(self, z: Tensor, v: Tensor) -> Tensor:
        r"""``J_T(z)^{-1} v`` for the log-odds ``T_k = log p_k - log p_C``.

        With the shares :math:`q_{mk} = \pi_m s_{mk} / p_k` of nest ``m`` in class ``k``,

        .. math:: (J_T)_{kj} = \delta_{kj} \sum_m q_{mk} \mu_m + \sum_m (q_{mk} - q_{mC}) (\beta - \mu_m) s_{mj},

        a diagonal between the smallest and the largest :math:`\mu` plus rank ``M``, all of it of order one.
        """
        nests = self._nests(z)
        joint = nests.log_joint
        shares = torch.exp(joint - torch.logsumexp(joint, dim=-2, keepdim=True))
        diagonal = (shares * nests.mu.unsqueeze(-1)).sum(-2)[..., :-1]
        left = (shares[..., :-1] - shares[..., -1:]).mT / diagonal.unsqueeze(-1)  # (..., K, M)
        right = (nests.beta - nests.mu).unsqueeze(-1) * nests.log_s.exp()[..., :-1]  # (..., M, K)
        scaled = v / diagonal
        system = torch.eye(self.n_nests, dtype=z.dtype, device=z.device) + right @ left
        small = torch.linalg.solve_ex(system, right @ scaled.unsqueeze(-1))[0]
        return scaled - (left @ small).squeeze(-1)

    def _inverse_log_odds(self, target: Tensor) -> Tensor:
        z = damped_newton(
            residual=lambda x: self._log_odds(x) - target,
            solve=self._log_odds_solve,
            start=torch.zeros_like(target),
            scale=torch.linalg.vector_norm(target.detach(), dim=-1),
        )
        for _ in range(2):  # as in Potential._inverse_gradient: polish, and carry derivatives
            z = z - self._log_odds_solve(z, self._log_odds(z) - target)
        return z

    def _inverse_gradient(self, y: Tensor) -> Tensor:
        return self._inverse_log_odds(softmax_plus_inverse(y))

    def extra_repr(self) -> str:
        """Text between the brackets of ``repr``."""
        return f"{super().extra_repr()}, n_nests={self.n_nests}, init={self.init!r}"


def _join_offsets(offsets: Tensor, reference: Tensor) -> Tensor:
    """``c`` of all classes, (*runs, 1, M, C)."""
    return at_least_single(torch.cat([offsets, reference.unsqueeze(-1)], dim=-1)).unsqueeze(-3)


def _subtract_mean(s: Tensor, pi: Tensor) -> Tensor:
    """``s_m - p``, with the entry of the largest class taken from the others, which have not rounded to one."""
    p = (pi * s).sum(-2, keepdim=True)
    spread = s - p
    top = p.argmax(-1, keepdim=True).expand(*s.shape[:-1], 1)
    return spread.scatter(-1, top, -spread.scatter(-1, top, 0.0).sum(-1, keepdim=True))
