r"""Laplace's approximation of the posterior of a link, the predictors being given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.special import expit

from legendretron.trons.link_prior import LinkPrior

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
    value: np.ndarray = counts @ (y.reshape(-1, *[1] * (t.ndim - 1)) * t - np.logaddexp(0.0, t))
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
