r"""The inverse of a ridge potential's gradient, by a system of size ``r``, whatever the number of classes.

The solution of :math:`\nabla g(x) = \alpha x + \gamma A^\top d(A x + b) = y` has the form :math:`x = (y - A^\top s) / \alpha`
with :math:`s \in \mathbb{R}^r`, its **dual**. There the objective :math:`g(x) - \langle x, y \rangle` is, up to a constant,

.. math:: \frac{1}{2 \alpha} s^\top G s + \gamma h(t + b), \qquad t = (A y - G s) / \alpha, \quad G = A A^\top,

its gradient :math:`A^\top \rho` with :math:`\rho = \gamma d(t + b) - s`, and Newton's step in ``x`` the same as

.. math:: s \leftarrow s + \alpha\,(\alpha I + \gamma H_h G)^{-1} \rho .

So only the products :math:`A y` and :math:`A^\top s` grow with the number of classes.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from legendretron._internal.validation import full_precision
from legendretron.accelerate.forms import link_form
from legendretron.accelerate.log_proba import is_watched
from legendretron.accelerate.support import has_numba
from legendretron.links import CompositeLink, Link, NoisyLink
from legendretron.potentials.ficnn import FICNN, Ridge
from legendretron.simplex import log_softmax_plus, log_softmax_plus_inverse

__all__ = ["check_roots", "compiled_inverse", "inverse_gradient", "link_from_log", "network_numbers"]

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
    if block.run_shape or type(y) is not Tensor or not y.is_cpu or y.dtype not in (torch.float32, torch.float64):
        return False
    return (block.weight.dtype, block.weight.device) == (y.dtype, y.device) and has_numba() and not is_watched()


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
    """Points where the gradient is ``y``, without a graph: ``(n, K) -> (n, K)``; NaN where none was found."""
    from legendretron.accelerate.cpu.inverse import ridge_duals

    ridge = block.ridge()
    weight = ridge.weight
    ay, wide = (y @ weight.mT).double(), weight.double()
    gram, numbers = wide @ wide.mT, network_numbers(ridge).double()
    scales = torch.linalg.vector_norm(y, dim=-1).double()
    duals = np.empty(ay.numel())
    flat = [t.contiguous().reshape(-1).numpy() for t in (ay, scales, gram, numbers)]
    tolerance = torch.finfo(y.dtype).eps ** 0.5
    ridge_duals(*flat, len(y), block.hidden, block.depth, block.final_softplus, tolerance, duals)
    s = torch.from_numpy(duals).reshape(ay.shape).to(y.dtype)
    return torch.addmm(y, s, weight, alpha=-1.0) / ridge.alpha


def network_numbers(ridge: Ridge) -> Tensor:
    """``b``, the mixing weights, ``alpha`` and ``gamma`` in one dimension; units that mix nothing have weights of zero."""
    *middle, last = ridge.mixing
    mixing = [pad(p, (0, 0, 0, p.shape[1] - p.shape[0])) for p in middle] + [last]
    return torch.cat([t.reshape(-1) for t in (ridge.bias, *mixing, ridge.alpha, ridge.gamma)])
