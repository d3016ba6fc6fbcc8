"""The inverse link of three classes: probabilities over the plane of predictors, or the plane in the triangle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from legendretron._internal.validation import check_choice, check_integer
from legendretron.links import Link, SoftmaxLink
from legendretron.links.canonicality import jacobian_defects
from legendretron.plots.axes import COLORS, axes_or_new
from legendretron.plots.chart import Display
from legendretron.plots.models import (
    as_columns,
    check_classes,
    classes_of,
    core,
    format_label,
    inverse_link,
    like,
    link_of,
    predictors,
    single,
)
from legendretron.plots.triangle import draw_frame, to_plane

#: One marker for each class, so that they can be told apart without colors.
_MARKERS = ("o", "s", "^")
#: How far the plane is drawn around the data, as a share of their range, and without data in units of the predictor.
_AROUND, _WITHOUT_DATA = 0.25, 6.0
#: Dark red, pale enough for points and lines to be seen through it.
_HATCH = (0.6, 0.0, 0.0, 0.35)


class ProbabilityMapDisplay(Display):
    """How a link of three classes turns predictors into probabilities.

    In the space ``"predictors"``, the color at a point of the plane is the mixture of the classes' colors by their
    probabilities; black lines separate the most probable classes, and gray ones are where the largest probability is 0.9.
    Where the symmetric part of the Jacobian is indefinite, the plane is hatched: a canonical link has no such place.

    In the space ``"triangle"``, even lines of the plane are drawn where the link takes them in the triangle of probabilities;
    those of the softmax are gray. The unit and the origin of predictors are arbitrary. They are chosen so that the lines of
    both links meet in the middle of the triangle, with cells of the same area there.

    Points are rows of data, with the colors of their labels.

    Parameters
    ----------
    link : Link or None
        Of three classes; None to draw data alone.
    z : array of shape (n, 2), optional
        Predictors of data.
    p : array of shape (n, 3), optional
        Probabilities of data, if there is no link.
    columns : array of int of shape (n,), optional
        Their labels, as column numbers.
    classes : sequence of three, optional
        Names of the classes.

    Attributes
    ----------
    indefinite_share_ : float
        Share of the drawn plane where the Jacobian is indefinite; only in the space ``"predictors"``.
    lines_ : dict of str to lines
        Points of each class, by its name.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from legendretron import MultinomialLogisticClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MultinomialLogisticClassifier(alpha=0.01).fit(X, y)
    >>> ProbabilityMapDisplay.from_estimator(clf, X, y).indefinite_share_
    0.0
    """

    def __init__(
        self,
        link: Link | None,
        z: ArrayLike | None = None,
        p: ArrayLike | None = None,
        columns: ArrayLike | None = None,
        classes: Any = None,
    ) -> None:
        if link is not None and (not isinstance(link, Link) or link.n_classes != 3):
            got = f"{link.n_classes} classes" if isinstance(link, Link) else type(link).__name__
            raise ValueError(f"ProbabilityMapDisplay needs a link of three classes, got {got}.")
        if link is None and p is None:
            raise ValueError("p must be given if there is no link.")
        self.link, self.classes = link, check_classes(classes, 3)
        self.z = None if z is None else np.asarray(z, dtype=float)
        if self.z is not None and (self.z.ndim != 2 or self.z.shape[1] != 2 or not np.isfinite(self.z).all()):
            raise ValueError(f"z must contain finite predictors of shape (n, 2), got shape {self.z.shape}.")
        if p is None and self.z is not None and link is not None:
            p = inverse_link(link, self.z)
        self.p = None if p is None else np.asarray(p, dtype=float)
        if self.p is not None and (self.p.ndim != 2 or self.p.shape[1] != 3):
            raise ValueError(f"p must have shape (n, 3), got {self.p.shape}.")
        if self.p is not None and not (self.p.min() >= 0 and np.allclose(self.p.sum(1), 1, atol=1e-4)):
            raise ValueError("p must contain probabilities that sum to 1 in every row.")
        self.columns = None if columns is None else np.asarray(columns)
        if self.columns is not None and (self.p is None or self.columns.shape != (len(self.p),)):
            raise ValueError(f"there must be a label for each row of data, got {len(self.columns)} labels.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        space: str = "predictors",
        n_grid: int = 150,
        ax: Any = None,
    ) -> ProbabilityMapDisplay:
        """Draw the link of a fitted classifier.

        Parameters
        ----------
        estimator : estimator
            Fitted to three classes, with ``link_``; also inside a pipeline or a search.
        X : array of shape (n, n_features), optional
            Rows to draw as points.
        y : array of shape (n,), optional
            Their labels.
        space : {"predictors", "triangle"}
            See the class.
        n_grid : int
            Number of points along each axis of the plane.
        ax : matplotlib axes, optional
            Where to draw.
        """
        if X is None and y is not None:
            raise ValueError("y needs X: labels are drawn where their rows are.")
        model, X = core(single(cls.__name__, estimator), X)
        classes = classes_of(model)
        link = link_of(model)
        z = None if X is None else predictors(model, X).numpy()
        columns = None if y is None else as_columns(y, len(classes), classes)[0]
        return cls(link, z, None, columns, classes).plot(space=space, n_grid=n_grid, ax=ax)

    @classmethod
    def from_predictions(
        cls, y: ArrayLike, p: ArrayLike, *, classes: Any = None, ax: Any = None
    ) -> ProbabilityMapDisplay:
        """Draw the predictions of any model as points in the triangle.

        Parameters
        ----------
        y : array of shape (n,)
            Labels of any kind.
        p : array of shape (n, 3)
            Probabilities.
        classes : sequence of three, optional
            Class of each column; by default 0, 1, 2 if all labels are among them and 0 occurs, else the sorted
            labels, of which none may be missing.
        ax : matplotlib axes, optional
            Where to draw.
        """
        if isinstance(p, Mapping):
            single(cls.__name__, p)
        columns, names = as_columns(y, 3, classes)
        return cls(None, None, p, columns, names).plot(space="triangle", ax=ax)

    def plot(self, ax: Any = None, *, space: str = "predictors", n_grid: int = 150) -> Self:
        """Draw on the axes given, or on new ones; see :meth:`from_estimator`."""
        check_choice("space", space, ("predictors", "triangle"))
        check_integer("n_grid", n_grid, 2)
        if space == "predictors" and self.link is None:
            raise ValueError("space='predictors' needs a link; use space='triangle' for predictions alone.")
        ax = self.ax_ = axes_or_new(ax, figsize=(5.6, 4.8))
        self.figure_, self.lines_ = ax.figure, {}
        if space == "predictors":
            self._draw_plane(ax, n_grid)
            self._draw_points(ax, self.z)
        else:
            self._draw_triangle(ax)
            self._draw_points(ax, None if self.p is None else to_plane(self.p))
        return self

    def _draw_points(self, ax: Any, places: np.ndarray | None) -> None:
        look = {"linestyle": "none", "markersize": 3.5, "markeredgecolor": "white", "markeredgewidth": 0.3, "zorder": 6}
        if places is not None and self.columns is None:
            (self.lines_["data"],) = ax.plot(*places.T, marker="o", color="0.15", label="data", **look)
        for k, label in enumerate(self.classes):
            own = np.empty((0, 2)) if places is None or self.columns is None else places[self.columns == k]
            (self.lines_[str(label)],) = ax.plot(
                *own.T, marker=_MARKERS[k], color=COLORS[k], label=format_label(label), **look
            )
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0}
        handles, labels = ax.get_legend_handles_labels()
        if len(handles):
            ax.legend(handles, labels, frameon=False, fontsize="small", markerscale=1.4, **beside)

    def _draw_plane(self, ax: Any, n_grid: int) -> None:
        assert self.link is not None
        low, high = np.full(2, -_WITHOUT_DATA), np.full(2, _WITHOUT_DATA)
        if self.z is not None:
            low, high = self.z.min(0), self.z.max(0)
            around = np.maximum(_AROUND * (high - low), 1.0)
            low, high = low - around, high + around
        axes = [np.linspace(a, b, n_grid) for a, b in zip(low, high, strict=True)]
        z = np.stack(np.meshgrid(*axes, indexing="xy"), -1)
        p = inverse_link(self.link, z.reshape(-1, 2)).reshape(n_grid, n_grid, 3)
        ax.imshow(
            p @ _pale(),
            origin="lower",
            extent=(low[0], high[0], low[1], high[1]),
            aspect="auto",
            interpolation="bilinear",
        )
        top = np.sort(p, -1)
        for k in range(3):  # where a class becomes the most probable one
            lead = p[..., k] - np.delete(p, k, -1).max(-1)
            if lead.min() < 0 < lead.max():
                ax.contour(*axes, lead, levels=[0.0], colors="black", linewidths=1.0)
        if top[..., -1].min() < 0.9 < top[..., -1].max():
            ax.contour(*axes, top[..., -1], levels=[0.9], colors="0.35", linewidths=0.7, linestyles="--")
        bad = jacobian_defects(self.link, like(self.link, z.reshape(-1, 2))).indefinite.numpy().reshape(n_grid, n_grid)
        self.indefinite_share_ = float(bad.mean())
        title = "Probabilities over the plane of predictors"
        if bad.any():
            hatched = ax.contourf(*axes, bad.astype(float), levels=[0.5, 1.5], colors="none", hatches=["//"])
            hatched.set(edgecolor=_HATCH, linewidth=0.0)
            title += f"\nhatched: Jacobian indefinite ({self.indefinite_share_:.0%})"
        ax.set(xlabel="$z_1$", ylabel="$z_2$", title=title)

    def _draw_triangle(self, ax: Any) -> None:
        draw_frame(ax, self.classes)
        if self.link is None:
            ax.set_title("Predicted probabilities")
            return
        softmax = SoftmaxLink(3)
        shift, scale = _unit(self.link)
        for link, lines, look, label in (
            (softmax, _lines(), {"color": "0.75", "linewidth": 0.6, "zorder": 1}, "softmax"),
            (self.link, _lines() * scale + shift, {"color": "0.2", "linewidth": 0.7, "zorder": 2}, "link"),
        ):
            for number, line in enumerate(lines):
                ax.plot(*to_plane(inverse_link(link, line)).T, label=label if number == 0 else None, **look)
        ax.set_title("The plane of predictors in the triangle")


def _lines() -> np.ndarray:
    """Lines of the plane, ``(number, points, 2)``, on which a predictor is an even number."""
    along = np.linspace(-12.0, 12.0, 400)
    levels = np.arange(-4, 5, 2)
    fixed, free = np.broadcast_arrays(levels[:, None], along)
    return np.concatenate([np.stack([fixed, free], -1), np.stack([free, fixed], -1)]).astype(float)


def _unit(link: Link) -> tuple[np.ndarray, float]:
    """Predictor of equal probabilities, and how many units there make as much of a difference as one of the softmax."""
    with torch.no_grad():
        middle = link.link(like(link, np.full((1, 3), 1 / 3)))
        area = float(torch.linalg.det(link.jacobian(middle)[0]).abs())
    of_softmax = 1 / 27  # the determinant of diag(p) - p p^T at thirds is the product of all three
    return middle.double().numpy()[0], float(np.sqrt(of_softmax / area))


def _pale() -> np.ndarray:
    """Colors of the classes, light enough for points and lines in front of them."""
    from matplotlib.colors import to_rgb

    return 1.0 - 0.55 * (1.0 - np.array([to_rgb(color) for color in COLORS[:3]]))
