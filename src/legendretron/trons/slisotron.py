"""SlIsotron: the link is refitted by Lipschitz isotonic regression at every step."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.sklearn_compat import Interval, StrOptions
from legendretron.trons.base import SHARED, TronDescent
from legendretron.trons.lipschitz_isotonic import lipschitz_isotonic
from legendretron.trons.piecewise_link import PiecewiseLinearLink


class SlIsotronClassifier(TronDescent):
    r"""Linear classifier whose inverse link is any increasing Lipschitz function, learned by isotonic regression.

    In turn, ``u`` is the :func:`~legendretron.trons.lipschitz_isotonic` regression of the labels on the predictors, and

    .. math:: w \leftarrow w + \eta \sum_i w_i \, (y_i - u(w \cdot x_i)) \, x_i .

    What it does **not** guarantee: ``u`` is flat over stretches, and exactly 0 and 1 at its ends, so it has no inverse, the
    log-loss of its probabilities can be infinite, and ``link_`` exists only in the rare case that none of this happened.
    :func:`~legendretron.diagnostics.monotonicity` measures it. The published method is also said to leave ``[0, 1]``; with
    exact regression of labels 0 and 1, and values held constant beyond the data, it does not.

    *Ours*: the step for features of any size, weights, early stopping, the choice of the iterate with the least squared
    error, and constant values beyond the data.

    Parameters
    ----------
    lipschitz : float, default=1.0
        Largest slope of ``u``. Together with ``learning_rate="auto"`` it only sets the unit of the predictor.
    learning_rate : float or "auto", default="auto"
        :math:`\eta`; ``"auto"`` as in :class:`~legendretron.trons.GLMTronClassifier`, with ``lipschitz`` as the slope.
    max_iter, tol, early_stopping, validation_fraction, n_iter_no_change
        See :class:`~legendretron.trons.GLMTronClassifier`.
    class_weight, standardize, random_state, verbose
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
        **SHARED,
        "lipschitz": [Interval(Real, 0, None, closed="neither")],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
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
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        class_weight: dict[Any, float] | str | None = None,
        standardize: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.lipschitz = lipschitz
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

    def _first_link(self) -> None:
        return None

    def _next_link(self, link: Any, z: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = lipschitz_isotonic(z, y, weight, upper=float(self.lipschitz))
        knots, first = np.unique(z, return_index=True)
        return knots, u[first]

    def _apply(self, link: tuple[np.ndarray, np.ndarray], z: np.ndarray) -> np.ndarray:
        return np.interp(z, *link)

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
