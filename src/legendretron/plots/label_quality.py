"""Labels that may be wrong, the most doubtful first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

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
