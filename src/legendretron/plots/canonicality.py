"""How far links are from canonical, over the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from legendretron._internal.validation import check_integer
from legendretron.links import Link
from legendretron.links.canonicality import CanonicalityCheck, canonicality, jacobian_defects
from legendretron.plots.axes import COLORS, add_legend_below, axes_or_new, marker_of
from legendretron.plots.chart import Display
from legendretron.plots.models import core, draw_rows, link_of, name_models, predictors

#: Eigenvalue ratios closer to zero than this are drawn on a linear scale.
_LINEAR = 1e-3


@dataclass(frozen=True)
class MeasuredLink:
    """A link's Jacobians at data, as :class:`CanonicalityDisplay` draws them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from legendretron import MultinomialLogisticClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> display = CanonicalityDisplay.from_estimator(MultinomialLogisticClassifier(alpha=0.01).fit(X, y), X, name="softmax")
    >>> display.measured["softmax"].asymmetry.shape
    (150,)
    """

    asymmetry: np.ndarray  #: (n,), ``|J - J^T| / |J|`` at each row
    eigenvalue_ratio: np.ndarray  #: (n,), smallest eigenvalue of the symmetric part over its largest in size
    check: CanonicalityCheck  #: the summary

    @classmethod
    def of(cls, link: Link, z: torch.Tensor) -> MeasuredLink:
        """Measure a link at predictors ``(n, C - 1)``."""
        defects = jacobian_defects(link, z)
        return cls(defects.asymmetry.double().numpy(), defects.eigenvalue_ratio.double().numpy(), canonicality(link, z))


class CanonicalityDisplay(Display):
    """Asymmetry and definiteness of a link's Jacobian at every row of data.

    To the right, Jacobians are less symmetric; below zero, in the gray area, their symmetric part is indefinite, and the
    link is not monotone there. All points of a canonical link are at the left, at rounding level, where exact zeros are
    drawn as well, and above zero. The legend has the shares over all rows, and over pairs of rows.

    Parameters
    ----------
    measured : mapping of str to MeasuredLink
        By the name of the model.

    Attributes
    ----------
    lines_ : dict of str to line
        Points of each model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from legendretron import MultinomialLogisticClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MultinomialLogisticClassifier(alpha=0.01).fit(X, y)
    >>> CanonicalityDisplay.from_estimator(clf, X).measured["MultinomialLogisticClassifier"].check.indefinite_share
    0.0
    """

    def __init__(self, measured: Mapping[str, MeasuredLink]) -> None:
        self.measured = name_models("measured", dict(measured))

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, max_points: int = 2000, seed: int = 0, name: str | None = None, ax: Any = None
    ) -> CanonicalityDisplay:
        """Measure the links of one or several fitted classifiers at the predictors of data, and draw.

        Parameters
        ----------
        estimator : estimator, sequence of estimators, or mapping of str to estimator
            Fitted, with ``link_``; also inside a pipeline or a search.
        X : array of shape (n, n_features)
            Rows to measure at.
        max_points, seed : int
            If there are more rows, this many are drawn at random, the same for all models.
        name, ax
            Name of a single estimator, by default that of its class; and matplotlib axes to draw on.
        """
        check_integer("max_points", max_points, 1)
        check_integer("seed", seed, 0)
        measured = {}
        for key, model in name_models("estimator", estimator, name).items():
            inner, features = core(model, X)
            link, z = link_of(inner), predictors(inner, features)
            measured[key] = MeasuredLink.of(link, z[draw_rows(len(z), max_points, seed)])
        return cls(measured).plot(ax=ax)

    @classmethod
    def from_links(cls, links: Any, z: torch.Tensor, *, name: str | None = None, ax: Any = None) -> CanonicalityDisplay:
        """Measure one or several links at the same predictors ``(n, C - 1)``, and draw."""
        return cls({key: MeasuredLink.of(link, z) for key, link in name_models("links", links, name).items()}).plot(
            ax=ax
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw on the axes given, or on new ones."""
        ax = self.ax_ = axes_or_new(ax, figsize=(6.4, 4.2 + 0.4 * len(self.measured)))
        self.figure_, self.lines_ = ax.figure, {}
        ax.axhspan(-1.6, 0.0, color="0.92", zorder=0)
        ax.axhline(0.0, color="0.5", linewidth=0.8, zorder=1)
        eps = np.finfo(float).eps
        for number, (name, found) in enumerate(self.measured.items()):
            check = found.check
            label = (
                f"{name}: median asymmetry {check.median_asymmetry:.1g}, indefinite at {check.indefinite_share:.0%} of "
                f"{check.n_points:,} rows,\n{check.nonmonotone_share:.1%} of pairs of rows move backwards"
            )
            (self.lines_[name],) = ax.plot(
                np.maximum(found.asymmetry, eps), found.eigenvalue_ratio, marker_of(number),
                color=COLORS[number % len(COLORS)], alpha=0.55, markersize=4,
                markeredgewidth=0, label=label,
            )  # fmt: skip
        ax.set_yscale("symlog", linthresh=_LINEAR)
        ax.set(
            xscale="log", xlim=(eps / 3, 3.0), ylim=(-1.6, 1.6), xlabel="asymmetry of the Jacobian, $|J - J^T|\\,/\\,|J|$",
            ylabel="smallest eigenvalue over the largest in size", title="Canonicality over the data",
        )  # fmt: skip
        ax.text(0.01, 0.02, "indefinite", transform=ax.transAxes, color="0.4", ha="left", va="bottom")
        add_legend_below(ax, columns=1, markerscale=1.4)
        return self
