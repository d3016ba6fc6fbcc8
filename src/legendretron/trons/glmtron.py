"""GLMTron: the link is known."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from legendretron._internal.sklearn_compat import Interval, StrOptions
from legendretron.trons.base import SHARED, TronDescent, WithLink


class GLMTronClassifier(WithLink, TronDescent):
    r"""Linear classifier with a known link, the sigmoid, by perceptron-like steps.

    .. math:: w \leftarrow w + \eta \sum_i w_i \, (y_i - \sigma(w \cdot x_i + b)) \, x_i

    with weights that sum to one, from ``w = 0``; the iterate with the least squared error is kept. For features inside the
    unit ball and :math:`\eta = 1` this is the algorithm of Kakade et al. (2011). *Ours*: the intercept, features of any
    size with the step that suits them, weights, early stopping, and by default the choice of the iterate on the training
    data (Kakade et al. take fresh data: ``early_stopping=True``).

    Parameters
    ----------
    learning_rate : float or "auto", default="auto"
        :math:`\eta`. ``"auto"``: one over the product of the link's largest slope, 1/4, and the largest eigenvalue of the
        features' second moments; larger steps than twice that can diverge.
    max_iter : int, default=200
        Steps.
    tol : float, default=1e-7
        Least improvement of the squared error that counts.
    early_stopping : bool, default=False
        Hold out ``validation_fraction`` as a validation set, and choose the iterate on it.
    validation_fraction : float, default=0.1
        Of ``early_stopping``.
    n_iter_no_change : int, default=10
        Early stopping patience: steps without improvement after which to stop.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    standardize : bool, default=True
        Whether features are centred and scaled inside (only scaled if sparse).
    random_state : int, RandomState or None, default=None
        Of the split into training and validation set.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED,
        "learning_rate": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        *,
        learning_rate: float | str = "auto",
        max_iter: int = 200,
        tol: float = 1e-7,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        class_weight: dict[Any, float] | str | None = None,
        standardize: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
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

    def _next_link(self, link: Any, z: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Any:
        return link

    def _apply(self, link: Any, z: np.ndarray) -> np.ndarray:
        p: np.ndarray = expit(z)
        return p

    def _steepest(self, link: Any) -> float:
        return 0.25
