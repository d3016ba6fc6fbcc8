"""Checks of points, slopes and bounds for regressions with bounded slopes."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["check_points", "check_rise", "check_slopes", "check_value_bounds"]


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
