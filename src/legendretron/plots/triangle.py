"""The triangle of three probabilities, and partial losses and Bayes risk of three classes in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from legendretron._internal.validation import check_choice, check_integer
from legendretron.losses import CompositeLoss, ProperLoss
from legendretron.plots.axes import panels_or_new
from legendretron.plots.chart import Display
from legendretron.plots.models import (
    check_classes,
    classes_of,
    core,
    format_label,
    link_of,
    partial_losses,
    scale_to_log,
    single,
)

#: Corners of the first, second and third class.
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def to_plane(p: np.ndarray) -> np.ndarray:
    """Return the places of probabilities in the plane, ``(..., 3) -> (..., 2)``."""
    places: np.ndarray = np.asarray(p) @ CORNERS
    return places


def grid(n: int, margin: float) -> np.ndarray:
    """Return an even grid of probabilities ``(m, 3)`` with ``n`` steps along a side, none of them below ``margin``."""
    first, second = (part.ravel() for part in np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij"))
    inside = first + second <= n
    p = np.stack([first, second, n - first - second], 1)[inside] / n
    return (1 - 3 * margin) * p + margin


def draw_frame(ax: Any, classes: Any) -> None:
    """Draw the sides, and the names of the classes at their corners."""
    ax.plot(*np.vstack([CORNERS, CORNERS[:1]]).T, color="0.3", linewidth=1.0, zorder=5)
    for place, label, offset in zip(CORNERS, classes, ((0, -4), (0, -4), (0, 3)), strict=True):
        ax.annotate(
            format_label(label),
            place,
            offset,
            textcoords="offset points",
            ha="center",
            va="bottom" if offset[1] > 0 else "top",
        )
    ax.set(xlim=(-0.1, 1.1), ylim=(-0.1, 0.98), aspect="equal")
    ax.axis("off")


#: Smallest probability in the picture: losses are infinite at the sides.
_MARGIN = 0.005
_LEVELS = 12


class TriangleDisplay(Display):
    r"""Losses of three classes over the triangle of probabilities: a partial loss for each label, and the Bayes risk.

    A point of the triangle is a forecast ``q``, each corner a class that is certain. The partial losses
    :math:`\ell_i(q)` are what it costs if label ``i`` is true, and the Bayes risk :math:`\sum_i q_i \ell_i(q)` what it costs
    on average if it is honest.

    As in :class:`LossDisplay`, losses are scaled by default, to the Bayes risk log 3 that the log-loss has in the middle.

    On probabilities, the loss of a link that is not canonical is the log-loss, whatever was learned:
    :class:`ProbabilityMapDisplay` shows such a link. The title says so.

    Parameters
    ----------
    p : array of shape (m, 3)
        Probabilities, a grid over the triangle.
    values : mapping of str to array of shape (m,)
        What to draw at these, one panel for each, by its title.
    classes : sequence of three, optional
        Names of the classes.
    title : str
        Title of the whole figure.

    Attributes
    ----------
    axes_ : ndarray of axes
        One for each panel; ``ax_`` is the first.
    lines_ : dict of str to contour set
        By the title of the panel.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from legendretron import MultinomialLogisticClassifier
    >>> clf = MultinomialLogisticClassifier(alpha=0.01).fit(*load_iris(return_X_y=True))
    >>> display = TriangleDisplay.from_estimator(clf, quantity="bayes_risk")
    >>> len(display.axes_), display.ax_.get_title()
    (1, 'Bayes risk')
    """

    def __init__(self, p: ArrayLike, values: Mapping[str, ArrayLike], classes: Any = None, title: str = "") -> None:
        self.p = np.asarray(p, dtype=float)
        if self.p.ndim != 2 or self.p.shape[1] != 3 or len(self.p) < 3:
            raise ValueError(f"p must have shape (m, 3) with m >= 3, got {self.p.shape}.")
        if not values:
            raise ValueError("values must contain at least one panel, got none.")
        self.values = {name: np.asarray(value, dtype=float) for name, value in values.items()}
        for name, value in self.values.items():
            if value.shape != (len(self.p),) or not np.isfinite(value).all():
                raise ValueError(f"values of {name!r} must be {len(self.p)} finite numbers, got shape {value.shape}.")
        self.classes, self.title = check_classes(classes, 3), title

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, quantity: str = "all", scale: str = "log", n_grid: int = 100, ax: Any = None
    ) -> TriangleDisplay:
        """Draw the learned loss of a fitted classifier.

        Parameters
        ----------
        estimator : estimator
            Fitted to three classes, with ``loss_``; also inside a pipeline or a search.
        quantity : {"all", "bayes_risk", "partial_losses"}
            What to draw; the partial losses are three panels.
        scale : {"log", "own"}
            Whether the loss is scaled to the Bayes risk of the log-loss in the middle, or drawn as it is.
        n_grid : int
            Number of steps along a side.
        ax : matplotlib axes or sequence of these, optional
            Where to draw, one for each panel.
        """
        model, _ = core(single(cls.__name__, estimator))
        classes = classes_of(model)
        _check_three(len(classes))
        link_of(model)  # which raises an error if there is none
        return cls._of(model.loss_, classes, quantity, scale, n_grid).plot(ax=ax)

    @classmethod
    def from_loss(
        cls,
        loss: ProperLoss,
        *,
        classes: Any = None,
        quantity: str = "all",
        scale: str = "log",
        n_grid: int = 100,
        ax: Any = None,
    ) -> TriangleDisplay:
        """Draw a proper loss, such as ``SquareLoss()`` or one that was loaded from a file.

        Parameters
        ----------
        loss : ProperLoss
            Of three classes, or of any number.
        classes : sequence of three, optional
            Names of the classes.
        quantity, scale, n_grid, ax
            As in :meth:`from_estimator`.
        """
        if not isinstance(single(cls.__name__, loss), ProperLoss):
            raise ValueError(
                f"loss must be a proper loss, got {type(loss).__name__}; for estimators, use from_estimator."
            )
        _check_three(loss.n_classes or 3)
        return cls._of(loss, classes, quantity, scale, n_grid).plot(ax=ax)

    @classmethod
    def _of(cls, loss: ProperLoss, classes: Any, quantity: str, scale: str, n_grid: int) -> TriangleDisplay:
        check_choice("quantity", quantity, ("all", "bayes_risk", "partial_losses"))
        check_integer("n_grid", n_grid, 2)
        names = check_classes(classes, 3)
        p = grid(n_grid, _MARGIN)
        losses = partial_losses(loss, p)
        if check_choice("scale", scale, ("log", "own")) == "log":
            middle = float(partial_losses(loss, np.full((1, 3), 1 / 3)).mean())
            losses *= scale_to_log(middle, 3)
        values = {"Bayes risk": (p * losses).sum(1)} if quantity != "partial_losses" else {}
        if quantity != "bayes_risk":
            values |= {f"loss if {format_label(label)} is true": losses[:, i] for i, label in enumerate(names)}
        composite = "Log-loss: the link is not canonical" if isinstance(loss, CompositeLoss) else ""
        return cls(p, values, names, composite)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, one for each panel, or on new ones."""
        columns = 1 if len(self.values) == 1 else 3 if len(self.values) == 3 else 2
        self.axes_ = panels_or_new(ax, len(self.values), columns, (4.4, 3.7))
        self.ax_, self.lines_ = self.axes_[0], {}
        self.figure_ = self.ax_.figure
        from matplotlib.ticker import MaxNLocator

        partial = [value for name, value in self.values.items() if name != "Bayes risk"]
        # losses become infinite at the sides: colors end where the log-loss has a probability of 2 %
        middle = (
            float(np.mean([value[np.abs(self.p - 1 / 3).sum(1).argmin()] for value in partial])) if partial else 0.0
        )
        highest = min(float(np.max(partial, initial=0.0)), middle * math.log(50) / math.log(3))
        places = to_plane(self.p)
        for panel, (name, value) in zip(self.axes_, self.values.items(), strict=True):
            top = float(value.max()) if name == "Bayes risk" else highest  # the same colors for all labels
            levels = MaxNLocator(_LEVELS).tick_values(min(0.0, float(value.min())), top)
            drawn = panel.tricontourf(*places.T, value, levels=levels, cmap="viridis", extend="max")
            panel.tricontour(*places.T, value, levels=levels, colors="white", linewidths=0.5, alpha=0.7)
            self.figure_.colorbar(drawn, ax=panel, shrink=0.75, pad=0.02)
            draw_frame(panel, self.classes)
            panel.set_title(name)
            self.lines_[name] = drawn
        if self.title and ax is None:
            self.figure_.suptitle(self.title)
        elif self.title:
            self.ax_.set_title(f"{next(iter(self.values))}\n({self.title})")
        return self


def _check_three(n_classes: int) -> None:
    if n_classes != 3:
        other = "; LossDisplay draws a loss of two classes" if n_classes == 2 else ""
        raise ValueError(f"TriangleDisplay is for three classes, got {n_classes}{other}.")
