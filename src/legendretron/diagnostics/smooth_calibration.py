r"""Calibration without bins: kernel regression of outcomes on predicted probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct, idct

from legendretron._internal.validation import check_integer, check_open_unit
from legendretron.diagnostics.calibration import outcomes

__all__ = ["SmoothCalibrationCurve", "smooth_calibration_curve", "smooth_calibration_error"]

#: Cells between 0 and 1 into which predictions are sorted before smoothing; far narrower than any useful bandwidth.
_CELLS = 2048
#: Where fewer predictions than this are under the kernel, they say nothing about a frequency.
_FEWEST = 5.0


@dataclass(frozen=True)
class SmoothCalibrationCurve:
    r"""What :func:`smooth_calibration_curve` returns.

    Attributes
    ----------
    confidence : ndarray of shape (m,)
        Predicted probabilities, increasing.
    frequency : ndarray of shape (m,)
        Smoothed share that came true; NaN where there are hardly any predictions.
    low, high : ndarray of shape (m,)
        Bootstrap band of the frequency at each point; NaN without bootstrap.
    density : ndarray of shape (m,)
        Smoothed density of the predictions, with integral 1.
    bandwidth : float
        Standard deviation of the kernel.
    error : float
        Smooth calibration error at this bandwidth.
    """

    confidence: np.ndarray
    frequency: np.ndarray
    low: np.ndarray
    high: np.ndarray
    density: np.ndarray
    bandwidth: float
    error: float


def smooth_calibration_curve(
    y: ArrayLike,
    p: ArrayLike,
    *,
    kind: str = "top",
    column: int | None = None,
    bandwidth: float | str = "auto",
    n_bootstrap: int = 200,
    level: float = 0.9,
    seed: int = 0,
) -> SmoothCalibrationCurve:
    r"""Estimate how often predictions came true, as a smooth function of the predicted probability.

    With predictions :math:`c_i`, outcomes :math:`o_i` and a Gaussian kernel :math:`K_\sigma` that is reflected at 0 and 1,
    the frequency is that of Nadaraya and Watson, and the error is the smooth calibration error:

    .. math:: f(t) = \frac{\sum_i K_\sigma(t, c_i)\, o_i}{\sum_i K_\sigma(t, c_i)}, \qquad
        e(\sigma) = \int_0^1 \Big| \frac{1}{n} \sum_i K_\sigma(t, c_i) (o_i - c_i) \Big|\, dt.

    The bandwidth ``"auto"`` is the one with :math:`e(\sigma) = \sigma` (Błasiok and Nakkiran, "Smooth ECE: principled
    reliability diagrams via kernel smoothing", ICLR 2024): there is always exactly one, since :math:`e` does not increase.

    Parameters
    ----------
    y, p, kind, column
        As in :func:`calibration_curve`.
    bandwidth : float or "auto"
        Standard deviation of the kernel, between 0 and 1.
    n_bootstrap : int
        Number of times that rows are drawn with replacement, for the band; 0 for none. The bandwidth stays the same.
    level : float
        Share of the draws within the band, at each point.
    seed : int
        Of the draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 2000)
    >>> y = (p.cumsum(1) < rng.random((2000, 1))).sum(1)
    >>> curve = smooth_calibration_curve(y, p)
    >>> round(curve.error, 2), bool(curve.error == curve.bandwidth)
    (0.02, True)
    """
    check_integer("n_bootstrap", n_bootstrap, 0)
    check_integer("seed", seed, 0)
    check_open_unit("level", level)
    confidence, right = outcomes(y, p, kind, column)
    sums = _Sums(confidence, right)
    rows = np.ones(len(confidence))
    if isinstance(bandwidth, str) and bandwidth == "auto":
        sigma = _fixed_point(sums.residuals(rows))
        error = sigma
    elif isinstance(bandwidth, Real) and not isinstance(bandwidth, bool) and 0 < bandwidth < 1:
        sigma = float(bandwidth)
        error = _error(sums.residuals(rows), sigma)
    else:
        raise ValueError(f"bandwidth must be 'auto' or a number strictly between 0 and 1, got {bandwidth!r}.")
    count = sums.count(rows)
    mass = _smooth(count, sigma)
    # predictions under the kernel: those in an interval of the kernel's effective width, 2 sqrt(pi) sigma
    enough = mass * _CELLS * 2 * np.sqrt(np.pi) * sigma >= _FEWEST
    shown = np.flatnonzero(count)
    enough[: shown[0]] = enough[shown[-1] + 1 :] = False  # no extrapolation
    frequency = np.where(enough, _ratio(_smooth(sums.came_true(rows), sigma), mass), np.nan)
    low, high = np.full((2, _CELLS), np.nan)
    if n_bootstrap:
        rng = np.random.default_rng(seed)
        draws = np.empty((n_bootstrap, _CELLS))
        for draw in draws:
            drawn = np.bincount(rng.integers(len(rows), size=len(rows)), minlength=len(rows)).astype(float)
            draw[:] = _ratio(_smooth(sums.came_true(drawn), sigma), _smooth(sums.count(drawn), sigma))
        low[enough], high[enough] = np.quantile(draws[:, enough], [(1 - level) / 2, (1 + level) / 2], axis=0)
    density = mass * _CELLS / count.sum()
    return SmoothCalibrationCurve((np.arange(_CELLS) + 0.5) / _CELLS, frequency, low, high, density, sigma, error)


def smooth_calibration_error(y: ArrayLike, p: ArrayLike, *, kind: str = "top", column: int | None = None) -> float:
    """Smooth calibration error at the bandwidth that equals it; see :func:`smooth_calibration_curve`."""
    confidence, right = outcomes(y, p, kind, column)
    return _fixed_point(_Sums(confidence, right).residuals(np.ones(len(confidence))))


class _Sums:
    """Sums over the predictions in each cell, with a weight for each row: ``(n,) -> (_CELLS,)``."""

    def __init__(self, confidence: np.ndarray, right: np.ndarray) -> None:
        self._each = confidence.shape[1]
        self._confidence, self._right = confidence.ravel(), right.ravel()
        self._cells = np.minimum((self._confidence * _CELLS).astype(int), _CELLS - 1)

    def _sum(self, values: np.ndarray | float, rows: np.ndarray) -> np.ndarray:
        return np.bincount(self._cells, np.repeat(rows, self._each) * values, minlength=_CELLS)

    def count(self, rows: np.ndarray) -> np.ndarray:
        return self._sum(1.0, rows)

    def came_true(self, rows: np.ndarray) -> np.ndarray:
        return self._sum(self._right, rows)

    def residuals(self, rows: np.ndarray) -> np.ndarray:
        """Outcomes less predictions, divided by the number of predictions."""
        return self._sum(self._right - self._confidence, rows) / len(self._cells)


def _smooth(sums: np.ndarray, sigma: float) -> np.ndarray:
    """Convolve with a Gaussian that is reflected at 0 and 1: a diffusion, whose modes are cosines."""
    decay = np.exp(-0.5 * (np.pi * sigma * np.arange(_CELLS)) ** 2)
    smoothed: np.ndarray = idct(dct(sums, norm="ortho") * decay, norm="ortho")
    return smoothed


def _ratio(came_true: np.ndarray, count: np.ndarray) -> np.ndarray:
    # far from all predictions both are rounding errors
    return np.clip(came_true / np.maximum(count, 1e-12), 0.0, 1.0)


def _error(residuals: np.ndarray, sigma: float) -> float:
    return float(np.abs(_smooth(residuals, sigma)).sum())


def _fixed_point(residuals: np.ndarray) -> float:
    """Bandwidth that is its own error, by bisection; not narrower than a cell."""
    low, high = 1.0 / _CELLS, 1.0
    if _error(residuals, low) <= low:
        return low
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if _error(residuals, middle) > middle else (low, middle)
    return low
