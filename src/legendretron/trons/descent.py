"""GLMTron, SlIsotron and BregmanTron: perceptron-like steps, with a link that is known, or refitted at every step."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.sklearn_compat import Interval, StrOptions
from legendretron.links import Link
from legendretron.trons.base import TronDescent, WithLink
from legendretron.trons.bregman_projection import BregmanGenerator, bregman_projection, clip_slopes
from legendretron.trons.lipschitz_isotonic import lipschitz_isotonic
from legendretron.trons.piecewise_link import PiecewiseLinearLink


class GLMTronClassifier(WithLink, TronDescent):
    r"""Linear classifier with a known link, the sigmoid, by perceptron-like steps.

    .. math:: w \leftarrow w + \eta \sum_i w_i \, (y_i - \sigma(w \cdot x_i + b)) \, x_i

    with weights that sum to one, from ``w = 0``; the iterate with the least squared error is kept. For features inside the
    unit ball and :math:`\eta = 1` this is the algorithm of Kakade et al. (2011). *Ours*: the intercept, features of any
    size with the step that suits them, weights, and the choice of the iterate on the training data (Kakade et al. take fresh
    data).

    Parameters
    ----------
    learning_rate : float or "auto", default="auto"
        :math:`\eta`. ``"auto"``: one over the product of the link's largest slope, 1/4, and the largest eigenvalue of the
        features' second moments; larger steps than twice that can diverge.
    max_iter : int, default=200
        Steps.
    tol : float, default=1e-7
        Least improvement of the squared error that counts.
    n_iter_no_change : int, default=10
        Steps without improvement after which to stop.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    standardize : bool, default=True
        Whether features are centered and scaled inside (only scaled if sparse).
    verbose : int, default=0
        1: a progress bar on a terminal. 2: a line per step.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels, sorted.
    coef_, intercept_ : ndarray of shape (1, n_features), (1,)
        Of the linear predictor, for unscaled features.
    link_ : Link
        The link, here always softmax+; its classes are in the order of ``link_classes_``, the second first.
    loss_ : CanonicalLoss
        Its canonical loss, here the log-loss.
    history_ : History
        Squared errors (in the columns of losses), accuracy and time by step.
    n_iter_ : int
        Steps taken.

    References
    ----------
    Kakade, Kalai, Kanade, Shamir (2011), Efficient learning of generalized linear and single index models with isotonic
    regression, NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> GLMTronClassifier().fit(X, y).score(X, y) > 0.97
    True
    """

    def _next_link(self, link: Any, z: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray]:
        return link, expit(z)

    def _steepest(self, link: Any) -> float:
        return 0.25


class SlIsotronClassifier(TronDescent):
    r"""Linear classifier whose inverse link is any increasing Lipschitz function, learned by isotonic regression.

    In turn, ``u`` is the :func:`~legendretron.trons.lipschitz_isotonic` regression of the labels on the predictors, and

    .. math:: w \leftarrow w + \eta \sum_i w_i \, (y_i - u(w \cdot x_i)) \, x_i .

    What it does **not** guarantee: ``u`` is flat over stretches, and exactly 0 and 1 at its ends, so it has no inverse, the
    log-loss of its probabilities can be infinite, and ``link_`` exists only in the rare case that none of this happened.
    :func:`~legendretron.diagnostics.monotonicity` measures it. The published method is also said to leave ``[0, 1]``; with
    exact regression of labels 0 and 1, and values held constant beyond the data, it does not.

    *Ours*: the step for features of any size, weights, the choice of the iterate with the least squared error, and constant
    values beyond the data.

    Parameters
    ----------
    lipschitz : float, default=1.0
        Largest slope of ``u``. Together with ``learning_rate="auto"`` it only sets the unit of the predictor.
    learning_rate : float or "auto", default="auto"
        :math:`\eta`; ``"auto"`` as in :class:`~legendretron.trons.GLMTronClassifier`, with ``lipschitz`` as the slope.
    max_iter, tol, n_iter_no_change, class_weight, standardize, verbose
        See :class:`~legendretron.trons.GLMTronClassifier`.

    Attributes
    ----------
    knots_, values_ : ndarray of shape (m,)
        The learned ``u``: straight lines between these points.
    classes_, coef_, intercept_, history_, n_iter_
        See :class:`~legendretron.trons.GLMTronClassifier`.
    link_ : Link
        The learned link, where ``u`` has an inverse.

    References
    ----------
    Kakade, Kalai, Kanade, Shamir (2011), Efficient learning of generalized linear and single index models with isotonic
    regression, NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SlIsotronClassifier(max_iter=50).fit(X, y)
    >>> clf.score(X, y) > 0.95
    True
    >>> clf.inverse_link([-100.0, 100.0])
    array([0., 1.])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TronDescent._parameter_constraints,
        "lipschitz": [Interval(Real, 0, None, closed="neither")],
    }
    knots_: np.ndarray
    values_: np.ndarray

    def __init__(
        self,
        *,
        lipschitz: float = 1.0,
        learning_rate: float | str = "auto",
        max_iter: int = 100,
        tol: float = 1e-7,
        n_iter_no_change: int = 10,
        class_weight: dict[Any, float] | str | None = None,
        standardize: bool = True,
        verbose: int = 0,
    ) -> None:
        self.lipschitz = lipschitz
        super().__init__(
            learning_rate=learning_rate, max_iter=max_iter, tol=tol, n_iter_no_change=n_iter_no_change,
            class_weight=class_weight, standardize=standardize, verbose=verbose,
        )  # fmt: skip

    def _next_link(self, link: Any, z: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray]:
        u = lipschitz_isotonic(z, y, weight, upper=float(self.lipschitz))
        knots, first = np.unique(z, return_index=True)
        return (knots, u[first]), u

    def _steepest(self, link: Any) -> float:
        return float(self.lipschitz)

    def _keep(self, link: tuple[np.ndarray, np.ndarray]) -> None:
        self.knots_, self.values_ = link

    def _probability(self, z: np.ndarray) -> np.ndarray:
        return np.interp(z, self.knots_, self.values_)

    @property
    def link_(self) -> PiecewiseLinearLink:
        """The learned link, where the learned function has an inverse."""
        check_is_fitted(self)
        try:
            return PiecewiseLinearLink(self.knots_, self.values_)
        except ValueError as error:
            raise AttributeError(
                "SlIsotron's inverse link is flat over stretches or reaches 0 or 1, so there is no link; "
                f"inverse_link evaluates it as it is, BregmanTronClassifier learns one that has an inverse. ({error})"
            ) from error


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

    With constant bounds, the previous values already satisfy them, or nearly, and projecting such values leaves them
    unchanged. So ``"exact"`` and ``"approx"`` stay close to their first link, the sigmoid, and mostly learn the predictor.
    They coincide except in the far tails, where the sigmoid is flatter than :math:`n`. Only ``"label"`` learns the shape of
    the link.

    Parameters
    ----------
    variant : {"exact", "label", "approx"}, default="exact"
        ``"exact"``: the projection above. ``"label"``: the labels are projected instead of the previous values, see Notes.
        ``"approx"``: the mean of one greedy pass upwards and one downwards, :func:`~legendretron.trons.clip_slopes`.
    min_slope, max_slope : float, default=1e-3, 1.0
        :math:`n` and :math:`N`.
    margin : float, default=1e-3
        :math:`\epsilon`.
    n_knots : int, default=100
        Most knots of the link, evenly spaced in rank.
    learning_rate : float or "auto", default="auto"
        As in :class:`~legendretron.trons.GLMTronClassifier`; the slope is the largest of the current inverse link, anew in
        every iteration, or for ``"label"``, whose slopes come and go, ``max_slope``.
    max_iter, tol, n_iter_no_change, class_weight, standardize, verbose
        See :class:`~legendretron.trons.GLMTronClassifier`.

    Attributes
    ----------
    classes_, coef_, intercept_, history_, n_iter_
        See :class:`~legendretron.trons.GLMTronClassifier`.
    link_ : PiecewiseLinearLink
        The learned link; its classes are in the order of ``link_classes_``, the second first.
    loss_ : CanonicalLoss
        The learned loss.

    Notes
    -----
    ``variant="label"`` minimizes :math:`\sum_i w_i D_\varphi(y_i \,\|\, u_i)`, for which labels may be 0 and 1 and the best
    constant is their mean. Over increasing ``u`` the minimum is the same for every :math:`\varphi`, so it is that of least
    squares, :func:`~legendretron.trons.lipschitz_isotonic`. With bounds on the slopes the minima differ; using least squares
    there, too, is our choice.

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
        **TronDescent._parameter_constraints,
        "variant": [StrOptions({"exact", "label", "approx"})],
        "min_slope": [Interval(Real, 0, None, closed="neither")],
        "max_slope": [Interval(Real, 0, None, closed="neither")],
        "margin": [Interval(Real, 1e-12, 0.5, closed="left")],
        "n_knots": [Interval(Integral, 2, None, closed="left")],
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
        n_iter_no_change: int = 10,
        class_weight: dict[Any, float] | str | None = None,
        standardize: bool = True,
        verbose: int = 0,
    ) -> None:
        self.variant = variant
        self.min_slope = min_slope
        self.max_slope = max_slope
        self.margin = margin
        self.n_knots = n_knots
        super().__init__(
            learning_rate=learning_rate, max_iter=max_iter, tol=tol, n_iter_no_change=n_iter_no_change,
            class_weight=class_weight, standardize=standardize, verbose=verbose,
        )  # fmt: skip

    def _learn(self, *data: Any) -> np.ndarray:
        if self.min_slope > self.max_slope:
            raise ValueError(
                f"min_slope must not exceed max_slope, got min_slope={self.min_slope!r}, max_slope={self.max_slope!r}."
            )
        return super()._learn(*data)

    def _next_link(self, link: Link, z: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[Link, np.ndarray]:
        width = float(z.max() - z.min())
        if width == 0.0 and self.variant != "label":
            return link, _inverse(link, z)  # all predictors tied: nothing to learn the link from
        low, high = float(self.margin), 1.0 - float(self.margin)
        # half of the room at most is spent on the least slope
        lower = min(float(self.min_slope), (high - low) / (2 * width)) if width else float(self.min_slope)
        bounds = {"lower": lower, "upper": max(float(self.max_slope), lower), "y_min": low, "y_max": high}
        if self.variant == "label":
            u = lipschitz_isotonic(z, y, weight, **bounds)
        else:
            values = np.clip(_inverse(link, z), low, high)
            if self.variant == "approx":
                u = clip_slopes(z, values, **bounds)
            else:
                u = bregman_projection(z, values, BregmanGenerator.of_link(link), weight, **bounds)
        learned = PiecewiseLinearLink.from_points(z, u, int(self.n_knots))
        return learned, _inverse(learned, z)

    def _steepest(self, link: Link) -> float:
        if self.variant == "label":
            return float(self.max_slope)
        return link.largest_slope if isinstance(link, PiecewiseLinearLink) else 0.25  # that of the sigmoid


@torch.no_grad()
def _inverse(link: Link, z: np.ndarray) -> np.ndarray:
    return link.inverse(torch.as_tensor(z).unsqueeze(-1))[:, 0].numpy()
