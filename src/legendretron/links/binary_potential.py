r"""The potential of a two-class link, by quadrature.

For two classes any increasing inverse link :math:`p(z) = \sigma(T(z))` is a gradient, that of

.. math:: F(z) = \int_{-\infty}^{z} \sigma(T(s))\, ds .

There is no closed form when ``T`` is a network, but it is one integral of a smooth increasing function.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

__all__ = ["binary_potential"]

#: |log-odds| beyond which sigma has reached 0 or 1 to rounding, in float64.
_SATURATION = 40.0
_PANELS = 64
_NODES = 12
_MAX_ROUNDS = 20


def _integrate(odds: Callable[[Tensor], Tensor], left: Tensor, right: Tensor, n_nodes: int = _NODES) -> Tensor:
    """Gauss-Legendre on each panel: (*runs, m), (*runs, m) -> (*runs, m)."""
    nodes, weights = (
        torch.as_tensor(a, dtype=left.dtype, device=left.device) for a in np.polynomial.legendre.leggauss(n_nodes)
    )
    half = (right - left).unsqueeze(-1) / 2
    at = left.unsqueeze(-1) + half * (1.0 + nodes)
    p = torch.sigmoid(odds(at.reshape(*left.shape[:-1], -1, 1))).reshape(at.shape)
    return (half * p * weights).sum(-1)


@torch.no_grad()
def _panel_edges(
    odds: Callable[[Tensor], Tensor],
    from_odds: Callable[[Tensor], Tensor],
    run_shape: tuple[int, ...],
    like: Tensor,
) -> Tensor:
    """Edges (*runs, m + 1), the same log-odds in all runs, fine enough that halving a panel changes nothing."""
    grid = torch.linspace(-_SATURATION, _SATURATION, _PANELS + 1, dtype=like.dtype, device=like.device)
    tolerance = 16 * torch.finfo(like.dtype).eps
    for _ in range(_MAX_ROUNDS):
        middle = (grid[:-1] + grid[1:]) / 2
        edges = from_odds(grid.expand(*run_shape, -1).unsqueeze(-1)).squeeze(-1)
        middles = from_odds(middle.expand(*run_shape, -1).unsqueeze(-1)).squeeze(-1)
        whole = _integrate(odds, edges[..., :-1], edges[..., 1:])
        halves = _integrate(odds, edges[..., :-1], middles) + _integrate(odds, middles, edges[..., 1:])
        rough = (whole - halves).abs() > tolerance * (1.0 + edges[..., 1:].abs())
        rough = rough.reshape(-1, rough.shape[-1]).any(0)
        # a panel as narrow as rounding allows is as good as it gets
        rough &= (grid[1:] - grid[:-1]) > tolerance * (1.0 + middle.abs())
        if not bool(rough.any()):
            break
        grid = torch.cat([grid, middle[rough]]).sort().values
    return edges


def binary_potential(odds: Callable[[Tensor], Tensor], from_odds: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    r"""Integrate :math:`\sigma(T(s))` from minus infinity to ``z``.

    Panels are laid between the points of log-odds -40 and 40 and halved until halving changes nothing; outside, the
    integrand is 0 or 1 to rounding. Differentiable in ``z`` and in the parameters of ``T``.

    Parameters
    ----------
    odds : callable
        ``T`` on rows, ``(*runs, n, 1) -> (*runs, n, 1)``, increasing.
    from_odds : callable
        Its inverse.
    z : Tensor of shape (*runs, n)
        Upper limits.

    Returns
    -------
    Tensor of shape (*runs, n)
        The values.
    """
    edges = _panel_edges(odds, from_odds, tuple(z.shape[:-1]), z.detach())
    before = torch.cumsum(_integrate(odds, edges[..., :-1], edges[..., 1:]), dim=-1)
    before = torch.cat([torch.zeros_like(before[..., :1]), before], dim=-1)
    inside = z.clamp(edges[..., :1], edges[..., -1:])
    panel = torch.searchsorted(edges.contiguous(), inside.detach().contiguous(), right=True) - 1
    panel = panel.clamp(0, edges.shape[-1] - 2)
    start = torch.gather(edges, -1, panel)
    rest = _integrate(odds, start, inside)
    return torch.gather(before, -1, panel) + rest + (z - edges[..., -1:]).clamp(min=0.0)
