r"""The inverse of a ridge potential's gradient, by a system of size ``r``, whatever the number of classes.

The solution of :math:`\nabla g(x) = \alpha x + \gamma A^\top d(A x + b) = y` has the form :math:`x = (y - A^\top s) / \alpha`
with :math:`s \in \mathbb{R}^r`, its **dual**. There the objective :math:`g(x) - \langle x, y \rangle` is, up to a constant,

.. math:: \frac{1}{2 \alpha} s^\top G s + \gamma h(t + b), \qquad t = (A y - G s) / \alpha, \quad G = A A^\top,

its gradient :math:`A^\top \rho` with :math:`\rho = \gamma d(t + b) - s`, and Newton's step in ``x`` the same as

.. math:: s \leftarrow s + \alpha\,(\alpha I + \gamma H_h G)^{-1} \rho .

So only the products :math:`A y` and :math:`A^\top s` grow with the number of classes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from legendretron.accelerate.cpu.support import has_numba
from legendretron.potentials.ridge_form import Ridge

__all__ = ["applies", "inverse", "network_numbers"]


def network_numbers(ridge: Ridge) -> Tensor:
    """``b``, the mixing weights, ``alpha`` and ``gamma`` in one dimension; units that mix nothing have weights of zero."""
    *middle, last = ridge.mixing
    mixing = [pad(p, (0, 0, 0, p.shape[1] - p.shape[0])) for p in middle] + [last]
    return torch.cat([t.reshape(-1) for t in (ridge.bias, *mixing, ridge.alpha, ridge.gamma)])


def applies(y: Tensor, run_shape: tuple[int, ...]) -> bool:
    """Whether the compiled function can work on ``y``; compilers and function transforms need plain operations."""
    if run_shape or type(y) is not Tensor or y.device.type != "cpu" or y.dtype not in (torch.float32, torch.float64):
        return False
    # private, but there is no public way to ask whether vmap, jvp or the like is active
    transformed = (
        torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0
    )
    return not (torch.compiler.is_compiling() or transformed) and has_numba()


@torch.no_grad()
def inverse(ridge: Ridge, y: Tensor, hidden: int, depth: int, final_softplus: bool) -> Tensor:
    """Points where the gradient is ``y``: ``(n, K) -> (n, K)``; NaN where none was found."""
    from legendretron.accelerate.cpu.inverse import ridge_duals

    weight = ridge.weight
    ay, wide = (y @ weight.mT).double(), weight.double()
    gram, numbers = wide @ wide.mT, network_numbers(ridge).double()
    scales = torch.linalg.vector_norm(y, dim=-1).double()
    duals = np.empty(ay.numel())
    flat = [t.contiguous().reshape(-1).numpy() for t in (ay, scales, gram, numbers)]
    tolerance = torch.finfo(y.dtype).eps ** 0.5
    ridge_duals(*flat, len(y), hidden, depth, final_softplus, tolerance, duals)
    s = torch.from_numpy(duals).reshape(ay.shape).to(y.dtype)
    return torch.addmm(y, s, weight, alpha=-1.0) / ridge.alpha
