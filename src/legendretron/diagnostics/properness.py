r"""A search for violations of properness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from legendretron.losses import ProperLoss
from legendretron.validation import check_integer

__all__ = ["PropernessReport", "properness"]


@dataclass(frozen=True)
class PropernessReport:
    """What :func:`properness` found.

    Attributes
    ----------
    worst_violation : float
        Largest :math:`L(p, p) - L(p, q)` found, divided by :math:`1 + |L(p, p)|`; at rounding level, or below zero
        when no ``q`` came that close to ``p``, for a proper loss.
    p, q : tuple of float
        Where it was found.
    n_evaluations : int
        Pairs tried.
    """

    worst_violation: float
    p: tuple[float, ...]
    q: tuple[float, ...]
    n_evaluations: int


@torch.no_grad()
def properness(
    loss: ProperLoss | Callable[[Tensor], Tensor],
    n_classes: int | None = None,
    *,
    n_starts: int = 256,
    n_rounds: int = 60,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> PropernessReport:
    r"""Search for probabilities ``p, q`` with :math:`E_p\,\ell(q) < E_p\,\ell(p)`.

    True probabilities ``p`` are drawn all over the simplex, corners included. For each, a random search walks from a
    random ``q``, and another from near ``p`` itself, towards smaller expected loss, with steps that shrink. No
    gradients are used, so losses with jumps are searched as well as smooth ones.

    Parameters
    ----------
    loss : ProperLoss or callable
        A loss, or any function from probabilities ``(..., C)`` to partial losses ``(..., C)``.
    n_classes : int, optional
        ``C``; needed unless the loss has a number of its own.
    n_starts : int
        Number of true probabilities.
    n_rounds : int
        Steps of each walk.
    seed : int
        Of the search.
    dtype : torch.dtype
        Precision to search in.

    Examples
    --------
    >>> from legendretron.losses import LogLoss
    >>> properness(LogLoss(), n_classes=3).worst_violation < 1e-12
    True
    >>> improper = properness(lambda q: 1 - q, n_classes=3)  # rewards overconfidence
    >>> improper.worst_violation > 0.05
    True
    """
    partial: Callable[[Tensor], Tensor]
    if isinstance(loss, ProperLoss):
        if n_classes is None:
            n_classes = loss.n_classes
        elif loss.n_classes not in (None, n_classes):
            raise ValueError(f"n_classes must be {loss.n_classes} for this loss, got {n_classes}.")
        partial = loss.partial_losses
    else:
        partial = loss
    if n_classes is None:
        raise ValueError("n_classes must be given for a loss that takes any number of classes.")
    check_integer("n_classes", n_classes, 2)
    check_integer("n_starts", n_starts, 1)
    check_integer("n_rounds", n_rounds, 1)
    generator = torch.Generator().manual_seed(seed)

    def draw(spread: Tensor) -> Tensor:
        """Softmax of normals: the larger the spread, the nearer the boundary."""
        return torch.softmax(spread * torch.randn(n_starts, n_classes, generator=generator, dtype=dtype), dim=-1)

    spread = 6.0 * torch.rand(n_starts, 1, generator=generator, dtype=dtype)
    p = draw(spread).repeat(2, 1)
    own = (p * partial(p)).sum(-1)
    q = torch.cat([draw(spread), p[:n_starts]])
    best = torch.full_like(own, torch.inf)
    width = torch.cat([torch.full((n_starts,), 2.0), torch.full((n_starts,), 0.1)]).to(dtype)
    evaluations = 0
    for _ in range(n_rounds):
        step = width.unsqueeze(-1) * torch.randn(q.shape, generator=generator, dtype=dtype)
        trial = torch.softmax(torch.log(q) + step, dim=-1)
        risk = (p * partial(trial)).sum(-1)
        evaluations += trial.shape[0]
        better = risk < best
        q = torch.where(better.unsqueeze(-1), trial, q)
        best = torch.where(better, risk, best)
        width = torch.where(better, width * 1.3, width * 0.8)
    violation = (own - best) / (1.0 + own.abs())
    worst = int(violation.nan_to_num(nan=torch.inf).argmax())
    return PropernessReport(
        worst_violation=float(violation[worst]),
        p=tuple(p[worst].tolist()),
        q=tuple(q[worst].tolist()),
        n_evaluations=evaluations,
    )
