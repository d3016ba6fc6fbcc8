r"""The probability simplex, its projection, and the map softmax+ onto it.

With ``C`` classes and ``K = C - 1``, a probability vector ``p`` of shape ``(..., C)`` is determined by its first
``K`` entries ``p~``. The last class is the reference: its logit is the constant 0, so that

.. math::

    \mathrm{softmax}^+(z)_i = \frac{e^{z_i}}{1 + \sum_k e^{z_k}}, \qquad
    \mathrm{LogSumExp}^+(z) = \log\Bigl(1 + \sum_k e^{z_k}\Bigr), \qquad
    \mathrm{softmax}^+ = \nabla\,\mathrm{LogSumExp}^+ .

All functions accept any leading axes, follow the dtype and device of their input and stay finite, with finite
gradients, for ``|z|`` up to 1e4 and beyond in float32.

References
----------
Lam, Walder, Penev, Nock (2023), LegendreTron: Uprising Proper Multiclass Loss Learning, ICML.
"""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron._internal.validation import check_float_tensor

__all__ = [
    "append_reference",
    "complement",
    "lift",
    "log_softmax_plus",
    "log_softmax_plus_inverse",
    "logsumexp_plus",
    "project",
    "softmax_nll",
    "softmax_plus",
    "softmax_plus_inverse",
    "softmax_plus_jacobian",
    "sum_of_others",
]


def _check_axis(name: str, value: Tensor, minimum: int, letter: str) -> None:
    check_float_tensor(name, value)
    if value.dim() == 0 or value.shape[-1] < minimum:
        raise ValueError(
            f"{name} must have shape (..., {letter}) with {letter} >= {minimum}, got {tuple(value.shape)}."
        )


def project(p: Tensor) -> Tensor:
    """Drop the last entry: ``(..., C) -> (..., C - 1)``.

    Examples
    --------
    >>> project(torch.tensor([0.5, 0.2, 0.3]))
    tensor([0.5000, 0.2000])
    """
    _check_axis("p", p, 2, "C")
    return p[..., :-1]


def lift(p_tilde: Tensor) -> Tensor:
    """Append what is missing to one: ``(..., K) -> (..., K + 1)``, the inverse of :func:`project`.

    A last entry that rounding has pushed below zero is returned as zero.

    Examples
    --------
    >>> lift(torch.tensor([0.5, 0.25]))
    tensor([0.5000, 0.2500, 0.2500])
    """
    _check_axis("p_tilde", p_tilde, 1, "K")
    return torch.cat([p_tilde, (1.0 - p_tilde.sum(-1, keepdim=True)).clamp(min=0.0)], dim=-1)


def append_reference(z: Tensor) -> Tensor:
    """Append the reference class's logit, which is 0: ``(..., K) -> (..., K + 1)``.

    Examples
    --------
    >>> append_reference(torch.tensor([1.0, 2.0]))
    tensor([1., 2., 0.])
    """
    return torch.cat([z, torch.zeros_like(z[..., :1])], dim=-1)


def logsumexp_plus(z: Tensor) -> Tensor:
    r"""``log(1 + sum_k exp z_k)``: ``(..., K) -> (...)``. The maximum taken out includes the implicit 0.

    Examples
    --------
    >>> logsumexp_plus(torch.tensor([[-1e4, -1e4], [1e4, 0.0]]))
    tensor([    0., 10000.])
    """
    _check_axis("z", z, 1, "K")
    return torch.logsumexp(append_reference(z), dim=-1)


def softmax_plus(z: Tensor) -> Tensor:
    """Gradient of :func:`logsumexp_plus`: ``(..., K) -> (..., K)``, a point of the projected simplex.

    Examples
    --------
    >>> softmax_plus(torch.zeros(3))
    tensor([0.2500, 0.2500, 0.2500])
    """
    _check_axis("z", z, 1, "K")
    return torch.softmax(append_reference(z), dim=-1)[..., :-1]


def log_softmax_plus(z: Tensor) -> Tensor:
    """Logarithms of all ``C`` probabilities, reference class included: ``(..., K) -> (..., K + 1)``.

    Examples
    --------
    >>> log_softmax_plus(torch.tensor([1e4, 0.0]))
    tensor([     0., -10000., -10000.])
    """
    _check_axis("z", z, 1, "K")
    return torch.log_softmax(append_reference(z), dim=-1)


def softmax_plus_inverse(p_tilde: Tensor) -> Tensor:
    """``log(p_i / (1 - sum_k p_k))``: from the open projected simplex ``(..., K)`` back to ``z``.

    The difference ``1 - sum_k p_k`` has lost its digits when it is small. Where all ``C`` probabilities, or better
    their logarithms, are available, :func:`log_softmax_plus_inverse` does not have that problem.

    Examples
    --------
    >>> softmax_plus_inverse(torch.tensor([0.5, 0.2]))
    tensor([ 0.5108, -0.4055])
    """
    _check_axis("p_tilde", p_tilde, 1, "K")
    return torch.log(p_tilde) - torch.log1p(-p_tilde.sum(-1, keepdim=True))


def log_softmax_plus_inverse(log_p: Tensor) -> Tensor:
    """Log-odds against the reference class, ``log p_k - log p_C``: ``(..., C) -> (..., C - 1)``.

    The exact inverse of :func:`log_softmax_plus`, also where the probabilities themselves underflow.

    Examples
    --------
    >>> log_softmax_plus_inverse(log_softmax_plus(torch.tensor([1e4, -3e3])))
    tensor([10000., -3000.])
    """
    _check_axis("log_p", log_p, 2, "C")
    return log_p[..., :-1] - log_p[..., -1:]


def complement(p: Tensor) -> Tensor:
    """``1 - p`` entry by entry along a probability vector, accurate where ``p`` rounds to one.

    The largest entry's complement is the sum of the others, not a difference that has lost all its digits.

    Examples
    --------
    >>> complement(torch.tensor([1.0, 1e-20]))
    tensor([1.0000e-20, 1.0000e+00])
    """
    return _without_cancellation(p, 1.0 - p)


def sum_of_others(v: Tensor) -> Tensor:
    """Sum along the last axis without the entry itself, for non-negative ``v``, accurate where one entry dominates.

    Examples
    --------
    >>> sum_of_others(torch.tensor([1.0, 1e-20, 2e-20]))
    tensor([3.0000e-20, 1.0000e+00, 1.0000e+00])
    """
    return _without_cancellation(v, v.sum(-1, keepdim=True) - v)


def _without_cancellation(v: Tensor, difference: Tensor) -> Tensor:
    """Replace the largest entry's difference by the sum of the other entries."""
    top = v.argmax(-1, keepdim=True)
    others = v.scatter(-1, top, 0.0).sum(-1, keepdim=True)
    return difference.scatter(-1, top, others)


def predicted_class(scores: Tensor) -> Tensor:
    """Index of the likeliest class by scores such as log-probabilities: ``(..., C) -> (...)``.

    Among equals it is the first, and the last of two: for two classes, the estimators' order is the other way round.

    Examples
    --------
    >>> predicted_class(torch.tensor([[0.2, 0.6, 0.2], [0.5, 0.0, 0.5]])).tolist()
    [1, 0]
    """
    return _top(scores)[1]


def _top(scores: Tensor) -> tuple[Tensor, Tensor]:
    """The highest score, and its class, in one pass: ``(..., C) -> (..., 1), (...)``."""
    highest, index = scores.max(-1, keepdim=True)  # the same index as of torch.argmax, which is slower
    if scores.shape[-1] == 2:
        return highest, (scores[..., 0] <= scores[..., 1]).long()
    return highest, index.squeeze(-1)


def softmax_nll(z: Tensor, labels: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Log-loss of softmax+ with its gradient :math:`w_i (\tilde p_i - \tilde e_{y_i})` in ``z``, for training.

    Parameters
    ----------
    z : Tensor of shape (..., n, K)
        Log-odds.
    labels, weight : Tensor of shape (..., n)
        Classes, and weights of the rows.

    Returns
    -------
    nll : Tensor of shape (..., n)
        Log-loss of each row, not weighted.
    hit : Tensor of shape (..., n), bool
        Whether the label is the predicted class, see :func:`predicted_class`.
    dz : Tensor of shape (..., n, K)
        Gradient of the weighted sum.

    Examples
    --------
    >>> nll, hit, dz = softmax_nll(torch.zeros(1, 2), torch.tensor([0]), torch.ones(1))
    >>> nll, dz
    (tensor([1.0986]), tensor([[-0.6667,  0.3333]]))
    """
    index = labels.unsqueeze(-1)
    logits = append_reference(z)
    top, predicted = _top(logits)
    picked = torch.gather(logits, -1, index)
    residual = (logits - top).exp_()
    total = residual.sum(-1, keepdim=True)
    nll = (top - picked + torch.log(total)).squeeze(-1)
    residual *= weight.unsqueeze(-1) / total
    residual.scatter_add_(-1, index, -weight.unsqueeze(-1))
    return nll, predicted == labels, residual[..., :-1]


def softmax_plus_jacobian(p: Tensor) -> Tensor:
    r"""Jacobian of softmax+ in terms of its lifted value: ``(..., C) -> (..., K, K)``.

    .. math:: J = \mathrm{diag}(\tilde p) - \tilde p\,\tilde p^\top,

    which is also the covariance of the projected categorical distribution. Positive definite inside the simplex;
    the diagonal ``p_i (1 - p_i)`` keeps its relative accuracy when one class has nearly all the mass.

    Examples
    --------
    >>> softmax_plus_jacobian(torch.tensor([0.5, 0.25, 0.25]))
    tensor([[ 0.2500, -0.1250],
            [-0.1250,  0.1875]])
    """
    _check_axis("p", p, 2, "C")
    tilde = p[..., :-1]
    off = -tilde.unsqueeze(-1) * tilde.unsqueeze(-2)
    diagonal = tilde * complement(p)[..., :-1]
    eye = torch.eye(tilde.shape[-1], dtype=torch.bool, device=p.device)
    return torch.where(eye, diagonal.unsqueeze(-1), off)
