"""A calibration map as a link: from logits, less that of the last class, to probabilities."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from legendretron.calibration.map import CalibrationMap
from legendretron.links.base import Link, row_jacobian
from legendretron.links.registry import register_link
from legendretron.potentials.newton import damped_newton
from legendretron.simplex import append_reference


@register_link("calibrated")
class CalibratedLink(Link):
    r"""The link that a calibrator has learned: :math:`p = \mathrm{softmax}(A s + B e^s + b)`, see :class:`CalibrationMap`.

    Its probabilities have a floor, so it does not reach the whole simplex: :meth:`link` is NaN for probabilities below the
    floor. Its log-loss is proper where the map is one-to-one. It is fitted to given scores, not together with a predictor.

    Parameters
    ----------
    n_classes : int
        ``C``.
    rank : int
        Rank of the matrices off their diagonals, see :class:`CalibrationMap`.
    dtype : torch.dtype
        Precision of the buffers.

    Examples
    --------
    >>> link, z = CalibratedLink(3, rank=0), torch.tensor([[2.0, -1.0]], dtype=torch.float64)
    >>> bool(torch.allclose(link.link(link.inverse(z)), z, atol=1e-6))
    True
    """

    def __init__(self, n_classes: int, rank: int, *, dtype: torch.dtype = torch.float64) -> None:
        super().__init__(n_classes)
        self.rank = rank
        self.map = CalibrationMap(n_classes, rank=rank, dtype=dtype)

    @classmethod
    def from_map(cls, fitted: CalibrationMap) -> Self:
        """Return the link of a fitted map."""
        link = cls(fitted.n_classes, fitted.rank, dtype=fitted.bias.dtype)
        link.map.load_state_dict(fitted.state_dict())
        return link.eval()

    @property
    def is_canonical(self) -> bool:
        """Never by construction: a class may learn from the scores of the others."""
        return False

    def _log_proba(self, z: Tensor) -> Tensor:
        return self.map(append_reference(z)).to(z.dtype)

    def _log_proba_of_logits(self, logits: Tensor) -> Tensor:
        return self.map(logits).to(logits.dtype)

    def _from_log_odds(self, log_odds: Tensor) -> Tensor:
        def residual(z: Tensor) -> Tensor:
            return self._log_odds(z) - log_odds

        def solve(z: Tensor, r: Tensor) -> Tensor:
            step, _ = torch.linalg.solve_ex(row_jacobian(self._log_odds, z), r)
            return step

        tau = self.map.inverse_temperature.clamp(min=torch.finfo(log_odds.dtype).tiny)
        return damped_newton(residual, solve, log_odds / tau, torch.linalg.vector_norm(log_odds, dim=-1))
