"""Reliability diagrams of every class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from legendretron.plots.axes import add_legend_below, panels_or_new
from legendretron.plots.display import Display
from legendretron.plots.labels import shown
from legendretron.plots.reliability import ReliabilityDisplay
from legendretron.plots.reliability_curves import Predictions


class ClasswiseReliabilityDisplay(Display):
    """Reliability of the probability of each class: a panel for each class, with all models.

    Parameters
    ----------
    displays : mapping of class to ReliabilityDisplay
        One for each panel.

    Attributes
    ----------
    axes_ : ndarray of axes
        One for each panel; ``ax_`` is the first.
    lines_ : dict of class to dict
        The curves of each panel, by the name of the model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> ClasswiseReliabilityDisplay.from_estimator(GaussianNB().fit(X, y), X, y).axes_.shape
    (3,)
    """

    def __init__(self, displays: Mapping[Any, ReliabilityDisplay]) -> None:
        if not displays:
            raise ValueError("displays must hold at least one class, got none.")
        self.displays = dict(displays)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        predictions: Any,
        *,
        labels: Any = None,
        classes: Any = None,
        name: str | None = None,
        ax: Any = None,
        **curve: Any,
    ) -> ClasswiseReliabilityDisplay:
        """Draw the diagrams of the probabilities of one or several models on the same labels.

        Parameters
        ----------
        y, predictions, classes, name, **curve
            As in :meth:`ReliabilityDisplay.from_predictions`.
        labels : sequence of classes, optional
            Which to draw; by default all.
        ax : matplotlib axes or sequence of these, optional
            Where to draw, one for each class.
        """
        return cls._of(Predictions(y, predictions, classes, name), labels, curve).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        labels: Any = None,
        name: str | None = None,
        ax: Any = None,
        **curve: Any,
    ) -> ClasswiseReliabilityDisplay:
        """Draw the diagrams of one or several fitted classifiers on the same data.

        Parameters
        ----------
        estimator, X, y, name, **curve
            As in :meth:`ReliabilityDisplay.from_estimator`.
        labels, ax
            As in :meth:`from_predictions`.
        """
        return cls._of(Predictions.of(estimator, X, y, name), labels, curve).plot(ax=ax)

    @classmethod
    def _of(cls, predictions: Predictions, labels: Any, curve: dict[str, Any]) -> ClasswiseReliabilityDisplay:
        wanted = predictions.classes.tolist() if labels is None else list(labels)
        return cls({label: ReliabilityDisplay._of(predictions, "classwise", label, curve) for label in wanted})

    def plot(self, ax: Any = None) -> ClasswiseReliabilityDisplay:
        """Draw on the axes given, one for each class, or on new ones."""
        models = max(len(display.curves) for display in self.displays.values())
        self.axes_ = panels_or_new(ax, len(self.displays), min(len(self.displays), 3), (3.6, 3.6 + 0.2 * models))
        self.ax_, self.lines_ = self.axes_[0], {}
        self.figure_ = self.ax_.figure
        for panel, (label, display) in zip(self.axes_, self.displays.items(), strict=True):
            display.plot(ax=panel)
            panel.set_title(shown(label))
            add_legend_below(panel, columns=1)  # small panels have no room inside
            self.lines_[label] = display.lines_
        return self
