r"""The losses of a canonical link with their derivative written by hand.

The canonical loss of label ``y`` at logits ``x`` is :math:`F(x) - x_y`, and its gradient is :math:`p(x) - e_y`, exactly.
Automatic differentiation of the formula for ``F`` arrives at ``p`` by another way, which is longer and loses digits where
logits are large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["canonical_scores"]

WithProba = Callable[[Tensor], tuple[Tensor, Tensor]]
LogProba = Callable[[Tensor], Tensor]


class _Scores(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor, with_proba: WithProba, log_proba: LogProba) -> tuple[Tensor, Tensor]:
        return with_proba(logits)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        logits, _, ctx.log_proba = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(logits, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        logits, p = ctx.saved_tensors
        if torch.is_grad_enabled():  # for higher derivatives, probabilities with a graph
            p = ctx.log_proba(logits).exp()
        return g - p * g.sum(-1, keepdim=True), None, None


class _ScoresWithTangent(_Scores):
    """For forward-mode differentiation, with which compilers cannot deal."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _Scores.setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> tuple[Tensor, None]:
        (logits,) = ctx.saved_tensors
        p = ctx.log_proba(logits).exp()
        return tangent - (p * tangent).sum(-1, keepdim=True), None


def canonical_scores(logits: Tensor, with_proba: WithProba, log_proba: LogProba) -> Tensor:
    r"""Canonical losses of all labels with a minus, :math:`s_k = x_k - F(x)`: ``(..., C) -> (..., C)``.

    The derivative is :math:`\partial s_k / \partial x_j = \delta_{kj} - p_j`.

    Parameters
    ----------
    logits : Tensor of shape (..., C)
        :math:`x`.
    with_proba : callable
        From logits to scores and probabilities, both ``(..., C)``. It is not differentiated.
    log_proba : callable
        From logits to log-probabilities, by operations that can be differentiated; for second derivatives.
    """
    function = _Scores if torch.compiler.is_compiling() else _ScoresWithTangent
    scores: Tensor = function.apply(logits, with_proba, log_proba)[0]  # type: ignore[no-untyped-call]
    return scores
