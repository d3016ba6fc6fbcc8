"""Learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from legendretron.plots.axes import MARKERS, add_legend, axes_or_new, styles
from legendretron.training import History

__all__ = ["TrainingDisplay"]


class TrainingDisplay:
    """Losses by epoch, one colour per model: training solid, validation dashed, its best epoch marked.

    Parameters
    ----------
    histories : mapping of str to History
        By the name of the model; of one run each, or of many, whose mean is drawn.
    """

    def __init__(self, histories: Mapping[str, History]) -> None:
        self.histories = dict(histories)

    @classmethod
    def from_histories(cls, histories: Mapping[str, History], *, ax: Any = None) -> TrainingDisplay:
        """Draw the histories of some models."""
        return cls(histories).plot(ax=ax)

    def plot(self, ax: Any = None) -> TrainingDisplay:
        """Draw on the axes given, or on new ones."""
        ax = self.ax_ = axes_or_new(ax, figsize=(6.4, 4.2))
        self.figure_ = ax.figure
        for (name, history), (colour, marker) in zip(self.histories.items(), styles(len(self.histories)), strict=True):
            epochs = np.unique(history["epoch"])

            def mean(column: str, history: History = history, epochs: np.ndarray = epochs) -> np.ndarray:
                return np.array([history[column][history["epoch"] == e].mean() for e in epochs])

            # markers from the second round of colours on; a few of them are enough to tell curves apart
            round_two = {} if marker == MARKERS[0] else {"marker": marker, "markersize": 4, "markevery": 0.1}
            ax.plot(epochs, mean("train_loss"), color=colour, linewidth=1.4, label=f"{name}, training", **round_two)
            validation = mean("validation_loss")
            if np.isfinite(validation).any():
                best = int(np.nanargmin(validation))
                ax.plot(epochs, validation, color=colour, linewidth=1.4, linestyle="--", label=f"{name}, validation")
                ax.plot(epochs[best], validation[best], marker, color=colour, markersize=5)
        ax.set(xlabel="epoch", ylabel="log-loss", yscale="log", title="Training")
        add_legend(ax)
        return self
