"""Values of links and losses as arrays."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from legendretron._internal.validation import at_least_single
from legendretron.links import Link
from legendretron.losses import ProperLoss
from legendretron.simplex import append_reference

#: How far a forecast may be from certain to be called perfect.
_NEARLY = 1e-12


def like(module: nn.Module, values: np.ndarray) -> Tensor:
    """Return numbers as a tensor in the precision of a link or a loss, at least single, and where it is."""
    own = next((t for t in module.state_dict().values() if t.is_floating_point()), torch.empty(0, dtype=torch.float64))
    return torch.as_tensor(np.ascontiguousarray(values)).to(own.device, at_least_single(own).dtype)


def inverse_link(link: Link, z: np.ndarray) -> np.ndarray:
    """Return the probabilities of predictors, ``(n, C - 1) -> (n, C)``."""
    with torch.no_grad():
        p: np.ndarray = link.inverse(like(link, z)).double().cpu().numpy()
    return p


def partial_losses(of: Link | ProperLoss, p: np.ndarray) -> np.ndarray:
    """Return partial losses at probabilities ``(m, C)``, so that a perfect forecast costs nothing.

    Parameters
    ----------
    p : array of shape (m, C)
        Probabilities inside the simplex.
    """
    n_classes = p.shape[1]
    certain = (1 - n_classes * _NEARLY) * np.eye(n_classes) + _NEARLY
    q = like(of, np.concatenate([p, certain]))
    with torch.no_grad():
        if isinstance(of, ProperLoss):
            losses = of.partial_losses(q)
        else:
            z = of.link(q)
            losses = of.potential(z).unsqueeze(-1) - append_reference(z)
    found: np.ndarray = losses.double().cpu().numpy()
    return found[: len(p)] - np.diagonal(found[len(p) :])


def scale_to_log(middle: float, n_classes: int) -> float:
    """Return the factor by which a Bayes risk in the middle becomes that of the log-loss, ``log C``."""
    if not middle > 0:
        raise ValueError(
            f"the Bayes risk of equal probabilities must be positive to be scaled, got {middle:.3g}; use scale='own'."
        )
    return math.log(n_classes) / middle
