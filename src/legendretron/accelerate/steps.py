r"""Gradients of the weighted log-loss for many models side by side, by operations of torch.

Training calls them in every step where neither compiled functions nor kernels do the whole step at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from legendretron._internal.validation import at_least_single
from legendretron.accelerate.forms import link_form
from legendretron.links import CanonicalLink, CompositeLink, Link, NoisyLink
from legendretron.potentials import NestedLogSumExp
from legendretron.simplex import append_reference, predicted_class, softmax_nll

__all__ = ["NLLStep", "autograd_step", "nll_step"]

NLLStep = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor, list[Tensor]]]


def nll_step(link: Link, like: Tensor) -> NLLStep:
    r"""Return a function for the gradients of the weighted log-loss :math:`-\sum_i w_i \log p_{y_i}(z_i)`.

    Parameters
    ----------
    link : Link
        With exactly one run axis.
    like : Tensor of shape (R, n, K)
        Predictors that determine shape, dtype and device.

    Returns
    -------
    callable
        From predictors ``(R, n, K)``, labels ``(R, n)`` and weights ``(R, n)`` to each row's log-loss ``(R, n)``,
        whether its label is the predicted class, the gradient of the weighted sum with respect to the predictors, and
        the list of those with respect to the parameters, in the order of ``parameters()``. None records a graph.
    """
    form = link_form(link)
    if form is None or form.is_noisy:
        return autograd_step(link)
    if isinstance(link, NoisyLink):  # with a rate of 0
        link = link.clean
    if form.n_nests:
        return _nests_step(cast(CanonicalLink, link).nests)
    return _chain_step(cast(CompositeLink, link), like) if form.n_blocks else _softmax_step


def autograd_step(link: Link) -> NLLStep:
    """The same for any link, by automatic differentiation."""
    parameters = list(link.parameters())

    def step(z: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            log_p = link._log_proba(leaf)
            nll = -torch.gather(log_p, -1, labels.unsqueeze(-1)).squeeze(-1)
            loss = (nll * weight).sum()
            dz, *gradients = torch.autograd.grad(loss, [leaf, *parameters], materialize_grads=True)
        nll = nll.detach()
        return nll, predicted_class(log_p.detach()) == labels, dz, gradients

    return step


def _softmax_step(z: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    return *softmax_nll(z, labels, weight), []


def _chain_step(link: CompositeLink, like: Tensor) -> NLLStep:
    blocks = link._chain()
    steps = [block._ridge_step(like) for block in blocks]

    @torch.no_grad()
    def step(z: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        pullbacks = []
        for block, ridge_step in zip(blocks, steps, strict=True):
            ridge, pullback = block._ridge_with_pullback()
            z = ridge_step.forward(ridge, z)
            pullbacks.append(pullback)
        nll, hit, dz = softmax_nll(z, labels, weight)
        gradients: list[Tensor] = []
        for ridge_step, pullback in zip(reversed(steps), reversed(pullbacks), strict=True):
            dz, of_ridge = ridge_step.pullback(dz)
            gradients[:0] = pullback(of_ridge)
        return nll, hit, dz, gradients

    return step


def _nests_step(nests: NestedLogSumExp) -> NLLStep:
    r"""By derivatives written out.

    With the shares :math:`q_m = \pi_m s_{my} / p_y` of the nests in the label's probability, the derivative of
    :math:`-\log p_y` in the gate is :math:`\pi_m - q_m`, and in the exponents :math:`a_{mk} = \mu_m z_k + c_{mk}` it is

    .. math:: r_m s_{mk} - q_m [k = y], \qquad r_m = q_m + (\pi_m - q_m)\, \beta / \mu_m .
    """

    @torch.no_grad()
    def step(z: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        mu = torch.exp(at_least_single(nests.log_mu)).unsqueeze(-2)  # (R, 1, M)
        ratio = torch.exp(at_least_single(nests.log_beta)).unsqueeze(-1) / mu
        x = append_reference(z)
        below = (x - x.amax(-1, keepdim=True)).unsqueeze(-2)  # (R, n, 1, C)
        exponents = torch.addcmul(nests._all_offsets(), mu.unsqueeze(-1), below)  # (R, n, M, C)
        inside = torch.logsumexp(exponents, dim=-1)  # (R, n, M)
        log_pi = torch.log_softmax(torch.addcmul(nests.gate_bias.unsqueeze(-2), ratio, inside), dim=-1)
        log_s = exponents.sub_(inside.unsqueeze(-1))
        at_label = labels[..., None, None].expand(*labels.shape, nests.n_nests, 1)
        of_label = log_s.gather(-1, at_label).squeeze(-1).add_(log_pi)  # log of pi_m s_my
        nll = -torch.logsumexp(of_label, dim=-1)
        q = weight.unsqueeze(-1) * torch.exp(of_label + nll.unsqueeze(-1))
        s, pi = log_s.exp_(), log_pi.exp_()
        hit = predicted_class((pi.unsqueeze(-2) @ s).squeeze(-2)) == labels
        cot_gate = torch.addcmul(-q, pi, weight.unsqueeze(-1))
        cot = s.mul_(torch.addcmul(q, cot_gate, ratio).unsqueeze(-1))  # of the exponents
        cot.scatter_add_(-1, at_label, -q.unsqueeze(-1))
        of_scale = cot_gate * ratio * inside
        offsets = cot.sum(1)
        gradients = [
            (mu * (cot @ below.mT).squeeze(-1) - of_scale).sum(1),
            of_scale.sum((1, 2)).unsqueeze(-1),
            offsets[..., :-1],
            offsets[..., -1],
            cot_gate.sum(1),
        ]
        return nll, hit, (mu.unsqueeze(-2) @ cot).squeeze(-2)[..., :-1], gradients

    return step
