"""Reliability diagrams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendretron._internal.validation import check_choice
from legendretron.diagnostics import CalibrationCurve, SmoothCalibrationCurve
from legendretron.plots.axes import LINES, add_legend, axes_or_new, room_for_legend, styles
from legendretron.plots.display import Display
from legendretron.plots.labels import shown
from legendretron.plots.models import named
from legendretron.plots.reliability_curves import Curve, Predictions

#: Bars of the histogram below smooth curves; a divisor of the number of their cells.
_HISTOGRAM = 32


class ReliabilityDisplay(Display):
    """Observed against predicted frequency, one curve per model.

    Binned curves have bars of two standard errors; smooth ones, by kernel regression, have a bootstrap band. The band is
    that of the smoothed curve: it holds what rows drawn anew would change, and not the bias of smoothing. On a figure of its
    own, the predictions are counted below. The number in the legend is the calibration error, or the
    gap in the bins that are drawn. :class:`ClasswiseReliabilityDisplay` has a panel for each class.

    Parameters
    ----------
    curves : mapping of str to CalibrationCurve or SmoothCalibrationCurve
        By the name of the model.
    of : str
        Whose probability it is, for the label of the horizontal axis.

    Attributes
    ----------
    lines_ : dict of str to line
        The curve of each model.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 500)
    >>> y = np.array(["cat", "dog", "eel"])[(p.cumsum(1) < rng.random((500, 1))).sum(1)]
    >>> bold = p**3 / (p**3).sum(1, keepdims=True)
    >>> display = ReliabilityDisplay.from_predictions(y, {"honest": p, "bold": bold}, strategy="smooth")
    >>> display.curves["honest"].error < 0.1 < display.curves["bold"].error
    True
    """

    def __init__(self, curves: Mapping[str, Curve], of: str = "") -> None:
        self.curves: dict[str, Curve] = named("curves", dict(curves))
        for name, curve in self.curves.items():
            if not isinstance(curve, CalibrationCurve | SmoothCalibrationCurve):
                raise ValueError(
                    f"the curve of {name!r} must come from calibration_curve or smooth_calibration_curve, got "
                    f"{type(curve).__name__}."
                )
        self.of = of

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        predictions: Any,
        *,
        kind: str = "top",
        label: Any = None,
        classes: Any = None,
        name: str | None = None,
        ax: Any = None,
        **curve: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram of the probabilities of one or several models on the same labels.

        Parameters
        ----------
        y : array of shape (n,)
            Labels of any kind.
        predictions : array of shape (n, C) or (n,), or mapping of str to array
            Probabilities, by the name of the model. One column is the probability of the second of two classes.
        kind : {"top", "all", "classwise"}
            Probability of the predicted class, of every class, or of the class ``label``.
        label : object, optional
            The class of ``kind="classwise"``; of two classes the second by default.
        classes : sequence of C, optional
            Class of each column. By default 0 to C - 1 if all labels are integers among them and 0 occurs, else the sorted
            labels, of which none may be missing.
        name : str, optional
            Name of a single model.
        ax : matplotlib axes, optional
            Where to draw.
        **curve
            ``strategy``: ``"binned"`` (default) or ``"smooth"``. ``n_bins`` of binned curves, 10 by default; ``bandwidth``,
            ``n_bootstrap``, ``level`` and ``seed`` of smooth ones, see
            :func:`~legendretron.diagnostics.smooth_calibration_curve`. Those of the other strategy raise a ``ValueError``.
            ``sample_weight`` of both.
        """
        return cls._of(Predictions(y, predictions, classes, name), kind, label, curve).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        kind: str = "top",
        label: Any = None,
        name: str | None = None,
        ax: Any = None,
        **curve: Any,
    ) -> ReliabilityDisplay:
        """Draw the diagram of one or several fitted classifiers on the same data.

        Parameters
        ----------
        estimator : estimator, sequence of estimators, or mapping of str to estimator
            Any classifiers with ``predict_proba``, fitted to the same classes.
        X, y
            Rows that the models have not seen, and their labels.
        name : str, optional
            Name of a single estimator; by default that of its class.
        kind, label, ax, **curve
            As in :meth:`from_predictions`.
        """
        return cls._of(Predictions.of(estimator, X, y, name), kind, label, curve).plot(ax=ax)

    @classmethod
    def _of(cls, predictions: Predictions, kind: str, label: Any, curve: dict[str, Any]) -> ReliabilityDisplay:
        check_choice("kind", kind, ("top", "all", "classwise"))
        if kind != "classwise":
            if label is not None:
                raise ValueError(f"label is for kind='classwise', got label={label!r} with kind={kind!r}.")
            whose = "the predicted class" if kind == "top" else "any class"
            return cls(predictions.curves(kind, None, curve), f" of {whose}")
        if label is None:
            if len(predictions.classes) > 2:
                raise ValueError(
                    "label must name a class with kind='classwise' and more than two classes; ClasswiseReliabilityDisplay "
                    "draws all of them."
                )
            label = predictions.classes.tolist()[1]
        return cls(predictions.curves(kind, predictions.column(label), curve), f" of {shown(label)}")

    def plot(self, ax: Any = None) -> ReliabilityDisplay:
        """Draw on the axes given; on a new figure, with the number of predictions below."""
        below = None
        if ax is not None:
            ax = axes_or_new(ax)
        else:
            size = room_for_legend(5.6, 6.4, 1 + len(self.curves))
            ax, below = axes_or_new(None, nrows=2, figsize=size, sharex=True, height_ratios=[4, 1])
        self.ax_, self.figure_, self.lines_ = ax, ax.figure, {}
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--", label="perfect")
        shift = (np.arange(len(self.curves)) - (len(self.curves) - 1) / 2) * 0.006
        for number, ((name, curve), look) in enumerate(zip(self.curves.items(), styles(len(self.curves)), strict=True)):
            if isinstance(curve, CalibrationCurve):
                self.lines_[name] = _binned(ax, below, name, curve, *look, float(shift[number]))
            else:
                self.lines_[name] = _smooth(ax, below, name, curve, look[0], LINES[number % len(LINES)])
        kinds = {type(curve) for curve in self.curves.values()}
        notes = {
            CalibrationCurve: "bars: two standard errors",
            SmoothCalibrationCurve: "bands: bootstrap, sampling error only",
        }
        title = f"Reliability ({', '.join(text for kind, text in notes.items() if kind in kinds)})"
        ax.set(ylabel="share that came true", title=title, xlim=(0, 1), ylim=(-0.02, 1.02))
        if below is not None:
            below.set(ylabel="predictions", yscale="log")
            below.set_ylim(bottom=0.7)  # so that a single prediction is seen
        (ax if below is None else below).set_xlabel(f"predicted probability{self.of}")
        add_legend(ax, loc="best", fontsize="small", frameon=True, framealpha=0.8, edgecolor="none")
        return self


def _binned(ax: Any, below: Any, name: str, curve: CalibrationCurve, colour: str, marker: str, shift: float) -> Any:
    filled = curve.count > 0
    drawn = ax.errorbar(
        curve.confidence[filled] + shift,
        curve.frequency[filled],
        yerr=2 * curve.standard_error[filled],
        color=colour,
        marker=marker,
        markersize=4,
        linewidth=1.4,
        elinewidth=0.8,
        label=f"{name} (error of {len(curve.count)} bins {curve.expected_calibration_error:.3f})",
    )
    if below is not None:
        below.stairs(curve.count, curve.edges, color=colour, linewidth=1.4)
    return drawn.lines[0]


def _smooth(ax: Any, below: Any, name: str, curve: SmoothCalibrationCurve, colour: str, dashes: str) -> Any:
    look = {"color": colour, "linestyle": dashes, "linewidth": 1.5}
    (line,) = ax.plot(
        curve.confidence, curve.frequency, label=f"{name} (calibration error {curve.error:.3f})", zorder=3, **look
    )
    if np.isfinite(curve.low).any():
        ax.fill_between(curve.confidence, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    if below is not None:
        count = curve.count.reshape(_HISTOGRAM, -1).sum(1)
        below.stairs(count, np.linspace(0, 1, _HISTOGRAM + 1), color=colour, linestyle=dashes, linewidth=1.2)
    return line
