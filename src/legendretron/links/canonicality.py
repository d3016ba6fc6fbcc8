r"""How far a link is from being canonical, measured on data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from legendretron._internal.validation import check_integer, check_last_axis
from legendretron.links.base import Link
from legendretron.links.runs import check_single_link

__all__ = ["CanonicalityCheck", "JacobianDefects", "canonicality", "check_points", "jacobian_defects"]


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
