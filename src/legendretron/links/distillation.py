r"""The nearest canonical link to one that is not."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from legendretron._internal.validation import check_integer
from legendretron.links.base import Link
from legendretron.links.canonical import CanonicalLink
from legendretron.links.canonicality import check_points
from legendretron.links.noisy import NoisyLink
from legendretron.links.runs import check_single_link

__all__ = ["Distilled", "LinkGap", "distill", "link_gap"]


@dataclass(frozen=True)
class LinkGap:
    r"""How far the probabilities ``p`` of one link and ``q`` of another are apart, at the same predictors.

    The distance is the Kullback-Leibler divergence :math:`\sum_k p_k \log (p_k / q_k)`. Its mean is the increase in log-loss
    if ``p`` is true.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> gap = link_gap(SoftmaxLink(3), SoftmaxLink(3), torch.zeros(4, 2))
    >>> gap.n_points, gap.max_difference, gap.agreement
    (4, 0.0, 1.0)
    """

    n_points: int  #: predictors examined
    mean_kl: float  #: mean divergence over the points
    max_kl: float  #: largest divergence
    max_difference: float  #: largest difference of a probability, over points and classes
    agreement: float  #: share of the points where both links have the same most probable class

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return asdict(self)


class Distilled(NamedTuple):
    """What :func:`distill` found.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> Distilled(SoftmaxLink(3), LinkGap(10, 0.01, 0.02, 0.05, 1.0), converged=True).gap.mean_kl
    0.01
    """

    link: Link  #: canonical and frozen, on the device and in the dtype of the link that was distilled
    gap: LinkGap  #: between the two, at the points they were compared at
    converged: bool  #: whether the search ended by itself and not at ``max_iter``


def distill(link: Link, z: Any, *, n_nests: int = 8, max_iter: int = 200, seed: int = 0) -> Distilled:
    r"""Find the canonical link that is nearest to a trained link, such as a composite link of three classes.

    The distance is measured at predictors :math:`z_1, \ldots, z_n`, between the probabilities ``p`` of the link and those of
    :class:`CanonicalLink` with :math:`M` nests and parameters :math:`\theta`, which are ``q``:

    .. math:: \min_\theta \; \tfrac1n \sum_i \mathrm{KL}\bigl(p(z_i) \,\|\, q_\theta(z_i)\bigr).

    L-BFGS minimizes this in float64, from softmax+ and from a random start, and the better result is returned. It may be a
    local minimum, since the problem is not convex in :math:`\theta`. Canonical links are monotone, so part of the gap may
    remain for any of them; :func:`canonicality` measures how far the link is from being monotone. A canonical link is
    returned as a copy.

    Parameters
    ----------
    link : Link
        A trained link, without run axes.
    z : Tensor or array of shape (..., C - 1)
        Predictors at which the links should agree, such as ``linear_predictor(X)`` of the estimator of the link. A few
        thousand are enough.
    n_nests : int
        :math:`M`.
    max_iter : int
        Maximum number of iterations of L-BFGS from each start.
    seed : int
        Seed of the starts.

    Returns
    -------
    Distilled
        ``link``: the canonical link, frozen, for use in :class:`~legendretron.losses.CanonicalLoss` or
        ``LegendreTronClassifier(link=...)``. ``gap``: the distance that remains. ``converged``: whether L-BFGS converged.

    Examples
    --------
    >>> from legendretron.links import CompositeLink
    >>> generator = torch.Generator().manual_seed(0)
    >>> link = CompositeLink(3, init="paper", generator=generator, dtype=torch.float64)
    >>> z = torch.randn(200, 2, generator=generator, dtype=torch.float64)
    >>> distilled = distill(link, z, n_nests=2)
    >>> distilled.link.is_canonical, distilled.gap.mean_kl < 0.1
    (True, True)
    """
    check_single_link(link)
    if isinstance(link, NoisyLink):
        raise ValueError("link must be a link to the true labels, got a NoisyLink; distill link.clean.")
    n_nests, max_iter = check_integer("n_nests", n_nests, 1), check_integer("max_iter", max_iter, 1)
    seed = check_integer("seed", seed, 0)
    points = check_points(link, z)
    if link.is_canonical:
        same = copy.deepcopy(link).eval().requires_grad_(False)
        return Distilled(same, link_gap(link, same, points), True)
    with torch.inference_mode(False):
        rows = points.double().clone()
        log_p = _log_proba(link, rows)
        ends = [_nearest(rows, log_p, n_nests, init, max_iter, seed) for init in CanonicalLink.starts]
    best, _, converged = min(ends, key=lambda end: end[1])
    like = link._first_tensor()
    like = points if like is None else like
    nearest = best.to(device=like.device, dtype=like.dtype).eval().requires_grad_(False)
    return Distilled(nearest, link_gap(link, nearest, points), converged)


def _nearest(
    z: Tensor, log_p: Tensor, n_nests: int, init: str, max_iter: int, seed: int
) -> tuple[CanonicalLink, float, bool]:
    """Link, mean divergence and whether the search has ended by itself, from one start."""
    generator = torch.Generator().manual_seed(seed)
    q = CanonicalLink(log_p.shape[-1], n_nests, init=init, generator=generator, dtype=torch.float64).to(z.device)
    optimizer = torch.optim.LBFGS(
        q.parameters(),
        max_iter=max_iter,
        max_eval=2 * max_iter,
        tolerance_grad=1e-8,
        tolerance_change=1e-7,  # of the divergence, in an iteration
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        with torch.enable_grad():
            value = _divergence(log_p, q(z)).mean()
            value.backward()
        return value

    optimizer.step(closure)
    with torch.no_grad():
        reached = float(_divergence(log_p, q(z)).mean())
    steps = optimizer.state[next(q.parameters())]["n_iter"]
    return q, reached if reached == reached else float("inf"), steps < max_iter


@torch.no_grad()
def link_gap(link: Link, other: Link, z: Any) -> LinkGap:
    r"""Measure how far the probabilities of two links are apart at predictors ``z``, for instance those of held-out rows.

    Parameters
    ----------
    link, other : Link
        For the same classes, without run axes.
    z : Tensor or array of shape (..., C - 1)
        Predictors.

    Examples
    --------
    >>> from legendretron.links import CanonicalLink, SoftmaxLink
    >>> link_gap(CanonicalLink(3), SoftmaxLink(3), torch.zeros(5, 2)).agreement <= 1.0
    True
    """
    points = check_points(link, z)
    check_single_link(other, "other", link.n_classes)
    # in double precision: a divergence is a small difference of logarithms
    log_p, log_q = (_log_proba(one, points) for one in (link, other))
    divergence = _divergence(log_p, log_q).clamp(min=0.0)
    return LinkGap(
        n_points=points.shape[0],
        mean_kl=float(divergence.mean()),
        max_kl=float(divergence.max()),
        max_difference=float((log_p.exp() - log_q.exp()).abs().max()),
        agreement=float((log_p.argmax(-1) == log_q.argmax(-1)).double().mean()),
    )


def _log_proba(link: Link, z: Tensor) -> Tensor:
    """Log-probabilities in double precision, without a graph and outside inference mode."""
    with torch.inference_mode(False), torch.no_grad():
        log_p: Tensor = copy.deepcopy(link).double().eval()(z.double().clone())
    return log_p


def _divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Kullback-Leibler divergence of each row, (n, C), (n, C) -> (n,); a class of probability zero under p does not count."""
    p = log_p.exp()
    return torch.where(p > 0.0, p * (log_p - log_q), 0.0).sum(-1)
