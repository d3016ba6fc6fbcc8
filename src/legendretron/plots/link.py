"""Learned inverse links of two classes, with their uncertainty if available."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.validation import check_choice, check_integer, check_open_unit
from legendretron.plots.axes import COLORS, LINES
from legendretron.plots.chart import Chart, Display, Line, line_width
from legendretron.plots.models import core, format_label, inverse_link, link_of, name_models, predictors, sigmoid_unit

#: How far links are drawn in the sigmoid's unit, where its probability is 0.001 or 0.999.
_END = 7.0
_POINTS = 401


class LinkDisplay(Display):
    """Probability against predictor, one curve per model; a band where a model has a posterior of its link.

    These are inverse links. Every model has its own unit of the predictor ``z``, which is arbitrary, since weights and
    intercept can make up for it. In the *sigmoid's unit*, predictors are shifted and scaled so that all curves have the
    probabilities 1/4 and 3/4 where the sigmoid has them: what remains is the difference in shape. A band is the uncertainty
    of the link given the model's predictor.

    Parameters
    ----------
    z : array of shape (m,)
        Predictors, increasing.
    curves : mapping of str to array of shape (m,)
        Probabilities of the second class, by the name of the model.
    bands : mapping of str to pair of arrays of shape (m,), optional
        Lower and upper bounds, of the models that have them.
    data : mapping of str to array of shape (n,), optional
        Predictors of data, drawn as ticks at the bottom: elsewhere a link was not learned from anything.
    of : str
        Whose probability it is, for the label of the vertical axis.
    unit : {"own", "sigmoid"}
        In which unit the predictors are; the sigmoid's has the sigmoid drawn in gray.

    Attributes
    ----------
    lines_ : dict of str to line
        The curve of each model.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from legendretron import LegendreTronClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = LegendreTronClassifier(alpha=0.01, link_alpha=1e-3, random_state=0).fit(X, y)
    >>> display = LinkDisplay.from_estimator(clf, X)
    >>> bool((np.diff(display.line_.get_ydata()) > 0).all())
    True
    """

    def __init__(
        self,
        z: ArrayLike,
        curves: Mapping[str, np.ndarray],
        bands: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        data: Mapping[str, np.ndarray] | None = None,
        of: str = "the second class",
        unit: str = "own",
    ) -> None:
        self.unit = check_choice("unit", unit, ("own", "sigmoid"))
        self.z = np.asarray(z, dtype=float)
        if self.z.ndim != 1 or not len(self.z) or not np.isfinite(self.z).all():
            raise ValueError(f"z must contain finite predictors of shape (m,), got shape {self.z.shape}.")
        self.curves, self.bands, self.data = name_models("curves", dict(curves)), dict(bands or {}), dict(data or {})
        self.of = of
        for name, curve in self.curves.items():
            if np.shape(curve) != self.z.shape:
                raise ValueError(
                    f"the curve of {name!r} must have shape {self.z.shape}, as z has, got {np.shape(curve)}."
                )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        z: ArrayLike | None = None,
        unit: str = "sigmoid",
        level: float = 0.9,
        n_samples: int = 500,
        random_state: Any = 0,
        name: str | None = None,
        ax: Any = None,
    ) -> LinkDisplay:
        """Draw the inverse link of a fitted classifier of two classes, or of several.

        Parameters
        ----------
        estimator : estimator, sequence of estimators, or mapping of str to estimator
            With ``link_``, as ``LegendreTronClassifier``, or with ``inverse_link``, as the learners in
            ``legendretron.trons``, of which those with ``sample_log_odds`` get the mean of the posterior and a band. Also
            inside a pipeline or a search.
        X : array of shape (n, n_features), optional
            Rows whose predictors are marked at the bottom.
        z : array of shape (m,), optional
            Predictors to draw at, increasing, in the unit; by default from -7 to 7, or for ``unit="own"`` the range of
            those of ``X``.
        unit : {"sigmoid", "own"}
            Unit of the predictors, see the class.
        level : float
            Posterior probability of a band at each point.
        n_samples, random_state : int, int or RandomState
            Number of links to sample for it, and their seed.
        name, ax
            Name of a single estimator, by default that of its class; and matplotlib axes to draw on.
        """
        check_choice("unit", unit, ("own", "sigmoid"))
        check_open_unit("level", level)
        check_integer("n_samples", n_samples, 1)
        links, units, data, seconds = {}, {}, {}, set()
        for key, given in name_models("estimator", estimator, name).items():
            model, features = core(given, X)
            links[key] = link = _sampled_link(key, model, n_samples, random_state)
            seconds.add(format_label(model.classes_.tolist()[1]))
            units[key] = _find_unit(key, link) if unit == "sigmoid" else (0.0, 1.0)
            if X is not None:
                shift, scale = units[key]
                data[key] = (predictors(model, features).numpy().ravel() - shift) / scale
        if z is None:
            if unit == "own" and not data:
                raise ValueError("z or X must be given with unit='own', to set the range of the plot.")
            ends = (
                (-_END, _END)
                if unit == "sigmoid"
                else (min(map(np.min, data.values())), max(map(np.max, data.values())))
            )
            z = np.linspace(*ends, _POINTS)
        z = np.asarray(z, dtype=float)
        curves, bands = {}, {}
        for key, (shift, scale) in units.items():
            own = links[key](shift + scale * z)
            curves[key] = own.mean(0)
            if len(own) > 1:
                low, high = np.quantile(own, [(1 - level) / 2, (1 + level) / 2], axis=0)
                bands[key] = (low, high)
        of = seconds.pop() if len(seconds) == 1 else "the second class"
        return cls(z, curves, bands, data, of, unit).plot(ax=ax)

    def chart(self) -> Chart:
        """Return what is to be drawn."""
        lines = []
        if self.unit == "sigmoid":
            lines.append(Line(self.z, expit(self.z), "sigmoid", "0.75", width=4.0))
        for number, (name, p) in enumerate(self.curves.items()):
            style = LINES[number // len(COLORS) % len(LINES)]
            low, high = self.bands.get(name, (None, None))
            width = line_width(number)
            lines.append(Line(self.z, p, name, number, style, low=low, high=high, width=width, name=name))
            if name in self.data:
                height = np.full(len(self.data[name]), -0.05 - 0.04 * number)
                lines.append(Line(self.data[name], height, "", number, "none", "|", opacity=0.5))
        unit = "in each model's own unit" if self.unit == "own" else "in the sigmoid's unit"
        lowest = -0.03 - (0.02 + 0.04 * len(self.data) if self.data else 0.0)
        ends = (float(self.z[0]), float(self.z[-1]))  # some data may be far away
        axes = f"predictor, {unit}", f"probability of {self.of}"
        return Chart(*axes, lines, "Learned inverse links", ends, (lowest, 1.03))


def _sampled_link(name: str, model: Any, n_samples: int, random_state: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return the inverse link of a fitted classifier, or samples of it, as a function ``(m,) -> (samples, m)``."""
    check_is_fitted(model)
    if len(model.classes_) != 2:
        raise ValueError(
            f"LinkDisplay is for two classes, but {name!r} has {len(model.classes_)}; ProbabilityMapDisplay draws a link "
            "of three classes."
        )
    if hasattr(model, "sample_log_odds"):
        seed = (
            check_random_state(random_state).randint(2**31 - 1)
            if not isinstance(random_state, Integral)
            else random_state
        )
        return lambda z: expit(model.sample_log_odds(z, n_samples, int(seed)))  # the same samples in every call
    if hasattr(model, "inverse_link"):
        return lambda z: np.asarray(model.inverse_link(z))[None]
    link = link_of(model)
    return lambda z: inverse_link(link, z[:, None])[None, :, 0]  # a link of two classes has the second first


def _find_unit(name: str, link: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Return shift and scale of the sigmoid's unit, see :func:`sigmoid_unit`."""
    found = sigmoid_unit(lambda z: link(z).mean(0))
    if found is None:
        raise ValueError(
            f"the link of {name!r} does not rise from a probability of 1/4 to 3/4, so it cannot be drawn in the sigmoid's "
            "unit; use unit='own'."
        )
    return found
