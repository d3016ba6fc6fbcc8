r"""Binned calibration: whether seven in ten of the predictions with a probability of 70 % are correct."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from legendretron._internal.parameters import check_choice, check_integer


@dataclass(frozen=True)
class CalibrationCurve:
    """Predicted and observed frequencies in bins of equal width, as returned by :func:`calibration_curve`.

    Examples
    --------
    >>> curve = calibration_curve([0, 1, 0, 0], [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.6, 0.4]], n_bins=2)
    >>> curve.count.tolist(), float(curve.frequency[1])
    ([0.0, 4.0], 0.75)
    """

    edges: np.ndarray  #: bounds of the bins, shape (n_bins + 1,)
    count: np.ndarray  #: predictions in each bin, shape (n_bins,): sums of weights, which are scaled to a mean of one
    confidence: np.ndarray  #: mean predicted probability, shape (n_bins,); NaN in empty bins
    frequency: np.ndarray  #: observed frequency, likewise
    standard_error: np.ndarray  #: of the frequency, likewise

    @classmethod
    def of_outcomes(
        cls, confidence: np.ndarray, right: np.ndarray, n_bins: int = 15, weight: np.ndarray | None = None
    ) -> CalibrationCurve:
        """Return the curve of probabilities ``(m,)`` and whether each came true ``(m,)``, with weights ``(m,)``."""
        weight = row_weights(weight, len(confidence))
        edges = np.linspace(0, 1, n_bins + 1)
        bins = np.clip(np.digitize(confidence, edges[1:-1], right=True), 0, n_bins - 1)
        count = np.bincount(bins, weight, n_bins)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean, share = (np.bincount(bins, weight * values, n_bins) / count for values in (confidence, right))
            # as many rows of equal weight would have the same variance
            independent = count**2 / np.bincount(bins, weight**2, n_bins)
            error = np.sqrt(share * (1 - share) / independent)
        return cls(edges, count, mean, share, error)

    @property
    def expected_calibration_error(self) -> float:
        """Mean of ``|frequency - confidence|`` over all predictions."""
        filled = self.count > 0
        gaps = np.abs(self.frequency[filled] - self.confidence[filled])
        return float((self.count[filled] * gaps).sum() / self.count.sum())


def calibration_curve(
    y: ArrayLike,
    p: ArrayLike,
    *,
    n_bins: int = 15,
    kind: str = "top",
    column: int | None = None,
    sample_weight: ArrayLike | None = None,
) -> CalibrationCurve:
    r"""Compare predicted probabilities with observed frequencies.

    Parameters
    ----------
    y : array of shape (n,)
        Labels as column indices of ``p``, from 0.
    p : array of shape (n, C)
        Predicted probabilities.
    n_bins : int
        Bins of equal width between 0 and 1.
    kind : {"top", "all", "classwise"}
        ``"top"``: the probability of the predicted class against whether it is correct. ``"all"``: the probability of every
        class against whether it is the true class. ``"classwise"``: the same for the class of ``column`` only.
    column : int, optional
        Column of ``p``, for ``kind="classwise"``.
    sample_weight : array of shape (n,), optional
        Non-negative weights, not all zero.

    Examples
    --------
    >>> p = np.array([[0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2], [0.8, 0.2]])
    >>> calibration_curve([0, 0, 0, 0, 1], p).expected_calibration_error < 1e-12
    True
    """
    check_integer("n_bins", n_bins, 1)
    confidence, right = outcomes(y, p, kind, column)
    weight = np.repeat(row_weights(sample_weight, len(confidence)), confidence.shape[1])
    return CalibrationCurve.of_outcomes(confidence.ravel(), right.ravel(), n_bins, weight)


def row_weights(sample_weight: ArrayLike | None, n_rows: int) -> np.ndarray:
    """Return weights of rows scaled to a mean of one, so that their sums are numbers of rows; ones if there are none."""
    if sample_weight is None:
        return np.ones(n_rows)
    weight = np.asarray(sample_weight, dtype=float)
    if weight.shape != (n_rows,) or not np.isfinite(weight).all() or weight.min() < 0 or not weight.max() > 0:
        raise ValueError(
            f"sample_weight must contain {n_rows} finite numbers that are not negative and not all zero, got shape "
            f"{weight.shape}."
        )
    weight = weight / weight.max()  # sums must not overflow
    return weight * (n_rows / weight.sum())


def outcomes(y: ArrayLike, p: ArrayLike, kind: str = "top", column: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and whether each came true, ``(n, 1)``, or ``(n, C)`` for ``kind="all"``.

    Arguments are those of :func:`calibration_curve`.
    """
    check_choice("kind", kind, ("top", "all", "classwise"))
    p, y = np.asarray(p), np.asarray(y)
    if p.ndim != 2 or p.shape[1] < 2 or len(p) == 0:
        raise ValueError(f"p must have shape (n, C) with n >= 1 and C >= 2, got {p.shape}.")
    if y.shape != (len(p),) or y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= p.shape[1]:
        raise ValueError(
            f"y must contain {len(p)} labels from 0 to {p.shape[1] - 1}, got shape {y.shape}, dtype {y.dtype}."
        )
    # no entry is negative, and NaN and infinities show in the sum: no copy of p is needed
    if not (p.min() >= 0 and np.allclose(p.sum(1, dtype=float), 1, atol=1e-4)):
        raise ValueError("p must contain probabilities that sum to 1 in every row.")
    if (kind == "classwise") != (column is not None):
        raise ValueError(f"column must be given with kind='classwise', and only then, got {column!r} with {kind!r}.")
    if column is not None:
        if check_integer("column", column, 0) >= p.shape[1]:
            raise ValueError(f"column must be less than the {p.shape[1]} columns of p, got {column}.")
        return p[:, [column]].astype(float), (y == column)[:, None]
    if kind == "top":
        predicted = p.argmax(1)
        return p[np.arange(len(p)), predicted].astype(float)[:, None], (predicted == y)[:, None]
    return p.astype(float), np.arange(p.shape[1]) == y[:, None]


def expected_calibration_error(
    y: ArrayLike,
    p: ArrayLike,
    *,
    n_bins: int = 15,
    kind: str = "top",
    column: int | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean gap between predicted probability and observed frequency; see :func:`calibration_curve`.

    Examples
    --------
    >>> p = np.tile([0.8, 0.2], (5, 1))
    >>> round(expected_calibration_error([0, 0, 1, 1, 1], p), 3)  # 0.8 predicted, 0.4 came true
    0.4
    """
    curve = calibration_curve(y, p, n_bins=n_bins, kind=kind, column=column, sample_weight=sample_weight)
    return curve.expected_calibration_error
