"""Labels that may be wrong, and prediction sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.arguments import check_choice
from legendretron.plots.axes import COLOURS, Display, add_legend_below, axes_or_new
from legendretron.plots.models import core, single


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
            raise ValueError(f"quality must hold one probability per row, got shape {self.quality.shape}.")
        if not ((self.quality >= 0.0) & (self.quality <= 1.0)).all():
            raise ValueError("quality must hold probabilities, from 0 to 1.")
        if not 0.0 <= self.threshold <= 1.0:
            raise ValueError(f"threshold must be a probability, from 0 to 1, got {threshold!r}.")
        self.wrong = None if wrong is None else np.asarray(wrong)
        if self.wrong is not None and (self.wrong.shape != self.quality.shape or self.wrong.dtype != bool):
            raise ValueError(
                f"wrong must hold True or False for each of {len(self.quality)} rows, got {self.wrong.dtype} of shape "
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
        """Judge labels and draw the result.

        Parameters
        ----------
        estimator : LegendreTronClassifier, MultinomialLogisticClassifier or TableClassifier
            Fitted; also inside a pipeline or a search. What transforms its features is not fitted again.
        X, y, cv
            Rows, their labels, and how each is judged by a model that has not seen it, as in ``label_quality``. None: by the
            estimator itself.
        threshold, wrong
            See the class.
        ax : matplotlib axes, optional
            Where to draw.
        """
        model, X = core(single(cls.__name__, estimator), X)
        check_is_fitted(model)
        if not hasattr(model, "label_quality"):
            raise ValueError(
                f"estimator must judge labels, as LegendreTronClassifier and MultinomialLogisticClassifier do, got "
                f"{type(model).__name__} without label_quality."
            )
        return cls(model.label_quality(X, y, cv), threshold, wrong).plot(ax=ax)

    def plot(self, ax: Any = None) -> LabelQualityDisplay:
        """Draw on the axes given, or on new ones."""
        ax = self.ax_ = axes_or_new(ax, figsize=(6.4, 4.2))
        self.figure_, self.lines_ = ax.figure, {}
        n = len(self.quality)
        rank = np.arange(1, n + 1)
        doubt = 1.0 - self.quality[self.order_]
        (self.lines_["doubt"],) = ax.plot(rank, doubt, color=COLOURS[0], linewidth=1.4, label="doubt")
        share = f"{self.n_suspicious_:,} of {n:,} rows ({self.n_suspicious_ / n:.1%}) beyond {1.0 - self.threshold:g}"
        ax.axhline(1.0 - self.threshold, color="0.6", linewidth=1, linestyle="--", label=share)
        if self.n_suspicious_:
            ax.axvline(self.n_suspicious_, color="0.6", linewidth=1, linestyle=":")
        if self.wrong is not None:
            hits = self.wrong[self.order_]
            found, total = int(hits[: self.n_suspicious_].sum()), int(hits.sum())
            precision = "" if np.isnan(self.precision_) else f" (of those rows: {self.precision_:.0%})"
            ax.plot(
                rank, np.cumsum(hits) / rank, color=COLOURS[2], linewidth=1.2, linestyle="-.",
                label=f"precision of the first rows{precision}",
            )  # fmt: skip
            ax.plot(
                rank[hits], np.full(total, -0.05), "|", color=COLOURS[1], markersize=9, markeredgewidth=0.8,
                label=f"wrong labels: {found:,} of {total:,} among those rows",
            )  # fmt: skip
        ax.set(
            xscale="log", xlim=(0.9, max(n, 2) * 1.1), ylim=(-0.1, 1.03), title="Suspicious labels",
            xlabel="rows, the most doubtful first", ylabel="probability that the label is wrong",
        )  # fmt: skip
        ax.xaxis.set_major_formatter("{x:,.0f}")
        add_legend_below(ax)
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
