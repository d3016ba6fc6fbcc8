r"""Decomposition of a score: the part that recalibration would remove, and the part that it would not.

With predictions :math:`p`, their recalibrated form :math:`r(p)`, class frequencies :math:`\bar p` and the mean loss
:math:`S` over rows,

.. math::

    S(p) = \underbrace{S(p) - S(r)}_{\text{calibration}} + \underbrace{S(r)}_{\text{refinement}}, \qquad
    S(r) = \underbrace{S(\bar p)}_{\text{uncertainty}} - \underbrace{\bigl(S(\bar p) - S(r)\bigr)}_{\text{resolution}}.

The map :math:`r` is that of :class:`~legendretron.LegendreCalibrator`, cross-fitted: no row is recalibrated by a map that was
fitted to it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from legendretron._internal.parameters import check_choice, check_integer
from legendretron.calibration.fitting import calibrate
from legendretron.diagnostics.binned_calibration import outcomes, row_weights
from legendretron.diagnostics.intervals import Estimate, drawn_means, interval
from legendretron.diagnostics.properness_check import floating_state
from legendretron.diagnostics.scores import row_scores
from legendretron.losses import ProperLoss

#: Fewer rows cannot be divided.
LEAST_ROWS = 30
#: Folds with few rows, with many, and from how many rows on they are many.
_FOLDS, _FOLDS_OF_MANY, _MANY = 5, 2, 5000
#: Most numbers (rows x classes) a calibration map is fitted to, and most that its strength is chosen on.
_MOST_SCORES, _MOST_CHOSEN = 2e5, 5e4
#: Least probability of a label, so that a single impossible one does not make every mean infinite.
_LEAST = 1e-15


class Decomposition(NamedTuple):
    """Parts of a mean loss, each with its interval: ``score = calibration + uncertainty - resolution``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], 2000)
    >>> y = (p.cumsum(1) < rng.random((2000, 1))).sum(1)
    >>> parts = decompose(y, p)
    >>> bool(abs(parts.calibration.value) < 0.01), bool(parts.resolution.low > 0.1)
    (True, True)
    """

    score: Estimate  #: the mean loss
    calibration: Estimate  #: what recalibration saves; about zero, and perhaps below, if there is nothing to save
    refinement: Estimate  #: what is left then: uncertainty less resolution
    uncertainty: Estimate  #: mean loss of predicting the class frequencies for every row
    resolution: Estimate  #: what recalibrated predictions save of that


class Fold(NamedTuple):
    """Rows to fit to, in random order, and rows to predict."""

    fit: np.ndarray
    predict: np.ndarray


class Recalibrated(NamedTuple):
    """Predictions recalibrated in two ways, each row by maps that have not seen it."""

    temperature: np.ndarray  #: log-probabilities with temperature scaling
    calibrated: np.ndarray  #: log-probabilities by a learned calibration map
    temperatures: list[float]  #: of the folds
    fitted_to: int  #: rows


def decompose(
    y: ArrayLike,
    p: ArrayLike,
    loss: str | ProperLoss = "log",
    *,
    sample_weight: ArrayLike | None = None,
    calibrated: ArrayLike | None = None,
    seed: int = 0,
) -> Decomposition:
    """Split a mean loss into calibration, uncertainty and resolution; see the module for the formulas.

    Intervals contain the middle 95 % of 1,000 bootstrap samples of the rows; maps are not fitted again to these samples.

    Parameters
    ----------
    y : array of shape (n,)
        Class indices, from 0.
    p : array of shape (n, C)
        Predicted probabilities.
    loss : {"log", "brier"} or ProperLoss, default="log"
        The score, or any proper loss of the library. Its classes must be in the order of the columns of ``p``; for ``loss_``
        of an estimator, this is the order of ``link_classes_``.
    sample_weight : array of shape (n,), optional
        Weight of each row.
    calibrated : array of shape (n, C), optional
        Recalibrated probabilities of the same rows, by maps that were not fitted to them. By default they are computed here,
        which needs at least 30 rows.
    seed : int
        Seed of the folds and the bootstrap.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1], 1000)
    >>> y = (p[:, 0] < rng.random(1000)).astype(int)
    >>> sure = p**3 / (p**3).sum(1, keepdims=True)  # too sure
    >>> decompose(y, sure, "brier").calibration.low > 0
    True
    """
    check_integer("seed", seed, 0)
    outcomes(y, p)  # checks both
    y, p = np.asarray(y), np.asarray(p, dtype=np.float64)
    weight = row_weights(sample_weight, len(y))
    log_p = np.log(np.maximum(p, _LEAST))
    if calibrated is None:
        folds = folds_for(len(y), seed)
        if not folds:
            raise ValueError(
                f"y must have at least {LEAST_ROWS} rows for cross-validated recalibration, got {len(y)}; pass "
                "recalibrated probabilities as calibrated."
            )
        after = recalibrate(log_p, y, weight, folds).calibrated
    else:
        outcomes(y, calibrated)
        after = np.log(np.maximum(np.asarray(calibrated, dtype=np.float64), _LEAST))
    share = np.bincount(y, weight, p.shape[1]) / weight.sum()
    usual = np.broadcast_to(np.log(np.maximum(share, _LEAST)), p.shape)
    losses = [_losses(y, log_q, loss) for log_q in (log_p, after, usual)]
    means = [float(weight @ one / weight.sum()) for one in losses]
    return split_loss(*zip(means, drawn_means(losses, weight, seed).T, strict=True))


def split_loss(
    own: tuple[float, np.ndarray], refined: tuple[float, np.ndarray], uncertain: tuple[float, np.ndarray]
) -> Decomposition:
    """Split a mean loss, with its draws: of predictions, of recalibrated ones, and of the class frequencies."""

    def minus(one: tuple[float, np.ndarray], other: tuple[float, np.ndarray]) -> Estimate:
        return interval(one[0] - other[0], one[1] - other[1])

    return Decomposition(
        interval(*own), minus(own, refined), interval(*refined), interval(*uncertain), minus(uncertain, refined)
    )


def _losses(y: np.ndarray, log_p: np.ndarray, loss: str | ProperLoss) -> np.ndarray:
    """Loss of each row, ``(n,)``."""
    if not isinstance(loss, ProperLoss):
        check_choice("loss", loss, ("log", "brier"))
        rows = row_scores(y, log_p)
        return rows.log_loss if loss == "log" else rows.brier
    like = floating_state(loss)
    like = torch.empty(0).double() if like is None else like
    p = np.exp(log_p)
    with torch.no_grad():
        losses = loss.partial_losses(torch.as_tensor(p / p.sum(1, keepdims=True)).to(like))
        own: np.ndarray = losses.double().cpu().numpy()[np.arange(len(y)), y]
    return own


def folds_for(n: int, seed: int) -> list[Fold]:
    """Divide rows by chance alone; no folds if there are too few.

    With equal shares of a class in all folds, how frequent it is among held-out rows could be told from the others.
    """
    if n < LEAST_ROWS:
        return []
    n_folds = _FOLDS if n <= _MANY else _FOLDS_OF_MANY
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(n)
    turn = np.arange(n) % n_folds
    return [Fold(shuffled[turn != k], np.sort(shuffled[turn == k])) for k in range(n_folds)]


def recalibrate(log_p: np.ndarray, y: np.ndarray, weight: np.ndarray, folds: list[Fold]) -> Recalibrated:
    """Return predictions with temperature scaling, and with all that a calibration map can learn."""
    temperatures: list[float] = []
    most = int(max(_MOST_SCORES / log_p.shape[1], 500))

    def fit(part: np.ndarray) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
        # two folds tell strengths apart well enough, in half the time; with many rows, it is left at its usual value
        # in single precision: twice as fast, and far more exact than a fit to so many rows
        scores, labels = torch.as_tensor(log_p[part]).float(), torch.as_tensor(y[part])
        rows = torch.as_tensor(weight[part] * max(1.0, len(part) / weight[part].sum())).float()
        found = calibrate(scores, labels, rows, strength=None if scores.numel() <= _MOST_CHOSEN else 1.0, n_folds=2).map
        found.float()
        temperatures.append(1.0 / float(found.inverse_temperature))

        def predict(others: np.ndarray) -> tuple[np.ndarray, ...]:
            of_others = torch.as_tensor(log_p[others])
            with torch.no_grad():
                calibrated: np.ndarray = found(of_others).numpy()
            return torch.log_softmax(of_others / temperatures[-1], dim=1).numpy(), calibrated

        return predict

    found, fitted_to = out_of_fold(log_p.shape, folds, most, fit)
    assert found is not None
    return Recalibrated(found[0], found[1], temperatures, fitted_to)


def out_of_fold(
    shape: tuple[int, ...],
    folds: list[Fold],
    most: int,
    fit: Callable[[np.ndarray], Callable[[np.ndarray], tuple[np.ndarray, ...]] | None],
) -> tuple[list[np.ndarray] | None, int]:
    """Return predictions of a shape for all rows, and the number of rows that the largest fit has seen."""
    found: list[np.ndarray] = []
    for fold in folds:
        with warnings.catch_warnings():
            # a baseline may be a little short of its minimum, and of many classes each may have few rows
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "The number of unique classes is greater than")
            predict = fit(fold.fit[:most])
        if predict is None:
            return None, 0
        for place, part in enumerate(predict(fold.predict)):
            if len(found) <= place:
                found.append(np.empty(shape))
            found[place][fold.predict] = part
    return found, max(min(len(fold.fit), most) for fold in folds)
