r"""How far a link is from being canonical, and the nearest canonical link."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from legendretron._internal.validation import check_integer, check_last_axis
from legendretron.links.base import Link
from legendretron.links.canonical import CanonicalLink
from legendretron.links.noisy import NoisyLink
from legendretron.links.runs import check_single_link


@dataclass(frozen=True)
class CanonicalityCheck:
    """What :func:`canonicality` found.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> report = canonicality(SoftmaxLink(n_classes=3), torch.zeros(4, 2))
    >>> report.n_points, report.max_asymmetry, report.indefinite_share
    (4, 0.0, 0.0)
    """

    n_points: int  #: points examined
    n_pairs: int  #: pairs of points examined
    median_asymmetry: float  #: median over the points of :math:`|J - J^T| / |J|` (Frobenius norms)
    max_asymmetry: float  #: its maximum
    indefinite_share: float  #: share of points where the symmetric part of the Jacobian has a negative eigenvalue
    #: smallest ratio of the least eigenvalue of a symmetric part to its largest in absolute value; negative if indefinite
    least_eigenvalue_ratio: float
    nonmonotone_share: float  #: share of pairs with :math:`\langle \tilde p(z) - \tilde p(z'), z - z' \rangle < 0`

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return asdict(self)


class JacobianDefects(NamedTuple):
    """What :func:`jacobian_defects` returns, each of shape (n,)."""

    asymmetry: Tensor  #: :math:`|J - J^T| / |J|`, Frobenius norms
    eigenvalue_ratio: Tensor  #: smallest eigenvalue of the symmetric part over its largest in size
    indefinite: Tensor  #: whether that ratio is negative by more than rounding


@torch.no_grad()
def canonicality(link: Link, z: Tensor, *, max_pairs: int = 100_000, seed: int = 0) -> CanonicalityCheck:
    r"""Measure symmetry, definiteness and monotonicity of a link at predictors ``z``.

    A canonical link has a symmetric positive definite Jacobian everywhere, and is monotone. Thresholds are at rounding
    level, relative to each point's own Jacobian, so that saturated points count like any other.

    Parameters
    ----------
    link : Link
        Without run axes.
    z : Tensor of shape (..., C - 1)
        Points to examine, for instance the predictors of a test set.
    max_pairs : int
        Maximum number of pairs of points to compare; if there are more, they are sampled.
    seed : int
        Seed of the sample.

    Examples
    --------
    >>> from legendretron.links import CanonicalLink
    >>> report = canonicality(CanonicalLink(n_classes=3, init="random"), torch.randn(50, 2))
    >>> report.indefinite_share, report.nonmonotone_share
    (0.0, 0.0)
    """
    check_integer("max_pairs", max_pairs, 1)
    points = check_points(link, z)
    defects = jacobian_defects(link, points)
    first, second = _pairs(points.shape[0], max_pairs, seed, points.device)
    p = link.inverse(points)[:, :-1]
    dp, dz = p[first] - p[second], points[first] - points[second]
    product = (dp * dz).sum(-1)
    # rounding of a difference of probabilities is absolute: about eps, in each of the K terms
    noise = 4 * torch.finfo(points.dtype).eps * dz.abs().sum(-1)
    return CanonicalityCheck(
        n_points=points.shape[0],
        n_pairs=first.shape[0],
        median_asymmetry=float(defects.asymmetry.median()),
        max_asymmetry=float(defects.asymmetry.max()),
        indefinite_share=float(defects.indefinite.double().mean()),
        least_eigenvalue_ratio=float(defects.eigenvalue_ratio.min()),
        nonmonotone_share=float((product < -noise).double().mean()) if first.numel() else 0.0,
    )


@torch.no_grad()
def jacobian_defects(link: Link, z: Tensor) -> JacobianDefects:
    r"""Measure how far the Jacobian ``J`` of a link is from symmetric and from positive definite, point by point.

    Thresholds are those of :func:`canonicality`, which summarizes these numbers.

    Parameters
    ----------
    link : Link
        Without run axes.
    z : Tensor of shape (..., C - 1)
        ``n`` predictors.

    Examples
    --------
    >>> from legendretron.links import SoftmaxLink
    >>> defects = jacobian_defects(SoftmaxLink(n_classes=3), torch.zeros(1, 2))
    >>> defects.asymmetry, defects.eigenvalue_ratio, defects.indefinite
    (tensor([0.]), tensor([0.3333], dtype=torch.float64), tensor([False]))
    """
    points = check_points(link, z)
    jacobian = link.jacobian(points)
    # scaled by its largest entry first, so that no square of a nearly saturated Jacobian underflows
    largest_entry = jacobian.abs().amax((-1, -2), keepdim=True)
    jacobian = jacobian / torch.where(largest_entry > 0, largest_entry, torch.ones_like(largest_entry))
    norm = torch.linalg.matrix_norm(jacobian)
    asymmetry = torch.linalg.matrix_norm(jacobian - jacobian.mT) / torch.where(norm > 0, norm, torch.ones_like(norm))
    # in double precision: single-precision routines fail on matrices whose entries span many orders of magnitude
    eigenvalues = torch.linalg.eigvalsh((jacobian + jacobian.mT).double() / 2)
    largest = eigenvalues.abs().amax(-1).clamp(min=torch.finfo(torch.float64).tiny)
    ratio = eigenvalues[:, 0] / largest
    slack = 32 * torch.finfo(points.dtype).eps * (link.n_classes - 1)
    return JacobianDefects(asymmetry, ratio, ratio < -slack)


def check_points(link: Link, z: Any) -> Tensor:
    """Return predictors ``(n, C - 1)`` for a link without run axes, or raise a ``ValueError``."""
    k = check_single_link(link).n_classes - 1
    points = check_last_axis("z", torch.as_tensor(z), k).reshape(-1, k).detach()
    if points.shape[0] == 0:
        raise ValueError("z must contain at least one point, got none.")
    if not bool(torch.isfinite(points).all()):
        raise ValueError("z must be finite, got NaN or infinite entries.")
    return points


def _pairs(n: int, most: int, seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
    if n * (n - 1) // 2 <= most:
        first, second = torch.triu_indices(n, n, offset=1, device=device)
        return first, second
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(n, (most,), generator=generator)
    second = (first + torch.randint(1, n, (most,), generator=generator)) % n
    return first.to(device), second.to(device)


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
