"""BregmanTron: the link is refitted by a Bregman projection, and keeps an inverse."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch

from legendretron._internal.sklearn_compat import Interval, StrOptions
from legendretron.links import Link
from legendretron.trons.base import SHARED, TronDescent, WithLink
from legendretron.trons.bregman_projection import BregmanGenerator, bregman_projection, clip_slopes
from legendretron.trons.lipschitz_isotonic import lipschitz_isotonic
from legendretron.trons.piecewise_link import PiecewiseLinearLink


class BregmanTronClassifier(WithLink, TronDescent):
    r"""Linear classifier that learns a proper canonical loss: SlIsotron with the Bregman divergence of its own loss.

    In turn, the predictor takes one gradient step of the current canonical loss, as in
    :class:`~legendretron.trons.GLMTronClassifier`; then the values at the new predictors become

    .. math:: \hat y \leftarrow \arg\min_u \sum_i w_i D_\varphi(u_i \,\|\, \hat y_i) \quad\text{with}\quad
              n \, (z_j - z_i) \le u_j - u_i \le N \, (z_j - z_i) \text{ for } z_i \le z_j, \quad
              \epsilon \le u_i \le 1 - \epsilon ,

    with :math:`\varphi` the negative Bayes risk of the current loss and :math:`\hat y` the values that the current inverse
    link gives at the new predictors. The new inverse link goes through the solution in straight lines. Its slopes are
    bounded away from zero, so it has an inverse and stays in ``(0, 1)``: ``link_`` and ``loss_`` always exist.

    *Ours*, where Nock and Menon leave a choice or the infinite must be avoided: the first link, a sigmoid; constant
    :math:`n` (lowered where the range of the predictors would not fit) and :math:`N`; the margin :math:`\epsilon`; a table of
    few knots; sigmoid tails beyond the data; the size of the step; and what ``"approx"`` does.

    With constant bounds the values before obey them already, or nearly, and the projection of values that obey the bounds
    is those values. So ``"exact"`` and ``"approx"`` stay near their first link, the sigmoid, mostly learn the predictor, and
    coincide, but for far tails where the sigmoid is flatter than :math:`n` and they differ a little. Only
    ``"label"`` learns the shape of the link.

    Parameters
    ----------
    variant : {"exact", "label", "approx"}, default="exact"
        ``"exact"``: the projection above. ``"label"``: the labels are projected instead of the values before, in the sense
        of :math:`\sum_i w_i D_\varphi(y_i \,\|\, u_i)`, for which labels may be 0 and 1 and the best constant is their
        mean. Over increasing ``u`` the minimum is the same for every :math:`\varphi`, hence that of least squares,
        :func:`~legendretron.trons.lipschitz_isotonic`; that it is least squares under bounds on slopes too, where the
        minima differ, is our choice. ``"approx"``: the projection is replaced by the mean of one greedy pass up and one down,
        :func:`~legendretron.trons.clip_slopes`.
    min_slope, max_slope : float, default=1e-3, 1.0
        :math:`n` and :math:`N`.
    margin : float, default=1e-3
        :math:`\epsilon`.
    n_knots : int, default=100
        Most knots of the link, evenly spaced in rank.
    learning_rate : float or "auto", default="auto"
        As in :class:`~legendretron.trons.GLMTronClassifier`; the slope is the largest of the current inverse link, anew in
        every iteration, or for ``"label"``, whose slopes come and go, ``max_slope``.
    max_iter, tol, early_stopping, validation_fraction, n_iter_no_change
        See :class:`~legendretron.trons.GLMTronClassifier`.
    class_weight, standardize, random_state, verbose
        See :class:`~legendretron.trons.GLMTronClassifier`.

    Attributes
    ----------
    classes_, coef_, intercept_, history_, n_iter_
        See :class:`~legendretron.trons.GLMTronClassifier`.
    link_ : PiecewiseLinearLink
        The learned link; its classes are in the order of ``link_classes_``, the second first.
    loss_ : CanonicalLoss
        The learned loss.

    References
    ----------
    Nock, Menon (2020), Supervised learning: no loss no cry, ICML.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = BregmanTronClassifier(max_iter=50).fit(X, y)
    >>> clf.score(X, y) > 0.95
    True
    >>> clf.loss_.bayes_risk(torch.tensor([0.5, 0.5], dtype=torch.float64)).shape
    torch.Size([])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED,
        "variant": [StrOptions({"exact", "label", "approx"})],
        "min_slope": [Interval(Real, 0, None, closed="neither")],
        "max_slope": [Interval(Real, 0, None, closed="neither")],
        "margin": [Interval(Real, 1e-12, 0.5, closed="left")],
        "n_knots": [Interval(Integral, 2, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        variant: str = "exact",
        *,
        min_slope: float = 1e-3,
        max_slope: float = 1.0,
        margin: float = 1e-3,
        n_knots: int = 100,
        learning_rate: float | str = "auto",
        max_iter: int = 100,
        tol: float = 1e-7,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        class_weight: dict[Any, float] | str | None = None,
        standardize: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.variant = variant
        self.min_slope = min_slope
        self.max_slope = max_slope
        self.margin = margin
        self.n_knots = n_knots
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, *data: Any) -> np.ndarray:
        if self.min_slope > self.max_slope:
            raise ValueError(
                f"min_slope must not exceed max_slope, got min_slope={self.min_slope!r}, max_slope={self.max_slope!r}."
            )
        return super()._learn(*data)

    def _next_link(self, link: Link, z: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Link:
        width = float(z.max() - z.min())
        if width == 0.0 and self.variant != "label":
            return link  # all predictors tied: nothing to learn the link from
        low, high = float(self.margin), 1.0 - float(self.margin)
        # half of the room at most is spent on the least slope
        lower = min(float(self.min_slope), (high - low) / (2 * width)) if width else float(self.min_slope)
        bounds = {"lower": lower, "upper": max(float(self.max_slope), lower), "y_min": low, "y_max": high}
        if self.variant == "label":
            u = lipschitz_isotonic(z, y, weight, **bounds)
        elif self.variant == "approx":
            u = clip_slopes(z, np.clip(self._apply(link, z), low, high), **bounds)
        else:
            values = np.clip(self._apply(link, z), low, high)
            u = bregman_projection(z, values, BregmanGenerator.of_link(link), weight, **bounds)
        return PiecewiseLinearLink.from_points(z, u, int(self.n_knots))

    def _apply(self, link: Link, z: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return link.inverse(torch.as_tensor(z).unsqueeze(-1))[:, 0].numpy()

    def _steepest(self, link: Link) -> float:
        if self.variant == "label":
            return float(self.max_slope)
        return link.largest_slope if isinstance(link, PiecewiseLinearLink) else 0.25  # that of the sigmoid
