"""GP-Linkgistic: a Bayesian function of the predictor, not constrained to increase."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from legendretron.trons.link_prior import GaussianLogOdds
from legendretron.trons.linkgistic import LinkgisticClassifier
from legendretron.trons.trigonometric_link import TrigonometricLink


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
    amplitude : float, optional
        Prior standard deviation of ``g``, in log-odds; by default 2.
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

    _prior = GaussianLogOdds
    _amplitude = 2.0

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
