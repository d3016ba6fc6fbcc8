r"""The network behind the paper's tables: CP-Flow's input-convex network with activation normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from legendretron._internal.process_groups import is_sharded, sum_over_ranks, whole, write_whole
from legendretron._internal.start import blank, init_linear, set_start
from legendretron._internal.validation import at_least_single, has_values
from legendretron.potentials.ficnn import FICNN, Ridge, softplus

__all__ = ["CPFlowNetwork"]

SCALE_FLOOR = 1e-3
_STD_FLOOR = 1e-6


class CPFlowNetwork(FICNN):
    r"""Input-convex network of CP-Flow plus a quadratic.

    Of the :math:`H` units of a middle layer, the first :math:`\lceil H/2 \rceil` continue the network and are
    normalized, the others are new units that see the input alone:

    .. math::

        u_k = \mathrm{actnorm}(A_k x + b_k + P_k s_{k-1} + c_k / H), \qquad
        s_k = \bigl(\mathrm{softplus}(u_k),\; \mathrm{softplus}(A'_k x + b'_k)\bigr), \qquad
        h = \mathrm{actnorm}(a^\top x + P_{M+1} s_M),

    with :math:`\mathrm{actnorm}(t) = (t + \mathtt{shift})(e^{\mathtt{log\_scale}} + 0.001)`. A positive scale and a shift
    fold into :math:`A, b, P`, so this too has ridge form. The bias has three parts, as in CP-Flow's code, since a penalized
    network trains differently with them; the last shift and bias, which no gradient sees, are left out. The random start is
    drawn in the order of CP-Flow's code, so that a generator gives the start of the paper's experiments.

    :meth:`initialize` sets the normalization so that each normalized unit has zero mean and unit variance on a first batch;
    from then on it is trained. A link does this for its blocks on the first batch in training mode. Until then the
    normalization is (nearly) the identity, and the buffer ``initialized`` is false.

    Parameters are those of :class:`~legendretron.potentials.FICNN`.

    References
    ----------
    Huang, Chen, Tsirigotis, Courville (2021), Convex Potential Flows, ICLR.

    Examples
    --------
    >>> g = CPFlowNetwork(dim=3, hidden=2, depth=4)
    >>> g.initialize(torch.randn(64, 3))
    >>> bool(g.initialized)
    True
    """

    final_softplus = False
    initialized: Tensor

    def _add_parameters(self, empty: Callable[..., nn.Parameter]) -> None:
        self._shards: dict[str, Tensor] = {}
        self.shift = empty(self.mixing_rows - 1)
        self.log_scale = empty(self.mixing_rows)
        self.mixing_bias = empty(self.mixing_rows - 1)
        self.register_buffer("initialized", torch.zeros((), dtype=torch.bool, device=self.weight.device))

    @property
    def mixed_units(self) -> int:
        """The first half of the units, rounded up, see the layer before."""
        return self.hidden - self.hidden // 2

    def _draw_layers(self, start: dict[str, Tensor], generator: torch.Generator | None) -> None:
        weight, bias, mixing, mixing_bias = (start[n] for n in ("weight", "bias", "raw_mixing", "mixing_bias"))

        def draw_units(rows: slice) -> None:
            init_linear(self.dim, generator, weight[..., rows, :], bias[..., rows])

        *middle, last = self._mixed_positions()
        draw_units(slice(0, self.hidden))
        for k in range(self.depth - 1):
            rows = slice(k * self.mixed_units, (k + 1) * self.mixed_units)
            init_linear(self.hidden, generator, mixing[..., rows, :], mixing_bias[..., rows])
        init_linear(self.hidden, generator, mixing[..., -1:, :])
        for rows in middle:
            draw_units(rows)
        init_linear(self.dim, generator, weight[..., last, :])
        for rows in middle:
            draw_units(slice(rows.stop, rows.start + self.hidden))
        bias[..., -1] = 0.0  # no bias in the last layer
        start["shift"].zero_()
        start["log_scale"].zero_()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`Potential.reset_parameters`; the normalization waits for a first batch again."""
        super().reset_parameters(generator)
        set_start(self.initialized, blank(self.initialized).fill_(False))
        # Mirrors the buffer: reading the buffer in every forward pass would stall a GPU and break compiled graphs.
        self._needs_batch = True

    def _mixed_positions(self) -> list[slice]:
        """Where the normalized units of layers 2 .. M+1 stand among the ``r`` ridge units."""
        middle = [slice(k * self.hidden, k * self.hidden + self.mixed_units) for k in range(1, self.depth)]
        return [*middle, slice(self.rank - 1, self.rank)]

    def _spread(self, middle: Tensor, others: float) -> Tensor:
        """Values of the normalized units of the middle layers among those of all units of these layers."""
        layers = middle.unflatten(-1, (self.depth - 1, self.mixed_units))
        return pad(layers, (0, self.hidden - self.mixed_units), value=others).flatten(-2)

    tensor_names = (*FICNN.tensor_names, "shift", "log_scale", "mixing_bias")

    def _ridge_of(self, tensors: Sequence[Tensor]) -> Ridge:
        """The ridge form with scales and shifts folded in: A' = s A, b' = s (b + c/H + shift), P' = s P."""
        weight, bias, raw_mixing, raw_alpha, raw_gamma, shift, log_scale, mixing_bias = map(at_least_single, tensors)
        scale = torch.exp(log_scale) + SCALE_FLOOR
        # a unit that is not normalized has scale 1 and shift 0
        unit_scale = torch.cat([self._spread(scale[..., :-1], 1.0), scale[..., -1:]], dim=-1)
        unit_scale = pad(unit_scale, (self.hidden, 0), value=1.0)
        moved = bias + pad(self._spread(shift + mixing_bias / self.hidden, 0.0), (self.hidden, 1))
        mixing = self._positive_mixing(raw_mixing) * scale.unsqueeze(-1)
        alpha, gamma = self._scales(raw_alpha, raw_gamma)
        return Ridge(weight * unit_scale.unsqueeze(-1), moved * unit_scale, self._split_mixing(mixing), alpha, gamma)

    @property
    def needs_batch(self) -> bool:
        """Whether the normalization has not been set yet."""
        # the buffer may have been written without load_state_dict: by a copy, a broadcast, another library
        if self._needs_batch and has_values(self.initialized) and bool(self.initialized):
            self._needs_batch = False
        return self._needs_batch

    @torch.no_grad()
    def initialize(self, x: Tensor, weight: Tensor | None = None, *, across_ranks: bool = False) -> None:
        """Set the normalization to zero mean and unit variance on a batch.

        Parameters
        ----------
        x : Tensor of shape (..., K)
            At least two rows. Rows that are not finite are ignored.
        weight : Tensor of shape (...), optional
            Weights of the rows.
        across_ranks : bool
            Whether the batch is this process's part of one that is spread over all processes of the default group. Then
            the normalization is that of the whole batch, the same everywhere.
        """
        x = self._rows("x", x)

        def total(part: Tensor) -> Tensor:
            return sum_over_ranks(part) if across_ranks else part

        if not across_ranks and x.shape[-2] < 2:
            raise ValueError(f"x must contain at least two rows to take a variance of, got {x.shape[-2]}.")
        plain = FICNN._ridge_of(self, self._tensors()[:5])
        t = whole(x @ plain.weight.mT) + whole(plain.bias).unsqueeze(-2)
        finite = torch.isfinite(t).all(-1)
        t = torch.where(finite.unsqueeze(-1), t, torch.zeros_like(t))
        share = finite.to(t.dtype) if weight is None else weight.reshape(finite.shape).to(t.dtype) * finite
        count = total(share.sum(-1, keepdim=True))
        if has_values(count) and not bool((count > 0).all()):
            return  # no finite rows; the next batch may have some
        share = (share / count).unsqueeze(-1)
        s = softplus(t[..., : self.hidden])
        shifts, log_scales = [], []
        for k, (where, mixing) in enumerate(zip(self._mixed_positions(), plain.mixing, strict=True), start=1):
            u = t[..., where] + s @ whole(mixing).mT
            if k < self.depth:
                mixing_bias = whole(self.mixing_bias)[..., (k - 1) * self.mixed_units : k * self.mixed_units]
                u = u + at_least_single(mixing_bias).unsqueeze(-2) / self.hidden
            mean = total((share * u).sum(-2))
            std = total((share * (u - mean.unsqueeze(-2)).square()).sum(-2)).sqrt()
            # a unit that is the same in all rows has no scale to set
            varies = std > _STD_FLOOR * (1.0 + mean.abs())
            log_scales.append(torch.where(varies, -torch.log(std + _STD_FLOOR), 0.0))
            if k < self.depth:
                shifts.append(-mean)
                u = (u - mean.unsqueeze(-2)) * (torch.exp(log_scales[-1]) + SCALE_FLOOR).unsqueeze(-2)
                fresh = t[..., where.stop : (k + 1) * self.hidden]
                s = softplus(torch.cat([u, fresh], dim=-1))
        self._write("log_scale", torch.cat(log_scales, dim=-1))
        if shifts:
            self._write("shift", torch.cat(shifts, dim=-1))
        self.keep_start()

    def keep_start(self) -> None:
        """Mark the normalization as initialized: from now on only training changes it."""
        self.initialized.fill_(True)
        self._needs_batch = False

    def _write(self, name: str, value: Tensor) -> None:
        """Set a parameter, and with it the shard that ``fully_shard`` keeps: what a forward pass sees is only a copy."""
        write_whole(getattr(self, name), value)
        if name in self._shards:
            write_whole(self._shards[name], value)

    def __setattr__(self, name: str, value: Any) -> None:
        # fully_shard swaps shards and whole parameters by assignment; _write needs the shards. In a class-parallel head the
        # whole parameter is a DTensor, too, on a mesh of fewer dimensions.
        if name in ("shift", "log_scale") and is_sharded(value):
            known = self._shards.get(name)
            if known is None or value.device_mesh.ndim >= known.device_mesh.ndim:  # type: ignore[attr-defined]
                self._shards[name] = value
        super().__setattr__(name, value)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        if not self.initialized.is_meta:  # a tensor without values tells nothing
            self._needs_batch = not bool(self.initialized)
