r"""Features as a network takes them: in robust units, and without outliers.

.. math:: z = (x - \text{median}) / \text{scale}, \qquad \tilde z = z / \sqrt{1 + (z / 3)^2}

The scale is the distance of the quartiles; where these are the same, as in a column of zeros and ones, half the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from legendretron._internal.chunks import chunks
from legendretron._internal.parameters import spell

__all__ = ["LIMIT", "InputUnits", "clip_smoothly"]

#: Where inputs end.
LIMIT = 3.0
#: Rows from which medians and quartiles are taken.
_ENOUGH = 200_000


def clip_smoothly(z: Tensor) -> Tensor:
    """Inputs between -3 and 3: the identity near 0.

    Examples
    --------
    >>> clip_smoothly(torch.tensor([0.1, 4.0, 1e9]))
    tensor([0.0999, 2.4000, 3.0000])
    """
    return z / torch.sqrt(1.0 + (z / LIMIT).square())


@dataclass(frozen=True)
class InputUnits:
    """Medians and scales of the features, float64 of shape (d,); a constant feature has an infinite scale."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray) -> Self:
        """From rows ``(n, d)``."""
        some = X[:: -(-len(X) // _ENOUGH)].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            low, centre, high = np.percentile(some, (25, 50, 75), axis=0)
            half = (some.max(0) - some.min(0)) / 2.0
            scale = np.where(high > low, high - low, half)
        scale[scale == 0.0] = np.inf
        if not np.isfinite(half).all():
            raise ValueError(f"{spell('X')} has features too large to take a range of; scale them first.")
        return cls(centre, scale)

    def transform(self, X: np.ndarray, dtype: torch.dtype) -> np.ndarray:
        """Inputs of a network, in its precision."""
        out = np.empty(X.shape, dtype=np.float32 if dtype == torch.float32 else np.float64)
        for rows in chunks(X.shape[0], X.shape[1]):
            out[rows] = clip_smoothly(torch.from_numpy((X[rows] - self.centre) / self.scale)).numpy()
        return out
