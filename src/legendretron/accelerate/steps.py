r"""Gradients of the weighted log-loss of labels, for many models side by side.

Training calls them where it has no compiled function for the whole step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from legendretron.accelerate.forms import link_tensors, trained_form
from legendretron.accelerate.log_proba import LinkFunctions, link_functions
from legendretron.accelerate.support import can_read
from legendretron.links import Link, NoisyLink
from legendretron.simplex import predicted_class, softmax_nll

__all__ = ["NLLStep", "autograd_step", "nll_step"]

NLLStep = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor, list[Tensor]]]


def nll_step(link: Link, like: Tensor) -> NLLStep:
    r"""Return a function for the gradients of the weighted log-loss :math:`-\sum_i w_i \log p_{y_i}(z_i)`.

    Parameters
    ----------
    link : Link
        With exactly one run axis.
    like : Tensor of shape (R, n, K)
        Predictors that determine dtype and device.

    Returns
    -------
    callable
        From predictors ``(R, n, K)``, labels ``(R, n)`` and weights ``(R, n)`` to each row's log-loss ``(R, n)``,
        whether its label is the predicted class, the gradient of the weighted sum with respect to the predictors, and
        the list of those with respect to the parameters, in the order of ``parameters()``. None records a graph.
    """
    form = trained_form(link)
    if form is None or form.is_noisy:
        return autograd_step(link)
    if not form.n_blocks and not form.n_nests:
        return _softmax_step
    functions = link_functions(form, False, like)
    clean = link.clean if isinstance(link, NoisyLink) else link  # noise with a rate of 0
    return autograd_step(link) if functions is None else _compiled_step(clean, functions)


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


def _compiled_step(link: Link, functions: LinkFunctions) -> NLLStep:
    """The same by the compiled functions of a head, one run after the other."""
    plain = autograd_step(link)

    @torch.no_grad()
    def step(z: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        tensors = link_tensors(link)
        if not can_read(tensors, [(len(z), *shape) for shape in functions.shapes], z):
            return plain(z, labels, weight)
        nll, hit, dz = torch.empty_like(weight), torch.empty_like(labels, dtype=torch.bool), torch.empty_like(z)
        flat = z.new_empty(len(z), sum(tensor[0].numel() for tensor in tensors))
        for run, rows in enumerate(z):
            parameters, label = [tensor[run] for tensor in tensors], labels[run].unsqueeze(-1)
            log_p, saved = functions.forward(rows.contiguous(), parameters)
            nll[run] = -log_p.gather(-1, label).squeeze(-1)
            hit[run] = predicted_class(log_p) == labels[run]
            cotangent = torch.zeros_like(log_p).scatter_(-1, label, -weight[run].unsqueeze(-1))
            dz[run], flat[run] = functions.backward(
                cotangent, rows.contiguous(), log_p, saved, parameters, (True, True)
            )
        parts = flat.split([tensor[0].numel() for tensor in tensors], dim=1)
        return nll, hit, dz, [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    return step
