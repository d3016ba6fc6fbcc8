r"""A learnable link that is canonical for every number of classes."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from legendretron.links.base import Link
from legendretron.links.registry import register_link
from legendretron.potentials import NestedLogSumExp


@register_link("canonical")
class CanonicalLink(Link):
    r"""The gradient of one learnable potential, the nested log-sum-exp.

    .. math:: p(z) = \sum_m \pi_m(z)\, \mathrm{softmax}\bigl(\mu_m (z, 0) + c_m\bigr), \qquad
              \pi = \mathrm{softmax}(\beta v + b);

    see :class:`~legendretron.potentials.NestedLogSumExp`. For all parameters, it is monotone, with a symmetric positive
    definite Jacobian and a convex canonical loss. The price is flexibility: with a linear predictor, no class probability can
    rise and fall again along a line; in such cases, :class:`~legendretron.links.CompositeLink` is more accurate.

    Parameters
    ----------
    n_classes : int
        ``C``.
    n_nests : int
        Number of softmaxes in the mixture; with one, only a temperature and offsets are learned.
    init : {"identity", "random"}
        Start near softmax+, or at random.
    run_shape : tuple of int
        The run axes.
    generator : torch.Generator, optional
        Random generator of the initialization.
    device, dtype : optional
        Device and dtype of the parameters.

    Examples
    --------
    >>> link = CanonicalLink(n_classes=4, dtype=torch.float64)
    >>> z = torch.randn(5, 3, dtype=torch.float64)
    >>> jacobian = link.jacobian(z)
    >>> torch.allclose(jacobian, jacobian.mT)
    True
    """

    starts: ClassVar[tuple[str, ...]] = ("identity", "random")

    def __init__(
        self,
        n_classes: int,
        n_nests: int = 4,
        *,
        init: str = "identity",
        run_shape: tuple[int, ...] = (),
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(n_classes, run_shape)
        self.nests = NestedLogSumExp(
            self.n_classes - 1,
            n_nests,
            init=init,
            run_shape=self.run_shape,
            generator=generator,
            device=device,
            dtype=dtype,
        )

    def settings(self) -> dict[str, Any]:
        """``n_nests``."""
        return {"n_nests": self.nests.n_nests}

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """See :meth:`Link.reset_parameters`."""
        self.nests.reset_parameters(generator)

    def class_axes(self) -> dict[str, int]:
        """Offsets are split: a canonical link sees all classes through one log-sum-exp per nest."""
        return {"nests.offsets": 1}

    @property
    def is_canonical(self) -> bool:
        """Always, by construction."""
        return True

    def _log_proba(self, z: Tensor) -> Tensor:
        return self.nests._log_proba(z)

    def _first_tensor(self) -> Tensor:
        return self.nests.log_mu

    def _log_proba_of_logits(self, logits: Tensor) -> Tensor:
        if type(self) is not CanonicalLink:  # a subclass may define another map
            return super()._log_proba_of_logits(logits)
        return self.nests._log_proba_of_logits(logits)

    @property
    def _takes_masks(self) -> bool:
        return type(self) is CanonicalLink  # a subclass may define another map

    def _from_log_odds(self, log_odds: Tensor) -> Tensor:
        return self.nests._inverse_log_odds(log_odds)

    def _jacobian(self, z: Tensor) -> Tensor:
        return self.nests._hessian(z)

    def _canonical_losses(self, z: Tensor) -> Tensor:
        return self.nests._value_minus(z)

    def _scores_and_proba(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        return self.nests._scores_and_proba(logits)

    def _least_losses(self) -> Tensor:
        return self.nests._least_losses()

    def _potential(self, z: Tensor) -> Tensor:
        return self.nests._value(z)
