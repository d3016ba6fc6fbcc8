r"""The paper's link: gradients of input-convex networks, one after the other, then softmax+."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from legendretron._internal.validation import check_choice, check_integer, full_precision
from legendretron.links.base import Link
from legendretron.links.registry import register_link
from legendretron.potentials import FICNN, CPFlowNetwork
from legendretron.simplex import log_softmax_plus, softmax_plus_jacobian

_NETWORKS: dict[str, type[FICNN]] = {"ficnn": FICNN, "cpflow": CPFlowNetwork}


@register_link("composite")
class CompositeLink(Link):
    r"""LegendreTron's link, :math:`\tilde p(z) = \mathrm{softmax}^+(\nabla g_B \circ \ldots \circ \nabla g_1 (z))`.

    Each :math:`g_i` is an input-convex network plus a quadratic, so each block is monotone and invertible, and the
    log-loss of the whole is strictly proper composite. Blocks act in list order: ``blocks[0]`` first.

    **Canonical only for two classes.** The Jacobian is a product of symmetric positive definite matrices. In two or more
    dimensions, such a product may not be symmetric, and its symmetric part may not be positive definite. Then there is no
    potential, and the link may not be monotone. This also makes it more accurate with a linear predictor.
    ``legendretron.diagnostics.canonicality`` measures the deviation; :class:`~legendretron.links.CanonicalLink` is always
    canonical.

    Parameters
    ----------
    n_classes : int
        ``C``.
    n_blocks : int
        ``B``, the number of networks in the chain.
    hidden : int
        ``H``, the number of units per layer.
    depth : int
        ``M``, the number of hidden layers per network.
    network : {"ficnn", "cpflow"}
        The network described in the paper, or the one used for its tables.
    init : {"identity", "centred", "paper"}
        ``"identity"``: start near softmax+. ``"centred"``: the same, with weights for a penalty that is centered at softmax+,
        see :class:`~legendretron.potentials.FICNN`. ``"paper"``: random, as in the paper.
    run_shape : tuple of int
        The run axes.
    generator : torch.Generator, optional
        Random generator of the initialization.
    device, dtype : optional
        Device and dtype of the parameters.

    Examples
    --------
    >>> link = CompositeLink(n_classes=3)
    >>> link(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    >>> link.is_canonical, CompositeLink(n_classes=2).is_canonical
    (False, True)
    """

    starts: ClassVar[tuple[str, ...]] = ("identity", "centred", "paper")

    def __init__(
        self,
        n_classes: int,
        n_blocks: int = 2,
        hidden: int = 2,
        depth: int = 4,
        network: str = "ficnn",
        *,
        init: str = "identity",
        run_shape: tuple[int, ...] = (),
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(n_classes, run_shape)
        check_integer("n_blocks", n_blocks, 1)
        self.network = check_choice("network", network, tuple(_NETWORKS))
        self.blocks = nn.ModuleList(
            _NETWORKS[network](
                self.n_classes - 1,
                hidden,
                depth,
                init=init,
                run_shape=self.run_shape,
                generator=generator,
                device=device,
                dtype=dtype,
            )
            for _ in range(n_blocks)
        )

    def settings(self) -> dict[str, Any]:
        """``n_blocks``, ``hidden``, ``depth`` and ``network``."""
        first = self._chain()[0]
        return {"n_blocks": len(self.blocks), "hidden": first.hidden, "depth": first.depth, "network": self.network}

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`Link.reset_parameters`; ``network="cpflow"`` waits for a first batch again."""
        for block in self._chain():
            block.reset_parameters(generator)

    def penalty_centre(self) -> dict[str, float]:
        """Where all blocks are the identity map, so that the link is softmax+."""
        return {
            f"blocks.{i}.{name}": value
            for i, block in enumerate(self._chain())
            for name, value in block.penalty_centre().items()
        }

    def class_axes(self) -> dict[str, int]:
        """The blocks' weights are split: a composite link sees all classes through one product with each of them."""
        return {f"blocks.{i}.weight": 1 for i in range(len(self.blocks))}

    def _chain(self) -> list[FICNN]:
        return list(self._iterate())

    def _iterate(self) -> Iterator[FICNN]:
        # self.blocks would take three times as long, and this is called in every pass
        return cast(Iterator[FICNN], iter(cast(nn.ModuleList, self._modules["blocks"])))

    def _log_odds(self, z: Tensor) -> Tensor:
        for block in self._chain():
            z = block._gradient(z)
        return z

    def _first_tensor(self) -> Tensor:
        return next(self._iterate()).weight

    def _from_log_odds(self, log_odds: Tensor) -> Tensor:
        for block in reversed(self._chain()):
            log_odds = block._inverse_gradient(log_odds)
        return log_odds

    def _jacobian(self, z: Tensor) -> Tensor:
        jacobian: Tensor | None = None
        for block in self._chain():
            step = block._hessian(z)
            jacobian = step if jacobian is None else step @ jacobian
            z = block._gradient(z)
        assert jacobian is not None
        return softmax_plus_jacobian(log_softmax_plus(z).exp()) @ jacobian

    def _log_odds_slope(self, z: Tensor) -> Tensor:
        slope = torch.ones_like(z)
        for block in self._chain():
            slope = slope * block._hessian(z).squeeze(-1)
            z = block._gradient(z)
        return slope

    @property
    def needs_batch(self) -> bool:
        """Whether a block's normalization is not initialized yet."""
        return any(block.needs_batch for block in self._iterate())

    @torch.no_grad()
    def initialize(self, z: Tensor, weight: Tensor | None = None, *, across_ranks: bool = False) -> None:
        """Initialize the normalization of ``network="cpflow"`` on a batch ``(..., C - 1)``; ``"ficnn"`` has none."""
        rows = self._rows("z", z, self.n_classes - 1)
        with full_precision(rows):
            for block in self._chain():
                block.initialize(rows, weight, across_ranks=across_ranks)
                rows = block._gradient(rows)

    def keep_start(self) -> None:
        """Mark the normalization as initialized: from now on only training changes it."""
        for block in self._chain():
            block.keep_start()
