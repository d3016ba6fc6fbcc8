r"""Searches for violations: of properness by a loss, and of monotonicity by an inverse link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from legendretron._internal.validation import check_integer
from legendretron.losses import ProperLoss


@dataclass(frozen=True)
class PropernessCheck:
    """What :func:`properness` found.

    Examples
    --------
    >>> from legendretron.losses import SquareLoss
    >>> report = properness(SquareLoss(), n_classes=2)
    >>> report.worst_violation < 1e-12, len(report.p)
    (True, 2)
    """

    #: largest :math:`L(p, p) - L(p, q)`, divided by :math:`1 + |L(p, p)|`; for a proper loss at the level of rounding, or
    #: negative if no ``q`` was that close to ``p``
    worst_violation: float
    p: tuple[float, ...]  #: the true probabilities of this violation
    q: tuple[float, ...]  #: its prediction
    n_evaluations: int  #: number of pairs tried


def properness(
    loss: ProperLoss | Callable[[Tensor], Tensor],
    n_classes: int | None = None,
    *,
    n_starts: int = 128,
    n_rounds: int = 60,
    seed: int = 0,
    dtype: torch.dtype | None = None,
) -> PropernessCheck:
    r"""Search for probabilities ``p, q`` with :math:`E_p\,\ell(q) < E_p\,\ell(p)`.

    True probabilities ``p`` are drawn from the whole simplex, including its corners. For each of them, two searches look for
    a better ``q``, one from a random start and one from ``p``. A search is a random walk with decreasing steps, which detects
    jumps, followed by quasi-Newton descent if the loss has gradients, which detects small violations in high dimensions.

    Parameters
    ----------
    loss : ProperLoss or callable
        A loss, or any function from probabilities ``(..., C)`` to partial losses ``(..., C)``.
    n_classes : int, optional
        ``C``; required unless the loss determines it.
    n_starts : int
        Number of true probabilities.
    n_rounds : int
        Steps of each walk.
    seed : int
        Seed of the search.
    dtype : torch.dtype, optional
        Precision of the search; by default that of the loss's parameters, or float64 if it has none.

    Examples
    --------
    >>> from legendretron.losses import LogLoss
    >>> properness(LogLoss(), n_classes=3).worst_violation < 1e-12
    True
    >>> improper = properness(lambda q: 1 - q, n_classes=3)  # rewards overconfidence
    >>> improper.worst_violation > 0.05
    True
    """
    partial, n_classes = _partial_losses(loss, n_classes)
    check_integer("n_starts", n_starts, 1)
    check_integer("n_rounds", n_rounds, 1)
    like = floating_state(loss)
    dtype = dtype or (torch.float64 if like is None else like.dtype)
    device = torch.device("cpu") if like is None else like.device
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int) -> Tensor:
        return torch.randn(rows, n_classes, generator=generator, dtype=torch.float64).to(device, dtype)

    spread = (6.0 * torch.rand(n_starts, 1, generator=generator)).to(device, dtype)
    p = torch.softmax(spread * normal(n_starts), dim=-1).repeat(2, 1)
    start = torch.cat([torch.softmax(spread * normal(n_starts), dim=-1), p[:n_starts]])
    risk = _Risk(partial, p)
    with torch.no_grad():
        risk_of_p = risk(p)
        q, best = _walk(risk, start, n_starts, n_rounds, normal)
        for began in (q, p):
            q, best = _descend(risk, began, q, best)
    violation = (risk_of_p - best) / (1.0 + risk_of_p.abs())
    worst = int(violation.nan_to_num(nan=torch.inf).argmax())
    return PropernessCheck(
        worst_violation=float(violation[worst]),
        p=tuple(p[worst].tolist()),
        q=tuple(q[worst].tolist()),
        n_evaluations=risk.n_evaluations,
    )


def _partial_losses(
    loss: ProperLoss | Callable[[Tensor], Tensor], n_classes: int | None
) -> tuple[Callable[[Tensor], Tensor], int]:
    if not callable(loss):
        raise ValueError(f"loss must be a ProperLoss or a function, got {type(loss).__name__}.")
    required = loss.n_classes if isinstance(loss, ProperLoss) else None
    if n_classes is None and required is None:
        raise ValueError("n_classes must be given for a loss that takes any number of classes.")
    if n_classes is not None and required not in (None, n_classes):
        raise ValueError(f"n_classes must be {required} for this loss, got {n_classes}.")
    wanted = check_integer("n_classes", required if n_classes is None else n_classes, 2)
    return (loss.partial_losses if isinstance(loss, ProperLoss) else loss), wanted


def floating_state(loss: object) -> Tensor | None:
    """A parameter or buffer to take precision and device from."""
    if not isinstance(loss, torch.nn.Module):
        return None
    tensors = (*loss.parameters(), *loss.buffers())
    return next((t for t in tensors if t.is_floating_point()), None)


class _Risk:
    """Expected loss of each row of ``q`` under the same row of ``p``; counts its evaluations."""

    def __init__(self, partial: Callable[[Tensor], Tensor], p: Tensor) -> None:
        self.partial, self.p = partial, p
        self.n_evaluations = 0

    def __call__(self, q: Tensor) -> Tensor:
        self.n_evaluations += q.shape[0]
        return (self.p * self.partial(q)).sum(-1)


def _walk(
    risk: _Risk, q: Tensor, n_starts: int, n_rounds: int, normal: Callable[[int], Tensor]
) -> tuple[Tensor, Tensor]:
    """Random steps that are kept when they help."""
    best = torch.full_like(q[:, 0], torch.inf)
    width = torch.full_like(best, 2.0)
    width[n_starts:] = 0.1
    for _ in range(n_rounds):
        trial = torch.softmax(torch.log(q) + width.unsqueeze(-1) * normal(q.shape[0]), dim=-1)
        trial_risk = risk(trial)
        better = trial_risk < best
        q = torch.where(better.unsqueeze(-1), trial, q)
        best = torch.where(better, trial_risk, best)
        width = torch.where(better, width * 1.3, width * 0.8)
    return q, best


def _descend(risk: _Risk, began: Tensor, q: Tensor, best: Tensor) -> tuple[Tensor, Tensor]:
    """Quasi-Newton descent of all rows together, which are independent; nothing where there are no gradients."""
    logits = torch.log(began).requires_grad_()
    with torch.enable_grad():
        if not risk(torch.softmax(logits, dim=-1)).requires_grad:
            return q, best
        optimizer = torch.optim.LBFGS([logits], max_iter=100, history_size=20, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimizer.zero_grad()
            total = risk(torch.softmax(logits, dim=-1)).sum()
            total.backward()
            return total

        optimizer.step(closure)
    trial = torch.softmax(logits.detach(), dim=-1)
    trial_risk = risk(trial)
    better = trial_risk < best
    return torch.where(better.unsqueeze(-1), trial, q), torch.where(better, trial_risk, best)


@dataclass(frozen=True)
class MonotonicityCheck:
    """What :func:`monotonicity` found.

    Examples
    --------
    >>> report = monotonicity(lambda z: 0.5 + 0.1 * np.sin(z), np.linspace(0.0, 6.0, 50))
    >>> report.falling_share > 0, report.is_link
    (True, False)
    """

    n_points: int  #: distinct points examined
    falling_share: float  #: share of steps between neighboring points on which the function decreases
    flat_share: float  #: share of steps on which it is constant
    largest_fall: float  #: largest decrease from a point to any later one
    outside_share: float  #: share of points with values below 0 or above 1
    saturated_share: float  #: share of points with values of exactly 0 or 1, where the log-loss can be infinite
    lowest: float  #: least value
    highest: float  #: greatest value

    @property
    def is_link(self) -> bool:
        """Whether the values are consistent with an increasing bijection into (0, 1)."""
        return self.falling_share == self.flat_share == self.outside_share == self.saturated_share == 0.0

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return asdict(self)


def monotonicity(inverse_link: Callable[[np.ndarray], np.ndarray], z: ArrayLike) -> MonotonicityCheck:
    """Measure a function from predictors to probabilities at points ``z``, for instance the predictors of a test set.

    Parameters
    ----------
    inverse_link : callable
        From an array of shape (m,) to one of the same shape, such as ``clf.inverse_link``.
    z : array
        Points, in any order and shape.

    Examples
    --------
    >>> report = monotonicity(np.tanh, np.linspace(-1.0, 1.0, 11))
    >>> report.falling_share, round(report.lowest, 3), report.is_link
    (0.0, -0.762, False)
    """
    if not callable(inverse_link):
        raise ValueError(f"inverse_link must be a function, got {type(inverse_link).__name__}.")
    points = np.unique(np.asarray(z, dtype=np.float64))
    if len(points) < 2 or not np.isfinite(points).all():
        raise ValueError(f"z must contain at least two distinct finite points, got {len(points)}.")
    p = np.asarray(inverse_link(points), dtype=np.float64)
    if p.shape != points.shape:
        raise ValueError(f"inverse_link must return the shape it is given, {points.shape}, got {p.shape}.")
    if not np.isfinite(p).all():
        at = points[~np.isfinite(p)][0]
        raise ValueError(f"inverse_link must return finite values, got NaN or infinite ones, first at z={at:.6g}.")
    steps = np.diff(p)
    # neighbors so close that rounding decides do not count as falling
    noise = 4 * np.finfo(float).eps
    return MonotonicityCheck(
        n_points=len(points),
        falling_share=float((steps < -noise).mean()),
        flat_share=float((steps == 0.0).mean()),
        largest_fall=float((np.maximum.accumulate(p) - p).max()),
        outside_share=float(((p < 0.0) | (p > 1.0)).mean()),
        saturated_share=float(((p == 0.0) | (p == 1.0)).mean()),
        lowest=float(p.min()),
        highest=float(p.max()),
    )
