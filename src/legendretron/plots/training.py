"""Learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from legendretron.plots.axes import MARKERS, Display, add_legend, axes_or_new, room_for_legend, styles
from legendretron.plots.models import core, named
from legendretron.training import History


class TrainingDisplay(Display):
    """Losses by epoch, one colour per model: training solid, validation dashed, its best epoch marked.

    Parameters
    ----------
    histories : mapping of str to History
        By the name of the model; of one run each, or of many, whose mean is drawn.

    Attributes
    ----------
    lines_ : dict of str to line
        The losses of training of each model.
    validation_lines_ : dict of str to line
        Those of validation, of the models that have them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from legendretron import LegendreTronClassifier
    >>> clf = LegendreTronClassifier(alpha=1e-3, link_alpha=1e-3, max_epochs=5, random_state=0)
    >>> display = TrainingDisplay.from_estimator(clf.fit(*load_iris(return_X_y=True)))
    >>> len(display.line_.get_ydata()) == len(clf.history_)
    True
    """

    def __init__(self, histories: Mapping[str, History]) -> None:
        self.histories: dict[str, History] = named("histories", dict(histories))
        for name, history in self.histories.items():
            if not isinstance(history, History):
                raise ValueError(f"the history of {name!r} must be a History, got {type(history).__name__}.")
            if not len(history):
                raise ValueError(f"the history of {name!r} is empty: nothing was trained.")

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: str | None = None, ax: Any = None) -> TrainingDisplay:
        """Draw how one or several estimators were trained.

        Parameters
        ----------
        estimator : estimator, sequence of estimators, or mapping of str to estimator
            Fitted, with ``history_``; also inside a pipeline or a search. A model that is found by a convex solver has one
            entry only, a point.
        name, ax
            Name of a single estimator, by default that of its class; and matplotlib axes to draw on.
        """
        histories = {}
        for key, model in named("estimator", estimator, name).items():
            inner, _ = core(model)
            check_is_fitted(inner)
            if not hasattr(inner, "history_"):
                raise ValueError(f"{key!r} must have a history_, got {type(inner).__name__} without one.")
            histories[key] = inner.history_
        return cls(histories).plot(ax=ax)

    def plot(self, ax: Any = None) -> TrainingDisplay:
        """Draw on the axes given, or on new ones."""
        ax = self.ax_ = axes_or_new(ax, figsize=room_for_legend(6.4, 4.2, 2 * len(self.histories)))
        self.figure_, self.lines_, self.validation_lines_ = ax.figure, {}, {}
        for (name, history), (colour, marker) in zip(self.histories.items(), styles(len(self.histories)), strict=True):
            epochs = np.unique(history["epoch"])

            def mean(column: str, history: History = history, epochs: np.ndarray = epochs) -> np.ndarray:
                return np.array([history[column][history["epoch"] == e].mean() for e in epochs])

            # markers from the second round of colours on; a few of them are enough to tell curves apart
            round_two = {} if marker == MARKERS[0] else {"marker": marker, "markersize": 4, "markevery": 0.1}
            if len(epochs) == 1:
                round_two = {"marker": marker, "markersize": 5}  # a line of one point would not show
            look = {"color": colour, "linewidth": 1.4}
            (line,) = ax.plot(epochs, mean("train_loss"), label=f"{name}, training", **look, **round_two)
            self.lines_[name] = line
            validation = mean("validation_loss")
            if np.isfinite(validation).any():
                best = int(np.nanargmin(validation))
                (line,) = ax.plot(epochs, validation, linestyle="--", label=f"{name}, validation", **look)
                self.validation_lines_[name] = line
                ax.plot(epochs[best], validation[best], marker, color=colour, markersize=5)
        ax.set(xlabel="epoch", ylabel="log-loss", yscale="log", title="Training")
        add_legend(ax)
        return self
