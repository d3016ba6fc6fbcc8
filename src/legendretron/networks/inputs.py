r"""Features as networks take them: in robust units and without outliers, and, for every other network, in parts as well.

.. math:: z = (x - \text{median}) / \text{scale}, \qquad \tilde z = z / \sqrt{1 + (z / 3)^2}

The scale is the distance of the quartiles; where these are the same, as in a column of zeros and ones, half the range.

**Parts** are those of a piecewise linear encoding (Gorishniy, Rubachev, Babenko, 2022). With the quantiles :math:`t_k` of a
feature, part :math:`k` rises from -1 to 1 between :math:`t_k` and :math:`t_{k+1}`:

.. math:: v_k = 2 \min(\max((x - t_k) / (t_{k+1} - t_k), 0), 1) - 1

So a network finds thresholds, as trees do, at the price of smoothness. Networks that see different inputs make different
mistakes, which the mean of both kinds evens out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from legendretron._internal.chunks import chunks
from legendretron._internal.columns import too_large

#: Where inputs end.
LIMIT = 3.0
#: Rows from which quantiles are taken.
_ENOUGH = 200_000
#: Parts of a feature; of all features together, which bounds the time of a step; and numbers of all inputs, 512 MiB.
_PARTS, _MOST_PARTS, _MOST_NUMBERS = 8, 512, 2**27


def encode(x: Tensor, centre: Tensor, factor: Tensor, feature: Tensor, low: Tensor, slope: Tensor) -> Tensor:
    """Inputs of rows ``(n, d)`` in double precision: ``(n, d + m)``; see :class:`NetworkInputs`.

    Examples
    --------
    >>> zero, one, first = torch.zeros(1), torch.ones(1), torch.tensor([0, 0])
    >>> encode(torch.tensor([[0.1], [4.0]]), zero, one, first, torch.tensor([0.0, 3.0]), torch.tensor([1.0, 0.5]))
    tensor([[ 0.0999, -0.8000, -1.0000],
            [ 2.4000,  1.0000,  0.0000]])
    """
    z = (x - centre) * factor
    parts = ((x.index_select(1, feature) - low) * slope).clamp(0.0, 1.0)
    return torch.cat([z / torch.sqrt(1.0 + (z / LIMIT).square()), 2.0 * parts - 1.0], dim=1)


@dataclass(frozen=True)
class NetworkInputs:
    """How ``d`` features become inputs: ``d`` of them in robust units, then ``m`` parts."""

    centre: np.ndarray  #: medians of the features, (d,)
    factor: np.ndarray  #: one over their scales; 0 for a constant feature
    feature: np.ndarray  #: which one each part is of, integers in increasing order, (m,)
    low: np.ndarray  #: where it begins
    slope: np.ndarray  #: one over its width

    @classmethod
    def fit(cls, X: np.ndarray, names: Sequence[str] | None = None) -> Self:
        """From rows ``(n, d)``; ``names`` are those of the features, for messages."""
        some = X[:: -(-len(X) // _ENOUGH)].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            low, centre, high = np.percentile(some, (25, 50, 75), axis=0)
            half = (some.max(0) - some.min(0)) / 2.0
            scale = np.where(high > low, high - low, half)
        if not np.isfinite(half).all():
            raise too_large(~np.isfinite(half), names, "range")
        factor = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
        return cls(centre, factor, *_cut(some, len(X)))

    def transform(self, X: np.ndarray, dtype: torch.dtype) -> np.ndarray:
        """Inputs of a network, in its precision."""
        tensors = self.tensors()
        n_inputs = len(self.centre) + len(self.feature)
        out = np.empty((len(X), n_inputs), dtype=np.float32 if dtype == torch.float32 else np.float64)
        for rows in chunks(len(X), n_inputs):
            out[rows] = encode(torch.from_numpy(X[rows].astype(np.float64)), **tensors).numpy()
        return out

    def tensors(self) -> dict[str, Tensor]:
        """All arrays, by name."""
        return {name: torch.as_tensor(values) for name, values in vars(self).items()}

    def units(self, n_runs: int) -> Tensor:
        """Factors of the inputs in each of some networks, ``(n_runs, d + m)``: every other one sees parts.

        Squares sum to one. The parts of a feature together count as much as the feature itself.
        """
        d, (_, where, count) = len(self.centre), np.unique(self.feature, return_inverse=True, return_counts=True)
        units = np.zeros((n_runs, d + len(self.feature)))
        units[:, :d] = 1.0 / np.sqrt(d)
        if len(self.feature):
            units[1::2, :d] = 1.0 / np.sqrt(d + len(count))
            units[1::2, d:] = 1.0 / np.sqrt((d + len(count)) * count[where])
        return torch.as_tensor(units)


def _cut(X: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Feature, beginning and slope of all parts; features of two values have none, nor have tables of too many numbers."""
    found: list[tuple[int, np.ndarray]] = []
    n_parts = min(_PARTS, _MOST_PARTS // X.shape[1])
    if n_parts > 1 and n_rows * X.shape[1] * (1 + n_parts) <= _MOST_NUMBERS:
        quantiles = np.quantile(X, np.linspace(0.0, 1.0, n_parts + 1), axis=0)
        found = [(j, edges) for j in range(X.shape[1]) if len(edges := np.unique(quantiles[:, j])) > 2]
    feature = np.repeat([j for j, _ in found], [len(edges) - 1 for _, edges in found]).astype(np.int64)
    low = np.concatenate([edges[:-1] for _, edges in found] or [np.empty(0)])
    width = np.concatenate([np.diff(edges) for _, edges in found] or [np.empty(0)])
    return feature, low, 1.0 / np.maximum(width, np.finfo(np.float64).tiny)
