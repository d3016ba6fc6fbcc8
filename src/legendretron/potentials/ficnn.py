r"""The fully input-convex network plus a quadratic, in ridge form: it sees its input through a few linear maps.

.. math:: g(x) = \tfrac{\alpha}{2}|x|^2 + \gamma\, h(A x + b), \qquad A \in \mathbb{R}^{r \times K},\; r = M H + 1,

with the inner network on :math:`t = (t_1, \ldots, t_{M+1})`

.. math::

    z_1 = t_1, \qquad z_k = t_k + P_k\,\mathrm{softplus}(z_{k-1}), \quad P_k \ge 0, \qquad
    h(t) = \phi(z_{M+1}),

where :math:`\phi` is softplus or the identity. Rows of :math:`P_k` that are missing count as zero: such units see the
input alone. Everything else follows in closed form, and only two products with :math:`A` grow with the number of
classes:

- gradient: :math:`\alpha x + \gamma A^\top d` with :math:`d = \nabla h` by the backward recursion
  :math:`w_{M+1} = 1`, :math:`d_k = \phi_k'(z_k) \odot w_k`, :math:`w_{k-1} = P_k^\top d_k`. One ordinary backward pass
  trains it; no graph is built to take the gradient.
- Hessian: :math:`\alpha I + \gamma A^\top H_h A` with :math:`H_h = J^\top \mathrm{diag}(w \odot \phi'') J`,
  :math:`J = \partial z / \partial t`: positive semi-definite term by term.
- its inverse: by Woodbury, a system of size :math:`r` per row, whatever the number of classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from legendretron._internal.process_groups import reduce_shards
from legendretron._internal.start import blank, init_linear, set_start
from legendretron._internal.validation import at_least_single, check_choice, check_integer
from legendretron.potentials.base import Potential

__all__ = ["FICNN", "Ridge", "softplus", "softplus_inverse"]

#: Weight of the network when a block is to start as (nearly) the identity map.
_IDENTITY_GAMMA = 0.01
#: Factor on the random start of ``A`` when a block is to start near the identity map with a network of full weight.
_CENTERED_SCALE = 0.1


def softplus(x: Tensor) -> Tensor:
    """``log(1 + exp x)``.

    torch switches to the identity above 20, which is off by 2e-9: too much in float64, where gradients are checked
    against it. At 40 the switch is below the rounding of both precisions.
    """
    if torch.compiler.is_exporting() and x.dtype == torch.float64:
        # onnxruntime has no softplus of doubles
        return torch.relu(x) + torch.log1p(torch.exp(-x.abs()))
    return torch.nn.functional.softplus(x, threshold=40.0)


def softplus_inverse(y: float) -> float:
    """Return the ``x`` with ``softplus(x) = y``, for ``y > 0``."""
    return y + math.log(-math.expm1(-y))


class Ridge(NamedTuple):
    """The tensors of the ridge form, as the recursion uses them."""

    weight: Tensor  #: A, shape (*runs, r, K)
    bias: Tensor  #: b, shape (*runs, r)
    mixing: tuple[Tensor, ...]  #: P_2 .. P_{M+1}, non-negative, shapes (*runs, mixed units, H) and (*runs, 1, H)
    alpha: Tensor  #: shape (*runs, 1, 1)
    gamma: Tensor  #: shape (*runs, 1, 1)


class FICNN(Potential):
    r"""Fully input-convex network plus a quadratic; the formulas are in the module's docstring.

    The paper writes positive weights in the first layer too. Convexity does not need them, and a network that can only
    rise along each axis would be a poor link, so :math:`A` is free here, as in the code behind the paper.

    Parameters
    ----------
    dim : int
        ``K``.
    hidden : int
        ``H``, units per layer.
    depth : int
        ``M``, hidden layers.
    init : {"identity", "centred", "paper"}
        Near the identity map, by a small ``gamma`` or, for a penalty that pulls towards :meth:`penalty_centre`, by a small
        ``A``, both with ``alpha = 1``; or with ``alpha`` and ``gamma`` drawn as softplus of standard normal numbers. Linear
        layers start as ``torch.nn.Linear`` does.
    run_shape : tuple of int
        The run axes.
    generator : torch.Generator, optional
        Source of the random start, on the parameters' device.
    device, dtype : optional
        Of the parameters.

    References
    ----------
    Amos, Xu, Kolter (2017), Input Convex Neural Networks, ICML.

    Examples
    --------
    >>> g = FICNN(dim=3, hidden=2, depth=4, dtype=torch.float64)
    >>> x = torch.randn(5, 3, dtype=torch.float64)
    >>> torch.allclose(g.inverse_gradient(g.gradient(x)), x)
    True
    """

    #: whether h ends in a softplus; otherwise z_{M+1} itself is h
    final_softplus: ClassVar[bool] = True

    def __init__(
        self,
        dim: int,
        hidden: int = 2,
        depth: int = 4,
        *,
        init: str = "identity",
        run_shape: tuple[int, ...] = (),
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dim, run_shape)
        self.hidden = check_integer("hidden", hidden, 1)
        self.depth = check_integer("depth", depth, 1)
        self.init = check_choice("init", init, ("identity", "centred", "paper"))
        self.rank = self.depth * self.hidden + 1
        self.mixing_rows = (self.depth - 1) * self.mixed_units + 1

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty((*self.run_shape, *shape), device=device, dtype=dtype))

        self.weight = empty(self.rank, self.dim)
        self.bias = empty(self.rank)
        self.raw_mixing = empty(self.mixing_rows, self.hidden)
        self.raw_alpha = empty(1)  # one entry, not none: scalars cannot be sharded
        self.raw_gamma = empty(1)
        self._add_parameters(empty)
        self.reset_parameters(generator)

    def _add_parameters(self, empty: Callable[..., nn.Parameter]) -> None:
        """Make what a network has beside the layers: ``empty(*shape)`` is a parameter with the run axes in front."""

    @property
    def mixed_units(self) -> int:
        """Units of a middle layer that see the layer before; the others see the input alone."""
        return self.hidden

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`Potential.reset_parameters`."""
        start = {name: blank(parameter) for name, parameter in self.named_parameters()}
        self._draw_layers(start, generator)
        if self.init == "paper":  # in the order of the code behind the paper
            start["raw_gamma"].normal_(generator=generator)
            start["raw_alpha"].normal_(generator=generator)
        else:
            start["raw_alpha"].fill_(softplus_inverse(1.0))
            start["raw_gamma"].fill_(softplus_inverse(_IDENTITY_GAMMA if self.init == "identity" else 1.0))
        if self.init == "centred":
            start["weight"].mul_(_CENTERED_SCALE)
        for name, value in start.items():
            set_start(getattr(self, name), value)

    def penalty_centre(self) -> dict[str, float]:
        """Values of parameters, by name, at which a penalty vanishes and the gradient is the identity map; others are 0."""
        return {"raw_alpha": softplus_inverse(1.0), "raw_gamma": softplus_inverse(1.0)}

    def _draw_layers(self, start: dict[str, Tensor], generator: torch.Generator | None) -> None:
        """Fill plain tensors, by the names of the parameters, all but ``raw_alpha`` and ``raw_gamma``."""
        init_linear(self.dim, generator, start["weight"], start["bias"])
        init_linear(self.hidden, generator, start["raw_mixing"])

    # --- the ridge form ---

    def _positive_mixing(self, raw_mixing: Tensor) -> Tensor:
        """All of P, one layer below the other; divided by the fan-in so that outputs do not grow with the width."""
        return softplus(raw_mixing) / self.hidden

    def _split_mixing(self, mixing: Tensor) -> tuple[Tensor, ...]:
        return mixing.split([self.mixed_units] * (self.depth - 1) + [1], dim=-2)

    def ridge(self) -> Ridge:
        """Return the tensors of the ridge form for the present parameters, in float32 at least."""
        return self._ridge_of(self._tensors())

    tensor_names: ClassVar[tuple[str, ...]] = ("weight", "bias", "raw_mixing", "raw_alpha", "raw_gamma")

    def _ridge_of(self, tensors: Sequence[Tensor]) -> Ridge:
        """The ridge form of such tensors."""
        weight, bias, raw_mixing, raw_alpha, raw_gamma = (at_least_single(tensor) for tensor in tensors)
        mixing = self._split_mixing(self._positive_mixing(raw_mixing))
        return Ridge(weight, bias, mixing, *self._scales(raw_alpha, raw_gamma))

    @staticmethod
    def _scales(raw_alpha: Tensor, raw_gamma: Tensor) -> tuple[Tensor, Tensor]:
        """``alpha`` and ``gamma``, shape (*runs, 1, 1)."""
        return softplus(raw_alpha).unsqueeze(-1), softplus(raw_gamma).unsqueeze(-1)

    def _preactivations(self, ridge: Ridge, x: Tensor) -> list[Tensor]:
        """``z_1 .. z_{M+1}``, shapes (*runs, n, H) and (*runs, n, 1)."""
        # the only communication of a class-parallel head
        t = reduce_shards(x @ ridge.weight.mT) + ridge.bias.unsqueeze(-2)
        # the last unit apart: what is split has to have all its gradients, and a linear one has none
        last = self.hidden * self.depth
        layers = [*t[..., :last].split(self.hidden, dim=-1), t[..., last:]]
        z = [layers[0]]
        for layer, mixing in zip(layers[1:], ridge.mixing, strict=True):
            mixed = softplus(z[-1]) @ mixing.mT
            width = mixed.shape[-1]
            if width == layer.shape[-1]:
                z.append(layer + mixed)
            else:
                z.append(torch.cat([layer[..., :width] + mixed, layer[..., width:]], dim=-1))
        return z

    def _inner_gradient(self, ridge: Ridge, z: list[Tensor]) -> Tensor:
        """``d = grad h``, shape (*runs, n, r)."""
        d = [torch.sigmoid(z[-1]) if self.final_softplus else torch.ones_like(z[-1])]
        for z_k, mixing in zip(reversed(z[:-1]), reversed(ridge.mixing), strict=True):
            width = mixing.shape[-2]
            d.append(torch.sigmoid(z_k) * (d[-1][..., :width] @ mixing))
        return torch.cat(d[::-1], dim=-1)

    def _inner_hessian(self, ridge: Ridge, x: Tensor) -> Tensor:
        """``H_h``, shape (*runs, n, r, r)."""
        z = self._preactivations(ridge, x)
        bend = [torch.sigmoid(-z_k) for z_k in z]  # phi'' / phi'
        if not self.final_softplus:
            bend[-1] = torch.zeros_like(z[-1])
        curvature = self._inner_gradient(ridge, z) * torch.cat(bend, dim=-1)
        jacobian = torch.cat(self._preactivation_jacobians(ridge, z), dim=-2)
        return jacobian.mT @ (curvature.unsqueeze(-1) * jacobian)

    def _preactivation_jacobians(self, ridge: Ridge, z: list[Tensor]) -> list[Tensor]:
        """``dz_k / dt``, shapes (*runs, n, H, r) and (*runs, n, 1, r)."""
        eye = torch.eye(self.rank, dtype=z[0].dtype, device=z[0].device)
        units = eye.split([self.hidden] * self.depth + [1], dim=0)
        jacobians = [units[0].expand(*z[0].shape[:-1], *units[0].shape)]
        for unit, mixing, before in zip(units[1:], ridge.mixing, z[:-1], strict=True):
            mixed = mixing.unsqueeze(-3) @ (torch.sigmoid(before).unsqueeze(-1) * jacobians[-1])
            width = mixed.shape[-2]
            rest = unit[width:].expand(*mixed.shape[:-2], *unit[width:].shape)
            jacobians.append(torch.cat([unit[:width] + mixed, rest], dim=-2))
        return jacobians

    # --- the potential ---

    def _value(self, x: Tensor) -> Tensor:
        ridge = self.ridge()
        last = self._preactivations(ridge, x)[-1]
        h = softplus(last) if self.final_softplus else last
        return (0.5 * ridge.alpha * x.square().sum(-1, keepdim=True) + ridge.gamma * h).squeeze(-1)

    def _gradient(self, x: Tensor) -> Tensor:
        return self._gradient_of(self.ridge(), x)

    def _gradient_of(self, ridge: Ridge, x: Tensor) -> Tensor:
        d = self._inner_gradient(ridge, self._preactivations(ridge, x))
        return ridge.alpha * x + (ridge.gamma * d) @ ridge.weight

    def _hessian(self, x: Tensor) -> Tensor:
        ridge = self.ridge()
        inner = self._inner_hessian(ridge, x)
        a = ridge.weight.unsqueeze(-3)
        eye = torch.eye(self.dim, dtype=x.dtype, device=x.device)
        return ridge.alpha.unsqueeze(-1) * eye + ridge.gamma.unsqueeze(-1) * (a.mT @ inner @ a)

    def _hessian_solve(self, x: Tensor, v: Tensor) -> Tensor:
        ridge = self.ridge()
        inner = self._inner_hessian(ridge, x)
        gram = (ridge.weight @ ridge.weight.mT).unsqueeze(-3)
        eye = torch.eye(self.rank, dtype=x.dtype, device=x.device)
        system = ridge.alpha.unsqueeze(-1) * eye + ridge.gamma.unsqueeze(-1) * (inner @ gram)
        bent = inner @ (v @ ridge.weight.mT).unsqueeze(-1)
        # solve_ex does not raise, so a row of NaN stays a row of NaN
        small = torch.linalg.solve_ex(system, bent)[0].squeeze(-1)
        return (v - (ridge.gamma * small) @ ridge.weight) / ridge.alpha

    @property
    def needs_batch(self) -> bool:
        """Whether :meth:`initialize` is still to be called."""
        return False

    @torch.no_grad()
    def initialize(self, x: Tensor, weight: Tensor | None = None, *, across_ranks: bool = False) -> None:
        """Initialize what depends on a first batch ``(..., K)``, weighted or not; nothing unless a subclass overrides it."""

    def keep_start(self) -> None:
        """Mark as initialized what :meth:`initialize` would set: from now on only training changes it."""

    def extra_repr(self) -> str:
        """Text between the brackets of ``repr``."""
        return f"{super().extra_repr()}, hidden={self.hidden}, depth={self.depth}, init={self.init!r}"
