"""Learned inverse links of two classes, with their uncertainty if available."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from legendretron.plots.axes import COLOURS, add_legend, axes_or_new

__all__ = ["LinkDisplay"]

#: Line styles, one for each round of colours.
STYLES = ("-", "--", ":", "-.")


class LinkDisplay:
    """Probability against predictor, one curve per model; a band where a model has a posterior of its link.

    These are inverse links. Every model has its own unit of the predictor ``z``, so that curves of different models also
    differ in the scale of ``z``, not only in shape. A band is the uncertainty of the link given the model's predictor.

    Parameters
    ----------
    z : array of shape (m,)
        Predictors, increasing.
    curves : mapping of str to array of shape (m,)
        Probabilities of the second class, by the name of the model.
    bands : mapping of str to pair of arrays of shape (m,), optional
        Lower and upper bounds, of the models that have them.
    """

    def __init__(
        self,
        z: ArrayLike,
        curves: Mapping[str, np.ndarray],
        bands: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    ) -> None:
        self.z, self.curves, self.bands = np.asarray(z, dtype=float), dict(curves), dict(bands or {})

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        z: ArrayLike,
        *,
        level: float = 0.9,
        n_samples: int = 500,
        random_state: Any = 0,
        ax: Any = None,
    ) -> LinkDisplay:
        """Draw fitted link learners.

        Parameters
        ----------
        estimators : mapping of str to estimator
            With ``inverse_link``; those with ``sample_log_odds`` get the mean of the posterior and a band.
        z : array of shape (m,)
            Predictors to draw at, increasing.
        level : float
            Posterior probability of the band at each point.
        n_samples, random_state : int, int or RandomState
            Number of links to sample for it, and their seed.
        ax : matplotlib axes, optional
            Where to draw.
        """
        z = np.asarray(z, dtype=float)
        curves, bands = {}, {}
        for name, estimator in estimators.items():
            if hasattr(estimator, "sample_log_odds"):
                p = expit(estimator.sample_log_odds(z, n_samples, random_state))
                curves[name] = p.mean(0)
                low, high = np.quantile(p, [(1 - level) / 2, (1 + level) / 2], axis=0)
                bands[name] = (low, high)
            else:
                curves[name] = estimator.inverse_link(z)
        return cls(z, curves, bands).plot(ax=ax)

    def plot(self, ax: Any = None) -> LinkDisplay:
        """Draw on the axes given, or on new ones."""
        ax = self.ax_ = axes_or_new(ax, figsize=(6.4, 4.2))
        self.figure_ = ax.figure
        for number, (name, p) in enumerate(self.curves.items()):
            round_, index = divmod(number, len(COLOURS))
            colour, style = COLOURS[index], STYLES[round_ % len(STYLES)]
            ax.plot(self.z, p, color=colour, linestyle=style, linewidth=1.4, label=name)
            if name in self.bands:
                ax.fill_between(self.z, *self.bands[name], color=colour, alpha=0.25, linewidth=0)
        ax.set(xlabel="predictor, in each model's own unit", ylabel="probability of the second class")
        ax.set(ylim=(-0.03, 1.03), title="Learned inverse links")
        add_legend(ax)
        return self
