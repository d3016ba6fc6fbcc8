"""A linear predictor in the units it was trained in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
import torch

__all__ = ["Standardized"]


@dataclass
class Standardized:
    """The model in the units it was trained in, to go on from: features minus ``mean``, over ``scale``."""

    mean: np.ndarray
    scale: np.ndarray
    weight: torch.Tensor
    bias: torch.Tensor
    moments: tuple[torch.Tensor, ...] | None = None

    def transform(self, X: Any) -> Any:
        """Features in training's units; sparse ones are only scaled, and belong to a mean of zero."""
        if scipy.sparse.issparse(X):
            return X @ scipy.sparse.diags_array(1.0 / self.scale, dtype=X.dtype)
        return ((X - self.mean) / self.scale).astype(X.dtype, copy=False)

    def uncentred(self) -> Standardized:
        """The same model with the means moved into the bias, so that sparse features can stay sparse."""
        shift = torch.as_tensor(self.mean / self.scale, dtype=torch.float64) @ self.weight.double()
        return replace(self, mean=np.zeros_like(self.mean), bias=(self.bias.double() - shift).to(self.bias.dtype))

    def folded(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients ``(K, d)`` and intercepts ``(K,)`` for the features as they come."""
        weight = self.weight.double().cpu().numpy()
        coef = (weight / self.scale[:, None]).T
        return coef, self.bias.double().cpu().numpy() - coef @ self.mean
