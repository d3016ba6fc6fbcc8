r"""The potential of a two-class link, by quadrature, and as a table.

For two classes any increasing inverse link :math:`p(z) = \sigma(T(z))` is a gradient, that of

.. math:: F(z) = \int_{-\infty}^{z} \sigma(T(s))\, ds .

There is no closed form when ``T`` is a network, but it is one integral of a smooth increasing function. With a link that is
frozen, piecewise polynomials take its place. The two canonical losses are, for a label of the second class and of the first,

.. math:: F(z) = \int_{-\infty}^z \sigma(T), \qquad F(z) - z = k + \int_z^\infty \sigma(-T).

Below the point of even odds the first integral is tabulated, above it the second: both are small there, so that nothing large
is subtracted, neither for the loss nor for the probabilities.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

Rows = Callable[[Tensor], Tensor]

#: |log-odds| beyond which sigma has reached 0 or 1 to rounding, in float64.
SATURATION = 40.0
_PANELS = 64
_NODES = 12
_MAX_ROUNDS = 25
#: Points inside a panel, evenly spread in log-odds, at which slopes are compared.
_PROBES = 7
#: By how much slopes of T may differ within a panel for it to count as smooth.
_SLOPE_RATIO = 3.0
#: Pieces of each panel in a table of the quadrature; on a panel the slope of T differs little.
_PARTS = 32
#: Points of a piece, by the bits of the precision wanted.
_TABLE_NODES = {32: 5, 64: 9}


class BinaryPotential:
    r"""A table of the integral; the value at any point needs one more short panel.

    Panels are laid between the points of log-odds -40 and 40, at the same log-odds in all runs, and halved until halving
    one changes nothing *and* the slope of ``T`` is nearly the same all over it. The second test is for links that
    are nearly a staircase: where ``T`` is flat and then rises over a tiny interval, both estimates could miss the rise, but
    points evenly spread in log-odds cannot. Outside the panels the integrand is 0 or 1 to rounding.

    Parameters
    ----------
    odds : callable
        ``T`` on rows, ``(*runs, n, 1) -> (*runs, n, 1)``, increasing.
    slope : callable
        Its derivative, on rows too. It only decides where panels are halved, and is never differentiated.
    from_odds : callable
        Its inverse.
    like : Tensor of shape (*runs, n)
        Determines run axes, dtype and device.
    """

    def __init__(self, odds: Rows, slope: Rows, from_odds: Rows, like: Tensor) -> None:
        self.odds = odds
        self.edges = _edges(odds, slope, from_odds, like)
        self.rule = _gauss_legendre(like)
        panels = _integrate(odds, self.edges[..., :-1], self.edges[..., 1:], self.rule)
        self.before = pad(torch.cumsum(panels, dim=-1), (1, 0))

    def __call__(self, z: Tensor) -> Tensor:
        """Integrate up to ``z``: ``(*runs, n) -> (*runs, n)``; differentiable, also in the parameters of ``T``."""
        edges = self.edges
        inside = z.clamp(edges[..., :1], edges[..., -1:])
        panel = torch.searchsorted(edges.contiguous(), inside.detach().contiguous(), right=True) - 1
        panel = panel.clamp(0, edges.shape[-1] - 2)
        rest = _integrate(self.odds, torch.gather(edges, -1, panel), inside, self.rule)
        return torch.gather(self.before, -1, panel) + rest + (z - edges[..., -1:]).clamp(min=0.0)


def _gauss_legendre(like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return torch.as_tensor(nodes).to(like), torch.as_tensor(weights).to(like)


def _integrate(odds: Rows, left: Tensor, right: Tensor, rule: tuple[Tensor, Tensor]) -> Tensor:
    """Gauss-Legendre on each panel: (*runs, m), (*runs, m) -> (*runs, m)."""
    nodes, weights = rule
    half = (right - left).unsqueeze(-1) / 2
    at = left.unsqueeze(-1) + half * (1.0 + nodes)
    p = torch.sigmoid(odds(at.reshape(*left.shape[:-1], -1, 1))).reshape(at.shape)
    return (half * p * weights).sum(-1)


@torch.no_grad()
def _edges(odds: Rows, slope: Rows, from_odds: Rows, like: Tensor) -> Tensor:
    """Edges of the panels, (*runs, m + 1)."""
    runs = like.shape[:-1]
    grid = torch.linspace(-SATURATION, SATURATION, _PANELS + 1, dtype=like.dtype, device=like.device)
    rule = _gauss_legendre(like)
    tolerance = 16 * torch.finfo(like.dtype).eps
    inner = torch.linspace(0, 1, _PROBES + 2, dtype=like.dtype, device=like.device)
    first, width = grid[:-1], grid[1:] - grid[:-1]
    starts: list[Tensor] = []
    edges: list[Tensor] = []
    for last_round in (*[False] * (_MAX_ROUNDS - 1), True):
        probes = (first[:, None] + width[:, None] * inner).reshape(-1)
        at = from_odds(probes.expand(*runs, -1).unsqueeze(-1))
        slopes = slope(at).reshape(*runs, width.shape[0], -1)
        at = at.reshape(slopes.shape)
        left, centre, right = at[..., 0], at[..., at.shape[-1] // 2], at[..., -1]
        whole = _integrate(odds, left, right, rule)
        halves = _integrate(odds, left, centre, rule) + _integrate(odds, centre, right, rule)
        rough = (whole - halves).abs() > tolerance * (1.0 + right.abs())
        # panels too narrow in z to matter need not be smooth
        matters = (right - left) > tolerance * (1.0 + right.abs())
        rough |= (slopes.amax(-1) > _SLOPE_RATIO * slopes.amin(-1)) & matters
        rough = rough.reshape(-1, rough.shape[-1]).any(0)
        # panels as narrow as rounding cannot be halved
        middle = first + width / 2
        rough &= width > tolerance * (1.0 + middle.abs())
        if not edges:
            end = right[..., -1:]
        done = ~rough | last_round
        starts.append(first[done])
        edges.append(left[..., done])
        if bool(done.all()):
            break
        # only the halves of rough panels are tested again
        first, width = torch.cat([first[rough], middle[rough]]), (width[rough] / 2).repeat(2)
    order = torch.cat(starts).argsort()
    return torch.cat([torch.cat(edges, dim=-1)[..., order], end], dim=-1)


def split_panels(edges: Tensor) -> Tensor:
    """Edges of pieces of the panels of a quadrature, on which a polynomial is as good as the function."""
    parts = torch.linspace(0, 1, _PARTS + 1, dtype=edges.dtype, device=edges.device)[:-1]
    return torch.cat([(edges[:-1, None] + edges.diff()[:, None] * parts).reshape(-1), edges[-1:]])


class PotentialTable:
    """Polynomials on pieces of the line, made in double precision.

    Parameters
    ----------
    odds : callable
        ``T`` on rows, ``(n, 1) -> (n, 1)``, in float64.
    edges : Tensor of shape (m + 1,)
        Of the pieces, in float64; beyond the first and the last, the odds are saturated.
    dtype : torch.dtype
        Precision of the table.
    """

    def __init__(self, odds: Callable[[Tensor], Tensor], edges: Tensor, dtype: torch.dtype) -> None:
        # rounded first, to the edges of the table; unique, since panels without width would divide by zero
        edges = edges.to(dtype).unique()
        if len(edges) == 1:  # a step too steep for this precision
            edges = torch.cat([edges, torch.nextafter(edges, edges.new_tensor(torch.inf))])
        left, right = edges[:-1].double(), edges[1:].double()
        half, middle = (right - left) / 2, ((right + left) / 2).to(dtype).double()
        nodes = np.polynomial.legendre.leggauss(_TABLE_NODES[torch.finfo(dtype).bits])[0]
        at = middle[:, None] + half[:, None] * torch.as_tensor(nodes).to(half)
        t = odds(at.reshape(-1, 1)).reshape(at.shape)
        above = t[:, len(nodes) // 2] > 0
        small = torch.sigmoid(torch.where(above[:, None], -t, t))
        powers = torch.as_tensor(np.linalg.inv(np.vander(nodes, increasing=True))).to(half)
        slopes = small @ powers.mT * half[:, None]  # of the integral in t from -1 to 1, by powers of t
        degrees = torch.arange(1, len(nodes) + 1, dtype=half.dtype, device=half.device)
        integral = slopes / degrees
        at_left, at_right = (integral * (-1.0) ** degrees).sum(-1), integral.sum(-1)
        whole = at_right - at_left
        below_sum = torch.cumsum(torch.where(above, 0.0, whole), 0)
        above_sum = torch.cumsum(torch.where(above, whole, 0.0).flip(0), 0).flip(0)
        # the integral up to the left end of a piece, or from its right end on
        start = torch.where(above, above_sum - whole + at_right, below_sum - whole - at_left)
        sign = torch.where(above, -1.0, 1.0).double()
        columns = torch.cat([start[:, None], sign[:, None] * integral], -1)
        crossing = edges[int((~above).sum())].double()
        constant = below_sum[-1] - above_sum[0] - crossing
        self.edges = edges
        self.inner = edges[1:-1].contiguous()
        self.middle, self.scale = middle.to(dtype), (1.0 / half).to(dtype)
        self.above, self.constant = above, constant.to(dtype)
        self.columns = columns.mT.contiguous().to(dtype)

    def scores_and_proba(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Canonical losses with a minus, and probabilities: ``(...) -> (..., 2), (..., 2)``."""
        inside = z.clamp(self.edges[0], self.edges[-1])
        piece = torch.searchsorted(self.inner, inside, right=True)
        scale, above = self.scale[piece], self.above[piece]
        t = (inside - self.middle[piece]) * scale
        value, slope = self.columns[-1][piece], torch.zeros_like(t)
        for column in self.columns.flip(0)[1:].unbind(0):
            slope = torch.addcmul(value, slope, t)
            value = torch.addcmul(column[piece], value, t)
        small = (slope * scale).abs().clamp(max=1.0)  # rounding in a piece as narrow as rounding
        value = torch.where(above, value + self.constant, value)
        first = torch.where(above, value, value - z)
        second = torch.where(above, value + z, value)
        p = torch.where(above, 1.0 - small, small)
        q = torch.where(above, small, 1.0 - small)
        return -torch.stack([first, second], -1), torch.stack([p, q], -1)

    def pieces(self) -> Tensor:
        """Middle, one over half the width, whether above even odds, and coefficients of each piece, ``(m, 3 + d)``."""
        of_pieces = torch.stack([self.middle, self.scale, self.above.to(self.scale.dtype)])
        return torch.cat([of_pieces, self.columns]).mT
