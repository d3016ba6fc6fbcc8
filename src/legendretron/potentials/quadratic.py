r"""The quadratic potential, whose gradient is a scaling."""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor, nn

from legendretron._internal.start import blank, set_start
from legendretron._internal.validation import at_least_single
from legendretron.potentials.base import Potential
from legendretron.potentials.softplus import softplus, softplus_inverse

__all__ = ["QuadraticPotential"]


class QuadraticPotential(Potential):
    r""":math:`g(x) = \tfrac{\alpha}{2}|x|^2` with a learnable :math:`\alpha > 0`, the softplus of ``raw_alpha``.

    As the only block of a link it learns a temperature.

    Parameters
    ----------
    dim : int
        ``K``.
    alpha : float
        Curvature to start from; positive.
    run_shape : tuple of int
        The run axes.
    device, dtype : optional
        Of the parameter.

    Examples
    --------
    >>> g = QuadraticPotential(dim=2, alpha=2.0)
    >>> g.gradient(torch.tensor([1.25, -3.0])).detach()
    tensor([ 2.5000, -6.0000])
    """

    def __init__(
        self,
        dim: int,
        alpha: float = 1.0,
        *,
        run_shape: tuple[int, ...] = (),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, run_shape)
        if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 < float(alpha) < math.inf:
            raise ValueError(f"alpha must be positive and finite, got {alpha!r}.")
        self._start: float = softplus_inverse(float(alpha))
        self.raw_alpha: nn.Parameter = nn.Parameter(torch.empty((*self.run_shape, 1), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Restore the curvature to start from; nothing is drawn."""
        set_start(self.raw_alpha, blank(self.raw_alpha).fill_(self._start))

    def _alpha(self) -> Tensor:
        return softplus(at_least_single(self.raw_alpha)).unsqueeze(-1)

    def _value(self, x: Tensor) -> Tensor:
        return 0.5 * self._alpha()[..., 0] * x.square().sum(-1)

    def _gradient(self, x: Tensor) -> Tensor:
        return self._alpha() * x

    def _hessian(self, x: Tensor) -> Tensor:
        eye = torch.eye(self.dim, dtype=x.dtype, device=x.device)
        return (self._alpha()[..., None] * eye).expand(*x.shape, self.dim)

    def _hessian_product(self, x: Tensor, v: Tensor) -> Tensor:
        return self._alpha() * v

    def _hessian_solve(self, x: Tensor, v: Tensor) -> Tensor:
        return v / self._alpha()

    def _inverse_gradient(self, y: Tensor) -> Tensor:
        return y / self._alpha()
