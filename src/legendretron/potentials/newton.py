"""A damped Newton method for many small systems at once, one to a row."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["damped_newton"]

_MAX_STEPS = 200
_MAX_HALVINGS = 40
_SUFFICIENT_DECREASE = 1e-4


@torch.no_grad()
def damped_newton(
    residual: Callable[[Tensor], Tensor],
    solve: Callable[[Tensor, Tensor], Tensor],
    start: Tensor,
    scale: Tensor,
) -> Tensor:
    r"""Find ``x`` with ``residual(x) = 0``, row by row.

    The step ``d = -J^{-1} r`` always decreases :math:`|r|^2`, so halving it until :math:`|r|` has fallen leads to the
    root from any start whenever the map is a diffeomorphism whose Jacobian is nowhere singular: all that is used here.
    Rows stop for themselves: at rounding level, or when no shorter step helps any more.

    Parameters
    ----------
    residual : callable
        ``(..., K) -> (..., K)``.
    solve : callable
        ``(x, r) -> J(x)^{-1} r``.
    start : Tensor of shape (..., K)
        Where to begin.
    scale : Tensor of shape (...)
        Size of the right-hand side, against which a residual counts as zero.

    Returns
    -------
    Tensor of shape (..., K)
        The roots, without a graph.
    """
    target = 4.0 * torch.finfo(start.dtype).eps * (1.0 + scale)
    x = start.clone()
    r = residual(x)
    size = torch.linalg.vector_norm(r, dim=-1)
    active = size > target  # false for NaN, so that a bad row does not hold up the others
    for _ in range(_MAX_STEPS):
        if not bool(active.any()):
            break
        step = solve(x, r)
        factor = torch.ones_like(size)
        pending = active
        for _ in range(_MAX_HALVINGS):
            trial = x - factor.unsqueeze(-1) * step
            trial_r = residual(trial)
            trial_size = torch.linalg.vector_norm(trial_r, dim=-1)
            better = pending & (trial_size < (1.0 - _SUFFICIENT_DECREASE * factor) * size)
            keep = better.unsqueeze(-1)
            x = torch.where(keep, trial, x)
            r = torch.where(keep, trial_r, r)
            size = torch.where(better, trial_size, size)
            pending = pending & ~better
            if not bool(pending.any()):
                break
            factor = torch.where(pending, factor / 2, factor)
        active = active & ~pending & (size > target)
    return x
