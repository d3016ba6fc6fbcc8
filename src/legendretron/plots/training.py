"""Learning curves, and strengths that were tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.parameters import spell
from legendretron.plots.axes import (
    COLOURS,
    MARKERS,
    Display,
    add_legend,
    add_legend_below,
    axes_or_new,
    room_for_legend,
    styles,
)
from legendretron.plots.models import core, name_models, single
from legendretron.training import History
from legendretron.tuning.table import COLUMNS


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


_LOGISTIC = "0.35"  # grey: what the learned links, in colours, are compared with
_NOISY = "0.65"


class TuningDisplay(Display):
    """Log-loss on held-out rows against ``alpha``, one curve for logistic regression and one for each ``link_alpha``.

    If it was tried whether some labels are wrong, logistic regression that knows of it has a curve of its own.
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
        model, _ = core(single(cls.__name__, estimator))
        check_is_fitted(model)
        if not hasattr(type(model), "tuning_"):
            raise ValueError(
                f"estimator must choose strengths, as LegendreTronClassifier and MultinomialLogisticClassifier do, got "
                f"{type(model).__name__} without tuning_."
            )
        return cls(model.tuning_).plot(ax=ax)

    def plot(self, ax: Any = None) -> TuningDisplay:
        """Draw on the axes given, or on new ones."""
        ax = self.ax_ = axes_or_new(ax, figsize=(6.4, 4.8))
        self.figure_ = ax.figure
        table, base = heights(self.tuning)
        before = len(ax.containers)
        links = table[~np.isinf(table["link_alpha"])]
        if base is not None:
            ax.axhline(base, color=_LOGISTIC, linewidth=0.8, linestyle=":", zorder=0)
        for colour, (name, own) in zip((_LOGISTIC, _NOISY), logistic_curves(table), strict=True):
            _curve(ax, own, colour, MARKERS[0], name)
        most = links["steps"].max() if len(links) else 0
        for number, (name, own) in enumerate(by_link_alpha(links)):
            look = COLOURS[number % len(COLOURS)], MARKERS[1 + number % (len(MARKERS) - 1)]
            complete = own["steps"] == most
            _curve(ax, own[complete], *look, f"learned link, {name}")
            for steps in sorted(set(own["steps"][~complete])):
                label = f"{name}, after {int(steps):,} of {int(most):,} steps"
                _curve(ax, own[own["steps"] == steps], *look, label, faint=True)
        chosen = table[table["chosen"].astype(bool)]
        ring = {"color": "none", "markeredgecolor": "black", "markersize": 13}
        self.lines_ = {bars.get_label(): bars.lines[0] for bars in ax.containers[before:]}
        (self.lines_["chosen"],) = ax.plot(chosen["alpha"], chosen["height"], "o", label="chosen", **ring)
        alphas = table["alpha"].to_numpy()
        positive = alphas[alphas > 0]
        if len(positive) == len(alphas):
            ax.set_xscale("log")
        else:  # a strength of zero has no place on a logarithmic axis
            ax.set_xscale("symlog", linthresh=positive.min() if len(positive) else 1.0)
        ax.set(
            xlabel="alpha: penalty on the weights",
            ylabel="log-loss on held-out rows",
            title=f"Strengths tried (bars: one standard error{'' if base is None else ' of the difference'})",
        )
        handles, labels = ax.get_legend_handles_labels()
        last = labels.index("chosen") if "chosen" in labels else 0  # matplotlib puts lines before bars
        order = [*range(last), *range(last + 1, len(labels)), last]
        add_legend_below(ax, [handles[place] for place in order])  # curves of strengths fill the axes
        return self


def heights(tuning: Any) -> tuple[Any, float | None]:
    """Candidates with heights and bars to draw, and the height of the best logistic regression if it was tried."""
    table = tuning[np.isfinite(tuning["log_loss"])].sort_values("held_out_rows", ascending=False, kind="stable")
    logistic = table[np.isinf(table["link_alpha"])]
    # a candidate that was tried on some rows and then on all of them is drawn once
    table = table.drop_duplicates(["alpha", "link_alpha", "steps", "label_noise"])
    if not len(logistic):
        return table.assign(height=table["log_loss"], bar=table["standard_error"]), None
    base = float(logistic["log_loss"][logistic["difference"] == 0].iloc[0])
    return table.assign(height=base + table["difference"], bar=table["difference_error"]), base


def logistic_curves(table: Any) -> list[tuple[str, Any]]:
    """Candidates without a learned link: those that trust the labels, and those that take some to be wrong."""
    logistic = table[np.isinf(table["link_alpha"])]
    noisy = logistic["label_noise"] > 0
    # several rates of noise were tried with a strength; the best of them is drawn
    best = logistic[noisy].sort_values("height").drop_duplicates("alpha")
    return [("logistic regression", logistic[~noisy]), ("logistic regression, wrong labels", best)]


def by_link_alpha(links: Any) -> list[tuple[str, Any]]:
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


def _curve(ax: Any, rows: Any, colour: str, marker: str, label: str | None, faint: bool = False) -> None:
    if not len(rows):
        return
    rows = rows.sort_values("alpha")
    ax.errorbar(
        rows["alpha"],
        rows["height"],
        yerr=rows["bar"],
        color=colour,
        marker=marker,
        markersize=4 if faint else 5,
        linewidth=1.0 if faint else 1.4,
        linestyle="--" if faint else "-",
        elinewidth=0.8,
        capsize=2,
        alpha=0.35 if faint else 1.0,
        label=label,
    )
