"""ISGP-Linkgistic and GP-Linkgistic: a Bayesian link, increasing by construction, and a Bayesian function that may fall."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from legendretron._internal.validation import check_integer
from legendretron.trons.link_prior import GaussianLogOdds, IntegratedSquare
from legendretron.trons.linkgistic import LinkgisticClassifier
from legendretron.trons.trigonometric_link import TrigonometricLink


class ISGPLinkgisticClassifier(LinkgisticClassifier):
    r"""Linear classifier whose link has a prior, the integrated squared Gaussian process, and a posterior.

    .. math:: \Pr(y = 1 \mid x) = \sigma(T(w \cdot x + b)), \qquad T(z) = m + v_0 + \int_m^z f(t)^2 dt, \qquad
              f \sim 1 + GP .

    The log-odds increase whatever ``f`` is. Link and predictor are learned in turn: Laplace's approximation gives a normal
    posterior of ``f`` for the current predictors (E), then ``w`` and ``b`` maximise the expected log-likelihood, less a
    penalty (M). The bound on the evidence is recorded in every iteration and does not fall.

    *Ours*: a basis of cosines on the range of the predictors, where the integral has a closed form (Walder and Nock use the
    eigenfunctions of their kernel); the prior's mean ``f = 1``, so that learning starts at logistic regression; fixed
    hyperparameters; a posterior that is only moved as far as the bound rises; the same random numbers in all
    iterations; and probabilities for the most probable link, ``link_``, rather than averaged over the posterior.

    Parameters
    ----------
    n_basis : int, default=16
        Cosines in the basis of ``f``.
    amplitude : float, optional
        Prior standard deviation of ``f`` around its mean of one, by default one half. With that, ``f`` is two deviations
        away from zero, where the log-odds are flat and beyond which they rise again; larger values follow the training data
        more closely.
    length_scale : float, default=0.1
        Of the kernel, as a share of the range of the predictors.
    alpha : float or "auto", default="auto"
        Penalty :math:`\alpha |w|^2 / 2` beside a mean loss. ``"auto"``: ten over the number of samples, or the sum of their
        weights, which is a normal prior of variance 1/10 of the coefficients (those of the standardised features), and
        ``C=0.1`` of scikit-learn's logistic regression.
    max_iter : int, default=30
        Iterations of EM.
    m_steps : int, default=10
        Steps of L-BFGS in each.
    n_samples : int, default=16
        Links drawn for expectations, in pairs of opposite deviations.
    tol : float, default=1e-6
        Rise of the bound, per sample, that counts as none; two such iterations end the fit.
    class_weight, standardize, random_state, verbose
        See :class:`~legendretron.trons.GLMTronClassifier`; the seed is that of the links drawn.

    Attributes
    ----------
    classes_, coef_, intercept_
        See :class:`~legendretron.trons.GLMTronClassifier`.
    link_ : TrigonometricLink
        The most probable link; its classes are in the order of ``link_classes_``, the second first.
    loss_ : CanonicalLoss
        Its canonical loss.
    bound_, bound_error_ : ndarray of shape ``(n_iter_,)``
        Bound on the log-evidence after each iteration, and the standard error of its Monte Carlo part.
    prior_, posterior_ : LinkPrior, Posterior
        Prior and normal posterior of the latent variables.
    history_ : History
        Expected log-loss, accuracy and time by iteration.
    n_iter_ : int
        Iterations.

    References
    ----------
    Walder, Nock (2020), All your loss are belong to Bayes, NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = ISGPLinkgisticClassifier(random_state=0).fit(X, y)
    >>> clf.score(X, y) > 0.97
    True
    >>> len(clf.sample_link(3, random_state=0))
    3
    """

    _prior = IntegratedSquare
    _amplitude = 0.5

    @property
    def link_(self) -> TrigonometricLink:
        """The most probable link."""
        check_is_fitted(self)
        coefficients = self.prior_.coefficients(self.posterior_.mean)
        return TrigonometricLink(self.prior_.interval, coefficients, self.prior_.kind)

    def sample_link(self, n_samples: int = 1, random_state: Any = None) -> list[TrigonometricLink]:
        """Links drawn from the posterior, each as good a :class:`~legendretron.links.Link` as ``link_``.

        The posterior is that of the link given the predictor, ``coef_`` and ``intercept_``, which counts as known. A band
        of these draws says nothing of the uncertainty of the predictor, and is too narrow for that of the whole.
        """
        check_is_fitted(self)
        check_integer("n_samples", n_samples, 1)
        coefficients = self.prior_.coefficients(self._draw(n_samples, random_state))
        return [TrigonometricLink(self.prior_.interval, c, self.prior_.kind) for c in coefficients]


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
