"""Labels that may be wrong, and prediction sets."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from legendretron._internal.parameters import check_choice
from legendretron.calibration.prediction_sets import SetCalibration
from legendretron.plots.axes import COLORS, add_legend_below
from legendretron.plots.chart import Chart, Display, Line
from legendretron.plots.models import core_with


class LabelQualityDisplay(Display):
    """Probability that a label is wrong, row by row, the most doubtful first.

    A horizontal line is the threshold, and a vertical one the number of rows beyond it. If it is known which labels are
    wrong, these rows are marked below, and a dashed curve is the precision: the share of them among the first rows.

    Parameters
    ----------
    quality : array of shape (n,)
        Probability that each label is right, see ``label_quality`` of the estimators.
    threshold : float, default=0.5
        Rows of a lower quality are suspicious.
    wrong : array of bool of shape (n,), optional
        Which labels are truly wrong.

    Attributes
    ----------
    order_ : ndarray of shape (n,)
        Rows, the most doubtful first.
    n_suspicious_ : int
        Number of rows below the threshold.
    precision_ : float
        Share of these whose labels are truly wrong; NaN if there are none. Only with ``wrong``.

    Examples
    --------
    >>> display = LabelQualityDisplay([0.9, 0.1, 0.8, 0.3], wrong=[False, True, False, False])
    >>> display.plot().n_suspicious_, display.precision_
    (2, 0.5)
    """

    def __init__(self, quality: ArrayLike, threshold: float = 0.5, wrong: ArrayLike | None = None) -> None:
        self.quality, self.threshold = np.asarray(quality, dtype=float), float(threshold)
        if self.quality.ndim != 1 or not len(self.quality):
            raise ValueError(f"quality must contain one probability per row, got shape {self.quality.shape}.")
        if not ((self.quality >= 0.0) & (self.quality <= 1.0)).all():
            raise ValueError("quality must contain probabilities, from 0 to 1.")
        if not 0.0 <= self.threshold <= 1.0:
            raise ValueError(f"threshold must be a probability, from 0 to 1, got {threshold!r}.")
        self.wrong = None if wrong is None else np.asarray(wrong)
        if self.wrong is not None and (self.wrong.shape != self.quality.shape or self.wrong.dtype != bool):
            raise ValueError(
                f"wrong must contain True or False for each of {len(self.quality)} rows, got {self.wrong.dtype} of shape "
                f"{self.wrong.shape}."
            )
        self.order_ = np.argsort(self.quality, kind="stable")
        self.n_suspicious_ = int((self.quality < self.threshold).sum())
        if self.wrong is not None:
            found = self.wrong[self.order_[: self.n_suspicious_]]
            self.precision_ = float(found.mean()) if len(found) else float("nan")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        cv: Any = 5,
        threshold: float = 0.5,
        wrong: ArrayLike | None = None,
        ax: Any = None,
    ) -> LabelQualityDisplay:
        """Compute the quality of labels and plot it.

        Parameters
        ----------
        estimator : LegendreTronClassifier, MultinomialLogisticClassifier or TableClassifier
            Fitted; also inside a pipeline or a search, whose transformers are not fitted again.
        X, y, cv
            Rows, their labels, and the cross-validation, as in ``label_quality``. ``cv=None`` uses the estimator itself.
        threshold, wrong
            See the class.
        ax : matplotlib axes, optional
            Where to draw.
        """
        model, X = core_with(cls.__name__, "label_quality", estimator, X)
        return cls(model.label_quality(X, y, cv), threshold, wrong).plot(ax=ax)

    def chart(self) -> Chart:
        """Return the chart."""
        n, suspicious = len(self.quality), self.n_suspicious_
        rank = np.arange(1, n + 1)
        share = f"{suspicious:,} of {n:,} rows ({suspicious / n:.1%}) beyond {1.0 - self.threshold:g}"
        ends, level = (0.9, max(n, 2) * 1.1), 1.0 - self.threshold
        lines = [
            Line(rank, 1.0 - self.quality[self.order_], "doubt", 0, name="doubt"),
            Line(np.array(ends), np.full(2, level), share, style="--", width=1.0),
        ]
        if suspicious:
            lines.append(Line(np.full(2, suspicious), np.array([0.0, 1.0]), style=":", width=1.0))
        if self.wrong is not None:
            hits = self.wrong[self.order_]
            found, total = int(hits[:suspicious].sum()), int(hits.sum())
            precision = "" if np.isnan(self.precision_) else f" (of those rows: {self.precision_:.0%})"
            lines += [
                Line(rank, np.cumsum(hits) / rank, f"precision of the first rows{precision}", 2, "-."),
                Line(
                    rank[hits], np.full(total, -0.05), f"wrong labels: {found:,} of {total:,} among those rows",
                    1, "none", "|",
                ),
            ]  # fmt: skip
        axes = "rows, the most doubtful first", "probability that the label is wrong"
        lowest = -0.03 if self.wrong is None else -0.1
        return Chart(*axes, lines, "Suspicious labels", ends, (lowest, 1.03), log="x", legend="below")

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, or on new ones."""
        super().plot(ax).ax_.xaxis.set_major_formatter("{x:,.0f}")
        return self


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
        model, X = core_with(cls.__name__, "predict_set", estimator, X)
        for name in how:
            check_choice("how", name, ("score", "randomized", "by_class", "cautious"))
        if len(unknown := np.setdiff1d(y, model.classes_)):
            raise ValueError(f"y holds labels that the model does not know: {unknown}; classes are {model.classes_}.")
        p, labels = model.predict_proba(X), np.searchsorted(model.classes_, y)
        held, size = measure_sets(model.set_calibration_, p, labels, _ASKED, rng=np.random.default_rng(0), **how)
        return cls(_ASKED, held.mean(1), size.mean(1)).plot(ax=ax)

    def chart(self) -> Chart:
        """Return the coverage."""
        ends = np.array([self.asked.min(), 1.0])
        lines = [
            Line(ends, ends, style="--", width=1.0),
            Line(self.asked, self.coverage, "rows whose set holds the label", 0, marker="o", name="coverage"),
        ]
        return Chart("coverage asked for", "coverage", lines, "Prediction sets", legend="below")

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, or on new ones; sizes have an axis of their own, on the right."""
        super().plot(ax)
        right = self.ax_.twinx()
        (self.lines_["size"],) = right.plot(
            self.asked, self.size, "s:", color=COLORS[1], markersize=4, label="mean number of classes in a set"
        )
        right.set(ylabel="classes", ylim=(0.0, 1.1 * max(1.0, float(self.size.max()))))
        add_legend_below(self.ax_, [*self.lines_.values()])
        return self


def measure_sets(
    calibration: SetCalibration, p: np.ndarray, y: np.ndarray, asked: Any, **how: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether the set of each row holds its label, and its number of classes, for each coverage: ``(m, n)`` both."""
    sets = [calibration.predict(p, coverage, **how) for coverage in asked]
    return np.array([found[np.arange(len(y)), y] for found in sets]), np.array([found.sum(1) for found in sets])
