"""Prediction sets: how often they hold the true class, and how large they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendretron._internal.arguments import check_choice
from legendretron.plots.axes import COLOURS, Display, add_legend_below, axes_or_new
from legendretron.plots.models import core, single

#: Coverages that are asked for.
_ASKED = np.round(np.append(np.arange(0.5, 0.975, 0.025), [0.975, 0.99]), 3)


class PredictionSetDisplay(Display):
    """Coverage and mean size of prediction sets, by the coverage that is asked for.

    Parameters
    ----------
    asked : array of shape (m,)
        Coverages that were asked for.
    coverage : array of shape (m,)
        Share of the rows whose set holds the label.
    size : array of shape (m,)
        Mean number of classes in a set.

    Examples
    --------
    >>> display = PredictionSetDisplay([0.8, 0.9], coverage=[0.81, 0.9], size=[1.2, 1.6]).plot()
    >>> [*display.lines_]
    ['coverage', 'size']
    """

    def __init__(self, asked: ArrayLike, coverage: ArrayLike, size: ArrayLike) -> None:
        self.asked, self.coverage, self.size = (np.asarray(v, dtype=float) for v in (asked, coverage, size))
        if self.asked.ndim != 1 or not self.asked.shape == self.coverage.shape == self.size.shape:
            raise ValueError(
                f"asked, coverage and size must have one entry for each set, got shapes {self.asked.shape}, "
                f"{self.coverage.shape} and {self.size.shape}."
            )

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **how: Any) -> PredictionSetDisplay:
        """Predict sets for rows with known labels, and draw the result.

        Parameters
        ----------
        estimator : classifier with ``predict_set``
            Fitted; also inside a pipeline or a search.
        X, y
            Rows that it was not fitted to, and their labels.
        ax : matplotlib axes, optional
            Where to draw.
        **how
            ``score``, ``randomized``, ``by_class`` and ``cautious`` of ``predict_set``.
        """
        model, X = core(single(cls.__name__, estimator), X)
        if not hasattr(model, "predict_set"):
            raise ValueError(
                f"estimator must predict sets, as LegendreTronClassifier does, got {type(model).__name__} without "
                "predict_set."
            )
        for name in how:
            check_choice("how", name, ("score", "randomized", "by_class", "cautious"))
        if len(unknown := np.setdiff1d(y, model.classes_)):
            raise ValueError(f"y holds labels that the model does not know: {unknown}; classes are {model.classes_}.")
        p, labels = model.predict_proba(X), np.searchsorted(model.classes_, y)
        sets = [model.set_calibration_.predict(p, asked, rng=np.random.default_rng(0), **how) for asked in _ASKED]
        own = np.arange(len(labels))
        return cls(_ASKED, [s[own, labels].mean() for s in sets], [s.sum(1).mean() for s in sets]).plot(ax=ax)

    def plot(self, ax: Any = None) -> PredictionSetDisplay:
        """Draw on the axes given, or on new ones."""
        ax = self.ax_ = axes_or_new(ax, figsize=(6.4, 4.2))
        self.figure_, self.lines_ = ax.figure, {}
        ax.plot([self.asked.min(), 1.0], [self.asked.min(), 1.0], color="0.6", linewidth=1, linestyle="--")
        (self.lines_["coverage"],) = ax.plot(
            self.asked, self.coverage, "o-", color=COLOURS[0], markersize=3, label="rows whose set holds the label"
        )
        right = ax.twinx()
        (self.lines_["size"],) = right.plot(
            self.asked, self.size, "s:", color=COLOURS[1], markersize=3, label="mean number of classes in a set"
        )
        ax.set(xlabel="coverage asked for", ylabel="coverage", title="Prediction sets")
        right.set(ylabel="classes", ylim=(0.0, 1.1 * max(1.0, float(self.size.max()))))
        add_legend_below(ax, [*self.lines_.values()])
        return self
