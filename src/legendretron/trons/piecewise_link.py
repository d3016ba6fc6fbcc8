r"""A two-class link given by a table: what BregmanTron learns."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import expit
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from legendretron._internal.start import set_start
from legendretron._internal.validation import check_integer, check_two_classes
from legendretron.links.base import Link
from legendretron.links.binary_potential import SATURATION, PotentialTable
from legendretron.links.registry import register_link

#: Most knots of a table: bounds the memory that a file can ask for.
_MOST_KNOTS = 2**20
#: Pieces of each tail as polynomials, a fraction of the log-odds wide.
_TAIL_PIECES = 1024


@register_link("piecewise_linear")
class PiecewiseLinearLink(Link):
    r"""Two-class link whose inverse is a straight line between the points of a table, and a sigmoid outside.

    The probability of the first class is :math:`p_k + s_k (z - z_k)` between knots; beyond the first and the last knot
    the log-odds continue linearly, with their mean slope over the table. The map is thus an increasing bijection between the
    predictors and ``(0, 1)``, canonical as every link of two classes, with its potential in closed form: parabolas
    between knots, softplus outside.

    Parameters
    ----------
    knots : array of shape (m,)
        Predictors, strictly increasing.
    values : array of shape (m,)
        Probabilities of the first class there, strictly increasing, strictly between 0 and 1.
    rate : float, optional
        Slope of the log-odds outside the table; by default their mean slope inside, or 1 for a single knot.

    Examples
    --------
    >>> link = PiecewiseLinearLink([-1.0, 1.0], [0.2, 0.8])
    >>> link.inverse(torch.tensor([0.5]))
    tensor([0.6500, 0.3500], dtype=torch.float64)
    >>> link.link(torch.tensor([0.65, 0.35], dtype=torch.float64))
    tensor([0.5000], dtype=torch.float64)
    """

    knots: Tensor
    values: Tensor
    slopes: Tensor
    areas: Tensor
    log_odds: Tensor
    rate: Tensor

    def __init__(self, knots: ArrayLike, values: ArrayLike, rate: float | None = None) -> None:
        super().__init__(2)
        z, p = np.asarray(knots, dtype=np.float64), np.asarray(values, dtype=np.float64)
        if z.ndim != 1 or len(z) == 0 or z.shape != p.shape:
            raise ValueError(f"knots and values must have one shape (m,) with m >= 1, got {z.shape} and {p.shape}.")
        _check_size(len(z))
        if not np.isfinite(z).all() or (np.diff(z) <= 0).any():
            raise ValueError("knots must be finite and strictly increasing.")
        if not (p[0] > 0.0 and p[-1] < 1.0 and (np.diff(p) > 0).all()):
            raise ValueError(
                "values must be strictly increasing and strictly between 0 and 1, where a link has an inverse."
            )
        ends = np.log(p[[0, -1]]) - np.log1p(-p[[0, -1]])
        if rate is None:
            rate = float((ends[1] - ends[0]) / (z[-1] - z[0])) if len(z) > 1 else 1.0
        if not 0.0 < rate < np.inf:
            raise ValueError(f"rate must be a positive number, got {rate!r}.")
        slopes = np.diff(p) / np.diff(z)
        # F at the knots: the left tail's area, then trapezia
        areas = np.logaddexp(0.0, ends[0]) / rate + np.concatenate(
            [[0.0], np.cumsum(np.diff(z) * (p[1:] + p[:-1]) / 2)]
        )
        self._start = {
            "knots": z.copy(),
            "values": p.copy(),
            "slopes": np.append(slopes, 1.0),
            "areas": areas,
            "log_odds": ends,
            "rate": np.array(rate),
        }
        for name, array in self._start.items():
            self.register_buffer(name, torch.as_tensor(array.copy()))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Restore the table that the link was built from."""
        for name, array in self._start.items():
            set_start(getattr(self, name), torch.as_tensor(array))

    @classmethod
    def from_points(cls, z: ArrayLike, p: ArrayLike, max_knots: int | None = None) -> PiecewiseLinearLink:
        """Return the link through points that increase up to rounding; those that do not are left out.

        At most ``max_knots`` are kept, evenly spaced in rank, including the first and the last.
        """
        z, p = np.asarray(z, dtype=np.float64), np.asarray(p, dtype=np.float64)
        order = np.argsort(z, kind="stable")
        z, p = z[order], p[order]
        highest_p = np.maximum.accumulate(p)
        # slopes must be finite numbers too
        apart = 4 * np.finfo(float).eps * (1.0 + np.abs(z[1:]))
        keep = np.concatenate([[True], (np.diff(highest_p) > 0) & (np.diff(z) > apart)])
        kept = np.flatnonzero(keep)
        if max_knots is not None and len(kept) > max_knots:
            kept = kept[np.unique(np.linspace(0, len(kept) - 1, max_knots).round().astype(int))]
        return cls(z[kept], p[kept])

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """``n_knots``, the size of the table; its content is in the buffers."""
        return ("n_knots",)

    def settings(self) -> dict[str, Any]:
        """See :meth:`setting_names`."""
        return {"n_knots": len(self.knots)}

    @classmethod
    def from_settings(cls, n_classes: int, settings: Mapping[str, Any], **made: Any) -> Self:
        """Return the logistic link as a table from -4 to 4; ``dtype`` and ``device`` are used."""
        check_two_classes(cls.__name__, n_classes)
        knots = np.linspace(-4.0, 4.0, _check_size(settings.get("n_knots")))
        return cls(knots, expit(knots)).to(device=made.get("device"), dtype=made.get("dtype"))

    def _check_buffers(self) -> None:
        # not strictly: rounding to a lower precision may make neighbors equal
        rising = all(bool((table.diff() >= 0).all()) for table in (self.knots, self.values, self.areas))
        inside = bool((self.values >= 0).all() and (self.values <= 1).all() and (self.areas >= 0).all())
        if not (rising and inside and bool((self.slopes > 0).all()) and float(self.rate) > 0):
            raise ValueError("knots and values must be those of an increasing table of probabilities; these are not.")

    @property
    def largest_slope(self) -> float:
        """Largest slope of the inverse link, in the table and in its tails."""
        # a tail is steepest at one half, or at its end if it does not reach one half
        nearest = np.array([min(float(self.log_odds[0]), 0.0), max(float(self.log_odds[1]), 0.0)])
        tails = float(self.rate) * expit(nearest) * expit(-nearest)
        return max([*tails.tolist(), *self.slopes[:-1].tolist()])

    def _piece(self, z: Tensor, table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Index of the piece, and masks of the points before and beyond the table."""
        with torch.no_grad():
            k = torch.searchsorted(table, z.contiguous(), right=True) - 1
            return k.clamp(0, max(len(table) - 2, 0)), z < table[0], z > table[-1]

    def _tails(self, z: Tensor, before: Tensor) -> Tensor:
        """Log-odds outside the table."""
        start = torch.where(before, self.knots[0], self.knots[-1])
        return torch.where(before, self.log_odds[0], self.log_odds[1]) + self.rate * (z - start)

    def _log_proba(self, z: Tensor) -> Tensor:
        k, before, beyond = self._piece(z, self.knots)
        outside = before | beyond | (z != z)
        tail = self._tails(z, before)
        inner = torch.where(outside, self.knots[k], z)
        p = self.values[k] + self.slopes[k] * (inner - self.knots[k])
        log_p = torch.where(outside, logsigmoid(tail), torch.log(p))
        log_q = torch.where(outside, logsigmoid(-tail), torch.log1p(-p))
        return torch.cat([log_p, log_q], dim=-1)

    def _from_log_odds(self, log_odds: Tensor) -> Tensor:
        before, beyond = log_odds < self.log_odds[0], log_odds > self.log_odds[1]
        start = torch.where(before, self.log_odds[0], self.log_odds[1])
        tail = torch.where(before, self.knots[0], self.knots[-1]) + (log_odds - start) / self.rate
        p = torch.sigmoid(log_odds)
        k, _, _ = self._piece(p, self.values)
        inner = self.knots[k] + (p - self.values[k]) / self.slopes[k]
        inner = inner.clamp(self.knots[0], self.knots[-1])
        return torch.where(before | beyond | (log_odds != log_odds), tail, inner)

    def _jacobian(self, z: Tensor) -> Tensor:
        k, before, beyond = self._piece(z, self.knots)
        p = torch.sigmoid(self._tails(z, before))
        outside = before | beyond | (z != z)
        return torch.where(outside, self.rate * p * (1.0 - p), self.slopes[k] + 0.0 * z).unsqueeze(-1)

    @property
    def _is_tabulated(self) -> bool:
        return type(self) is PiecewiseLinearLink  # a subclass may define another map

    def _make_table(self, like: Tensor) -> PotentialTable:
        twin = copy.deepcopy(self).double()
        knots, (first, last), rate = twin.knots, twin.log_odds, twin.rate
        grid = torch.linspace(0, 1, _TAIL_PIECES + 1, dtype=knots.dtype, device=knots.device)
        before = knots[0] - (1.0 - grid) * (SATURATION + first).clamp(min=0.0) / rate
        beyond = knots[-1] + grid * (SATURATION - last).clamp(min=0.0) / rate
        return PotentialTable(twin._log_odds, torch.cat([before, knots, beyond]), like.dtype)

    def _potential(self, z: Tensor) -> Tensor:
        k, before, beyond = self._piece(z, self.knots)
        tail = self._tails(z, before)
        step = torch.where(before | beyond, torch.zeros_like(z), z - self.knots[k])
        inner = self.areas[k] + step * (self.values[k] + self.slopes[k] * step / 2)
        after = self.areas[-1] + (softplus(tail) - softplus(self.log_odds[1])) / self.rate
        value = torch.where(before, softplus(tail) / self.rate, torch.where(beyond, after, inner))
        return value.squeeze(-1)


def _check_size(n_knots: object) -> int:
    n = check_integer("n_knots", n_knots, 1)
    if n > _MOST_KNOTS:
        raise ValueError(
            f"n_knots must be at most {_MOST_KNOTS:,}, got {n:,}; PiecewiseLinearLink.from_points thins out."
        )
    return n
