"""Partial losses and Bayes risk of two classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from legendretron._internal.validation import check_choice, check_integer
from legendretron.links import NoisyLink
from legendretron.losses import LogLoss, ProperLoss
from legendretron.plots.chart import Chart, Display, Line, line_width
from legendretron.plots.models import (
    check_classes,
    classes_of,
    core,
    format_label,
    link_of,
    name_models,
    partial_losses,
    scale_to_log,
)

#: Line styles of the loss of the first label, of the second, and of the Bayes risk.
STYLES: Any = ("--", "-", ":")
#: Most a loss shows of its infinite ends: that of the log-loss at a probability of 1 %.
_HIGHEST = math.log(100)


class LossDisplay(Display):
    r"""Losses of two classes against the predicted probability: a partial loss for each label, and the Bayes risk.

    With the probability ``q`` of the second class, partial losses are what a forecast costs if a label is true,
    :math:`\ell_1(q)` and :math:`\ell_2(q)`, and the Bayes risk is what an honest forecast costs on average,
    :math:`(1 - q) \ell_1(q) + q\, \ell_2(q)`. Colors are models, line styles are quantities. The log-loss is drawn in gray.

    The unit of a learned loss is that of its predictor, which is arbitrary, since weights can be multiplied by anything. By
    default losses are therefore scaled to a Bayes risk of log 2 at one half, as that of the log-loss.

    Parameters
    ----------
    probability : array of shape (m,)
        Probabilities of the second class, increasing, strictly between 0 and 1.
    losses : mapping of str to array of shape (m, 2)
        Partial losses, by the name of the model.
    classes : pair, optional
        Names of the classes.
    scale : {"log", "own"}
        Whether losses are scaled to the Bayes risk of the log-loss at one half, or drawn as they are.

    Attributes
    ----------
    losses : dict of str to ndarray of shape (m, 2)
        Partial losses as drawn.
    bayes_risk_ : dict of str to ndarray of shape (m,)
        Bayes risk as drawn.
    lines_ : dict of str to tuple of lines
        Of the loss of the first label, of the second, and of the Bayes risk.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from legendretron import LegendreTronClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = LegendreTronClassifier(alpha=0.01, link_alpha=1e-3, random_state=0).fit(X, y)
    >>> LossDisplay.from_estimator(clf).ax_.get_xlabel()
    'predicted probability of class 1'
    """

    def __init__(
        self, probability: ArrayLike, losses: Mapping[str, ArrayLike], classes: Any = None, scale: str = "log"
    ) -> None:
        q = self.probability = np.asarray(probability, dtype=float)
        if q.ndim != 1 or len(q) < 2 or not ((q > 0) & (q < 1)).all() or not (np.diff(q) > 0).all():
            raise ValueError("probability must increase strictly between 0 and 1, and hold at least two values.")
        self.classes = check_classes(classes, 2)
        self.scale = check_choice("scale", scale, ("log", "own"))
        self.losses, self.bayes_risk_ = {}, {}
        for name, values in name_models("losses", dict(losses)).items():
            partial = np.asarray(values, dtype=float)
            if partial.shape != (len(q), 2):
                raise ValueError(f"losses of {name!r} must have shape {(len(q), 2)}, got {partial.shape}.")
            risk = (1 - q) * partial[:, 0] + q * partial[:, 1]
            middle = float(np.interp(0.5, q, risk))
            factor = scale_to_log(middle, 2) if scale == "log" else 1.0
            self.losses[name], self.bayes_risk_[name] = factor * partial, factor * risk

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        scale: str = "log",
        n_points: int = 401,
        name: str | None = None,
        ax: Any = None,
        log_loss: bool = True,
    ) -> LossDisplay:
        """Draw the learned loss of a fitted classifier, or of several.

        Parameters
        ----------
        estimator : estimator, sequence of estimators, or mapping of str to estimator
            Fitted to two classes, with ``loss_``; also inside a pipeline or a search.
        scale : {"log", "own"}
            See the class.
        n_points : int
            Number of probabilities to draw at.
        name, ax
            Name of a single estimator, by default that of its class; and matplotlib axes to draw on.
        log_loss : bool
            Whether to draw the log-loss as well.
        """
        models = {key: core(model)[0] for key, model in name_models("estimator", estimator, name).items()}
        q = _probabilities(n_points)
        losses, classes = {}, None
        for key, model in models.items():
            own = classes_of(model)
            _check_two(len(own))
            if classes is not None and not np.array_equal(own, classes):
                raise ValueError(f"estimators must have the same classes, got {own[::-1]} and {classes[::-1]}.")
            classes = own
            # the classes of a link of two are in reverse order
            link = link_of(model)
            link = link.clean if isinstance(link, NoisyLink) else link  # a floor has no loss below it
            losses[key] = partial_losses(link, q[:, ::-1])[:, ::-1]
        assert classes is not None
        return cls(q[:, 1], losses, classes[::-1], scale).plot(ax=ax, log_loss=log_loss)

    @classmethod
    def from_losses(
        cls,
        losses: Any,
        *,
        classes: Any = None,
        scale: str = "log",
        n_points: int = 401,
        name: str | None = None,
        ax: Any = None,
        log_loss: bool = True,
    ) -> LossDisplay:
        """Draw proper losses, such as ``LogLoss()`` or one that was loaded from a file.

        Parameters
        ----------
        losses : ProperLoss, sequence of losses, or mapping of str to loss
            Of two classes, or of any number.
        classes : pair, optional
            Names of the classes, in the order of the losses.
        scale, n_points, name, ax, log_loss
            As in :meth:`from_estimator`.
        """
        q, found = _probabilities(n_points), {}
        for key, loss in name_models("losses", losses, name).items():
            if not isinstance(loss, ProperLoss):
                raise ValueError(
                    f"losses must be proper losses, got {type(loss).__name__}; for estimators, from_estimator."
                )
            _check_two(loss.n_classes or 2)
            found[key] = partial_losses(loss, q)
        return cls(q[:, 1], found, classes, scale).plot(ax=ax, log_loss=log_loss)

    def chart(self, *, log_loss: bool = True) -> Chart:
        """Return what is to be drawn, the log-loss in gray if it is wanted."""
        q, lines = self.probability, []
        if log_loss:
            own = partial_losses(LogLoss(), np.stack([1 - q, q], 1))
            lines += _curves(q, own, (1 - q) * own[:, 0] + q * own[:, 1], "log-loss", "0.75", 4.0)
        for number, (name, partial) in enumerate(self.losses.items()):
            own_lines = _curves(q, partial, self.bayes_risk_[name], name, number, line_width(number))
            lines += [replace(line, name=f"{name} {place}") for place, line in enumerate(own_lines)]
        first, second = map(format_label, self.classes)
        texts, nowhere = (f"loss if {first} is true", f"loss if {second} is true", "Bayes risk"), np.full(2, np.nan)
        lines += [Line(nowhere, nowhere, text, "0.2", style) for style, text in zip(STYLES, texts, strict=True)]
        unit = "loss (scaled: Bayes risk log 2 at ½)" if self.scale == "log" else "loss"
        highest = _HIGHEST * (max(map(np.max, self.bayes_risk_.values())) / math.log(2) if self.scale == "own" else 1.0)
        axes = f"predicted probability of {second}", unit
        return Chart(*axes, lines, "Partial losses and Bayes risk", (0.0, 1.0), (0.0, highest), legend="below")

    def plot(self, ax: Any = None, *, log_loss: bool = True) -> Self:
        """Draw on the axes given, or on new ones, the log-loss in gray if it is wanted."""
        drawn = self._draw(self.chart(log_loss=log_loss), ax).lines_
        self.lines_ = {name: tuple(drawn[f"{name} {place}"] for place in range(3)) for name in self.losses}
        return self


def _curves(
    q: np.ndarray, partial: np.ndarray, risk: np.ndarray, name: str, color: int | str, width: float
) -> list[Line]:
    """The loss of each label, and the Bayes risk; one of them is in the legend, for the model."""
    return [
        Line(q, values, label, color, style, width=width)
        for values, label, style in zip((*partial.T, risk), ("", name, ""), STYLES, strict=True)
    ]


def _probabilities(n_points: int) -> np.ndarray:
    check_integer("n_points", n_points, 2)
    q = (np.arange(n_points) + 0.5) / n_points
    return np.stack([1 - q, q], 1)


def _check_two(n_classes: int) -> None:
    if n_classes != 2:
        raise ValueError(
            f"LossDisplay is for two classes, got {n_classes}; TriangleDisplay draws a loss of three classes."
        )
