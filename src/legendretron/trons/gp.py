"""GP-Linkgistic: a Bayesian function of the predictor, not constrained to increase."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from legendretron.trons.laplace import Posterior
from legendretron.trons.link_prior import GaussianLogOdds, LinkPrior
from legendretron.trons.linkgistic import LinkgisticClassifier
from legendretron.trons.trigonometric_link import TrigonometricLink

__all__ = ["GPLinkgisticClassifier"]


class GPLinkgisticClassifier(LinkgisticClassifier):
    r"""Linear classifier whose log-odds are a Gaussian process of the predictor.

    .. math:: \Pr(y = 1 \mid x) = \sigma(T(w \cdot x + b)), \qquad T(z) = z + v_0 + g(z), \qquad g \sim GP .

    As :class:`~legendretron.trons.ISGPLinkgisticClassifier`, but with the process itself instead of the integral of its
    square. What it does **not** guarantee: ``T`` may fall, and often does where data are few. It is then no link and has no
    loss: ``link_`` and ``loss_`` exist only if the most probable ``T`` increases everywhere.
    :func:`~legendretron.diagnostics.monotonicity` measures how far it is from increasing.

    *Ours*: the basis of cosines, the prior's mean, the identity, and what is listed there.

    Parameters
    ----------
    n_basis : int, default=16
        Cosines in the basis of ``g``.
    amplitude : float, default=2.0
        Prior standard deviation of ``g``, in log-odds.
    length_scale : float, default=0.1
        Of the kernel, as a share of the range of the predictors.
    alpha, max_iter, m_steps, n_samples, tol, class_weight, standardize, random_state, verbose
        See :class:`~legendretron.trons.ISGPLinkgisticClassifier`.

    Attributes
    ----------
    classes_, coef_, intercept_, bound_, bound_error_, prior_, posterior_, history_, n_iter_
        See :class:`~legendretron.trons.ISGPLinkgisticClassifier`.
    link_ : TrigonometricLink
        The most probable link, if it is one.

    References
    ----------
    Walder, Nock (2020), All your loss are belong to Bayes, NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = GPLinkgisticClassifier(random_state=0).fit(X, y)
    >>> clf.score(X, y) > 0.97
    True
    """

    def __init__(
        self,
        *,
        n_basis: int = 16,
        amplitude: float = 2.0,
        length_scale: float = 0.1,
        alpha: float | str = "auto",
        max_iter: int = 30,
        m_steps: int = 10,
        n_samples: int = 16,
        tol: float = 1e-6,
        class_weight: dict[Any, float] | str | None = None,
        standardize: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_basis = n_basis
        self.amplitude = amplitude
        self.length_scale = length_scale
        self.alpha = alpha
        self.max_iter = max_iter
        self.m_steps = m_steps
        self.n_samples = n_samples
        self.tol = tol
        self.class_weight = class_weight
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    def _make_prior(self, interval: tuple[float, float]) -> LinkPrior:
        return GaussianLogOdds(interval, int(self.n_basis), float(self.amplitude), float(self.length_scale))

    def _take(self, prior: LinkPrior, posterior: Posterior) -> None:
        """Nothing beyond the posterior: a link is made when asked for, if there is one."""

    @property
    def link_(self) -> TrigonometricLink:
        """The most probable link, where the most probable log-odds increase."""
        check_is_fitted(self)
        try:
            coefficients = self.prior_.coefficients(self.posterior_.mean)
            return TrigonometricLink(self.prior_.interval, coefficients, self.prior_.kind)
        except ValueError as error:
            raise AttributeError(
                "the log-odds that GP-Linkgistic learned fall somewhere, so there is no link; log_odds evaluates them, "
                "ISGPLinkgisticClassifier learns a link."
            ) from error
