"""Curves of proper losses of two classes, named and learned, all scaled to log 2 at 1/2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from legendretron.experiments.experiment import Record
from legendretron.losses import LogLoss, MatsushitaLoss, ProperLoss, SphericalLoss, SquareLoss, ZeroOneLoss
from legendretron.paper.proper_losses.partial_losses import GRID, partial_losses

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
    """A loss on the grid of predictions, scaled to log 2 at 1/2.

    Attributes
    ----------
    name, problem : str
        Of the loss or method, and of the problem it was learned on; this is empty for named losses.
    seed : int, optional
        Of the training.
    factor : float
        What it was multiplied by.
    probability, loss_1, loss_0 : ndarray of shape (m,)
        Prediction, and loss if class 1 is true, and if it is not.
    """

    name: str
    problem: str
    seed: int | None
    factor: float
    probability: np.ndarray
    loss_1: np.ndarray
    loss_0: np.ndarray

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
