r"""The inverse of a ridge potential's gradient, by a system of size ``r``, whatever the number of classes.

With an orthonormal basis of the lines of ``A``, :math:`A^\top = Q W^\top`, the solution of
:math:`\nabla g(x) = \alpha x + \gamma A^\top d(A x + b) = y` is :math:`x = y / \alpha` in the directions outside of it. In
those of the basis, :math:`v = Q^\top x` solves the same equation with :math:`W` in place of :math:`A`:

.. math:: \alpha v + \gamma W^\top d(W v + b) = Q^\top y .

So only the products with :math:`Q` grow with the number of classes.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor

from legendretron._internal.validation import full_precision
from legendretron.accelerate.forms import block_shapes, link_form
from legendretron.accelerate.log_proba import is_watched
from legendretron.accelerate.support import can_read, has_numba
from legendretron.links import CompositeLink, Link, NoisyLink
from legendretron.potentials.ficnn import FICNN
from legendretron.simplex import log_softmax_plus, log_softmax_plus_inverse

__all__ = ["check_roots", "compiled_inverse", "inverse_gradient", "link_from_log"]

#: Largest error of the gradient at a root, in units of rounding.
_ROUNDING = 64.0


def link_from_log(link: Link, log_p: Tensor) -> Tensor:
    """Predictors of log-probabilities: ``(..., C) -> (..., C - 1)``; as :meth:`Link.link_from_log`, and faster.

    Examples
    --------
    >>> link, z = CompositeLink(3, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)
    >>> torch.allclose(link_from_log(link, link(z)), z)
    True
    """
    rows = link._rows("log_p", log_p, link.n_classes)
    with full_precision(rows):
        z = _from_log_odds(link, log_softmax_plus_inverse(rows))
    return z.reshape(*log_p.shape[:-1], link.n_classes - 1)


def _from_log_odds(link: Link, log_odds: Tensor) -> Tensor:
    if type(link) is NoisyLink:
        log_p = link.noise.log_clean(log_softmax_plus(log_odds))
        return _from_log_odds(link.clean, log_p[..., :-1] - log_p[..., -1:])
    form = link_form(link)
    if form is None or not form.n_blocks:
        return link._from_log_odds(log_odds)
    for block in reversed(cast(CompositeLink, link)._chain()):
        log_odds = inverse_gradient(block, log_odds)
    return log_odds


def inverse_gradient(block: FICNN, y: Tensor) -> Tensor:
    """Points where the gradient of a network of ours is ``y``, on rows: ``(*runs, n, K) -> (*runs, n, K)``."""
    if not _applies(block, y):
        return block._inverse_gradient(y)
    root = check_roots(block, compiled_inverse(block, y.detach()), y.detach())
    if not torch.is_grad_enabled() or not any(t.requires_grad for t in (y, *block.parameters())):
        return root
    return block._polish(root, y)


def _applies(block: FICNN, y: Tensor) -> bool:
    """Whether the compiled function can work on ``y``."""
    if block.run_shape or type(y) is not Tensor or not y.is_cpu or is_watched() or not has_numba():
        return False
    return y.dim() == 2 and can_read(block._tensors(), block_shapes(block, y.shape[1]), y)


@torch.no_grad()
def check_roots(block: FICNN, root: Tensor, y: Tensor) -> Tensor:
    """Roots ``(n, K)``, of which those that are not accurate to rounding are found again by plain operations."""
    off, scale = (torch.linalg.vector_norm(v, dim=-1) for v in (block._gradient(root) - y, y))
    bad = ~(off <= _ROUNDING * torch.finfo(y.dtype).eps * (1.0 + scale))  # true for NaN
    if bool(bad.any()):
        root[bad] = block._inverse_gradient(y[bad])
    return root


@torch.no_grad()
def compiled_inverse(block: FICNN, y: Tensor) -> Tensor:
    """Points where the gradient is ``y``, without a graph: ``(n, K) -> (n, K)``; of no use where none was found."""
    from legendretron.accelerate.cpu.inverse import invert_ridge

    weight, bias, mixing, alpha, gamma = block.ridge()
    basis, triangle = torch.linalg.qr(weight.mT)
    target = y @ basis
    numbers = [target, triangle.mT, bias, torch.cat(mixing)]
    flat = [t.double().contiguous().reshape(-1).numpy() for t in numbers]
    root = np.empty(target.numel())
    sizes = *target.shape, block.hidden, block.mixed_units, block.depth, int(block.final_softplus)
    invert_ridge(*flat, float(alpha), float(gamma), *sizes, root)
    v = torch.from_numpy(root).reshape(target.shape).to(y.dtype)
    return torch.addmm(y / alpha, v - target / alpha, basis.mT)
