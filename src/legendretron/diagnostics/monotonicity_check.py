r"""Whether a function of the predictor is an inverse link: increasing, and inside (0, 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class MonotonicityCheck:
    """What :func:`monotonicity` found.

    Examples
    --------
    >>> report = monotonicity(lambda z: 0.5 + 0.1 * np.sin(z), np.linspace(0.0, 6.0, 50))
    >>> report.falling_share > 0, report.is_link
    (True, False)
    """

    n_points: int  #: distinct points examined
    falling_share: float  #: share of steps between neighboring points on which the function decreases
    flat_share: float  #: share of steps on which it is constant
    largest_fall: float  #: largest decrease from a point to any later one
    outside_share: float  #: share of points with values below 0 or above 1
    saturated_share: float  #: share of points with values of exactly 0 or 1, where the log-loss can be infinite
    lowest: float  #: least value
    highest: float  #: greatest value

    @property
    def is_link(self) -> bool:
        """Whether the values are consistent with an increasing bijection into (0, 1)."""
        return self.falling_share == self.flat_share == self.outside_share == self.saturated_share == 0.0

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name."""
        return asdict(self)


def monotonicity(inverse_link: Callable[[np.ndarray], np.ndarray], z: ArrayLike) -> MonotonicityCheck:
    """Measure a function from predictors to probabilities at points ``z``, for instance the predictors of a test set.

    Parameters
    ----------
    inverse_link : callable
        From an array of shape (m,) to one of the same shape, such as ``clf.inverse_link``.
    z : array
        Points, in any order and shape.

    Examples
    --------
    >>> report = monotonicity(np.tanh, np.linspace(-1.0, 1.0, 11))
    >>> report.falling_share, round(report.lowest, 3), report.is_link
    (0.0, -0.762, False)
    """
    if not callable(inverse_link):
        raise ValueError(f"inverse_link must be a function, got {type(inverse_link).__name__}.")
    points = np.unique(np.asarray(z, dtype=np.float64))
    if len(points) < 2 or not np.isfinite(points).all():
        raise ValueError(f"z must contain at least two distinct finite points, got {len(points)}.")
    p = np.asarray(inverse_link(points), dtype=np.float64)
    if p.shape != points.shape:
        raise ValueError(f"inverse_link must return the shape it is given, {points.shape}, got {p.shape}.")
    if not np.isfinite(p).all():
        at = points[~np.isfinite(p)][0]
        raise ValueError(f"inverse_link must return finite values, got NaN or infinite ones, first at z={at:.6g}.")
    steps = np.diff(p)
    # neighbors so close that rounding decides do not count as falling
    noise = 4 * np.finfo(float).eps
    return MonotonicityCheck(
        n_points=len(points),
        falling_share=float((steps < -noise).mean()),
        flat_share=float((steps == 0.0).mean()),
        largest_fall=float((np.maximum.accumulate(p) - p).max()),
        outside_share=float(((p < 0.0) | (p > 1.0)).mean()),
        saturated_share=float(((p == 0.0) | (p == 1.0)).mean()),
        lowest=float(p.min()),
        highest=float(p.max()),
    )
