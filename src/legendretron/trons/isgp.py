"""ISGP-Linkgistic: a Bayesian link, increasing by construction."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from legendretron._internal.validation import check_integer
from legendretron.trons.laplace import Posterior
from legendretron.trons.link_prior import IntegratedSquare, LinkPrior
from legendretron.trons.linkgistic import LinkgisticClassifier
from legendretron.trons.trigonometric_link import TrigonometricLink

__all__ = ["ISGPLinkgisticClassifier"]


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
    amplitude : float, default=0.5
        Prior standard deviation of ``f`` around its mean of one. With one half, ``f`` is two deviations away from zero, where
        the log-odds are flat and beyond which they rise again; larger values follow the training data more closely.
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
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    standardize : bool, default=True
        Whether features are centred and scaled inside (only scaled if sparse).
    random_state : int, RandomState or None, default=None
        Of the links drawn.
    verbose : int, default=0
        1: a progress bar on a terminal. 2: a line per iteration.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels, sorted.
    coef_, intercept_ : ndarray of shape (1, n_features), (1,)
        Of the linear predictor, for unscaled features.
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

    link_: TrigonometricLink

    def __init__(
        self,
        *,
        n_basis: int = 16,
        amplitude: float = 0.5,
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
        return IntegratedSquare(interval, int(self.n_basis), float(self.amplitude), float(self.length_scale))

    def _take(self, prior: LinkPrior, posterior: Posterior) -> None:
        self.link_ = TrigonometricLink(prior.interval, prior.coefficients(posterior.mean), prior.kind)

    def sample_link(self, n_samples: int = 1, random_state: Any = None) -> list[TrigonometricLink]:
        """Links drawn from the posterior, each as good a :class:`~legendretron.links.Link` as ``link_``.

        The posterior is that of the link given the predictor, ``coef_`` and ``intercept_``, which counts as known. A band
        of these draws says nothing of the uncertainty of the predictor, and is too narrow for that of the whole.
        """
        check_is_fitted(self)
        check_integer("n_samples", n_samples, 1)
        coefficients = self.prior_.coefficients(self._draw(n_samples, random_state))
        return [TrigonometricLink(self.prior_.interval, c, self.prior_.kind) for c in coefficients]
