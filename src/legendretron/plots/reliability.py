"""Reliability diagrams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendretron.diagnostics import CalibrationCurve, calibration_curve
from legendretron.plots.axes import add_legend, axes_or_new, styles

__all__ = ["ReliabilityDisplay"]


class ReliabilityDisplay:
    """Observed against predicted frequency, one curve per model.

    Parameters
    ----------
    curves : mapping of str to CalibrationCurve
        By the name of the model.
    """

    def __init__(self, curves: Mapping[str, CalibrationCurve]) -> None:
        self.curves = dict(curves)

    @classmethod
    def from_predictions(
        cls, y: ArrayLike, predictions: Mapping[str, ArrayLike], *, n_bins: int = 10, kind: str = "top", ax: Any = None
    ) -> ReliabilityDisplay:
        """Draw the diagram of some models' probabilities ``(n, C)`` on the same labels ``(n,)``."""
        curves = {name: calibration_curve(y, p, n_bins=n_bins, kind=kind) for name, p in predictions.items()}
        return cls(curves).plot(ax=ax)

    def plot(self, ax: Any = None) -> ReliabilityDisplay:
        """Draw on the axes given; on a new figure, with the number of predictions in each bin below."""
        below = None
        if ax is None:
            ax, below = axes_or_new(None, nrows=2, figsize=(5.6, 6.4), sharex=True, height_ratios=[4, 1])
        self.ax_, self.figure_ = ax, ax.figure
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--", label="perfect")
        shift = (np.arange(len(self.curves)) - (len(self.curves) - 1) / 2) * 0.006
        looks = styles(len(self.curves))
        for (name, curve), (colour, marker), x in zip(self.curves.items(), looks, shift, strict=True):
            filled = curve.count > 0
            ax.errorbar(
                curve.confidence[filled] + x,
                curve.frequency[filled],
                yerr=2 * curve.standard_error[filled],
                color=colour,
                marker=marker,
                markersize=4,
                linewidth=1.4,
                elinewidth=0.8,
                label=f"{name} (error {curve.expected_calibration_error:.3f})",
            )
            if below is not None:
                below.stairs(curve.count, curve.edges, color=colour, linewidth=1.4)
        ax.set(
            ylabel="share that came true",
            title="Reliability (bars: two standard errors)",
            xlim=(0, 1),
            ylim=(-0.02, 1.02),
        )
        if below is not None:
            below.set(ylabel="predictions", yscale="log")
        (ax if below is None else below).set_xlabel("predicted probability")
        add_legend(ax, loc="lower right", fontsize="small")
        return self
