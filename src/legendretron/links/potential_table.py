r"""The potential of a frozen two-class link and its derivative, as piecewise polynomials.

With :math:`p(z) = \sigma(T(z))`, the two canonical losses are, for a label of the second class and of the first,

.. math:: F(z) = \int_{-\infty}^z \sigma(T), \qquad F(z) - z = k + \int_z^\infty \sigma(-T).

Below the point of even odds the first integral is tabulated, above it the second: both are small there, so that nothing large
is subtracted, neither for the loss nor for the probabilities.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

__all__ = ["PotentialTable", "split_panels"]

#: Pieces of each panel of the quadrature; on a panel the slope of T differs little.
_PARTS = 32
#: Points of a piece, by the bits of the precision wanted.
_NODES = {32: 5, 64: 9}


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
        nodes = np.polynomial.legendre.leggauss(_NODES[torch.finfo(dtype).bits])[0]
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
