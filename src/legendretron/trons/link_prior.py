r"""Gaussian-process priors of a link, in a finite trigonometric basis on the range of the predictor.

With :math:`\theta(z) = \pi (z - A) / (B - A)`, clipped to :math:`[0, \pi]`, the basis is :math:`1, \sqrt2 \cos(k \theta)`,
with independent weights whose variances are the spectrum of a squared-exponential kernel. For either prior the log-odds
are

.. math:: T(z) = \Phi(z) \cdot c(\xi), \qquad c_f(\xi) = (1, \xi)^\top Q_f \, (1, \xi)

with features :math:`\Phi = (1, z - m, t_1(\theta), \ldots)` that do not depend on the weights, standard normal
:math:`\xi`, and constant matrices :math:`Q_f`: evaluation, gradients and Hessians are small products, whatever the number
of rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

#: Prior standard deviation of the link's offset.
_OFFSET = 10.0


class LinkPrior(ABC):
    """Base of the two priors."""

    kind: ClassVar[str]  #: whether the trigonometric features are sines or cosines
    _waves_of_a_cosine: ClassVar[int]

    def __init__(self, interval: tuple[float, float], n_basis: int, amplitude: float, length_scale: float) -> None:
        self.interval = (float(interval[0]), float(interval[1]))
        self.middle = (self.interval[0] + self.interval[1]) / 2
        self.width = self.interval[1] - self.interval[0]
        self.waves = self._waves_of_a_cosine * n_basis  #: number of trigonometric features
        k = np.arange(n_basis + 1)
        spectrum = np.exp(-0.5 * (np.pi * length_scale * k) ** 2)
        #: standard deviations of the weights of 1, cos(theta), cos(2 theta), ...
        self.scale = amplitude * np.sqrt(spectrum / spectrum.sum()) * np.where(k == 0, 1.0, np.sqrt(2.0))
        self.quadratic = self._quadratic()

    @abstractmethod
    def _quadratic(self) -> np.ndarray:
        """The matrices ``Q``, of shape (2 + waves, 1 + P, 1 + P), symmetric."""

    @property
    def n_latent(self) -> int:
        """Number ``P`` of latent variables: the offset first, then the process."""
        return self.quadratic.shape[1] - 1

    def features(self, z: np.ndarray, slopes: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        """Features ``(n, 2 + waves)`` of predictors ``(n,)``, and their derivatives if wanted."""
        low, high = self.interval
        theta = np.pi * (np.clip(z, low, high) - low) / (high - low)
        turn, size = np.exp(1j * theta), 2 + self.waves
        phi, d_phi = np.empty((size, len(z))), np.empty((size if slopes else 0, len(z)))
        phi[0], phi[1] = 1.0, z - (low + high) / 2
        rate = np.where((z >= low) & (z <= high), np.pi / (high - low), 0.0)
        if slopes:
            d_phi[0], d_phi[1] = 0.0, 1.0
        power = turn.copy()
        for m in range(self.waves):
            phi[2 + m] = power.imag if self.kind == "sine" else power.real
            if slopes:
                d_phi[2 + m] = (m + 1) * rate * (power.real if self.kind == "sine" else -power.imag)
            power *= turn
        return phi.T, d_phi.T if slopes else None

    def coefficients(self, xi: np.ndarray) -> np.ndarray:
        """Coefficients of the features, ``(..., P) -> (..., 2 + waves)``."""
        eta = np.concatenate([np.ones((*xi.shape[:-1], 1)), xi], axis=-1)
        c: np.ndarray = np.einsum("fab,...a,...b->...f", self.quadratic, eta, eta, optimize=True)
        return c

    def jacobian(self, xi: np.ndarray) -> np.ndarray:
        """Derivatives of the coefficients, ``(P,) -> (2 + waves, P)``."""
        return 2.0 * (self.quadratic @ np.append(1.0, xi))[:, 1:]

    def curvature(self, pull: np.ndarray) -> np.ndarray:
        """Hessian of ``pull . c(xi)``, of shape (P, P)."""
        return 2.0 * np.tensordot(pull, self.quadratic[:, 1:, 1:], axes=1)


class IntegratedSquare(LinkPrior):
    r"""Integrated squared Gaussian process, :math:`T(z) = m + v_0 + \int_m^z f(t)^2 dt` with :math:`f \sim 1 + GP`.

    Products of cosines are sums of cosines, whose integrals are a straight line and sines: the integral is exact, and a
    quadratic form in the weights. It never decreases. Beyond the interval it continues with its mean slope.
    """

    kind, _waves_of_a_cosine = "sine", 2  # the integral of a cosine is a sine, and products have twice the frequency

    def _quadratic(self) -> np.ndarray:
        k = len(self.scale)
        # f = sum_j a_j cos(j theta) with a = load @ (1, xi); xi[0] is the offset
        load = np.zeros((k, k + 2))
        load[0, 0] = 1.0
        load[:, 2:] = np.diag(self.scale)
        # f^2 = sum_m C_m cos(m theta), C_m = a^T B_m a
        j, i = np.meshgrid(np.arange(k), np.arange(k))
        m = np.arange(self.waves + 1)[:, None, None]
        forms = 0.5 * ((np.abs(i - j) == m).astype(float) + (i + j == m))
        of_xi = load.T @ forms @ load
        q = np.zeros((2 + self.waves, k + 2, k + 2))
        q[1] = of_xi[0]
        order = np.arange(1, self.waves + 1)
        q[2:] = of_xi[1:] * (self.width / (np.pi * order))[:, None, None]
        # T(middle) = middle + offset: take off what the sines have there
        at_middle = np.sin(order * np.pi / 2)
        q[0] = -np.tensordot(at_middle, q[2:], axes=1)
        q[0, 0, 0] += self.middle
        q[0, 0, 1] += 0.5 * _OFFSET
        q[0, 1, 0] += 0.5 * _OFFSET
        return q


class GaussianLogOdds(LinkPrior):
    r"""Gaussian process as the log-odds themselves, :math:`T(z) = z + v_0 + g(z)` with :math:`g \sim GP`.

    It need not increase. Beyond the interval it continues with slope one.
    """

    kind, _waves_of_a_cosine = "cosine", 1  # the features are the basis itself

    def _quadratic(self) -> np.ndarray:
        k = len(self.scale)
        q = np.zeros((1 + k, k + 1, k + 1))
        q[0, 0, 0] = self.middle
        q[1, 0, 0] = 1.0
        # the constant of the basis goes into the offset
        q[0, 0, 1] = q[0, 1, 0] = 0.5 * np.hypot(_OFFSET, self.scale[0])
        m = np.arange(1, k)
        q[1 + m, 0, 1 + m] = q[1 + m, 1 + m, 0] = 0.5 * self.scale[1:]
        return q
