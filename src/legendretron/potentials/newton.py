"""A damped Newton method for many small systems at once, one per row."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["damped_newton"]

_MAX_STEPS = 300
_MAX_HALVINGS = 60
_SUFFICIENT_DECREASE = 1e-4
_STALLED = 5


@torch.no_grad()
def damped_newton(
    residual: Callable[[Tensor], Tensor],
    solve: Callable[[Tensor, Tensor], Tensor],
    start: Tensor,
    scale: Tensor,
    objective: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    r"""Find ``x`` with ``residual(x) = 0``, row by row.

    The step :math:`d = -J^{-1} r` decreases :math:`|r|`, and, where ``r`` is the gradient of a convex objective, the
    objective; it is halved until one of the two has fallen. Either way it leads to the root from any start when the
    Jacobian is nowhere singular, but a convex objective does so in far fewer steps where curvature changes abruptly.
    Each row stops on its own, at rounding level or when nothing improves any more.

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
    objective : callable, optional
        ``(..., K) -> (...)``, a convex function whose gradient is the residual.

    Returns
    -------
    Tensor of shape (..., K)
        The roots, without a graph; NaN in rows where none was found.
    """
    eps = torch.finfo(start.dtype).eps
    target = 4.0 * eps * (1.0 + scale)
    x, r = start.clone(), residual(start)
    best, size = x, torch.linalg.vector_norm(r, dim=-1)
    value = size if objective is None else objective(x)
    stalled = torch.zeros_like(size)
    active = size > target  # false for NaN, so that a bad row does not hold up the others
    for _ in range(_MAX_STEPS):
        if not bool(active.any()):
            break
        step = solve(x, r)
        slope = size if objective is None else (r * step).sum(-1)
        slack = 0.0 if objective is None else 8.0 * eps * (1.0 + value.abs())
        factor = torch.ones_like(size)
        pending = active
        new_x, new_r, new_value = x, r, value
        for _ in range(_MAX_HALVINGS):
            trial = x - factor.unsqueeze(-1) * step
            trial_r = residual(trial)
            trial_value = torch.linalg.vector_norm(trial_r, dim=-1) if objective is None else objective(trial)
            good = pending & (trial_value <= value - _SUFFICIENT_DECREASE * factor * slope + slack)
            keep = good.unsqueeze(-1)
            new_x, new_r = torch.where(keep, trial, new_x), torch.where(keep, trial_r, new_r)
            new_value = torch.where(good, trial_value, new_value)
            pending = pending & ~good
            # a step too short to change a point does not improve it, and neither does half of it
            if not bool((pending & (trial != x).any(-1)).any()):
                break
            factor = torch.where(pending, factor / 2, factor)
        x, r, value = new_x, new_r, new_value
        new_size = torch.linalg.vector_norm(r, dim=-1)
        # below the rounding of the objective only the residual tells whether a step was an improvement
        decided = new_size < size if objective is None else (new_size < size) | (slope > slack)
        stalled = torch.where(decided, 0.0, stalled + 1.0)
        better = new_size < size
        best = torch.where(better.unsqueeze(-1), x, best)
        size = torch.where(better, new_size, size)
        active = active & ~pending & (new_size > target) & (stalled < _STALLED)
    is_root = size <= eps**0.5 * (1.0 + scale)
    return torch.where(is_root.unsqueeze(-1), best, torch.nan)
