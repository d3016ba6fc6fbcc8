"""Links in one trigonometric basis, such as some drawn from a posterior: likelihoods, and derivatives in the predictors."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from legendretron.accelerate.support import has_numba
from legendretron.trons.laplace import log_likelihood
from legendretron.trons.link_prior import trigonometric_features


class Links:
    """Log-odds as functions of a predictor, from coefficients ``(S, 2 + waves)`` of the features of each link."""

    def __init__(self, interval: tuple[float, float], coefficients: np.ndarray, kind: str) -> None:
        self.interval, self.coefficients, self.kind = interval, np.ascontiguousarray(coefficients), kind
        self.waves = self.coefficients.shape[1] - 2

    def log_likelihood(self, z: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Log-likelihoods ``(S,)`` of predictors, labels 0 or 1, and counts ``(n,)``."""
        if not has_numba():
            phi, _ = trigonometric_features(z, self.interval, self.waves, self.kind)
            return log_likelihood(phi @ self.coefficients.T, y, counts)
        return self._compiled(z, y, counts, np.empty(0))

    def with_slopes(self, z: np.ndarray, y: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-likelihoods ``(S,)``, and the derivatives of their mean in the predictors ``(n,)``."""
        if has_numba():
            slopes = np.empty(len(z))
            return self._compiled(z, y, counts, slopes), slopes
        phi, d_phi = trigonometric_features(z, self.interval, self.waves, self.kind, slopes=True)
        assert d_phi is not None
        t = phi @ self.coefficients.T
        of_z = ((y[:, None] - expit(t)) * (d_phi @ self.coefficients.T)).mean(axis=1)
        return log_likelihood(t, y, counts), counts * of_z

    def _compiled(self, z: np.ndarray, y: np.ndarray, counts: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        from legendretron.trons.compiled_links import expected_log_likelihood

        c = self.coefficients
        values, form = np.zeros(len(c)), (len(c), self.waves, self.kind == "sine", *self.interval)
        expected_log_likelihood(z, y, counts, c.reshape(-1), *form, values, slopes)
        return values
