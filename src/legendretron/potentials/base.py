r"""The interface of a potential: a strictly convex function with everything that Legendre duality needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import chain
from typing import ClassVar

import torch
from torch import Tensor, nn

from legendretron._internal.validation import (
    check_float_tensor,
    check_integer,
    check_last_axis,
    check_precision,
    check_run_shape,
)
from legendretron.potentials.newton import damped_newton

__all__ = ["Potential"]


class Potential(nn.Module, ABC):
    r"""A strictly convex, differentiable function on :math:`\mathbb{R}^K`.

    Parameters may carry leading **run axes**: with ``run_shape = (R,)`` one module holds ``R`` independent functions
    and every input has shape ``(R, ..., K)``; run ``r`` of the output depends on run ``r`` of the input alone. With the
    default ``run_shape = ()`` an input is simply ``(..., K)``.

    Subclasses write the underscored methods, which see rows: tensors of shape ``(*run_shape, n, K)``.

    Parameters
    ----------
    dim : int
        ``K``, the dimension of the space.
    run_shape : tuple of int
        The run axes.

    Examples
    --------
    >>> from legendretron.potentials import NestedLogSumExp
    >>> potential = NestedLogSumExp(2)  # a subclass
    >>> potential.hessian(torch.zeros(5, 2)).shape
    torch.Size([5, 2, 2])
    """

    def __init__(self, dim: int, run_shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.dim = check_integer("dim", dim, 1)
        self.run_shape = check_run_shape(run_shape)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Restore the start of the constructor, drawn anew, also in memory that holds no values yet.

        All parameters and buffers are written, so that it can follow ``to_empty``. Of a potential that is sharded over
        processes, all of them must call it.
        """
        if next(chain(self.parameters(), self.buffers()), None) is not None:
            raise NotImplementedError(
                f"{type(self).__name__} has parameters or buffers: it must define reset_parameters."
            )

    #: Parameters in the order of compiled functions; none if there are no such functions.
    tensor_names: ClassVar[tuple[str, ...]] = ()

    def _tensors(self) -> list[Tensor]:
        """Parameters in the order of their names, as they are now."""
        registered = self._parameters
        try:  # much quicker than getattr, and called in every step
            return [registered[name] for name in self.tensor_names]  # type: ignore[misc]
        except KeyError:  # a frozen link has buffers, and other libraries replace parameters by tensors
            return [getattr(self, name) for name in self.tensor_names]

    # --- what subclasses write, on rows (*run_shape, n, K) ---

    @abstractmethod
    def _value(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def _gradient(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def _hessian(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def _hessian_solve(self, x: Tensor, v: Tensor) -> Tensor: ...

    def _inverse_gradient(self, y: Tensor) -> Tensor:
        return self._polish(self._newton(y), y)

    def _newton(self, y: Tensor) -> Tensor:
        return damped_newton(
            residual=lambda x: self._gradient(x) - y,
            solve=self._hessian_solve,
            start=torch.zeros_like(y),
            scale=torch.linalg.vector_norm(y.detach(), dim=-1),
            objective=lambda x: self._value(x) - (x * y).sum(-1),
        )

    def _polish(self, root: Tensor, y: Tensor) -> Tensor:
        # Two more Newton steps polish the digits and, being part of the graph, carry the derivatives: each step doubles
        # the number of orders that are exact, so first, second and third derivatives of the inverse are right.
        start = root
        for _ in range(2):
            root = root - self._hessian_solve(root, self._gradient(root) - y)
        # where a potential is nearly flat, rounding can make these steps long: then only their derivatives are used
        before, after = (torch.linalg.vector_norm(self._gradient(x) - y, dim=-1).detach() for x in (start, root))
        return torch.where((after > before).unsqueeze(-1), start + (root - root.detach()), root)

    # --- what users call, on any leading axes ---

    def _rows(self, name: str, x: Tensor) -> Tensor:
        check_last_axis(name, x, self.dim, self.run_shape)
        x = check_precision(name, x, next(self.parameters(), None))
        return x if x.dim() == len(self.run_shape) + 2 else x.reshape(*self.run_shape, -1, self.dim)

    def value(self, x: Tensor) -> Tensor:
        """Value of the function: ``(..., K) -> (...)``."""
        return self._value(self._rows("x", x)).reshape(x.shape[:-1])

    def gradient(self, x: Tensor) -> Tensor:
        """Gradient: ``(..., K) -> (..., K)``."""
        return self._gradient(self._rows("x", x)).reshape(x.shape)

    def hessian(self, x: Tensor) -> Tensor:
        """Hessian, symmetric and positive definite: ``(..., K) -> (..., K, K)``."""
        return self._hessian(self._rows("x", x)).reshape(*x.shape, self.dim)

    def hessian_solve(self, x: Tensor, v: Tensor) -> Tensor:
        """Inverse Hessian at ``x`` times ``v``, without forming either: ``(..., K), (..., K) -> (..., K)``."""
        if check_float_tensor("x", x).shape != check_float_tensor("v", v).shape:
            raise ValueError(f"v must have the shape of x, {tuple(x.shape)}, got {tuple(v.shape)}.")
        return self._hessian_solve(self._rows("x", x), self._rows("v", v)).reshape(x.shape)

    def inverse_gradient(self, y: Tensor) -> Tensor:
        """Return the point where the gradient is ``y``: ``(..., K) -> (..., K)``. Differentiable up to third order."""
        return self._inverse_gradient(self._rows("y", y)).reshape(y.shape)

    def conjugate(self, y: Tensor) -> Tensor:
        r"""Legendre-Fenchel conjugate :math:`\sup_x \langle x, y\rangle - g(x)`: ``(..., K) -> (...)``."""
        rows = self._rows("y", y)
        x = self._inverse_gradient(rows)
        return ((x * rows).sum(-1) - self._value(x)).reshape(y.shape[:-1])

    def forward(self, x: Tensor) -> Tensor:
        """Value of the function, as :meth:`value`."""
        return self.value(x)

    def extra_repr(self) -> str:
        """Text between the brackets of ``repr``."""
        return f"dim={self.dim}" + (f", run_shape={self.run_shape}" if self.run_shape else "")
