r"""Calibration without bins: kernel regression of outcomes on predicted probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendretron._internal.parameters import check_integer, check_open_unit
from legendretron.diagnostics.binned_calibration import outcomes, row_weights
from legendretron.diagnostics.intervals import draw_groups

#: Cells between 0 and 1 into which predictions are sorted before smoothing; far narrower than any useful bandwidth.
_CELLS = 2048
#: Fewest predictions under the kernel for which a frequency is shown.
_FEWEST = 5.0
#: Bandwidths to choose from. The widest is limited, since with few predictions the least squared error is often that of a
#: curve that cannot bend at all.
_BANDWIDTHS = np.geomspace(0.01, 0.1, 16)
_MIDDLES = (np.arange(_CELLS) + 0.5) / _CELLS


@dataclass(frozen=True)
class SmoothCalibrationCurve:
    """What :func:`smooth_calibration_curve` returns, at the centers of ``m`` narrow cells between 0 and 1.

    Examples
    --------
    >>> curve = smooth_calibration_curve([0, 1, 0, 0, 1, 1] * 50, np.tile([0.5, 0.5], (300, 1)), n_bootstrap=0)
    >>> curve.confidence.shape == curve.frequency.shape, curve.error < 0.05
    (True, True)
    """

    confidence: np.ndarray  #: predicted probabilities in increasing order, shape (m,)
    frequency: np.ndarray  #: smoothed observed frequency, shape (m,); NaN where there are hardly any predictions
    low: np.ndarray  #: lower end of the bootstrap band at each point, shape (m,); NaN without bootstrap
    high: np.ndarray  #: upper end, likewise
    count: np.ndarray  #: predictions in each cell, shape (m,): sums of weights, which are scaled to a mean of one
    bandwidth: float  #: standard deviation of the kernel
    error: float  #: smooth calibration error; it does not depend on the bandwidth of the curve


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
    sample_weight: ArrayLike | None = None,
) -> SmoothCalibrationCurve:
    r"""Estimate the observed frequency as a smooth function of the predicted probability.

    With predictions :math:`c_i`, outcomes :math:`o_i` and a Gaussian kernel :math:`K_\sigma` that is reflected at 0 and 1, it
    is kernel regression of the residuals,

    .. math:: f(t) = t + \frac{\sum_i K_\sigma(t, c_i) (o_i - c_i)}{\sum_i K_\sigma(t, c_i)},

    clipped to [0, 1]. Residuals are smoothed rather than outcomes, so that smoothing does not distort the curve of a
    calibrated model. The bandwidth ``"auto"``, between 0.01 and 0.1, minimizes the leave-one-out squared error.

    The bootstrap band is that of the smoothed curve and does not include the bias of smoothing: where the true curve bends
    within the bandwidth, the estimate is flatter, and the band may not cover the true curve.

    The error is the smooth calibration error of Błasiok and Nakkiran ("Smooth ECE: principled reliability diagrams via kernel
    smoothing", ICLR 2024), the one bandwidth at which

    .. math:: \int_0^1 \Bigl| \frac{1}{n} \sum_i K_\sigma(t, c_i) (o_i - c_i) \Bigr|\, dt = \sigma.

    Parameters
    ----------
    y, p, kind, column, sample_weight
        As in :func:`calibration_curve`.
    bandwidth : float or "auto"
        Standard deviation of the kernel, between 0 and 1.
    n_bootstrap : int
        Number of bootstrap samples for the band; 0 for none. The bandwidth stays the same.
    level : float
        Pointwise confidence level of the band.
    seed : int
        Seed of the bootstrap.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 2000)
    >>> y = (p.cumsum(1) < rng.random((2000, 1))).sum(1)
    >>> curve = smooth_calibration_curve(y, p)
    >>> curve.error < 0.05, bool(np.nanmax(np.abs(curve.frequency - curve.confidence)) < 0.1)
    (True, True)
    """
    check_integer("n_bootstrap", n_bootstrap, 0)
    check_integer("seed", seed, 0)
    check_open_unit("level", level)
    return smooth_curve_of_outcomes(
        *outcomes(y, p, kind, column),
        bandwidth=bandwidth,
        n_bootstrap=n_bootstrap,
        level=level,
        seed=seed,
        sample_weight=sample_weight,
    )


def smooth_curve_of_outcomes(
    confidence: np.ndarray,
    right: np.ndarray,
    *,
    bandwidth: float | str = "auto",
    n_bootstrap: int,
    level: float,
    seed: int,
    sample_weight: ArrayLike | None = None,
) -> SmoothCalibrationCurve:
    """Smooth curve of probabilities ``(n, k)`` and whether each came true ``(n, k)``."""
    sums = _Sums(confidence, right)
    rows = row_weights(sample_weight, sums.n_rows)
    count, residuals = sums(rows), sums(rows, 1)
    modes = _modes(np.stack([count, residuals]))
    if isinstance(bandwidth, str) and bandwidth == "auto":
        squares, mean_weight = sums(rows, 2), sums(rows**2) / np.maximum(count, 1e-300)
        sigma = min(_BANDWIDTHS, key=lambda s: _left_out_error(modes, count, residuals, squares, mean_weight, s))
    elif isinstance(bandwidth, Real) and not isinstance(bandwidth, bool) and 0 < bandwidth < 1:
        sigma = float(bandwidth)
    else:
        raise ValueError(f"bandwidth must be 'auto' or a number strictly between 0 and 1, got {bandwidth!r}.")
    # predictions under the kernel: those in an interval of its effective width, 2 sqrt(pi) sigma
    shown = _diffuse(modes[0], sigma) * _CELLS * 2 * np.sqrt(np.pi) * sigma >= _FEWEST
    filled = np.flatnonzero(count)
    shown[: filled[0]] = shown[filled[-1] + 1 :] = False  # no extrapolation
    frequency, low, high = np.full((3, _CELLS), np.nan)
    frequency[shown] = _frequency(modes, sigma)[shown]
    if n_bootstrap:
        group, draws = draw_groups(len(rows), n_bootstrap, seed)
        by_group = [sums.by_group(rows, group, power) for power in (0, 1)]
        drawn = np.concatenate(
            [
                _frequency(_modes(np.stack([(cells @ each.T).T for cells in by_group])), sigma)[:, shown]
                for each in draws
            ]
        )
        low[shown], high[shown] = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    error = _find_bandwidth(_modes(residuals / count.sum()))
    return SmoothCalibrationCurve(_MIDDLES, frequency, low, high, count, float(sigma), error)


def smooth_calibration_error(
    y: ArrayLike,
    p: ArrayLike,
    *,
    kind: str = "top",
    column: int | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Smooth calibration error at the bandwidth that equals it; see :func:`smooth_calibration_curve`.

    Examples
    --------
    >>> p = np.tile([0.8, 0.2], (500, 1))
    >>> round(smooth_calibration_error([0, 0, 1, 1, 1] * 100, p), 1)  # 0.8 predicted, 0.4 came true
    0.4
    """
    return smooth_error_of_outcomes(*outcomes(y, p, kind, column), sample_weight)


def smooth_error_of_outcomes(
    confidence: np.ndarray, right: np.ndarray, sample_weight: ArrayLike | None = None
) -> float:
    """Smooth calibration error of probabilities ``(n, k)`` and whether each came true ``(n, k)``."""
    sums = _Sums(confidence, right)
    rows = row_weights(sample_weight, sums.n_rows)
    return _find_bandwidth(_modes(sums(rows, 1) / sums(rows).sum()))


def smooth_errors_by_chance(
    confidence: np.ndarray, sample_weight: np.ndarray | None, n_draws: int, seed: int
) -> np.ndarray:
    """Smooth calibration errors of outcomes that are drawn from the probabilities ``(n,)`` themselves: ``(n_draws,)``.

    In each cell, the sum of the residuals is drawn from the normal distribution with its mean, zero, and its variance.
    """
    sums = _Sums(confidence[:, None], np.zeros((len(confidence), 1)))
    rows = row_weights(sample_weight, sums.n_rows)
    spread = np.sqrt(sums(rows**2 * confidence * (1.0 - confidence))) / rows.sum()
    rng = np.random.default_rng(seed)
    return np.array([*map(_find_bandwidth, _modes(spread * rng.standard_normal((n_draws, _CELLS))))])


class _Sums:
    """Sums over the predictions in each cell, with a weight for each row: ``(n,) -> (_CELLS,)``."""

    def __init__(self, confidence: np.ndarray, right: np.ndarray) -> None:
        self.n_rows, self._each = confidence.shape
        self._residuals = (right - confidence).ravel()
        self._cells = np.minimum((confidence.ravel() * _CELLS).astype(int), _CELLS - 1)

    def __call__(self, rows: np.ndarray, power: int = 0) -> np.ndarray:
        """Numbers of predictions; or sums of residuals, outcomes less predictions, or of another power of them."""
        return np.bincount(self._cells, self._terms(rows, power), minlength=_CELLS)

    def by_group(self, rows: np.ndarray, group: np.ndarray, power: int) -> Any:
        """The same for each group of rows by itself, whose numbers are ``group`` (n,): a sparse matrix (_CELLS, groups)."""
        import scipy.sparse  # not needed for an error without a curve

        groups = np.repeat(group, self._each)
        return scipy.sparse.csr_array((self._terms(rows, power), (self._cells, groups)), (_CELLS, group.max() + 1))

    def _terms(self, rows: np.ndarray, power: int) -> np.ndarray:
        each = rows if self._each == 1 else np.repeat(rows, self._each)
        return each * self._residuals**power if power else each


def _modes(sums: np.ndarray) -> np.ndarray:
    # numpy's transform of the reflected sums: scipy's cosine transform takes longer to import than all else
    return np.fft.rfft(np.concatenate([sums, sums[..., ::-1]], axis=-1))


def _diffuse(modes: np.ndarray, sigma: float) -> np.ndarray:
    """Convolve with a Gaussian that is reflected at 0 and 1: a diffusion, whose modes are cosines."""
    decayed = modes * np.exp(-0.5 * (np.pi * sigma * np.arange(_CELLS + 1)) ** 2)
    smoothed: np.ndarray = np.fft.irfft(decayed)[..., :_CELLS]
    return smoothed


def _means(modes: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Smoothed counts and mean residuals, from the modes of counts and of residuals."""
    count, residuals = _diffuse(modes, sigma)
    return count, residuals / np.maximum(count, 1e-9)  # far from all predictions both are rounding errors


def _frequency(modes: np.ndarray, sigma: float) -> np.ndarray:
    return np.clip(_MIDDLES + _means(modes, sigma)[1], 0.0, 1.0)


def _left_out_error(
    modes: np.ndarray,
    count: np.ndarray,
    residuals: np.ndarray,
    squares: np.ndarray,
    mean_weight: np.ndarray,
    sigma: float,
) -> float:
    r"""Sum of squares :math:`(r_i - m_{-i})^2`, where :math:`m_{-i} - r_i = (m - r_i) / (1 - h_i)`.

    :math:`h_i` is the share of a residual in the mean :math:`m` at its own place; with weights, that of the mean weight in
    its cell, ``own_weight``.
    """
    filled = count > 0
    smooth_count, mean = (values[filled] for values in _means(modes, sigma))
    t = _MIDDLES[filled]
    kernel = sum(np.exp(-0.5 * (distance / sigma) ** 2) for distance in (0.0 * t, 2 * t, 2 * (1 - t)))
    kernel = kernel * mean_weight[filled]
    share = kernel / (np.sqrt(2 * np.pi) * sigma * _CELLS) / smooth_count
    error = squares[filled] - 2 * mean * residuals[filled] + count[filled] * mean**2
    # a residual without neighbors is predicted as zero
    alone = share > 1 - 1e-6
    return float(np.where(alone, squares[filled], error / (1 - np.where(alone, 0.0, share)) ** 2).sum())


def _find_bandwidth(modes: np.ndarray) -> float:
    """Bandwidth that equals its own error; if it is narrower than a cell, the error at the width of a cell."""

    def excess(sigma: float) -> float:
        return float(np.abs(_diffuse(modes, sigma)).sum()) - sigma

    finest = 1.0 / _CELLS
    if (above := excess(finest)) <= 0.0:
        return finest + above
    low, high, below, last = finest, 1.0, excess(1.0), 0.0
    while True:
        sigma = (low * below - high * above) / (below - above)  # false position
        found = excess(sigma)
        if abs(found) < 1e-8:  # the excess falls at least as fast as sigma rises
            return sigma
        if found > 0.0:
            low, above, below = sigma, found, below / 2 if last > 0.0 else below
        else:  # an end that stays twice counts half, which brings the next place to its side
            high, below, above = sigma, found, above / 2 if last < 0.0 else above
        last = found
