"""Learning curves, and strengths that were tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.parameters import spell
from legendretron.plots.axes import COLORS, MARKERS, marker_of
from legendretron.plots.chart import Chart, Display, Line
from legendretron.plots.models import core, core_with, name_models
from legendretron.training import History
from legendretron.tuning.table import COLUMNS


class TrainingDisplay(Display):
    """Losses by epoch, one color per model: training solid, validation dashed, its best epoch marked.

    Parameters
    ----------
    histories : mapping of str to History
        Histories by name of the model; of several runs, the mean is drawn.

    Attributes
    ----------
    lines_ : dict of str to line
        Training losses of each model.
    validation_lines_ : dict of str to line
        Validation losses, for models that have them.

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
        self.histories: dict[str, History] = name_models("histories", dict(histories))
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
        for key, model in name_models("estimator", estimator, name).items():
            inner, _ = core(model)
            check_is_fitted(inner)
            if not hasattr(inner, "history_"):
                raise ValueError(f"{key!r} must have a history_, got {type(inner).__name__} without one.")
            histories[key] = inner.history_
        return cls(histories).plot(ax=ax)

    def chart(self) -> Chart:
        """Return what is to be drawn."""
        lines = []
        for number, (name, history) in enumerate(self.histories.items()):
            epochs, place = np.unique(history["epoch"], return_inverse=True)
            train, held = (
                np.bincount(place, history[column]) / np.bincount(place) for column in ("train_loss", "validation_loss")
            )
            # a line of one point would not show, and later rounds of colors need something to tell them apart
            marker = marker_of(number) if len(epochs) == 1 or number >= len(COLORS) else ""
            lines.append(Line(epochs, train, f"{name}, training", number, marker=marker, name=name))
            if np.isfinite(held).any():
                best = int(np.nanargmin(held))
                lines += [
                    Line(epochs, held, f"{name}, validation", number, "--", name=f"{name}, validation"),
                    Line(epochs[[best]], held[[best]], "", number, "none", marker_of(number)),
                ]
        return Chart("epoch", "log-loss", lines, "Training", log="y")

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, or on new ones."""
        drawn = super().plot(ax).lines_
        self.lines_ = {name: drawn[name] for name in self.histories}
        validation = {name: f"{name}, validation" for name in self.histories}
        self.validation_lines_ = {name: drawn[text] for name, text in validation.items() if text in drawn}
        return self


_LOGISTIC = "0.35"  # gray: what the learned links, in colors, are compared with
_NOISY = "0.65"


class TuningDisplay(Display):
    """Log-loss on held-out rows against ``alpha``, one curve for logistic regression and one for each ``link_alpha``.

    If label noise was considered, logistic regression with noise has a curve of its own.
    Candidates that were dropped after fewer steps are faint, and the chosen one has a ring. Where logistic regression is
    among the candidates, everything is drawn relative to it: a point is the log-loss of the best logistic regression plus
    the difference to it, row by row, and a bar is the standard error of that difference. So candidates that were tried on
    some of the folds are comparable with the others, and a learned link was chosen if its bar is below the dotted line.

    Parameters
    ----------
    tuning : DataFrame
        ``tuning_`` of a fitted estimator.

    Attributes
    ----------
    lines_ : dict of str to line
        The curves, by their texts in the legend, and ``"chosen"``, the ring.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from legendretron import MultinomialLogisticClassifier
    >>> clf = MultinomialLogisticClassifier().fit(*load_iris(return_X_y=True))
    >>> display = TuningDisplay.from_estimator(clf)
    >>> float(display.lines_["chosen"].get_xdata()[0]) == clf.alpha_
    True
    """

    def __init__(self, tuning: Any) -> None:
        missing = [name for name in COLUMNS if name not in getattr(tuning, "columns", ())]
        if missing:
            raise ValueError(
                f"tuning must be the data frame tuning_ of a fitted estimator, got {type(tuning).__name__} without "
                f"{', '.join(missing)}."
            )
        if not len(tuning):
            raise ValueError(
                "tuning holds no candidate: there were too few rows to hold any out; fit to more rows, or give "
                f"{spell('alpha')}."
            )
        self.tuning = tuning

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> TuningDisplay:
        """Draw what a fitted estimator has tried.

        Parameters
        ----------
        estimator : LegendreTronClassifier or MultinomialLogisticClassifier
            Fitted with a strength that was ``"auto"``; also inside a pipeline or a search.
        ax : matplotlib axes, optional
            Where to draw.
        """
        model, _ = core_with(cls.__name__, "tuning_", estimator)
        return cls(model.tuning_).plot(ax=ax)

    def chart(self) -> Chart:
        """Return what is to be drawn."""
        table, base = _heights(self.tuning)
        lines = []
        if base is not None:
            ends = np.array([table["alpha"].min(), table["alpha"].max()])
            lines.append(Line(ends, np.full(2, base), "", _LOGISTIC, ":", width=0.8))
        for (name, own), look in zip(_logistic_curves(table), ((_LOGISTIC, "-"), (_NOISY, "-.")), strict=True):
            lines += _curve(own, name, *look, "o")
        links = table[~np.isinf(table["link_alpha"])]
        most = links["steps"].max() if len(links) else 0
        for number, (name, own) in enumerate(_by_link_alpha(links)):
            marker, complete = MARKERS[1 + number % (len(MARKERS) - 1)], own["steps"] == most
            lines += _curve(own[complete], f"learned link, {name}", number, "-", marker)
            for steps in sorted(set(own["steps"][~complete])):
                label = f"{name}, after {int(steps):,} of {int(most):,} steps"
                lines += _curve(own[own["steps"] == steps], label, number, "--", marker, opacity=0.35)
        chosen = table[table["chosen"].astype(bool)]
        lines.append(
            Line(chosen["alpha"].to_numpy(), chosen["height"].to_numpy(), "chosen", "0", "none", "ring", name="chosen")
        )
        title = f"Strengths tried (bars: one standard error{'' if base is None else ' of the difference'})"
        axes = "alpha: penalty on the weights", "log-loss on held-out rows"
        return Chart(
            *axes, lines, title, ylim=_limits(table["height"]), log="x", legend="below"
        )  # curves of strengths fill the axes


def _limits(heights: Any) -> tuple[float, float] | None:
    """Limits of the axis if some candidate is so bad that the others could not be told apart beside it."""
    low, most = heights.min(), heights.min() + 6 * (heights.median() - heights.min())
    return (low - 0.08 * (most - low), most) if low < most < heights.max() and len(heights) > 3 else None


def _heights(tuning: Any) -> tuple[Any, float | None]:
    """Candidates with heights and bars to draw, and the height of the best logistic regression if it was tried."""
    table = tuning[np.isfinite(tuning["log_loss"])].sort_values("held_out_rows", ascending=False, kind="stable")
    logistic = table[np.isinf(table["link_alpha"])]
    # a candidate that was tried on some rows and then on all of them is drawn once
    table = table.drop_duplicates(["alpha", "link_alpha", "steps", "label_noise"])
    if not len(logistic):
        return table.assign(height=table["log_loss"], bar=table["standard_error"]), None
    base = float(logistic["log_loss"][logistic["difference"] == 0].iloc[0])
    return table.assign(height=base + table["difference"], bar=table["difference_error"]), base


def _logistic_curves(table: Any) -> list[tuple[str, Any]]:
    """Candidates without a learned link: those that trust the labels, and those that take some to be wrong."""
    logistic = table[np.isinf(table["link_alpha"])]
    noisy = logistic["label_noise"] > 0
    # several rates of noise were tried with a strength; the best of them is drawn
    best = logistic[noisy].sort_values("height").drop_duplicates("alpha")
    return [("logistic regression", logistic[~noisy]), ("logistic regression, wrong labels", best)]


def _by_link_alpha(links: Any) -> list[tuple[str, Any]]:
    """Candidates with a learned link, by the strength of its penalty, and whether they take some labels to be wrong."""
    tied = len(links) > 1 and (links["link_alpha"] == links["alpha"]).all()
    groups = []
    for wrong, part in links.groupby(links["label_noise"] > 0):
        more = ", wrong labels" if wrong else ""
        if tied:
            groups.append((f"link_alpha = alpha{more}", part))
        else:
            groups += [(f"link_alpha {value:.3g}{more}", own) for value, own in part.groupby("link_alpha")]
    return groups


def _curve(rows: Any, label: str, color: int | str, style: str, marker: str, opacity: float = 1.0) -> list[Line]:
    if not len(rows):
        return []
    rows = rows.sort_values("alpha")
    x, y, bar = (rows[name].to_numpy(dtype=float) for name in ("alpha", "height", "bar"))
    return [Line(x, y, label, color, style, marker, y - bar, y + bar, opacity=opacity, name=label)]
