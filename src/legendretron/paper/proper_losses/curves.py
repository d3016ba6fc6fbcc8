"""Curves of proper losses of two classes, named and learned, all scaled to log 2 at 1/2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from legendretron.experiments.experiment import Record
from legendretron.losses import LogLoss, MatsushitaLoss, ProperLoss, SphericalLoss, SquareLoss, ZeroOneLoss

#: Predicted probabilities of class 1 at which losses are tabulated, 1/2 in the middle.
GRID = np.arange(1, 200) / 200


def partial_losses(loss: ProperLoss, p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    r"""Both partial losses of a loss of two classes, less what each is where the prediction is sure and right.

    These constants carry no meaning: a proper loss stays proper whatever is added to its partial losses. For the loss of a
    link they depend on where the zero of the predictor lies.

    At predicted probabilities ``p`` (m,) of class 1: the loss when it is true, and when it is not.

    Examples
    --------
    >>> from legendretron.losses import SquareLoss
    >>> partial_losses(SquareLoss(), [0.5, 1.0])
    (array([0.25, 0.  ]), array([0.25, 1.  ]))
    """
    first = torch.as_tensor(np.asarray(p, dtype=np.float64))
    with torch.no_grad():
        values = loss.partial_losses(torch.stack([first, 1.0 - first], dim=-1)).numpy()
        sure = loss.partial_losses(torch.eye(2, dtype=torch.float64)).numpy()
    return values[:, 0] - sure[0, 0], values[:, 1] - sure[1, 1]


def partial_losses_of_table(knots: ArrayLike, values: ArrayLike, p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    r"""As :func:`partial_losses`, for an inverse link in straight lines that may be flat, or reach 0 and 1.

    Where it is flat, its inverse is an interval and both losses jump; the midpoint is taken, so that ties are split evenly.
    It is 0 below the first knot and 1 beyond the last: predictions that never occur are not distinguished.

    ``values`` are probabilities of class 1 at ``knots``, which increase strictly; they do not decrease, and lie from 0 to 1.

    Examples
    --------
    >>> partial_losses_of_table([0.0, 1.0], [0.0, 1.0], [0.5])  # half the square loss
    (array([0.125]), array([0.125]))
    >>> partial_losses_of_table([0.0, 1.0], [0.25, 0.25], [0.2, 0.3])  # decisions at 1/4
    (array([0.75, 0.  ]), array([0.  , 0.25]))
    """
    z, u, at = (np.asarray(array, dtype=np.float64) for array in (knots, values, p))
    if z.ndim != 1 or len(z) < 2 or z.shape != u.shape or not (np.diff(z) > 0).all():
        raise ValueError(f"knots must be at least two and increase, with a value each, got {z.shape} and {u.shape}.")
    if (np.diff(u) < 0).any() or u[0] < 0.0 or u[-1] > 1.0:
        raise ValueError(
            f"values must not decrease and lie from 0 to 1, got values from {u.min():g} to {u.max():g}; a function that "
            "falls has no loss."
        )
    areas = np.concatenate([[0.0], np.cumsum(np.diff(z) * (u[1:] + u[:-1]) / 2)])
    psi = (_crossing(z, u, at, "left") + _crossing(z, u, at, "right")) / 2
    k = np.clip(np.searchsorted(z, psi, side="right") - 1, 0, len(z) - 2)
    loss_0 = areas[k] + (psi - z[k]) * (u[k] + np.interp(psi, z, u)) / 2
    loss_1 = (z[-1] - psi) - (areas[-1] - loss_0)
    return np.maximum(loss_1, 0.0), loss_0


def _crossing(z: np.ndarray, u: np.ndarray, p: np.ndarray, side: str) -> np.ndarray:
    """First predictor where ``u`` reaches ``p`` (left), or last before it exceeds ``p`` (right)."""
    after = np.searchsorted(u, p, side=side)  # type: ignore[call-overload]
    i = np.clip(after, 1, len(z) - 1)
    rise = u[i] - u[i - 1]
    share = np.clip((p - u[i - 1]) / np.where(rise > 0.0, rise, 1.0), 0.0, 1.0)
    inside: np.ndarray = z[i - 1] + share * (z[i] - z[i - 1])
    return np.where(after == 0, z[0], np.where(after == len(z), z[-1], inside))


#: Named losses and their formulas for class 1, of predicting it with probability q: the paper's four, and the spherical.
NAMED: dict[str, tuple[ProperLoss, str]] = {
    "log": (LogLoss(), "-log q"),
    "square": (SquareLoss(), "(1 - q)²"),
    "Matsushita": (MatsushitaLoss(), "½ √((1 - q) / q)"),
    "0-1": (ZeroOneLoss(), "[q < ½]"),
    "spherical": (SphericalLoss(), "1 - q / √(q² + (1 - q)²)"),
}


@dataclass(frozen=True, eq=False)
class Curve:
    """A loss on the grid of predictions, scaled to log 2 at 1/2."""

    name: str  #: of the loss or method
    problem: str  #: that it was learned on; empty for named losses
    seed: int | None  #: of the training
    factor: float  #: what it was multiplied by
    probability: np.ndarray  #: (m,), predictions
    loss_1: np.ndarray  #: (m,), if class 1 is true
    loss_0: np.ndarray  #: (m,), if it is not

    def at(self, probability: float) -> float:
        """``loss_1`` at a prediction."""
        return float(np.interp(probability, self.probability, self.loss_1))

    def distance(self, other: Curve) -> float:
        """Largest difference of ``loss_1`` for predictions from 0.05 to 0.95."""
        shown = (self.probability >= 0.05) & (self.probability <= 0.95)
        return float(np.abs(self.loss_1 - other.loss_1)[shown].max())


def named_losses() -> list[Curve]:
    """Curves of :data:`NAMED`, at the predictions at which learned ones are tabulated."""
    curves = []
    for name, (loss, _) in NAMED.items():
        loss_1, loss_0 = partial_losses(loss, GRID)
        factor = float(np.log(2.0) / loss_1[len(GRID) // 2])
        curves.append(Curve(name, "", None, factor, GRID, factor * loss_1, factor * loss_0))
    return curves


def learned_losses(records: Iterable[Record]) -> list[Curve]:
    """Curves of the runs that learned a loss."""
    return [
        Curve(
            record["model"], record["data"]["label"], record["seed"], record["factor"],
            *(np.array(record[name]) for name in ("probability", "loss_1", "loss_0")),
        )
        for record in records
        if "loss_1" in record
    ]  # fmt: skip
