"""Reliability diagrams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.validation import check_choice
from legendretron.diagnostics import (
    CalibrationCurve,
    SmoothCalibrationCurve,
    calibration_curve,
    smooth_calibration_curve,
)
from legendretron.plots.axes import LINES, add_legend_below, axes_or_new, marker_of, panels_or_new, room_for_legend
from legendretron.plots.chart import Chart, Display, Line
from legendretron.plots.models import as_columns, format_label, name_models

Curve = CalibrationCurve | SmoothCalibrationCurve

#: Fewer than for a calibration error: each has a bar.
_BINS = 10
#: Settings of each strategy.
_SETTINGS = {
    "binned": ("n_bins", "sample_weight"),
    "smooth": ("bandwidth", "n_bootstrap", "level", "seed", "sample_weight"),
}


class Predictions:
    """Probabilities of one or several models on the same labels, checked; see :meth:`ReliabilityDisplay.from_predictions`."""

    def __init__(self, y: ArrayLike, predictions: Any, classes: Any = None, name: str | None = None) -> None:
        if not isinstance(predictions, Mapping):
            predictions = {"model" if name is None else name: predictions}
        elif name is not None:
            raise ValueError(f"name is for a single model; several are named by their keys, got name={name!r}.")
        self.tables = {key: _table(key, p) for key, p in name_models("predictions", dict(predictions)).items()}
        n_columns = next(iter(self.tables.values())).shape[1]
        for key, p in self.tables.items():
            if p.shape != (np.size(y), n_columns):
                raise ValueError(
                    f"predictions of {key!r} must have shape {(np.size(y), n_columns)}, a row for each label in y and the "
                    f"columns of the first model, got {p.shape}."
                )
        self.columns, self.classes = as_columns(y, n_columns, classes)

    @classmethod
    def of(cls, estimator: Any, X: Any, y: ArrayLike, name: str | None = None) -> Predictions:
        """Return the predictions of one or several fitted classifiers on the same rows."""
        tables, classes = {}, None
        for key, model in name_models("estimator", estimator, name).items():
            check_is_fitted(model)
            if not hasattr(model, "predict_proba"):
                raise ValueError(f"{key!r} must be a classifier with predict_proba, got {type(model).__name__}.")
            own = np.asarray(model.classes_)
            if classes is not None and not np.array_equal(own, classes):
                raise ValueError(f"estimators must have the same classes, got {own} and {classes}.")
            classes, tables[key] = own, model.predict_proba(X)
        return cls(y, tables, classes)

    def column(self, label: Any) -> int:
        """Return the column of a class."""
        found = [k for k, own in enumerate(self.classes.tolist()) if own == label]
        if not found:
            raise ValueError(f"label must be one of the classes {self.classes.tolist()}, got {label!r}.")
        return found[0]

    def curves(self, kind: str, column: int | None, settings: Mapping[str, Any]) -> dict[str, Curve]:
        """Return the curve of each model, by the settings that users gave: ``strategy``, and those of its function."""
        rest = dict(settings)
        strategy = check_choice("strategy", rest.pop("strategy", "binned"), tuple(_SETTINGS))
        for name in rest:
            of = [other for other, names in _SETTINGS.items() if name in names]
            if not of:
                known = ", ".join(dict.fromkeys(["strategy", *(own for names in _SETTINGS.values() for own in names)]))
                raise TypeError(
                    f"ReliabilityDisplay and ClasswiseReliabilityDisplay have no argument {name!r}; those of their curves "
                    f"are {known}."
                )
            if strategy not in of:
                raise ValueError(
                    f"{name} is for strategy={of[0]!r}, got {name}={rest[name]!r} with strategy={strategy!r}."
                )
        draw: Any = calibration_curve if strategy == "binned" else smooth_calibration_curve
        usual = {"n_bins": _BINS} if strategy == "binned" else {}
        return {
            key: draw(self.columns, p, kind=kind, column=column, **(usual | rest)) for key, p in self.tables.items()
        }


def _table(name: str, p: Any) -> np.ndarray:
    table = np.asarray(p)
    if table.dtype.kind not in "fiu":
        raise ValueError(f"predictions of {name!r} must be numbers, got dtype {table.dtype}.")
    if table.ndim == 1:
        table = np.stack([1 - table, table], 1)
    if table.ndim != 2 or table.shape[1] < 2 or not len(table):
        raise ValueError(f"predictions of {name!r} must have shape (n, C) with C >= 2, or (n,), got {np.shape(p)}.")
    return table


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
        self.curves: dict[str, Curve] = name_models("curves", dict(curves))
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
            ``strategy``: ``"binned"`` (default) or ``"smooth"``. ``n_bins`` for binned curves, 10 by default. ``bandwidth``,
            ``n_bootstrap``, ``level`` and ``seed`` for smooth curves, as in
            :func:`~legendretron.diagnostics.smooth_calibration_curve`. ``sample_weight`` for both.
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
        return cls(predictions.curves(kind, predictions.column(label), curve), f" of {format_label(label)}")

    def chart(self) -> Chart:
        """Return the curves, and the diagonal."""
        lines = [Line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "perfect", style="--", width=1.0)]
        for number, (name, curve) in enumerate(self.curves.items()):
            if isinstance(curve, CalibrationCurve):
                filled = curve.count > 0
                shift = 0.006 * (number - (len(self.curves) - 1) / 2)  # so that bars do not hide each other
                x, y, error = curve.confidence[filled] + shift, curve.frequency[filled], curve.standard_error[filled]
                label = f"{name} (error of {len(curve.count)} bins {curve.expected_calibration_error:.3f})"
                interval = y - 2 * error, y + 2 * error
                lines.append(Line(x, y, label, number, "-", marker_of(number), *interval, name=name))
            else:
                label, style = f"{name} (calibration error {curve.error:.3f})", LINES[number % len(LINES)]
                x, y, interval = curve.confidence, curve.frequency, (curve.low, curve.high)
                lines.append(Line(x, y, label, number, style, "", *interval, name=name))
        kinds = {type(curve) for curve in self.curves.values()}
        notes = {
            CalibrationCurve: "bars: two standard errors",
            SmoothCalibrationCurve: "bands: bootstrap, sampling error only",
        }
        title = f"Reliability ({', '.join(text for kind, text in notes.items() if kind in kinds)})"
        axes = f"predicted probability{self.of}", "share that came true"
        return Chart(*axes, lines, title, (0.0, 1.0), (-0.02, 1.02))

    def counts(self, log: bool = True) -> Chart:
        """Return how many predictions there are of each probability; on a logarithmic scale, few are seen as well."""
        lines = []
        for number, (name, curve) in enumerate(self.curves.items()):
            if isinstance(curve, CalibrationCurve):
                edges, count, style = curve.edges, curve.count, "-"
            else:
                edges, count = np.linspace(0, 1, _HISTOGRAM + 1), curve.count.reshape(_HISTOGRAM, -1).sum(1)
                style = LINES[number % len(LINES)]
            lines.append(Line(edges, count, "", number, style, steps=True, name=name))
        most = max(float(line.y.max()) for line in lines)
        ylim = (0.7, 1.5 * most) if log else (0.0, 1.05 * most)
        return Chart(
            f"predicted probability{self.of}", "predictions", lines, "", (0.0, 1.0), ylim, log="y" if log else ""
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given; on a new figure, with the number of predictions below."""
        if ax is not None:
            return super().plot(ax)
        chart = self.chart()
        size = room_for_legend(5.6, 6.4, chart.legend_entries)
        self.ax_, below = axes_or_new(None, nrows=2, figsize=size, sharex=True, height_ratios=[4, 1])
        self.figure_, self.lines_ = self.ax_.figure, chart.draw(self.ax_)
        self.counts().draw(below)
        self.ax_.set_xlabel("")  # below the histogram
        return self


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
            raise ValueError("displays must contain at least one class, got none.")
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

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, one for each class, or on new ones."""
        models = max(len(display.curves) for display in self.displays.values())
        self.axes_ = panels_or_new(ax, len(self.displays), min(len(self.displays), 3), (3.6, 3.6 + 0.2 * models))
        self.ax_, self.lines_ = self.axes_[0], {}
        self.figure_ = self.ax_.figure
        for panel, (label, display) in zip(self.axes_, self.displays.items(), strict=True):
            display.plot(ax=panel)
            panel.set_title(format_label(label))
            add_legend_below(panel, columns=1)  # small panels have no room inside
            self.lines_[label] = display.lines_
        return self
