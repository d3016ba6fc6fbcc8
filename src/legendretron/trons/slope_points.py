"""The points of a regression with bounded slopes: checks, ties, and points that weigh nothing."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike


def check_points(
    x: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points, values and weights as float64 arrays of one shape (n,), or raise."""
    points, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    weight = np.ones(points.shape) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if points.ndim != 1 or len(points) == 0:
        raise ValueError(f"x must have shape (n,) with n >= 1, got {points.shape}.")
    for name, array in (("y", values), ("sample_weight", weight)):
        if array.shape != points.shape:
            raise ValueError(f"{name} must have the shape of x, {points.shape}, got {array.shape}.")
    for name, array in (("x", points), ("y", values), ("sample_weight", weight)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got NaN or infinite entries.")
    if (weight < 0).any() or not weight.any():
        raise ValueError("sample_weight must not be negative, nor zero for all points.")
    return points, values, weight / weight.max()


def check_slopes(lower: object, upper: object, x: np.ndarray) -> None:
    """Raise unless ``0 <= lower <= upper``, ``0 < upper``, and the rises they allow over the range of ``x`` are numbers."""
    numbers = isinstance(lower, Real) and isinstance(upper, Real)
    if not numbers or not 0.0 <= lower <= upper or not upper > 0.0 or lower == np.inf:  # type: ignore[operator]
        raise ValueError(
            f"slopes must satisfy 0 <= lower <= upper and upper > 0, got lower={lower!r}, upper={upper!r}."
        )
    steepest = lower if upper == np.inf else upper
    with np.errstate(over="ignore"):
        width = x.max() - x.min()
        if not np.isfinite(width) or not np.isfinite(float(steepest) * width):  # type: ignore[arg-type]
            raise ValueError(
                f"x spans {width:.6g}, over which a slope of {steepest!r} overflows; take x in a larger unit."
            )


def check_value_bounds(y_min: object, y_max: object) -> tuple[float, float]:
    """Return the bounds, infinite where there is none, or raise unless ``y_min <= y_max``."""
    for name, bound in (("y_min", y_min), ("y_max", y_max)):
        if bound is not None and not isinstance(bound, Real):
            raise ValueError(f"{name} must be a number or None, got {bound!r}.")
    low = -np.inf if y_min is None else float(y_min)  # type: ignore[arg-type]
    high = np.inf if y_max is None else float(y_max)  # type: ignore[arg-type]
    if low == np.inf or high == -np.inf:
        raise ValueError(
            f"y_min and y_max must leave finite values between them, got y_min={y_min!r}, y_max={y_max!r}."
        )
    if not low <= high:
        raise ValueError(f"y_min must not exceed y_max, got y_min={y_min!r}, y_max={y_max!r}.")
    return low, high


def check_rise(lower: float, width: float, low: float, high: float) -> None:
    """Raise unless the least rise over the range of ``x`` fits between the bounds on values."""
    if lower * width > high - low:
        raise ValueError(
            f"lower={lower!r} asks for a rise of {lower * width:.6g} over the range of x, which does not fit between the "
            f"bounds on values, {low:.6g} and {high:.6g}; take a smaller lower."
        )


class SlopePoints:
    """Distinct points of positive weight, sorted, and what slopes between ``lower`` and ``upper`` allow there.

    They have a total ``weight`` (m,), the least ``rise`` (m,) since the first of them, the ``slack`` (m - 1,) that a step may
    rise beyond that, and bounds ``low`` on the first and ``high`` on the last value.
    """

    def __init__(self, x: np.ndarray, weight: np.ndarray, lower: float, upper: float, low: float, high: float) -> None:
        self._given, self._lower = weight, float(lower)
        self._points, self._inverse = np.unique(x, return_inverse=True)
        total = np.bincount(self._inverse, weight)
        self._kept = total > 0
        self._at, self.weight = self._points[self._kept], total[self._kept]
        first, last = self._points[0], self._points[-1]
        check_rise(lower, float(last - first), low, high)
        # points that weigh nothing still need room for the slope lower on their way to the bounds
        self.low = low + self._lower * (self._at[0] - first)
        self.high = high - self._lower * (last - self._at[-1])
        run = np.diff(self._at)
        self.rise = np.concatenate([[0.0], np.cumsum(self._lower * run)])
        self.slack = np.maximum(float(upper) * run - self._lower * run, 0.0)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Weighted means ``(m,)`` of values ``(n,)`` at tied points."""
        return np.bincount(self._inverse, self._given * values)[self._kept] / self.weight

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Values ``(n,)`` for all points in their order: those of weight zero lie between their neighbours."""
        if not self._kept.all():
            outside = self._points - np.clip(self._points, self._at[0], self._at[-1])
            values = np.interp(self._points, self._at, values) + self._lower * outside
        return values[self._inverse]
