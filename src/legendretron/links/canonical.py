r"""A learnable link that is canonical for every number of classes."""

from __future__ import annotations

import torch
from torch import Tensor

from legendretron.links.base import Link
from legendretron.potentials import NestedLogSumExp

__all__ = ["CanonicalLink"]


class CanonicalLink(Link):
    r"""The gradient of one learnable potential, the nested log-sum-exp.

    .. math:: p(z) = \sum_m \pi_m(z)\, \mathrm{softmax}\bigl(\mu_m (z, 0) + c_m\bigr), \qquad
              \pi = \mathrm{softmax}(\beta v + b);

    see :class:`~legendretron.potentials.NestedLogSumExp`. Monotone, with a symmetric positive definite Jacobian and a
    convex canonical loss, whatever the parameters. The price is capacity: with a linear predictor no posterior along
    a line can rise and fall again; there :class:`~legendretron.links.CompositeLink` is the more accurate.

    Parameters
    ----------
    n_classes : int
        ``C``.
    n_nests : int
        Number of softmaxes mixed; with one, a temperature and offsets are learned.
    init : {"identity", "random"}
        Start near softmax+, or anywhere.
    run_shape : tuple of int
        The run axes.
    generator : torch.Generator, optional
        Source of the random start.
    device, dtype : optional
        Of the parameters.

    Examples
    --------
    >>> link = CanonicalLink(n_classes=4, dtype=torch.float64)
    >>> z = torch.randn(5, 3, dtype=torch.float64)
    >>> jacobian = link.jacobian(z)
    >>> torch.allclose(jacobian, jacobian.mT)
    True
    """

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

    @property
    def is_canonical(self) -> bool:
        """Always, by construction."""
        return True

    def _log_proba(self, z: Tensor) -> Tensor:
        return self.nests._log_proba(z)

    def _from_log_odds(self, log_odds: Tensor) -> Tensor:
        return self.nests._inverse_log_odds(log_odds)

    def _jacobian(self, z: Tensor) -> Tensor:
        return self.nests._hessian(z)

    def _canonical_losses(self, z: Tensor) -> Tensor:
        return self.nests._value_minus(z)

    def _potential(self, z: Tensor) -> Tensor:
        return self.nests._value(z)
