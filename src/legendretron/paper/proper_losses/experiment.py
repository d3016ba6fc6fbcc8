"""Named proper losses of two classes, and on the same axes those that LegendreTron and other methods learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator

from legendretron.diagnostics import monotonicity
from legendretron.experiments.experiment import Batch, Experiment, Outcome, Resources
from legendretron.paper.auc.methods import SECONDS, BinaryImages, find_data, fit_method, load_problem, recipe, scores
from legendretron.paper.proper_losses.curves import GRID, partial_losses, partial_losses_of_table
from legendretron.paper.proper_losses.report import report
from legendretron.trons import SlIsotronClassifier

#: Number of points at which a learned function is checked for decreases.
_POINTS = 10_001


def learned_loss(estimator: BaseEstimator) -> dict[str, Any]:
    r"""Tabulate the canonical loss that a fitted method has learned, scaled so that :math:`\ell_1(1/2) = \log 2`.

    Lists have six digits, and ``factor`` is what losses were multiplied by. Nothing is returned if there is no such loss: if
    the learned function falls somewhere, or costs nothing at 1/2.
    """
    if isinstance(estimator, SlIsotronClassifier):
        # rounding of the regression must not look like a fall
        values = np.maximum.accumulate(np.clip(estimator.values_, 0.0, 1.0))
        curves = partial_losses_of_table(estimator.knots_, values, GRID)
    elif hasattr(estimator, "loss_"):
        curves = partial_losses(estimator.loss_, GRID)
    else:
        return {}
    at_half = float(curves[0][len(GRID) // 2])
    if at_half <= 0.0:
        return {}
    factor = float(np.log(2.0)) / at_half
    loss_1, loss_0 = (np.round(factor * curve, 6).tolist() for curve in curves)
    return {"factor": factor, "probability": GRID.tolist(), "loss_1": loss_1, "loss_0": loss_0}


def shape_of_link(estimator: BaseEstimator, data: BinaryImages) -> dict[str, float]:
    """Shares of the predictor's range on which the learned function falls, and on which it is flat.

    The range is that of the test images or, of a method whose link lives on an interval, this interval.
    """
    if hasattr(estimator, "prior_"):
        low, high = estimator.prior_.interval
    else:
        z = estimator.linear_predictor(data.X_test)
        low, high = z.min(), z.max()
    found = monotonicity(_increasing(estimator), np.linspace(low, high, _POINTS))
    return {"falling_share": round(found.falling_share, 6), "flat_share": round(found.flat_share, 6)}


def _increasing(estimator: BaseEstimator) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function of the predictor that should increase."""
    if hasattr(estimator, "log_odds"):  # near 0 and 1 probabilities would hide a fall
        return estimator.log_odds
    if hasattr(estimator, "inverse_link"):
        return estimator.inverse_link

    def inverse_link(z: np.ndarray) -> np.ndarray:
        return estimator.link_.inverse(torch.as_tensor(z).unsqueeze(-1))[:, 0].numpy()

    return inverse_link


def execute(batch: Batch, resources: Resources) -> Outcome:
    """Train on the CPU, score the test images, and tabulate the learned loss."""
    data = load_problem(batch, resources)
    runs = []
    for run in batch.runs:
        estimator, about = fit_method(batch.settings, data, run.seed)
        measured = {**scores(estimator, data), **about, **shape_of_link(estimator, data)}
        runs.append({**measured, **learned_loss(estimator)})
    return Outcome(data.facts, runs)


FIGURE_PROPER_LOSSES = Experiment(
    name="figure_proper_losses",
    title="Partial losses of named proper losses, and of those learned on binary problems of MNIST and Fashion-MNIST",
    datasets=("MNIST, class 0", "Fashion-MNIST, odd against even"),
    models=(
        "LegendreTron", "ISGP-Linkgistic", "GP-Linkgistic", "GLMTron", "BregmanTron", "BregmanTron_label",
        "BregmanTron_approx", "SlIsotron",
    ),
    settings=recipe,
    execute=execute,
    report=report,
    find_data=find_data,
    cost=lambda run: SECONDS[run.model],
)  # fmt: skip
