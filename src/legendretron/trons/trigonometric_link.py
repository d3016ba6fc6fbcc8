r"""A two-class link whose log-odds are a line and a trigonometric series: what ISGP- and GP-Linkgistic learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from legendretron._internal.start import set_start
from legendretron._internal.validation import at_least_single, check_choice, check_integer, check_two_classes
from legendretron.links.base import Link
from legendretron.links.registry import register_link

_BISECTIONS = 60
_NEWTON_STEPS = 3  # derivatives to the seventh order
_GRID = 4096
#: Most waves of a series: bounds the memory that a file can ask for, for the check on the grid.
_MOST_WAVES = 1024


@register_link("trigonometric")
class TrigonometricLink(Link):
    r"""Two-class link with log-odds :math:`T(z) = c_0 + c_1 (z - m) + \sum_k c_{k+1} t(k \theta(z))`.

    ``t`` is sine or cosine, :math:`\theta` goes from 0 to :math:`\pi` over the interval and is constant beyond it, and ``m``
    is the middle of the interval. The log-odds must increase. A table of the potential is cached until the buffers change in
    a way that torch tracks, such as by ``load_state_dict`` or ``copy_``, but not by writing to their ``data``.

    Parameters
    ----------
    interval : pair of float
        Interval of the series.
    coefficients : array of shape (2 + waves,)
        :math:`c`.
    kind : {"sine", "cosine"}
        Which ``t``.

    Examples
    --------
    >>> link = TrigonometricLink((-2.0, 2.0), [0.0, 1.0, 0.1, -0.2], "sine")
    >>> z = torch.tensor([[-3.0], [0.5]], dtype=torch.float64)
    >>> torch.allclose(link.link(link.inverse(z)), z)
    True
    """

    interval: Tensor
    coefficients: Tensor

    def __init__(self, interval: tuple[float, float], coefficients: ArrayLike, kind: str) -> None:
        super().__init__(2)
        c = np.asarray(coefficients, dtype=np.float64)
        ends = np.asarray(interval, dtype=np.float64)
        if c.ndim != 1 or len(c) < 2 or not np.isfinite(c).all():
            raise ValueError(f"coefficients must be at least two finite numbers, got shape {c.shape}.")
        if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
            raise ValueError(f"interval must be two finite numbers in increasing order, got {interval!r}.")
        self.kind = check_choice("kind", kind, ("sine", "cosine"))
        self._start = {"interval": ends.copy(), "coefficients": c.copy()}
        with torch.inference_mode(False):  # tensors of that mode could not be used with gradients afterwards
            with torch.device("cpu"):  # to be checked, also where networks are built without memory
                for name, array in self._start.items():
                    self.register_buffer(name, torch.as_tensor(array.copy()))
                self._check_buffers()
            self.to(torch.get_default_device())

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Restore the series that the link was built from."""
        for name, array in self._start.items():
            set_start(getattr(self, name), torch.as_tensor(array))

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """``series``, that is sine or cosine, and the number of ``waves``; the rest is in the buffers."""
        return "series", "waves"

    def settings(self) -> dict[str, Any]:
        """See :meth:`setting_names`."""
        return {"series": self.kind, "waves": len(self.coefficients) - 2}

    @classmethod
    def from_settings(cls, n_classes: int, settings: Mapping[str, Any], **made: Any) -> Self:
        """Return the logistic link as a series whose waves are all zero; ``dtype`` and ``device`` are used."""
        check_two_classes(cls.__name__, n_classes)
        waves = check_integer("waves", settings.get("waves"), 0)
        if waves > _MOST_WAVES:
            raise ValueError(f"waves must be at most {_MOST_WAVES:,}, got {waves:,}.")
        link = cls((-1.0, 1.0), [0.0, 1.0, *[0.0] * waves], settings.get("series", ""))
        return link.to(device=made.get("device"), dtype=made.get("dtype"))

    def _check_buffers(self) -> None:
        c, (low, high) = self.coefficients, self.interval.tolist()
        grid = torch.linspace(low, high, _GRID, dtype=at_least_single(c).dtype, device=c.device)
        t = self._log_odds(grid.unsqueeze(-1)).squeeze(-1)
        # a flat spot is a rounding away from falling, so falls below rounding count as flat
        least = -max(1e-12, 16 * torch.finfo(c.dtype).eps) * (1.0 + t.abs().max())
        if not (float(c[1]) > 0 and low < high) or bool((t.diff() < least).any()):
            raise ValueError("coefficients must give log-odds that increase, where a link has an inverse; these fall.")

    def _angles(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Angles of the waves ``(..., waves)`` at predictors ``(..., 1)``, their frequencies, and the middle."""
        low, high = self.interval.to(z.dtype)
        rate = torch.pi / (high - low)
        k = torch.arange(1, len(self.coefficients) - 1, dtype=z.dtype, device=z.device)
        return (z.clamp(low, high) - low) * rate * k, rate * k, (low + high) / 2

    def _log_odds(self, z: Tensor) -> Tensor:
        angles, _, middle = self._angles(z)
        c = self.coefficients.to(z.dtype)  # in half precision, computed in single
        waves = torch.sin(angles) if self.kind == "sine" else torch.cos(angles)
        return c[0] + c[1] * (z - middle) + (waves @ c[2:]).unsqueeze(-1)

    def _log_odds_slope(self, z: Tensor) -> Tensor:
        angles, frequencies, _ = self._angles(z)
        waves = torch.cos(angles) if self.kind == "sine" else -torch.sin(angles)
        inside = (z >= self.interval[0]) & (z <= self.interval[1])
        c = self.coefficients.to(z.dtype)
        return c[1] + inside * (waves @ (frequencies * c[2:])).unsqueeze(-1)

    def _from_log_odds(self, log_odds: Tensor) -> Tensor:
        with torch.no_grad():
            z = self._root(log_odds.detach())
        # The search records no graph: Newton steps that are zero in value carry the derivatives, one step those of first
        # order, and each further step more than doubles the order.
        for _ in range(_NEWTON_STEPS):
            off = log_odds - self._log_odds(z)
            z = z + (off - off.detach()) / self._log_odds_slope(z).clamp(min=torch.finfo(z.dtype).tiny)
        return z

    def _root(self, t: Tensor) -> Tensor:
        """Predictors with log-odds ``t``, by bisection inside the interval and along the straight lines beyond it."""
        first, last = self.interval.to(t.dtype)
        low, high = first.expand(t.shape), last.expand(t.shape)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            below = self._log_odds(middle) < t
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        z = (low + high) / 2
        at_first, at_last = self._log_odds(torch.stack([first, last]).unsqueeze(-1))
        outside = (t < at_first) | (t > at_last) | (t != t)
        return torch.where(outside, z + (t - self._log_odds(z)) / self.coefficients[1].to(t.dtype), z)

    def _jacobian(self, z: Tensor) -> Tensor:
        p = self._log_proba(z).exp()
        slope = self._log_odds_slope(z).clamp(min=0.0)
        return (p[..., :1] * p[..., 1:] * slope).unsqueeze(-1)
