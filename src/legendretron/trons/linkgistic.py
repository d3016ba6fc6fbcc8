"""ISGP-Linkgistic and GP-Linkgistic: a Bayesian link, increasing by construction, and a Bayesian function that may fall."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from legendretron._internal.sklearn_compat import Interval, StrOptions
from legendretron._internal.validation import check_integer
from legendretron.training import History
from legendretron.training.history import Progress
from legendretron.trons.base import BinaryLinkLearner, Design
from legendretron.trons.link_prior import GaussianLogOdds, IntegratedSquare, LinkPrior
from legendretron.trons.trigonometric_link import TrigonometricLink

_MAX_NEWTON = 100


@dataclass(frozen=True)
class Posterior:
    """A normal distribution of the latent variables."""

    mean: np.ndarray  #: (P,), its mean
    root: np.ndarray  #: (P, P), A square root of its covariance, ``root @ root.T``

    def sample(self, noise: np.ndarray) -> np.ndarray:
        """Samples ``(S, P)`` made from standard normal ones."""
        return self.mean + noise @ self.root.T

    def divergence(self) -> float:
        """Kullback-Leibler divergence from the standard normal prior."""
        log_det = 2.0 * float(np.linalg.slogdet(self.root)[1])
        return 0.5 * float((self.root**2).sum() + self.mean @ self.mean - len(self.mean)) - 0.5 * log_det

    def towards(self, other: Posterior, share: float) -> Posterior:
        """Return a distribution between this and another one."""
        return Posterior(
            (1 - share) * self.mean + share * other.mean,
            np.linalg.cholesky((1 - share) * self.root @ self.root.T + share * other.root @ other.root.T),
        )


def log_likelihood(t: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Of log-odds ``(n, ...)`` for labels and counts ``(n,)``, summed over ``n``."""
    # log sigma(t) for y = 1, log sigma(-t) for y = 0
    value: np.ndarray = counts @ (
        y.reshape(-1, *[1] * (t.ndim - 1)) * t - np.maximum(t, 0.0) - np.log1p(np.exp(-np.abs(t)))
    )
    return value


def laplace(prior: LinkPrior, z: np.ndarray, y: np.ndarray, counts: np.ndarray, start: np.ndarray) -> Posterior:
    r"""Find the mode by Newton's method and take the curvature there as precision.

    The negative log-posterior is :math:`-\sum_i n_i (y_i T_i - \log(1 + e^{T_i})) + |\xi|^2 / 2`. Its Hessian may be
    indefinite away from the mode, as the log-odds are quadratic in the latent variables; it is then taken with eigenvalues
    of at least one, the prior's, and every step is made to descend. ``counts`` says how often each row counts.
    """
    phi, _ = prior.features(z)

    def objective(xi: np.ndarray) -> float:
        return float(-log_likelihood(phi @ prior.coefficients(xi), y, counts) + 0.5 * xi @ xi)

    xi, value = start, objective(start)
    for _ in range(_MAX_NEWTON):
        p = expit(phi @ prior.coefficients(xi))
        pull = phi.T @ (counts * (y - p))
        jacobian = prior.jacobian(xi)
        inner = phi.T @ (phi * (counts * p * (1.0 - p))[:, None])
        fisher = jacobian.T @ inner @ jacobian + np.eye(len(xi))
        hessian = fisher - prior.curvature(pull)
        eigenvalues, vectors = scipy.linalg.eigh(hessian)
        precision = np.maximum(eigenvalues, 1.0) if eigenvalues[0] < 1e-6 else eigenvalues
        gradient = xi - jacobian.T @ pull
        step = -vectors @ ((vectors.T @ gradient) / precision)
        decrease = float(-gradient @ step)
        if decrease <= 1e-10:
            break
        size = 1.0
        while (after := objective(xi + size * step)) > value - 1e-4 * size * decrease and size > 1e-12:
            size /= 2.0
        if size <= 1e-12:
            break
        xi, value = xi + size * step, after
    # by Cholesky: eigenvectors of equal eigenvalues are arbitrary, and samples would depend on rounding
    factor = np.linalg.cholesky((vectors * precision) @ vectors.T)
    return Posterior(xi, scipy.linalg.solve_triangular(factor, np.eye(len(xi)), lower=True).T)


def in_one_order(X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the sample with equal rows merged into one that has their weight, sorted by digests of the rows.

    Rounding makes sums depend on the order of their terms, and a method that takes hundreds of steps without converging
    amplifies it: weights and repetitions would give different models. So both are turned into the same numbers in the
    same order. A sample of distinct rows with equal weights has nothing to merge, and keeps its order.
    """
    labels = np.unique(y, return_inverse=True)[1].astype(np.int64)
    digests = [
        blake2b(row + label.tobytes(), digest_size=16).digest() for row, label in zip(_rows(X), labels, strict=True)
    ]
    keys = np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    merged = np.bincount(group.ravel(), weight)
    if len(first) == len(y) and (merged == merged[0]).all():
        return X, y, weight
    return X[first], y[first], merged


def _rows(X: Any) -> Iterator[bytes]:
    if not scipy.sparse.issparse(X):
        yield from (row.tobytes() for row in X)
        return
    X = X.copy()
    X.sum_duplicates()  # sorts the columns of each row, too
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield X.indices[start:stop].astype(np.int64).tobytes() + X.data[start:stop].tobytes()


#: Share of the rows whose predictors may lie beyond either end of the interval of the basis.
_TAIL = 0.005
_FIRST_STEPS = 100
#: Times the number of samples, what alpha="auto" stands for: the precision of a normal prior of the weights. A link that
#: bends can follow separable data further than a sigmoid: one, logistic regression's usual precision, is too weak beside it.
_AUTOMATIC_PENALTY = 10.0


class LinkgisticClassifier(BinaryLinkLearner):
    """Base of ISGP- and GP-Linkgistic; not for direct use."""

    bound_: np.ndarray
    bound_error_: np.ndarray
    prior_: LinkPrior
    posterior_: Posterior

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BinaryLinkLearner._parameter_constraints,
        "random_state": ["random_state"],
        "n_basis": [Interval(Integral, 1, 200, closed="both")],
        "amplitude": [Interval(Real, 0, None, closed="neither"), None],
        "length_scale": [Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "m_steps": [Interval(Integral, 1, None, closed="left")],
    }

    #: Which prior the link has, and its standard deviation if not told.
    _prior: ClassVar[type[LinkPrior]]
    _amplitude: ClassVar[float]

    def __init__(
        self,
        *,
        n_basis: int = 16,
        amplitude: float | None = None,
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

    def _arrange(self, X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        return in_one_order(X, y, weight)

    def _learn(self, design: Design, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        em = _EM(self, design, y, weight * self._total_weight, seed)
        w = em.logistic_regression()
        z = design.predictor(w)
        amplitude = self._amplitude if self.amplitude is None else float(self.amplitude)
        prior = self._prior(_interval(z, weight), int(self.n_basis), amplitude, float(self.length_scale))
        posterior = Posterior(np.zeros(prior.n_latent), np.eye(prior.n_latent))
        bounds, errors = [], []
        self.history_ = History()
        progress, began = Progress(int(self.max_iter), int(self.verbose)), time.monotonic()
        quiet = 0
        for n_iter in range(1, int(self.max_iter) + 1):
            posterior = em.e_step(prior, posterior, z, w)
            w = em.m_step(prior, posterior, w)
            z = design.predictor(w)
            bound, error, log_loss = em.bound(prior, posterior, z, w)
            bounds.append(bound)
            errors.append(error)
            p = expit(prior.features(z)[0] @ prior.coefficients(posterior.mean))
            accuracy = float((weight * ((p > 0.5) == (y > 0.5))).sum())
            self.history_.append(n_iter, [log_loss], [np.nan], [accuracy], [np.nan], time.monotonic() - began)
            progress.update(n_iter, log_loss, None)
            quiet = quiet + 1 if n_iter > 1 and bounds[-1] - bounds[-2] <= self.tol * self._total_weight else 0
            if quiet == 2:
                break
        progress.close()
        self.n_iter_ = n_iter
        self.bound_, self.bound_error_ = np.array(bounds), np.array(errors)
        # for the last predictors: what is reported fits them best
        self.prior_ = prior
        self.posterior_ = em.e_step(prior, posterior, z, w)
        return w

    # --- what was learned ---

    @property
    def link_(self) -> TrigonometricLink:
        """The most probable link, where the most probable log-odds increase."""
        check_is_fitted(self)
        try:
            return self._link(self.posterior_.mean)
        except ValueError as error:
            raise AttributeError(
                "the log-odds that GP-Linkgistic learned fall somewhere, so there is no link; log_odds evaluates them, "
                "ISGPLinkgisticClassifier learns a link."
            ) from error

    def _link(self, xi: np.ndarray) -> TrigonometricLink:
        return TrigonometricLink(self.prior_.interval, self.prior_.coefficients(xi), self.prior_.kind)

    def log_odds(self, z: Any) -> np.ndarray:
        """Log-odds of the second class at predictors of any shape, for the most probable link."""
        check_is_fitted(self)
        return self._log_odds_of(self.posterior_.mean, z)

    def sample_log_odds(self, z: Any, n_samples: int = 100, random_state: Any = None) -> np.ndarray:
        """Log-odds at predictors ``(m,)`` for links drawn from the posterior: shape (n_samples, m).

        The posterior is that of the link given the predictor, ``coef_`` and ``intercept_``, which counts as known; bands
        of these draws are narrower than the uncertainty of link and predictor together.
        """
        return self._log_odds_of(self._draw(n_samples, random_state), z)

    def _draw(self, n_samples: int, random_state: Any) -> np.ndarray:
        check_is_fitted(self)
        check_integer("n_samples", n_samples, 1)
        noise = check_random_state(random_state).standard_normal((n_samples, self.prior_.n_latent))
        return self.posterior_.sample(noise)

    def _log_odds_of(self, xi: np.ndarray, z: Any) -> np.ndarray:
        z = np.asarray(z, dtype=np.float64)
        c = self.prior_.coefficients(xi)
        t: np.ndarray = c @ self.prior_.features(z.ravel())[0].T
        return t.reshape(*xi.shape[:-1], *z.shape)

    def _probability(self, z: np.ndarray) -> np.ndarray:
        p: np.ndarray = expit(self._log_odds_of(self.posterior_.mean, z))
        return p

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of shape (n_samples, 2), in the order of ``classes_``."""
        t = self.decision_function(X)
        return -np.logaddexp(0, np.stack([t, -t], axis=1))

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds of the second class, of shape (n_samples,)."""
        z = self.linear_predictor(X)
        return self.log_odds(z).astype(z.dtype)


class _EM:
    """Data, random numbers and the two steps of EM.

    The same random numbers serve all iterations: the sampled bound is then one deterministic function, which both steps
    are held to increase.
    """

    def __init__(self, owner: Any, design: Design, y: np.ndarray, counts: np.ndarray, seed: int) -> None:
        self.design, self.y, self.counts = design, y, counts
        self.total = float(counts.sum())
        # a penalty over the total is a prior that does not depend on it, since the penalty is multiplied by it
        self.alpha = _AUTOMATIC_PENALTY / self.total if owner.alpha == "auto" else float(owner.alpha)
        self.m_steps = int(owner.m_steps)
        self.n_samples, self.seed = int(owner.n_samples), seed

    def penalty(self, w: np.ndarray) -> float:
        return 0.5 * self.alpha * self.total * float(w[:-1] @ w[:-1])

    def logistic_regression(self) -> np.ndarray:
        """Predictor for the link to start from, the identity in log-odds."""
        straight = GaussianLogOdds((-1.0, 1.0), 0, 1.0, 1.0)
        loss = self._loss_of(straight, np.array([[0.0, 1.0]]))
        return _minimize(loss, np.zeros(self.design.X.shape[1] + 1), _FIRST_STEPS)

    def bound(self, prior: LinkPrior, posterior: Posterior, z: np.ndarray, w: np.ndarray) -> tuple[float, float, float]:
        """Evidence lower bound with the penalty as the predictor's log-prior, its Monte Carlo error, and the log-loss."""
        values = log_likelihood(prior.features(z)[0] @ self._draws(prior, posterior).T, self.y, self.counts)
        pairs = values.reshape(2, -1).mean(0)
        error = float(pairs.std(ddof=1) / np.sqrt(len(pairs))) if len(pairs) > 1 else 0.0
        mean = float(values.mean())
        return mean - posterior.divergence() - self.penalty(w), error, -mean / self.total

    def e_step(self, prior: LinkPrior, posterior: Posterior, z: np.ndarray, w: np.ndarray) -> Posterior:
        """Laplace's approximation; as it need not raise the bound, only as much of it as does."""
        new = laplace(prior, z, self.y, self.counts, posterior.mean)
        before = self.bound(prior, posterior, z, w)[0]
        share = 1.0
        while share > 1e-3:
            trial = new if share == 1.0 else posterior.towards(new, share)
            if self.bound(prior, trial, z, w)[0] >= before:
                return trial
            share /= 4.0
        return posterior

    def m_step(self, prior: LinkPrior, posterior: Posterior, w: np.ndarray) -> np.ndarray:
        """Raise the expected log-likelihood less the penalty, by some steps of L-BFGS."""
        return _minimize(self._loss_of(prior, self._draws(prior, posterior)), w, self.m_steps)

    def _draws(self, prior: LinkPrior, posterior: Posterior) -> np.ndarray:
        """Coefficients ``(S, 2 + waves)`` of links drawn from the posterior."""
        half = np.random.default_rng(self.seed).standard_normal(((self.n_samples + 1) // 2, prior.n_latent))
        noise = np.concatenate([half, -half])  # pairs of opposite sign make the mean exact
        return np.ascontiguousarray(prior.coefficients(posterior.sample(noise)))

    def _loss_of(self, prior: LinkPrior, c: np.ndarray) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Mean expected loss of links with these coefficients, with the penalty, and its gradient in the weights."""

        def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
            phi, d_phi = prior.features(self.design.predictor(w), slopes=True)
            assert d_phi is not None
            t = phi @ c.T
            values = log_likelihood(t, self.y, self.counts)
            of_z = ((self.y[:, None] - expit(t)) * (d_phi @ c.T)).mean(axis=1)
            gradient = -self.design.pull(self.counts * of_z) / self.total
            gradient[:-1] += self.alpha * w[:-1]
            return (self.penalty(w) - float(values.mean())) / self.total, gradient

        return objective


def _minimize(objective: Any, start: np.ndarray, steps: int) -> np.ndarray:
    """L-BFGS, which never ends above the start."""
    options = {"maxiter": steps, "gtol": 1e-9, "ftol": 1e-15}
    minimum: np.ndarray = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    return minimum


def _interval(z: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Range of all but the outermost predictors, with some room; of at least length two."""
    order = np.argsort(z, kind="stable")
    # quantiles of the weighted distribution function, so that weights equal repetitions
    share = np.cumsum(weight[order])
    indices = np.searchsorted(share, [_TAIL + 1e-12, 1.0 - _TAIL - 1e-12])
    low, high = z[order[np.minimum(indices, len(z) - 1)]]
    room = max(0.1 * (high - low), 1.0 - (high - low) / 2)
    return float(low - room), float(high + room)


class ISGPLinkgisticClassifier(LinkgisticClassifier):
    r"""Linear classifier whose link has a prior, the integrated squared Gaussian process, and a posterior.

    .. math:: \Pr(y = 1 \mid x) = \sigma(T(w \cdot x + b)), \qquad T(z) = m + v_0 + \int_m^z f(t)^2 dt, \qquad
              f \sim 1 + GP .

    The log-odds increase whatever ``f`` is. Link and predictor are learned in turn: Laplace's approximation gives a normal
    posterior of ``f`` for the current predictors (E), then ``w`` and ``b`` maximize the expected log-likelihood, less a
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
        weights, which is a normal prior of variance 1/10 of the coefficients (those of the standardized features), and
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

    def sample_link(self, n_samples: int = 1, random_state: Any = None) -> list[TrigonometricLink]:
        """Links drawn from the posterior, each as good a :class:`~legendretron.links.Link` as ``link_``.

        The posterior is that of the link given the predictor, ``coef_`` and ``intercept_``, which counts as known. A band
        of these draws says nothing of the uncertainty of the predictor, and is too narrow for that of the whole.
        """
        return [self._link(xi) for xi in self._draw(n_samples, random_state)]


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
